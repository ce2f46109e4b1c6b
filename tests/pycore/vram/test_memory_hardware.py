"""What engines say about a card before they load anything, and what the reader is told when a question contradicts
itself."""

import pytest
from memory_shapes import deployment

from pycore import catalog
from pycore.vram.capacity import capacity
from pycore.vram.launch import launch
from pycore.vram.plan import memory
from pycore.vram.remedies import remedies
from pycore.vram.validity import faults


def told(**asked):
    return " ".join(memory(deployment(**asked)).notes)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (dict(gpu="t4", quant="bf16"), "ask for fp16"),  # vllm#1157
        (dict(gpu="v100 sxm2 16gb", quant="bf16", engine="sglang"), "ask for fp16"),
        (dict(gpu="v100 sxm2 16gb", quant="awq"), "needed 7.5"),
        (dict(gpu="v100 sxm2 16gb", quant="fp8"), "needed 7.5"),
        (dict(gpu="v100 sxm2 16gb", quant="int8"), "needed 7.5"),
        (dict(gpu="gtx 1080 ti", quant="fp16"), "needs compute capability 7.0"),
        (dict(gpu="m4 max", engine="sglang"), "no platform for Apple"),
        (dict(gpu="mi300x"), "NVIDIA cards; no log"),
    ],
)
def test_what_the_engine_refuses_on_a_card_is_said(asked, words):
    assert words in told(**asked)


@pytest.mark.parametrize(
    "asked",
    [
        dict(gpu="t4", quant="fp16"),
        dict(gpu="t4", quant="awq"),
        dict(gpu="t4", quant="fp8"),  # unpacked by Marlin from 7.5 on
        dict(gpu="a100 80gb", quant="fp8"),
        dict(gpu="v100 sxm2 16gb", quant="gptq"),
        dict(gpu="gtx 1080 ti", quant="q4_k_m", engine="llama.cpp"),
    ],
)
def test_what_runs_is_left_alone(asked):
    assert not any(word in told(**asked) for word in ("does not load", "does not start", "compute capability"))


def test_no_remedy_names_a_format_the_card_cannot_load():
    asked = deployment("llama-3.1-8b", "fp16", "v100 sxm2 16gb", context=4096, sequences=1)
    assert not memory(asked).fits
    assert not any(str(remedy.changes.get("quant", "")).startswith(("fp8", "awq", "int8")) for remedy in remedies(asked))


def test_no_remedy_names_a_card_that_cannot_load_the_format():
    asked = deployment("llama-3.1-8b", "fp8", "l4")  # the next larger card of its segment is a V100 of 32 GiB
    (card,) = [remedy.changes["gpu"] for remedy in remedies(asked) if "gpu" in remedy.changes]
    assert "v100" not in card
    assert memory(deployment("llama-3.1-8b", "fp8", card)).fits


def test_no_remedy_joins_devices_that_no_source_joins():
    asked = deployment("llama-3.1-70b", "bf16", "m4 pro", "llama.cpp")
    assert not any("count" in remedy.changes for remedy in remedies(asked))
    assert any("count" in remedy.changes for remedy in remedies(deployment("llama-3.1-70b", gpu="l40s")))


def test_latents_are_not_kept_in_int8():
    """Only vLLM's Triton backend stores int8 keys, and MLA has backends of its own."""
    asked = dict(model="deepseek-v3", quant="fp8-block", gpu="h200", tp=8)
    assert [fault.field for fault in faults(deployment(**asked, kv="int8"))] == ["kv_dtype"]
    assert not faults(deployment(**asked, kv="fp8"))
    tight = deployment("deepseek-v3.2", "fp8-block", "h200", tp=8, context=131_072, sequences=8)
    assert not any(remedy.changes.get("kv_dtype") == "int8" for remedy in remedies(tight))


def test_a_request_longer_than_the_context_is_said():
    assert "do not fit into a context of 1,000" in told(context=1000, prompt=900, output=101)
    assert "do not fit" not in told(context=1000, prompt=900, output=100)


def test_no_remedy_shortens_the_context_below_the_request():
    asked = deployment("llama-3.1-8b", gpu="h100", context=2048, sequences=10_000, prompt=1000, output=1000)
    assert not any("context" in remedy.changes for remedy in remedies(asked))


@pytest.mark.parametrize("fraction", [1.0, 0.2])
def test_the_engines_own_fraction_is_a_way_out(fraction):
    asked = deployment(memory_fraction=fraction)
    assert not memory(asked).fits
    assert remedies(asked)[0].changes == {"memory_fraction": 0.0}
    assert memory(deployment()).total.value == remedies(asked)[0].total_bytes


def test_a_full_device_is_called_full():
    assert "has no memory free" in told(used_bytes=100 << 30)


def test_a_checkpoint_stored_otherwise_is_said():
    """openai/gpt-oss-120b is MXFP4: 228 GiB of BF16 is not what `vllm serve` of it takes."""
    assert "published in mxfp4" in told(model="gpt-oss-120b", quant="bf16")
    assert "published" not in told(model="gpt-oss-120b", quant="mxfp4") + told(quant="bf16")
    wanted = deployment("gpt-oss-120b", "bf16", "h200", tp=2)
    plan = memory(wanted)
    assert "converted to BF16" in launch(wanted, plan, capacity(wanted, plan)).note


def test_the_fault_names_the_gguf_counterpart():
    (fault,) = faults(deployment("gpt-oss-20b", "mxfp4", "rtx 4090", "llama.cpp"))
    assert "as a GGUF file it is gguf-mxfp4" in str(fault)


def test_a_draft_of_another_family_is_said():
    other = memory(deployment("llama-3.1-8b", draft=catalog.model("qwen2.5-0.5b"))).notes
    assert any("151,936 tokens" in text and "refuse" in text for text in other)
    for target, own in (("qwen2.5-72b", "qwen2.5-0.5b"), ("llama-3.1-70b", "llama-3.2-1b")):  # padded by 128 more
        assert not any("tokenizer" in text for text in memory(deployment(target, draft=catalog.model(own))).notes)
