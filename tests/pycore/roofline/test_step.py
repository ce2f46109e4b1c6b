"""A step's seconds: closed forms from published counts, conservation, monotonicity."""

import dataclasses
import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pycore import catalog
from pycore.nouns import Parallel
from pycore.roofline import account
from pycore.roofline.prepare import prepare
from pycore.roofline.step import Parts, expert_split, power, prompt_pairs, step_parts, step_seconds, sum_parts
from pycore.roofline.work import work

LLAMA_LINEAR = 8_030_261_248 - 2 * 128_256 * 4096 - 65 * 4096  # published total less embedding, head and norms
LLAMA_HEAD = 128_256 * 4096
ROUNDING = 1 + 1e-12


def ready(model="llama-3.1-8b", weights="bf16", gpu="h100", engine="vllm", ideal=False, cache="auto", **layout):
    kept = catalog.kv_format(cache)
    card = catalog.accelerator(gpu) if isinstance(gpu, str) else gpu
    return prepare(catalog.model(model), catalog.weight_format(weights), kept, kept, Parallel(**layout), card, engine,
                   ideal)


def test_plain_roofline_of_one_token_is_bytes_over_bandwidth():
    """Llama-3.1-8B in BF16 on an H100 (3.35 TB/s): every weight read once, 131,072 B of cache a token (golden row
    v004)."""
    parts = step_parts(ready(ideal=True), 1, 8192)
    weights = 2 * (LLAMA_LINEAR + LLAMA_HEAD) / 3.35e12
    assert parts.weights == pytest.approx(weights, rel=1e-3), "activations beside the weights are under a thousandth"
    assert parts.weights >= weights
    assert parts.cache == pytest.approx(131_072 * 8192 / 3.35e12, rel=1e-12)
    assert (parts.communication, parts.overhead) == (0.0, 0.0)


def test_plain_roofline_of_a_long_prompt_is_flop_over_rate():
    tokens = 8192
    flop = 2 * LLAMA_LINEAR * tokens + 2 * LLAMA_HEAD + 32 * 4 * 32 * 128 * tokens * (tokens + 1) // 2
    kept = catalog.kv_format("auto")
    counted = work(catalog.model("llama-3.1-8b"), catalog.weight_format("bf16"), kept, kept, Parallel())
    assert account.prompt_flop(counted, tokens) == flop
    seconds = step_seconds(ready(ideal=True), 0, 0, ((tokens, 0, 1),), 1)
    assert seconds == pytest.approx(flop / 989e12, rel=0.02), "reads of activations beside attention cost the rest"


@pytest.mark.parametrize("model", ["llama-3.1-70b", "qwen3-30b-a3b", "deepseek-v3", "gemma-3-27b", "gpt-oss-120b",
                                   "qwen3.5-35b-a3b", "falcon-7b"])
def test_splitting_over_devices_conserves_weights(model):
    """The linear layers' bytes on tp devices add up to those on one, but for what engines keep on every device."""
    kept, form = catalog.kv_format("auto"), catalog.weight_format("bf16")
    one, four = (work(catalog.model(model), form, kept, kept, Parallel(tensor=tensor)) for tensor in (1, 4))
    whole = {item.name: item.weight_bytes * item.count for item in one.products}
    split = {item.name: 4 * item.weight_bytes * item.count for item in four.products}
    for name, size in whole.items():
        assert split[name] >= size * (1 - 1e-12), name
        if name not in ("latent_down", "router", "qkv", "linear_in", "indexer_q", "indexer_k", "indexer_weights",
                        "shared_gate_up"):
            assert split[name] == pytest.approx(size, rel=1e-9), name


def test_parts_add_up_and_an_idle_step_costs_only_launches():
    step = ready(tensor=4)
    parts = step_parts(step, 8, 8 * 4096, ((512, 1024, 2),), 2)
    assert sum_parts(parts) == step_seconds(step, 8, 8 * 4096, ((512, 1024, 2),), 2)
    assert all(part >= 0 for part in parts)
    assert isinstance(parts, Parts)


@given(tokens=st.integers(1, 300), before=st.integers(0, 300), window=st.one_of(st.none(), st.integers(1, 200)))
def test_pairs_of_a_chunk_against_counting(tokens, before, window):
    seen = (before + place + 1 for place in range(tokens))
    assert prompt_pairs(tokens, before, window) == sum(min(count, window or count) for count in seen)


@given(prompt=st.integers(1, 5000), chunk=st.integers(1, 700), window=st.one_of(st.none(), st.integers(1, 900)))
def test_chunks_have_the_pairs_of_the_whole_prompt(prompt, chunk, window):
    parts = [(min(chunk, prompt - start), start) for start in range(0, prompt, chunk)]
    assert sum(prompt_pairs(size, start, window) for size, start in parts) == prompt_pairs(prompt, 0, window)


@given(base=st.floats(0, 1), exponent=st.integers(0, 5000))
def test_power_by_squaring(base, exponent):
    assert math.isclose(power(base, exponent), base**exponent, rel_tol=1e-9, abs_tol=1e-300)


@pytest.mark.parametrize(("count", "chosen", "tokens"), [(128, 8, 1), (128, 8, 32), (32, 4, 16), (256, 8, 200)])
def test_experts_touched_against_a_simulation(count, chosen, tokens):
    """Independent even choices: how many experts a batch reads, against drawing them."""
    drawn = random.Random(1)
    touched = [len({expert for _ in range(tokens) for expert in drawn.sample(range(count), chosen)})
               for _ in range(300)]
    step = ready("qwen3-30b-a3b", ideal=True).experts._replace(missed=1 - chosen / count, read_token=0.0)
    share = expert_split(step, tokens)[0] / step.read_all
    assert share * count == pytest.approx(sum(touched) / len(touched), rel=0.02)


@pytest.mark.parametrize("model", ["llama-3.1-8b", "deepseek-v3", "gpt-oss-120b", "qwen3.5-35b-a3b", "gemma-3-27b"])
@pytest.mark.parametrize("gpu", ["h100", "l40s", "b200", "4090", "mi300x", "m2 ultra"])
def test_fitted_steps_are_never_faster_than_the_plain_roofline(model, gpu):
    for decoding, context in ((1, 512), (16, 4096), (256, 1024)):
        fitted, plain = (step_seconds(ready(model, gpu=gpu, ideal=ideal), decoding, decoding * context)
                         for ideal in (False, True))
        assert fitted > plain


MODELS = st.sampled_from(["llama-3.1-8b", "qwen3-30b-a3b", "deepseek-v2-lite", "gemma-3-12b", "qwen3.5-35b-a3b"])
CARDS = st.sampled_from(["h100", "l40s", "rtx 3090", "b200", "mi300x", "m4 max", "t4"])
ENGINES = st.sampled_from(["vllm", "sglang", "llama.cpp", "transformers"])


@settings(max_examples=150, deadline=None)
@given(model=MODELS, gpu=CARDS, engine=ENGINES, decoding=st.integers(1, 512), more=st.integers(1, 256),
       context=st.integers(1, 20_000), chunk=st.integers(0, 4096))
def test_more_work_never_takes_less_time(model, gpu, engine, decoding, more, context, chunk):
    step = ready(model, gpu=gpu, engine=engine)
    chunks = ((chunk, 0, 1),) if chunk else ()
    base = step_seconds(step, decoding, decoding * context, chunks)
    assert step_seconds(step, decoding + more, (decoding + more) * context, chunks) * ROUNDING >= base
    assert step_seconds(step, decoding, decoding * (context + more), chunks) * ROUNDING >= base
    assert step_seconds(step, decoding, decoding * context, ((chunk + more, 0, 1),)) * ROUNDING >= base
    assert step_seconds(step, decoding, decoding * context, ((chunk + more, context, 1),)) * ROUNDING >= base


@settings(max_examples=60, deadline=None)
@given(model=MODELS, gpu=CARDS, engine=ENGINES, factor=st.floats(1.0, 8.0), decoding=st.integers(1, 512))
def test_a_better_card_is_never_slower(model, gpu, engine, factor, decoding):
    card = catalog.accelerator(gpu)
    wider = dataclasses.replace(card, bandwidth_bytes_per_s=card.bandwidth_bytes_per_s * factor)
    rates = {name: getattr(card, name) and getattr(card, name) * factor
             for name in ("bf16_flops", "fp16_flops", "fp8_flops", "int8_ops", "fp4_flops", "fp32_flops")}
    quicker = dataclasses.replace(card, **rates)
    base = step_seconds(ready(model, gpu=card, engine=engine), decoding, decoding * 1024, ((256, 0, 1),), 1)
    for better in (wider, quicker):
        assert step_seconds(ready(model, gpu=better, engine=engine), decoding, decoding * 1024, ((256, 0, 1),),
                            1) <= base * ROUNDING


@pytest.mark.parametrize("gpu", ["h100", "h200", "b200", "l40s", "rtx pro 6000"])
@pytest.mark.parametrize("decoding", [1, 8, 64])
def test_fp8_weights_decode_faster_where_the_card_has_them(gpu, decoding):
    """On a model large enough to be bound by reading; small kernels are the exception that the tables themselves
    show."""
    sixteen, eight = (step_seconds(ready("llama-3.1-70b", weights, gpu), decoding, decoding * 1024)
                      for weights in ("bf16", "fp8"))
    assert eight < sixteen


def test_fp8_is_weight_only_where_the_card_lacks_it():
    """An A100 has no FP8 path: half the bytes, the 16-bit rate."""
    sixteen, eight = (ready("llama-3.1-70b", weights, "a100") for weights in ("bf16", "fp8"))
    decode = [step_seconds(step, 1, 512) for step in (sixteen, eight)]
    prompt = [step_seconds(step, 0, 0, ((8192, 0, 1),), 1) for step in (sixteen, eight)]
    assert decode[1] < 0.7 * decode[0]
    assert prompt[1] == pytest.approx(prompt[0], rel=0.1)


def test_sliding_windows_cap_what_is_read():
    gemma = ready("gemma-3-27b", ideal=True)
    near, far = (step_parts(gemma, 1, context).cache for context in (1024, 16_384))
    full = catalog.model("gemma-3-27b")
    group = next(group for group in full.groups if group.kind == "full")
    each = group.layers * group.elements_per_token * 2 / 3.35e12
    assert far - near == pytest.approx(each * (16_384 - 1024), rel=1e-9), "only the full layers go on growing"


def test_all_reduces_reach_no_more_than_the_link_gives():
    """Fitted shares of a link are shares: a large message moves at half to nine tenths of the link's one-way rate where a
    link joins the devices (NCCL reports bus bandwidths of that order), and never above it."""
    from pycore.roofline.efficiency import fits

    linked = [fit for (operation, generation, _, _), fit in fits().items()
              if operation == "allreduce" and generation not in ("ada", "blackwell") and fit.median_error_pct < 15]
    assert len(linked) >= 10
    for fit in linked:
        assert 0.45 <= max(fit.bandwidth_share, fit.compute_share) <= 1.0, fit
