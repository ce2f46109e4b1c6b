"""What engines set aside, against the tokens, blocks and concurrency that they logged. Whole numbers, exact."""

from dataclasses import replace

import pytest
from memory_shapes import REPORTS, SHAPES, model_of, rows

from pycore import catalog
from pycore.units import GIB, MIB
from pycore.vram.engines import ENGINES, engine
from pycore.vram.reservation import capacity_tokens, concurrency, reserve

PROFILES = [row for row in rows("vllm_profiles.csv") if row["blocks"]]


def cut(model, name="vllm", kv="auto", tensor=1, batch=8192, stage=None, count=1):
    form = catalog.kv_format(kv)
    return reserve(model, engine(name), form, form, tensor, count, stage or range(model.layers), batch)


@pytest.mark.parametrize("row", PROFILES, ids=lambda row: f"{row['id']}-{row['model'].split('--')[1]}-tp{row['tp']}")
def test_vllm_logs_tokens_and_concurrency_of_its_blocks(row):
    """33 start-up logs of vLLM 0.19.0: from the number of blocks follow tokens and concurrency, digit for digit."""
    pages = cut(catalog.model(row["model"]), "vllm-0.20", row["keys"], int(row["tp"]))
    pool = int(row["blocks"]) * pages.block_bytes
    assert capacity_tokens(pages, ENGINES["vllm-0.20"], pool, int(row["context"])) == int(row["kv_tokens"])
    assert f"{concurrency(pages, pool, int(row['context'])):.2f}" == f"{float(row['concurrency']):.2f}"


@pytest.mark.parametrize("row", PROFILES, ids=lambda row: f"{row['id']}-{row['model'].split('--')[1]}-tp{row['tp']}")
def test_vllm_blocks_fill_the_logged_pool(row):
    pages = cut(catalog.model(row["model"]), "vllm-0.20", row["keys"], int(row["tp"]))
    assert (
        abs(int(row["blocks"]) * pages.block_bytes - float(row["pool_gib"]) * GIB) <= 0.0051 * GIB + pages.block_bytes
    )


@pytest.mark.parametrize(("identity", "tokens", "times"), [("v035", 567_978, "4.33"), ("v036", 569_878, "4.35")])
def test_hybrid_states_take_whole_blocks(identity, tokens, times):
    """Qwen3.6-35B-A3B, fp8 cache, 131,072 tokens: 2,096-token blocks, 63 of them and two states in three groups."""
    row = REPORTS[identity]
    pages = cut(model_of(row), "vllm", "fp8")
    pool = int(float(row["kv_gib"]) * GIB)
    assert pages.block_tokens == 2096 and pages.sequence_blocks(131_072) == 69
    assert capacity_tokens(pages, ENGINES["vllm"], pool, 131_072) == tokens == int(row["kv_tokens"])
    assert f"{concurrency(pages, pool, 131_072):.2f}" == times


@pytest.mark.parametrize("identity", ["v012", "v013"])
def test_windows_are_charged_their_window_from_0_21(identity):
    """gemma-4-31B on an H200, 262,144 tokens, 8,192 a step: 108.2 KiB a token, to the token in whole blocks."""
    row, pages = REPORTS[identity], cut(SHAPES["gemma-4-31b"])
    assert pages.sequence_blocks(262_144) == 8192 + 5 * 577
    blocks = [
        blocks
        for blocks in range(
            int((float(row["kv_gib"]) - 0.005) * GIB) // pages.block_bytes,
            int((float(row["kv_gib"]) + 0.005) * GIB) // pages.block_bytes + 1,
        )
        if capacity_tokens(pages, ENGINES["vllm"], blocks * pages.block_bytes, 262_144) == int(row["kv_tokens"])
    ]
    assert len(blocks) == 1


def test_until_0_20_every_layer_counts_as_full():
    pages = cut(SHAPES["gemma-4-31b"], "vllm-0.20")
    assert capacity_tokens(pages, ENGINES["vllm-0.20"], int(24.54 * GIB), 8192) == 26_800  # v009
    assert round(capacity_tokens(pages, ENGINES["vllm-0.20"], 50 * GIB, 8192), -3) == 55_000  # v010: "~55k from ~50 GB"
    gpt = cut(catalog.model("gpt-oss-120b"), "vllm-0.20")
    assert (
        abs(capacity_tokens(gpt, ENGINES["vllm-0.20"], int(5.38 * GIB), 8192) - 78_384) <= 80
    )  # v008: 5.38 +- 0.005 GiB


def test_kimi_linear_logs_fewer_tokens_than_its_concurrency_suggests():
    """v014 (vLLM 0.11, no prefix cache of states: one block each): 960-token blocks, 75,840 tokens, 2.48 x 120,000."""
    pages = cut(SHAPES["kimi-linear"], "vllm-0.20", tensor=2)
    one = replace(pages, shares=tuple(replace(share, fixed=1) if share.fixed else share for share in pages.shares))
    assert pages.block_tokens == 960 and pages.page_groups == 4
    assert capacity_tokens(one, ENGINES["vllm-0.20"], 318 * one.block_bytes, 120_000) == 75_840
    assert f"{concurrency(one, 318 * one.block_bytes, 120_000):.2f}" == "2.48"
    assert abs(318 * one.block_bytes / GIB - 2.3) < 0.01


def test_llama_cpp_rings_of_cells():
    """ollama#16480 (v053): gpt-oss-120b, two sequences of 131,072, batch 1,024: 9,216 + 90 MiB = 9.088 GiB in all."""
    cells = cut(catalog.model("gpt-oss-120b"), "llama.cpp", batch=1024)
    sizes = {
        share.name.split(", ")[1].split(" 1")[0]: 2 * share.unit_bytes * share.units(131_072) for share in cells.shares
    }
    assert sizes == {"sliding window": 90 * MIB, "full attention": 9216 * MIB}
    assert f"{2 * cells.sequence_bytes(131_072) / GIB:.3f}" == "9.088"


def test_llama_cpp_window_of_gemma():
    """v078's note: with a window cache, 10 x 32,768 cells (2,560 MiB) and 52 x 1,536 cells (624 MiB) = 3,184 MiB."""
    assert cut(catalog.model("gemma-3-27b"), "llama.cpp", batch=512).sequence_bytes(32_768) == 3184 * MIB


def test_llama_cpp_recurrent_state():
    """v056: 598.50 MiB for four sequences."""
    cells = cut(catalog.model("qwen3.5-27b"), "llama.cpp", batch=512)
    state = next(share for share in cells.shares if "linear" in share.name)
    assert 4 * state.unit_bytes * state.units(1) == 598.5 * MIB


def test_sglang_counts_single_tokens():
    """v016: 367,404 tokens in 16.46 GiB on each of four devices."""
    pools = cut(catalog.model("qwen3-235b-a22b"), "sglang", tensor=4)
    assert (
        abs(capacity_tokens(pools, ENGINES["sglang"], int(16.46 * GIB), 8192) - 367_404) <= 0.01 * GIB / 48_128
    )  # K and V are rounded apart


def test_latents_are_not_divided():
    """v022: 46.80 GiB hold 715,072 tokens on each of eight devices; decode context parallel 8 holds 8 times as many."""
    model, half = catalog.model("kimi-k2-instruct"), catalog.kv_format("auto")
    pages = cut(model, "vllm", tensor=8)
    assert pages.block_bytes == 16 * 70_272
    assert abs(capacity_tokens(pages, ENGINES["vllm"], int(46.8 * GIB), 32_768) - 715_072) <= 0.005 * GIB / 70_272 + 16
    apart = reserve(model, ENGINES["vllm"], half, half, 8, 1, range(61), 8192, 8)
    assert apart.block_tokens == 128
    assert abs(capacity_tokens(apart, ENGINES["vllm"], int(46.8 * GIB), 32_768) - 5_721_088) <= 8 * (
        0.005 * GIB / 70_272 + 16
    )


def test_a_stage_holds_its_share_of_pages():
    """Two stages of 32 layers: each block is half as large, so each device holds as many tokens in half the bytes."""
    model = catalog.model("llama-3.1-8b")
    assert cut(model, stage=range(16), count=2).block_bytes * 2 == cut(model).block_bytes
