"""The choices at start: one declaration, bounds, what does not go together, and a pool that fits or says what would."""

import os
import re

import pytest
import torch
from mini_infer_driving import drive, text

from pycore.errors import InputError, InvalidQuery
from pycore.knobs import knobs, parse
from pycore.serving.policies.chunked import Chunked
from pycore.systems.mini_infer_setup import KV_FORMATS, LINEARS, NUMBERS, POLICIES, Choices, policy
from runtime.mini_infer import room
from runtime.mini_infer.engine import Generation
from runtime.mini_infer.kv_formats import BITS, PLAIN, kv_format
from runtime.mini_infer.room import pool, weight_bytes
from runtime.mini_infer.setup import Setup


@pytest.fixture
def one(pairs):
    return pairs["Llama"][0]


def test_the_declaration_names_what_the_engine_has():
    assert set(KV_FORMATS) == set(BITS) and set(NUMBERS) == set(PLAIN) and LINEARS[0] == "auto"
    assert [type(policy(name)).__name__ for name in POLICIES] == ["Chunked", "Fcfs", "DecodeFirst", "Sjf", "CacheAware",
                                                                  "SloAware", "Priority"]
    assert isinstance(policy(Choices().policy), Chunked)
    assert Setup.of(parse(Choices, {"block_size": "32", "kv_format": "INT4"})) == Setup(block_size=32, kv_format="int4")
    assert all(knob.help and knob.group for knob in knobs(Choices))


@pytest.mark.parametrize(("field", "value"), [
    ("block_size", "0"), ("block_size", "1025"), ("block_size", "16.5"), ("max_sequences", "0"), ("kv_blocks", "-1"),
    ("kv_format", "int3"), ("linear", "int4"), ("policy", "fifo"), ("draft_tokens", "33"), ("dtype", "float8"),
    ("max_batched_tokens", "1e9"), ("preemption", "drop"), ("seed", "-1"), ("blocksize", "16")])
def test_a_value_out_of_range_is_refused_by_field(field, value):
    with pytest.raises(InvalidQuery, match=field.replace("_", ".")):
        parse(Choices, {field: value})


@pytest.mark.parametrize(("fields", "named"), [
    ({"kv_blocks": 4, "kv_memory_bytes": 1 << 20}, "kv memory bytes"), ({"preemption": "swap"}, "host blocks"),
    ({"host_blocks": 4}, "host blocks"), ({"max_sequences": 64, "max_batched_tokens": 63}, "max batched tokens")])
def test_what_does_not_go_together_is_refused(fields, named, one):
    with pytest.raises(InputError, match=named):
        Choices(**fields).checked()
    with pytest.raises(InputError, match=named):
        Setup(**fields).engine(one)


def test_a_text_longer_than_the_context_is_refused(one):
    with pytest.raises(InputError, match="max model length.*'129'.*128"):
        Setup(max_model_length=129).engine(one)


@pytest.mark.parametrize("kind", ["Llama", "Qwen2", "Qwen3"])
def test_weights_are_sized_to_the_byte(kind, pairs):
    model = pairs[kind][0]
    held = {tensor.data_ptr(): tensor.nbytes for _, tensor in model.places()}
    assert weight_bytes(model.configuration, torch.float32) == sum(held.values())
    assert weight_bytes(model.configuration, torch.bfloat16) * 2 == sum(held.values())


@pytest.mark.parametrize("name", BITS)
def test_too_many_blocks_are_refused_before_memory_is_taken_with_what_fits(name, one, monkeypatch):
    kept, sizes = kv_format(name, one.configuration.head_width), one.configuration
    each = 2 * sizes.layers * sizes.kv_heads * kept.row_bytes  # bytes of a token, counted by hand
    free = 1000 * 16 * each + 5
    monkeypatch.setattr("runtime.mini_infer.setup.free_bytes", lambda device: free)
    monkeypatch.setattr(torch, "zeros", lambda *shape, **more: pytest.fail("memory was taken"))
    for fields, field in (({"kv_blocks": 1001}, "kv blocks"), ({"kv_memory_bytes": 1001 * 16 * each}, "kv memory bytes")):
        with pytest.raises(InputError) as caught:
            Setup(kv_format=name, **fields).engine(one)
        assert str(caught.value).startswith(field)
        assert f"room for 1,000 blocks, 16,000 tokens in {name}" in str(caught.value)
        said = dict(re.findall(r"in (\w+) ([0-9,]+)", str(caught.value)))
        for other, tokens in said.items():
            size = 2 * sizes.layers * sizes.kv_heads * kv_format(other, sizes.head_width).row_bytes * 16
            assert int(tokens.replace(",", "")) == free // size * 16 and BITS[other] < BITS[name]
    assert Setup(kv_format=name, kv_blocks=1000).room(one).bytes == 1000 * 16 * each


def test_a_pool_that_nobody_sized_holds_what_can_be_filled_within_a_quarter(one):
    sizes, kept = one.configuration, kv_format("float32", one.configuration.head_width)
    asked = {"block_size": 16, "length": 120, "sequences": 4}
    each = pool(sizes, kept, **asked).block_bytes
    assert pool(sizes, kept, **asked).blocks == pool(sizes, kept, **asked, free=1 << 40).blocks == 4 * 8
    assert pool(sizes, kept, **asked, free=4 * 20 * each).blocks == 20
    assert pool(sizes, kept, **asked, free=10 * each).blocks == 8  # one whole text, rather than a quarter
    with pytest.raises(InputError, match="max model length.*room for 8 blocks"):
        pool(sizes, kept, **asked, free=8 * each)
    with pytest.raises(InputError, match="kv memory bytes.*one block of 16 tokens takes"):
        pool(sizes, kept, **asked, memory_bytes=each - 1)
    assert pool(sizes, kept, **asked, memory_bytes=3 * each + 1, free=1 << 40).blocks == 3
    assert pool(sizes, kept, **asked, beside=each // 16, blocks=1).block_bytes == 2 * each


def test_weights_that_do_not_fit_are_refused_with_what_would(one, monkeypatch):
    need = weight_bytes(one.configuration, torch.float32)
    monkeypatch.setattr(room, "free_bytes", lambda device: need - 1)
    with pytest.raises(InputError, match="in 16 bits they take"):
        room.refuse_weights(one.configuration, torch.float32, "cpu")
    with pytest.raises(InputError, match="a smaller model"):
        monkeypatch.setattr(room, "free_bytes", lambda device: need // 2 - 1)
        room.refuse_weights(one.configuration, torch.float32, "cpu")


def test_free_memory_is_what_kernel_and_container_leave(tmp_path, monkeypatch):
    info = tmp_path / "meminfo"
    info.write_text("MemTotal:       100 kB\nMemAvailable:    64 kB\n", encoding="ascii")
    monkeypatch.setattr(room, "MEMORY", info)
    monkeypatch.setattr(room, "LIMITS", tmp_path)
    assert room.free_bytes("cpu") == 64 << 10
    (tmp_path / "memory.max").write_text("max\n", encoding="ascii")
    assert room.free_bytes("cpu") == 64 << 10
    (tmp_path / "memory.max").write_text("40000\n", encoding="ascii")
    (tmp_path / "memory.current").write_text("30000\n", encoding="ascii")
    assert room.free_bytes("cpu") == 10_000
    info.unlink()
    (tmp_path / "memory.max").unlink()
    monkeypatch.setattr(os, "sysconf", {"SC_PHYS_PAGES": 7, "SC_PAGE_SIZE": 4096}.__getitem__)
    assert room.free_bytes("cpu") == 7 * 4096


@pytest.mark.parametrize("fields", [
    {}, {"policy": "sjf", "kv_blocks": 12}, {"preemption": "swap", "host_blocks": 16, "kv_blocks": 8, "block_size": 8},
    {"kv_memory_bytes": 1 << 16, "prefix_caching": False}, {"linear": "int8", "kv_format": "int4"},
    {"draft": "n-gram", "draft_tokens": 3}], ids=str)
def test_every_choice_gives_an_engine_that_runs(fields, pairs):
    from copy import deepcopy
    model = deepcopy(pairs["Llama"][0])
    engine = Setup(**fields).engine(model)
    run = drive(engine, [(index, Generation(id=str(index), prompt=text(20, index), max_tokens=6)) for index in range(3)])
    assert all(len(run.output(name)) == 6 for name in run.texts)
    if "kv_memory_bytes" in fields:
        assert engine.cache.storage.nbytes <= 1 << 16
