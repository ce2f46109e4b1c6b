"""What does not go together at start, or does not fit, is refused by the option that can be changed, before it costs time."""

import os
from types import SimpleNamespace

import pytest
import torch

from pycore.errors import InputError
from runtime.mini_infer import make_model, room, source
from runtime.mini_infer.setup import Setup


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    places = {}
    for name, vocabulary in (("one", 300), ("other", 310)):
        places[name] = tmp_path_factory.mktemp(name) / name
        make_model.make(places[name], make_model.sizes("qwen2", layers=1, width=32, heads=2, kv_heads=1, context=64,
                                                       vocabulary=vocabulary))
    return places


@pytest.fixture
def opened(folders):
    return source.open_source(str(folders["one"]), device="cpu")


def test_a_draft_is_named_as_a_draft_and_looked_at_before_it_is_read(opened, folders, monkeypatch):
    monkeypatch.setattr("runtime.mini_infer.files.load", lambda *given: pytest.fail("weights were read"))
    for draft, said in (("nope", "n-gram"), (str(folders["other"]), "the same 300 tokens")):
        with pytest.raises(InputError, match=said) as caught:
            Setup(draft=draft).engine(opened.model)
        assert caught.value.field == "draft"


def test_host_blocks_that_main_memory_does_not_hold_are_refused_with_what_it_does(opened, monkeypatch):
    monkeypatch.setattr(room, "free_bytes", lambda device: 1 << 20)
    monkeypatch.setattr("runtime.mini_infer.setup.free_bytes", lambda device: 1 << 20)
    setup = Setup(kv_blocks=16, host_blocks=5000, preemption="swap")
    each = setup.room(opened.model).block_bytes
    most = ((1 << 20) - 16 * each) // each
    with pytest.raises(InputError, match=f"room for {most:,} blocks") as caught:
        setup.engine(opened.model)
    assert caught.value.field == "host_blocks"
    assert Setup(kv_blocks=16, host_blocks=most, preemption="swap").engine(opened.model).cache.host.shape[2] == most


def test_a_small_model_s_heads_are_named_where_they_do_not_divide():
    with pytest.raises(InputError, match="divides 4 heads") as caught:
        make_model.sizes(heads=4, kv_heads=3)
    assert caught.value.field == "kv_heads"


def test_metal_has_no_8_bit_floats(opened):
    model = SimpleNamespace(device=torch.device("mps", 0), dtype=torch.float16, configuration=opened.model.configuration)
    with pytest.raises(InputError, match="no 8-bit floats"):
        Setup(kv_format="fp8").kept(model)
    assert Setup(kv_format="int8").kept(model).name == "int8"


def test_where_the_kernel_does_not_say_what_is_free_all_there_is_bounds_it(monkeypatch):
    monkeypatch.setattr(room, "_available", lambda: None)
    monkeypatch.setattr(room, "_below_limit", lambda: None)
    monkeypatch.setattr(os, "sysconf", {"SC_PHYS_PAGES": 100, "SC_PAGE_SIZE": 4096}.__getitem__)
    assert room.free_bytes("cpu") == 409_600
    monkeypatch.delattr(os, "sysconf")
    assert room.free_bytes("cpu") is None
