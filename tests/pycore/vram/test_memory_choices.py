"""What cannot be, what would help, and how to start it."""

import shlex

import pytest
from memory_shapes import deployment

from pycore import catalog
from pycore.errors import InputError, InvalidQuery
from pycore.vram import quick
from pycore.vram.capacity import capacity
from pycore.vram.engines import ENGINES, NO_ENGINE
from pycore.vram.launch import launch
from pycore.vram.plan import memory
from pycore.vram.remedies import remedies
from pycore.vram.validity import check, faults, loads


def fields(asked):
    return [fault.field for fault in faults(asked)]


@pytest.mark.parametrize(
    ("asked", "field", "words"),
    [
        (dict(tp=3), "tp", "28 attention heads; accepted for Qwen2.5 7B: 1, 2, 4"),
        (dict(model="qwen3-14b", gpu="h100", tp=5), "tp", "KV heads"),
        (dict(model="gemma-3-27b", gpu="h100", tp=32, context=64), "tp", ""),
        (dict(pp=29), "pp", "at most 28 stages"),
        (dict(ep=True), "ep", "has no experts"),
        (dict(model="mixtral-8x7b", tp=16, ep=True), "ep", "at most 8 devices"),
        (dict(kv="q8_0"), "kv_dtype", "auto, fp16, bf16, fp8, int8"),
        (dict(engine="sglang", kv="int8"), "kv_dtype", "SGLang"),
        (dict(v="fp8"), "v_dtype", "one format"),
        (dict(quant="q4_k_m"), "quant", "llama.cpp"),
        (dict(quant="awq", engine="llama.cpp"), "quant", "loads GGUF"),
        (dict(quant="fp8", engine="llama.cpp"), "quant", "GGUF"),
        (dict(quant="q4_k_m", engine="llama.cpp", memory_fraction=0.5), "memory_fraction", "no memory fraction"),
        (dict(quant="mlx"), "quant", "transformers"),
    ],
)
def test_faults_name_field_and_what_is_accepted(asked, field, words):
    if field == "tp" and asked.get("tp") == 32:
        assert faults(deployment(**asked)) == ()  # 32 query heads, 16 KV heads replicated twice: it can be
        return
    found = faults(deployment(**asked))
    assert field in [fault.field for fault in found] and words in " ".join(map(str, found))
    with pytest.raises(InvalidQuery):
        check(deployment(**asked))


def test_what_can_be_passes():
    check(deployment())
    check(deployment("llama-3.1-70b", "q4_k_m", "rtx 4090", "llama.cpp", tp=2, kv="q8_0", v="q4_0"))
    check(deployment("qwen3-30b-a3b", tp=4, ep=True, gpu="h100"))
    with pytest.raises(InputError, match="engine"):
        faults(deployment(engine="tgi"))


def test_every_format_is_loaded_by_some_engine():
    for form in catalog.formats():
        if form.scope != "kv":
            assert any(loads(profile, form.id, form.family) for profile in ENGINES.values()) or form.family == "MLX", (
                form.id
            )
    assert {form.id for form in catalog.formats()} >= NO_ENGINE


def test_a_plan_that_fits_needs_no_remedy():
    assert remedies(deployment()) == ()


SIZES = [
    deployment("llama-3.1-8b", gpu="rtx 4090", context=32_768, sequences=32),
    deployment("qwen2.5-72b", gpu="l40s", tp=4, context=32_768, sequences=8),
    deployment("llama-3.1-70b", "q4_k_m", "a100 40gb", "llama.cpp", sequences=1),
    deployment("gemma-3-27b", gpu="h100", engine="sglang", sequences=200),
]


@pytest.mark.parametrize("asked", SIZES, ids=lambda asked: f"{asked.model.name} {asked.engine}")
def test_each_remedy_makes_it_fit(asked):
    assert not memory(asked).fits
    found = remedies(asked)
    assert len(found) >= 2
    for remedy in found:
        changed = changed_by(asked, remedy.changes)
        plan = memory(changed)
        assert plan.fits and plan.total.value == remedy.total_bytes, remedy.text
        assert remedy.text and remedy.cost


def changed_by(asked, changes):
    import dataclasses

    values = {"context": "context", "sequences": "sequences"}
    fields_ = {values[name]: value for name, value in changes.items() if name in values}
    if "kv_dtype" in changes:
        fields_ |= {"keys": catalog.kv_format(changes["kv_dtype"]), "values": catalog.kv_format(changes["kv_dtype"])}
    if "quant" in changes:
        fields_["weights"] = catalog.weight_format(changes["quant"])
    if "gpu" in changes:
        fields_["accelerator"] = catalog.accelerator(changes["gpu"])
    if "count" in changes:
        fields_["parallel"] = dataclasses.replace(asked.parallel, tensor=changes["tp"], pipeline=changes["pp"])
    return dataclasses.replace(asked, **fields_)


@pytest.mark.parametrize("asked", SIZES, ids=lambda asked: f"{asked.model.name} {asked.engine}")
def test_remedies_are_the_smallest_change(asked):
    for remedy in remedies(asked):
        for name in ("context", "sequences"):
            if name in remedy.changes:
                assert not memory(changed_by(asked, {name: remedy.changes[name] + 1})).fits


def test_remedy_fields_are_fields_of_the_question():
    from pycore.systems.infersize import Query

    names = set(Query.__dataclass_fields__)
    assert all(set(remedy.changes) <= names for asked in SIZES for remedy in remedies(asked))


def launched(**asked):
    wanted = deployment(**asked)
    plan = memory(wanted)
    return launch(wanted, plan, capacity(wanted, plan)), plan


VLLM_FLAGS = {
    "--tensor-parallel-size",
    "--pipeline-parallel-size",
    "--data-parallel-size",
    "--enable-expert-parallel",
    "--max-model-len",
    "--max-num-seqs",
    "--max-num-batched-tokens",
    "--gpu-memory-utilization",
    "--dtype",
    "--quantization",
    "--kv-cache-dtype",
}
SGLANG_FLAGS = {
    "--model-path",
    "--tp-size",
    "--pp-size",
    "--dp-size",
    "--ep-size",
    "--context-length",
    "--max-running-requests",
    "--chunked-prefill-size",
    "--mem-fraction-static",
    "--dtype",
    "--quantization",
    "--kv-cache-dtype",
    "--max-mamba-cache-size",
}
LLAMA_FLAGS = {
    "--model",
    "--n-gpu-layers",
    "--ctx-size",
    "--parallel",
    "--no-kv-unified",
    "--ubatch-size",
    "--batch-size",
    "--flash-attn",
    "--cache-type-k",
    "--cache-type-v",
    "--split-mode",
}
"""Flags as each engine documents them (sources in pycore/vram/launch.py)."""


def test_vllm_command():
    started, plan = launched(model="qwen3-30b-a3b", quant="fp8", gpu="h100", tp=4, ep=True, kv="fp8")
    words = shlex.split(started.command.replace("\\\n", ""))
    assert words[:3] == ["vllm", "serve", "Qwen/Qwen3-30B-A3B"]
    assert {word for word in words if word.startswith("--")} <= VLLM_FLAGS
    given = {flag.flag: flag.value for flag in started.flags}
    assert (
        given["--max-model-len"] == "8192"
        and given["--max-num-seqs"] == "16"
        and given["--tensor-parallel-size"] == "4"
    )
    assert given["--gpu-memory-utilization"] == f"{plan.fraction:g}" and given["--kv-cache-dtype"] == "fp8"
    assert given["--max-num-batched-tokens"] == str(plan.batch_tokens) and given["--enable-expert-parallel"] == ""
    assert all(flag.why for flag in started.flags)


def test_sglang_command():
    started, plan = launched(model="qwen3.5-27b", gpu="h200", engine="sglang", tp=2)
    words = shlex.split(started.command.replace("\\\n", ""))
    assert words[:3] == ["python", "-m", "sglang.launch_server"]
    assert {word for word in words if word.startswith("--")} <= SGLANG_FLAGS and "--max-mamba-cache-size" in words


def test_llama_server_command():
    started, plan = launched(
        model="gemma-3-27b",
        quant="q4_k_m",
        gpu="rtx 4090",
        engine="llama.cpp",
        kv="q8_0",
        v="q4_0",
        context=1000,
        sequences=3,
        tp=2,
    )
    words = shlex.split(started.command.replace("\\\n", ""))
    assert words[0] == "llama-server" and {word for word in words if word.startswith("--")} <= LLAMA_FLAGS
    given = {flag.flag: flag.value for flag in started.flags}
    assert (
        given["--ctx-size"] == str(3 * 1024) and given["--cache-type-k"] == "q8_0" and given["--cache-type-v"] == "q4_0"
    )
    assert given["--split-mode"] == "layer"


@pytest.mark.parametrize(
    ("engine", "quant", "gpu", "flags"),
    [
        ("vllm", "bf16", "h100", {"--speculative-config": '{"model": "Qwen/Qwen2.5-0.5B", "num_speculative_tokens": 4, '
                                  '"method": "draft_model"}'}),
        ("sglang", "bf16", "h100", {"--speculative-algorithm": "STANDALONE", "--speculative-num-steps": "4",
                                    "--speculative-draft-model-path": "Qwen/Qwen2.5-0.5B",
                                    "--speculative-eagle-topk": "1", "--speculative-num-draft-tokens": "5"}),
        ("llama.cpp", "q4_k_m", "rtx 4090", {"--model-draft": "Qwen2.5-0.5B-BF16.gguf", "--draft-max": "4",
                                             "--n-gpu-layers-draft": "999"}),
    ],
)
def test_a_draft_that_was_sized_is_started(engine, quant, gpu, flags):
    wanted = deployment("qwen2.5-7b", quant, gpu, engine, draft=catalog.model("qwen2.5-0.5b"))
    plan = memory(wanted)
    started = launch(wanted, plan, capacity(wanted, plan), 4)
    words = shlex.split(started.command.replace("\\\n", ""))
    for flag, value in flags.items():
        assert words[words.index(flag) + 1] == value
    plain = launched(model="qwen2.5-7b", quant=quant, gpu=gpu, engine=engine)[0].command
    assert not any(flag in plain for flag in flags)


def test_transformers_lines_compile():
    started, _ = launched(engine="transformers", sequences=2)
    compile(started.command, "<launch>", "exec")


def test_hostile_model_names_are_quoted():
    import dataclasses

    asked = deployment()
    asked = dataclasses.replace(asked, model=dataclasses.replace(asked.model, hub_repository="x; rm -rf /"))
    started = launch(asked, memory(asked), capacity(asked, memory(asked)))
    assert "'x; rm -rf /'" in started.command


def test_quantised_checkpoints_are_asked_for_by_name():
    assert "AWQ" in launched(quant="awq")[0].note and launched(quant="fp8")[0].note == ""
    assert launched(model="gpt-oss-20b", quant="mxfp4")[0].note == ""


def test_quick_path_is_quick():
    """Twenty thousand answers a second are asked for; a tenth here, so that a loaded machine does not fail the test."""
    import time

    asked = deployment()
    prepared = quick.prepare(asked.model, asked.weights, asked.keys, asked.values, asked.engine, asked.parallel)
    start = time.perf_counter()
    for _ in range(2000):
        quick.memory(prepared, asked.accelerator, 8192, 16)
    assert 2000 / (time.perf_counter() - start) > 2000
