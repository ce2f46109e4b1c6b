"""The ledger adds up, budgets follow each engine's rule, and asking for more never costs less."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_shapes import deployment

from pycore import catalog
from pycore.units import GIB, MIB
from pycore.vram import overheads, quick
from pycore.vram.capacity import capacity
from pycore.vram.engines import ENGINES, engine, sglang_fraction, sglang_step, tokens_a_step
from pycore.vram.evidence import evidence, summaries
from pycore.vram.plan import memory

ENGINE_QUANT = [(name, "q4_k_m" if name == "llama.cpp" else "bf16") for name in ENGINES]
MODELS = (
    "qwen2.5-7b",
    "llama-3.1-8b",
    "gemma-3-27b",
    "qwen3-30b-a3b",
    "deepseek-v3",
    "qwen3.5-27b",
    "gpt-oss-20b",
    "falcon-7b",
)


@st.composite
def questions(draw):
    name, quant = draw(st.sampled_from(ENGINE_QUANT))
    return deployment(
        draw(st.sampled_from(MODELS)),
        quant,
        draw(st.sampled_from(("l40s", "h100", "rtx 4090", "mi300x"))),
        name,
        tp=draw(st.sampled_from((1, 2, 4))),
        pp=draw(st.sampled_from((1, 2, 3))),
        dp=draw(st.sampled_from((1, 2))),
        context=draw(st.integers(1, 1 << 18)),
        sequences=draw(st.integers(1, 600)),
        max_batched_tokens=draw(st.sampled_from((0, 512, 4096))),
        used_bytes=draw(st.sampled_from((0, 5 * GIB))),
    )


@settings(deadline=None, max_examples=150)
@given(asked=questions())
def test_rows_add_up_and_the_quick_path_agrees(asked):
    plan = memory(asked)
    assert sum(row.value for row in plan.rows) == plan.total.value
    assert all(isinstance(row.value, int) for row in plan.rows)
    assert plan.free.value == plan.budget.value - plan.total.value
    prepared = quick.prepare(asked.model, asked.weights, asked.keys, asked.values, asked.engine, asked.parallel)
    short = quick.memory(
        prepared,
        asked.accelerator,
        asked.context,
        asked.sequences,
        asked.memory_fraction,
        asked.max_batched_tokens,
        asked.used_bytes,
        asked.prompt,
    )
    assert (short.total_bytes, short.budget_bytes, short.fits) == (plan.total.value, plan.budget.value, plan.fits)
    assert (short.weights_bytes, short.kv_bytes) == (plan.weights.value, plan.kv.value)


@settings(deadline=None, max_examples=80)
@given(asked=questions(), more=st.integers(1, 5000))
def test_more_never_costs_less(asked, more):
    def total(**changes):
        fields = {name: getattr(asked, name) for name in asked.__slots__} | changes
        return memory(type(asked)(**fields)).total.value

    base = memory(asked).total.value
    assert total(context=asked.context + more) >= base
    assert total(sequences=asked.sequences + more) >= base


@settings(deadline=None, max_examples=60)
@given(asked=questions())
def test_the_most_sequences_fit_and_one_more_does_not(asked):
    prepared = quick.prepare(asked.model, asked.weights, asked.keys, asked.values, asked.engine, asked.parallel)
    card = quick.card(
        prepared,
        asked.accelerator,
        asked.context,
        asked.memory_fraction,
        asked.max_batched_tokens,
        asked.used_bytes,
        asked.prompt,
    )
    most = quick.most(prepared, card)
    assert most == 0 or quick.sizes(prepared, card, most)[0]
    assert not quick.sizes(prepared, card, most + 1)[0]


@pytest.mark.parametrize("name,quant", ENGINE_QUANT)
def test_kv_is_answered_twice(name, quant):
    """What the engine reserves is never less than what the architecture needs."""
    for model in ("qwen2.5-7b", "gemma-3-27b", "qwen3.5-27b"):
        plan = memory(deployment(model, quant, "h200", name, context=10_007, sequences=7))
        assert plan.kv.value >= plan.kv_minimum.value > 0


def test_usable_memory_is_not_the_box_number():
    plan = memory(deployment())
    assert plan.usable.value == 46_068 * MIB < 48 * GIB
    assert plan.visible.low < plan.visible.value < plan.visible.high < plan.usable.value
    assert plan.usable.basis == "reported" and memory(deployment(gpu="mi300x")).usable.basis == "datasheet"


def test_vllm_takes_its_fraction_of_the_total():
    plan = memory(deployment(memory_fraction=0.8))
    outside = next(row for row in plan.rows if row.name == "CUDA context")
    assert plan.budget.value == int(plan.visible.value * 0.8) + outside.value
    assert plan.pool.value == plan.budget.value - (plan.total.value - plan.kv.value)
    assert memory(deployment()).fraction == 0.92 and memory(deployment(engine="vllm-0.20")).fraction == 0.9


def test_graphs_move_inside_the_budget_with_0_21():
    now, before = memory(deployment(memory_fraction=0.9)), memory(deployment(engine="vllm-0.20", memory_fraction=0.9))
    assert now.graphs.value == before.graphs.value > 0
    assert before.budget.value - now.budget.value == now.graphs.value
    assert before.pool.value - now.pool.value == now.graphs.value


def test_sglang_leaves_activations_outside():
    plan = memory(deployment(engine="sglang"))
    free_before = plan.visible.value - next(row for row in plan.rows if row.name == "CUDA context").value
    assert plan.pool.value == int(free_before * plan.fraction) - plan.weights.value - plan.framework.parts[1].value


def test_others_on_the_card_lower_vllms_own_fraction():
    plan = memory(deployment(gpu="rtx 4090", used_bytes=8 * GIB))
    assert plan.fraction == 0.63 and plan.budget.value <= plan.visible.value - 8 * GIB


def test_vllm_refuses_a_fraction_that_is_not_free():
    plan = memory(
        deployment(gpu="rtx 4090", quant="awq", used_bytes=8 * GIB, memory_fraction=0.9, context=256, sequences=1)
    )
    assert not plan.fits and any("refuses to start" in note for note in plan.notes)


def test_defaults_of_the_engines():
    """vLLM engine/arg_utils.py: 8,192 tokens a step from 70 GiB up except A100; SGLang server_args: chunk by card."""
    vllm, sglang = ENGINES["vllm"], ENGINES["sglang"]
    assert tokens_a_step(vllm, 79 * GIB, "nvidia-h100-sxm5-80gb", 0) == 8192
    assert tokens_a_step(vllm, 79 * GIB, "nvidia-a100-sxm4-80gb", 0) == 2048
    assert tokens_a_step(vllm, 24 * GIB, "nvidia-rtx-4090", 0) == 2048 and tokens_a_step(vllm, 0, "", 777) == 777
    assert (
        sglang_step(24 * GIB) == (2048, 24)
        and sglang_step(80 * GIB, 4) == (8192, 512)
        and sglang_step(192 * GIB) == (16384, 512)
    )
    assert sglang_fraction(81_559 * MIB, 1, 1, 8192) == 0.835  # 512 + 12,288 + 512 + 128 = 13,440 MiB left out
    assert tokens_a_step(sglang, 45 * GIB, "", 0) == 4096
    with pytest.raises(Exception, match="engine: 'nope'"):
        engine("nope")


def test_captured_sizes():
    """'PIECEWISE=51 (largest=512), FULL=35 (largest=256)' at 256 sequences; 51 and 51 at 1,024 (vLLM logs)."""
    assert overheads.captured(256) == 51 + 35 and overheads.captured(1024) == 51 + 51
    assert [overheads.captured(count) for count in (1, 2, 4, 8)] == [3, 5, 7, 9]
    sizes = [1, 2, 4, 8, 12, *range(16, 257, 8), *range(272, 512, 16), *range(512, 1025, 32)]
    for largest in (1, 8, 15, 16, 24, 80, 160, 256, 300, 511, 512, 600):
        assert overheads.sglang_captured(largest) == sum(size <= largest for size in sizes)


@pytest.mark.parametrize(
    ("model", "batch", "mebibytes", "share"),
    [
        ("gemma-3-27b", 512, 522.62, 1),
        ("qwen3-30b-a3b", 512, 304.75, 2),
        ("qwen3-30b-a3b", 512, 300.75, 1),
        ("qwen3-235b-a22b", 512, 312.75, 2),
        ("qwen3-235b-a22b", 4096, 2502.0, 2),
        ("deepseek-v3", 512, 266.5, 1),
        ("deepseek-v2-lite", 512, 204.0, 1),
    ],
)
def test_llama_cpp_compute_buffers(model, batch, mebibytes, share):
    """v078, v084, v085, v088, v090, v093, v100: fp32 logits and one or two hidden states, to the hundredth of a MiB."""
    shape = catalog.model(model)
    term = overheads.compute_buffer(
        batch=batch, vocabulary=shape.vocabulary, hidden=shape.hidden_size, heads=0, context=0
    )
    assert abs(4 * batch * (shape.vocabulary + share * shape.hidden_size) / MIB - mebibytes) < 0.01
    assert term.low <= mebibytes * MIB + 5243 and mebibytes * MIB <= term.high + 5243


def test_evidence_meets_its_target():
    """52 logs: median absolute error of the KV pool under 3 %, every one inside the range shown."""
    found = {summary.quantity: summary for summary in summaries()}
    print(
        "\n".join(
            f"{row.id:5}{row.quantity:12}{row.model:28}{row.setup:52}{row.error_percent:+8.2f} %"
            for row in evidence()
            if row.quantity == "KV pool"
        )
    )
    assert found["KV pool"].rows == found["KV pool"].inside == 52
    assert found["KV pool"].median_absolute_percent < 3.0 and found["KV tokens"].inside == found["KV tokens"].rows
    held_out = {summary.quantity: summary for summary in summaries(fitted=False)}
    assert held_out["KV pool"].rows == 9 and held_out["KV pool"].median_absolute_percent < 3.0
    assert (
        found["Weights"].median_absolute_percent < 0.1 and found["Weights"].inside >= found["Weights"].rows - 1
    )  # v069
    assert found["Activations"].inside >= found["Activations"].rows - 1  # v069's rank does not sample


def test_qwen3_page_totals_in_transformers():
    """QwenLM's page at batch 1: weights and cache of the stated length explain the allocated memory of 16-bit rows."""
    from memory_shapes import REPORTS

    off = {}
    for identity in ("v102", "v114", "v117", "v120", "v123", "v129"):
        row = REPORTS[identity]
        plan = memory(
            deployment(row["model"], "bf16", "h100", "transformers", context=int(row["context"]), sequences=1, prompt=1)
        )
        off[identity] = (plan.weights.value + plan.kv.value) / (float(row["total_gib"]) * GIB) - 1
    assert all(-0.03 < error < 0 for error in off.values()), off


def test_mlx_totals():
    """mlx-lm page, Qwen3-4B in bf16 at 2,176 tokens: weights, cache, logits of a 2,048-token prompt: 9.02 GB."""
    plan = memory(deployment("qwen3-4b", "bf16", "m4 max", "transformers", context=2176, sequences=1, prompt=1))
    logits = 2048 * catalog.model("qwen3-4b").vocabulary * 2
    assert abs((plan.weights.value + plan.kv.value + logits) / 9.02e9 - 1) < 0.005


def test_vision_and_mtp_are_apart():
    plan = memory(deployment("gemma-3-27b", gpu="h200"))
    assert plan.vision.value == 2 * catalog.model("gemma-3-27b").vision_parameters and plan.vision in plan.rows
    assert memory(deployment("gemma-3-27b", "q4_k_m", "h200", "llama.cpp")).vision is None
    speculative = memory(deployment("deepseek-v3", "fp8-block-128x128", "h200", tp=8))
    assert speculative.mtp.value > 0 and speculative.mtp not in speculative.rows


def test_capacity_speaks_as_the_engine_does():
    asked = deployment("llama-3.1-8b", gpu="rtx 4090", context=2048, sequences=16)
    plan = memory(asked)
    found = capacity(asked, plan)
    assert found.blocks.value == plan.pool.value // (16 * 131_072)
    assert found.kv_tokens.value == found.blocks.value * 16  # 128 blocks a sequence
    assert found.log_lines[2] == f"GPU KV cache size: {found.kv_tokens.value:,} tokens"
    assert found.log_lines[3] == f"Maximum concurrency for 2,048 tokens per request: {found.blocks.value / 128:.2f}x"
    assert found.max_context.value == found.blocks.value * 16
    assert found.max_sequences.value <= found.concurrency.value


def test_context_is_bounded_by_the_model():
    asked = deployment("llama-2-7b", gpu="h200", context=4096)
    assert capacity(asked, memory(asked)).max_context.value == 4096


def test_splitting_over_devices_leaves_less_on_each():
    for name in ("vllm", "sglang"):
        totals = [
            memory(deployment("llama-3.1-70b", gpu="h100", engine=name, tp=tp)).weights.value for tp in (1, 2, 4, 8)
        ]
        assert all(more > less for more, less in itertools.pairwise(totals))


def test_layer_splitting_engines_use_all_devices_as_stages():
    plan = memory(deployment("llama-3.1-70b", "q4_k_m", "rtx 4090", "llama.cpp", tp=2, pp=1, sequences=1))
    assert (plan.tensor, plan.stages) == (1, 2) and any("whole layers" in note for note in plan.notes)


def test_data_parallel_shares_the_load():
    one, two = memory(deployment(sequences=32)), memory(deployment(sequences=32, dp=2))
    assert two.sequences == 16 and two.kv.value * 2 == one.kv.value


def test_the_fullest_stage_and_the_common_number_of_blocks():
    asked = deployment("gemma-3-27b", gpu="h100", pp=3)
    plan = memory(asked)
    assert plan.stages == 3 and sum(row.value for row in plan.rows) == plan.total.value
