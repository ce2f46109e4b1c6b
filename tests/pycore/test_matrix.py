"""The matrix says what the whole answer says, row by row, and a draft model is paid for everywhere alike."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pycore import catalog, matrix
from pycore.knobs import parse
from pycore.systems.infersize import Query, answer, resolve
from pycore.vram import quick
from pycore.vram.plan import memory

CARDS = ("l40s", "h100", "rtx 4090", "t4", "mi300x", "m4 max", "a100 80gb")


def rows(query, cards=CARDS, formats=("bf16", "fp8", "awq", "q4_k_m")):
    deployment = resolve(query)
    return list(matrix.rows(deployment, [catalog.weight_format(name) for name in formats],
                            accelerators=[catalog.accelerator(name) for name in cards],
                            usd_per_gpu_hour=query.usd_per_gpu_hour, utilisation=query.utilisation))


@pytest.mark.parametrize("query", [
    Query(), Query(model="deepseek-v3", sequences=64), Query(model="gemma-3-27b", context=32768, cached_share=0.4),
    Query(model="gpt-oss-20b", engine="sglang"), Query(model="llama-3.1-70b", quant="q4_k_m", engine="llama.cpp", sequences=2),
], ids=lambda query: query.model)
def test_every_row_is_the_answer_to_its_own_question(query):
    found = rows(query)
    assert {row.count for row in found} == {1, 2, 4, 8}
    for row in found[::3]:
        asked = parse(Query, {name: str(value) for name, value in
                              ({"model": query.model, "sequences": query.sequences, "context": query.context,
                                "cached_share": query.cached_share, "engine": query.engine} | row.changes).items()})
        whole = answer(asked, with_matrix=False) if row.fits and not row.reason else None
        plan = memory(resolve(asked))
        assert row.fits == plan.fits and row.total_bytes == plan.total.value
        if whole is not None:
            assert math.isclose(row.tpot_s, whole.speed.tpot_s.value, rel_tol=1e-9)
            price = whole.cost.usd_per_million_blended
            assert (row.usd_per_million is None) == (price is None)
            if price is not None:
                assert math.isclose(row.usd_per_million, price.value, rel_tol=1e-3)


def test_a_row_without_a_speed_says_why():
    for row in rows(Query(model="deepseek-v3")):
        assert bool(row.reason) == (row.tpot_s is None)


@given(st.sampled_from(("qwen2.5-0.5b", "gemma-3-1b", "llama-3.2-1b")), st.integers(1, 64), st.integers(64, 32768),
       st.sampled_from(("vllm", "vllm-0.20", "sglang", "transformers")), st.sampled_from((1, 2, 4)))
@settings(max_examples=60)
def test_a_draft_is_paid_for_in_full(draft, sequences, context, engine, count):
    alone = Query(model="llama-3.1-8b", gpu="h100", sequences=sequences, context=context, engine=engine, count=count)
    both = parse(Query, {"model": "llama-3.1-8b", "gpu": "h100", "sequences": sequences, "context": context,
                         "engine": engine, "count": count, "draft_model": draft})
    first, second = memory(resolve(alone)), memory(resolve(both))
    weights, cache = second.draft
    assert weights.value > 0 and cache.value > 0 and first.draft == ()
    assert second.total.value == first.total.value + weights.value + cache.value
    assert sum(row.value for row in second.rows) == second.total.value
    short = quick.memory(quick.prepare_deployment(resolve(both)), resolve(both).accelerator, context, sequences,
                         **quick.settings(resolve(both)))
    assert short.total_bytes == second.total.value and short.fits == second.fits
