"""What other tools get wrong, by its id in data/validation/peer_bugs.csv: each with the right answer."""

from dataclasses import replace

from memory_shapes import SHAPES, attention, deployment, rows, shape

from pycore import catalog
from pycore.units import GIB, MIB
from pycore.vram.capacity import capacity
from pycore.vram.engines import ENGINES, SORTING
from pycore.vram.evidence import stated_card
from pycore.vram.gguf_mix import file_bytes, tensor_bytes
from pycore.vram.kv import token_bytes
from pycore.vram.plan import memory, stage_plan
from pycore.vram.reservation import capacity_tokens, reserve
from pycore.vram.weights import checkpoint_term

HALF = catalog.kv_format("auto")


def a_token(model, tensor=1):
    return sum(group.layers * token_bytes(group, HALF, HALF, tensor) for group in model.groups)


def card(gib, **fields):
    return replace(
        stated_card({"card": "stated", "visible_gib": str(gib), "linked": "", "source": "peer_bugs.csv"}), **fields
    )


def test_every_sizing_fault_has_its_test():
    names = {row["id"] for row in rows("peer_bugs.csv")}
    assert names == {name.split("_")[1] for name in globals() if name.startswith("test_b")}


def test_b01_grouped_queries():
    assert a_token(catalog.model("meta-llama-3-8b")) == 131_072


def test_b03_head_dim_is_not_hidden_over_heads():
    model = catalog.model("qwen3-4b")
    assert model.head_dim == 128 != model.hidden_size // model.attention_heads and a_token(model) == 147_456


def test_b04_one_latent_and_no_values():
    assert a_token(catalog.model("deepseek-v3")) == 70_272


def test_b11_linear_layers_hold_no_keys():
    plan = memory(deployment("qwen3.5-27b", "q8_0", "m4 max", "llama.cpp", context=262_144, sequences=4))
    keys = next(part for part in plan.kv.parts if "full" in part.name)
    state = next(part for part in plan.kv.parts if "linear" in part.name)
    assert keys.value == 4 * 16_384 * MIB and state.value == 598.5 * MIB
    alone = memory(deployment("qwen3.5-27b", "q8_0", "m4 max", "llama.cpp", context=262_144, sequences=1))
    assert 45.5e9 < alone.total.value < 48e9  # "~47 GB in all", not 75


def test_b12_figures_on_one_page_divide_into_each_other():
    pages = reserve(SHAPES["gemma-4-31b"], ENGINES["vllm"], HALF, HALF, 1, 1, range(60), 8192)
    pool = int(64.68 * GIB)
    tokens = capacity_tokens(pages, ENGINES["vllm"], pool, 262_144)
    assert abs(tokens - 626_949) < 100
    assert f"{pool / tokens / 1024:.1f}" == f"{pages.sequence_bytes(262_144) / 262_144 / 1024:.1f}" == "108.2"
    asked = deployment("gemma-3-27b", gpu="h200", context=32_768)
    plan = memory(asked)
    found = capacity(asked, plan)
    assert found.kv_tokens.value == int(found.concurrency.value * 32_768)


def test_b13_each_rank_holds_its_own_heads():
    model = catalog.model("qwen3-32b")
    pool = 814 * 256 * a_token(model)
    assert a_token(model, 4) * 4 == a_token(model)
    assert abs(pool // a_token(model, 4) - 834_000) < 1000  # 3,258 blocks of 256


def test_b18_tied_embeddings_differ_by_engine():
    assert tensor_bytes(262_144, 5376, "q5_k") == 924 * MIB  # gemma-4-31B's embedding in that file
    model = catalog.model("gemma-3-27b")
    local = memory(deployment(model, "q4_k_m", "rtx a6000", "llama.cpp", sequences=1))
    assert local.weights.value + local.host.value == file_bytes(model, "q4_k_m") + local.host.value
    assert local.host.value > 1000 * MIB
    served = memory(deployment("qwen2.5-1.5b"))
    assert "Output head" not in {row.name for row in served.rows}


def test_b19_four_bit_is_not_four_bits():
    plan = memory(deployment("llama-3.1-70b", "q4_k_m", "a100 40gb", "llama.cpp", context=256, sequences=1))
    assert abs(file_bytes(catalog.model("llama-3.1-70b"), "q4_k_m") / 1e9 - 42.52) < 0.02
    assert plan.weights.value < 40 * GIB and not plan.fits


def test_b20_sixteen_bits_are_two_bytes():
    size = checkpoint_term(catalog.model("llama-3.1-70b"), catalog.weight_format("fp16")).value
    assert f"{size / 1e9:.0f} {size / GIB:.1f}" == "141 131.4"


def test_b22_the_profile_is_not_monotonic():
    """Llama-3.1-8B on an RTX 3090 at 0.9: 20,000 tokens start, 29,000 do not, 35,000 do (chunks of 512 above 32k)."""

    def starts(context, batch):
        asked = replace(
            deployment("llama-3.1-8b", context=context, sequences=256, memory_fraction=0.9, max_batched_tokens=batch),
            accelerator=card(23.58),
        )
        plan = stage_plan(asked, SORTING, 0)
        return plan.pool.value >= plan.reservation.sequence_bytes(context), plan.pool.value / GIB

    assert starts(20_000, 20_000)[0] and abs(starts(20_000, 20_000)[1] - 3.81) < 0.1
    assert not starts(29_000, 29_000)[0] and abs(starts(29_000, 29_000)[1] - 2.89) < 0.1
    assert starts(35_000, 512)[0]


def test_b23_the_process_ends_above_its_budget():
    """31.38 GiB x 0.95 = 29.81; the process ended at 31.18: context and NCCL lie outside the fraction."""
    asked = replace(
        deployment(
            "gpt-oss-120b", "mxfp4", tp=8, context=8192, sequences=256, memory_fraction=0.95, max_batched_tokens=2048
        ),
        accelerator=card(31.38),
    )
    plan = stage_plan(asked, ENGINES["vllm"], 0)
    outside = next(row for row in plan.rows if row.name == "CUDA context and NCCL")
    assert f"{int(plan.visible.value * 0.95) / GIB:.2f}" == "29.81"
    assert outside.low <= 1.37 * GIB <= outside.high
    assert abs((29.81 * GIB + outside.value) / (31.18 * GIB) - 1) < 0.01
    before = stage_plan(asked, ENGINES["vllm-0.20"], 0)
    assert before.pool.value - plan.pool.value == plan.graphs.value


def test_b24_the_longest_context_follows_from_the_pool():
    """22.5 GiB for 1,048,576 tokens, 17.39 GiB at hand: 810,208. The bytes per token are those of a latent of 320."""
    model = shape("mistral-small-4", [attention("latent", 36, 32, 32, 192, 128, latent_rank=256, rope_dim=64)])
    pages = reserve(model, ENGINES["vllm"], HALF, HALF, 1, 1, range(36), 8192)
    assert pages.sequence_bytes(1 << 20) == 22.5 * GIB
    assert abs(pages.longest(int(17.39 * GIB), 1 << 20) - 810_208) <= 0.005 * GIB / 23_040 + 16
    asked = deployment(model, "fp8", "rtx 4090", context=1 << 20, sequences=1)
    assert capacity(asked, memory(asked)).max_context.value < 1 << 20 and not memory(asked).fits
