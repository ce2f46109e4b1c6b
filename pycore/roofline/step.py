"""Seconds of one forward step: the function that speed, the matrix and the simulator share.

`prepare(...)` turns a model on a card into a `Step` of plain numbers; `step_parts(step, ...)` is closed-form arithmetic on
them (about ten microseconds), `step_seconds` its sum. Each matrix product takes

    launch + (read + work + √((read − work)² + 4 × blend × read × work)) / 2

where read = bytes / (bandwidth × share) and work = FLOP / (rate × share): the roofline of Williams et al. 2009 with a
rounded corner. Shares, blend and launch are fitted (see `efficiency`); share 1, blend 0, launch 0 is the plain roofline.
"""

import functools
import math
from typing import NamedTuple

from pycore.errors import NotKnown
from pycore.nouns import Accelerator, Format, Model, Parallel
from pycore.roofline.efficiency import Fit, arithmetic, choose, host_floor, rate, streamed
from pycore.roofline.interconnect import allreduce_seconds, link, pass_on_seconds
from pycore.roofline.work import AttentionWork, ExpertWork, Product, Work, work

ACTIVATION_BYTES = {"fp8": 1.0, "fp8-block": 1.0, "int8": 1.0, "fp4": 0.5625, "fp8-fp4": 1.0}  # else 16-bit
IDEAL = Fit(operation="ideal", generation="", compute="", engine="", launch_s=0.0, bandwidth_share=1.0, compute_share=1.0,
            blend=0.0, extra=0.0, rows=0, median_error_pct=0.0, p90_error_pct=0.0, low=1.0, high=1.0, cards=(), source="definition")


class Parts(NamedTuple):
    """Where a step's seconds go; they add up to the step. `compute` is what matrix units take beyond hidden behind reads."""

    weights: float
    cache: float
    compute: float
    communication: float
    overhead: float


class ProductTime(NamedTuple):
    """One product as seconds: read = read_fixed + read_token x m, work = work_token x m, for all its layers together."""

    read_fixed: float
    read_token: float
    work_token: float
    blend: float
    launch: float


class ExpertTime(NamedTuple):
    """The mixture layers as seconds, all layers together."""

    missed: float  # chance that one token leaves an expert unread: 1 - chosen / count
    gathered: int
    read_all: float  # every held expert read once
    read_token: float
    work_token: float
    launch: float


class AttentionTime(NamedTuple):
    """One attention group as seconds, all its layers together."""

    window: int | None
    read_token: float  # per cached token read
    read_index: float  # per cached token whose index is read
    sequence: float  # per decoding sequence: its share of scheduling, and its state
    work_pair: float  # per (query, cached token) while decoding
    launch: float
    prompt_pair: float  # per (query, earlier token) while prompts are read
    prompt_token: float
    prompt_launch: float
    index_pair: float


class Step(NamedTuple):
    """One device's step as plain numbers. `calibrated`: every fit is of the card's own generation."""

    products: tuple[ProductTime, ...]
    head: ProductTime
    experts: ExpertTime | None
    attention: tuple[AttentionTime, ...]
    message_token: float  # bytes per token of one all-reduce
    messages: int
    reduce: tuple[float, float, float, float]  # launch, one shot, extra, two shots
    exchange: tuple[int, float, float]  # expert exchange: count, launch, seconds per token
    passes: tuple[int, float, float]  # pipeline sends: count, launch, seconds per token
    elementwise: tuple[float, float]  # launch, seconds per token
    sampling: tuple[float, float]  # launch, seconds per sequence
    floor: float  # least seconds of a step: the host's part where it is the slower one
    pipeline: int
    timed_prompts: bool  # whether the card's dense rate is known: else only decoding can be told, as bound by reading
    calibrated: bool


@functools.lru_cache(maxsize=8192)
def prepare(model: Model, weights: Format, keys: Format, values: Format, parallel: Parallel, accelerator: Accelerator,
            engine: str, ideal: bool = False) -> Step:
    """A model on a card as a Step. `ideal`: the plain roofline (every share 1, no launches, no host).

    Raises NotKnown where the card has no published dense rate or the devices cannot be joined.
    """
    return build(work(model, weights, keys, values, parallel), weights, keys, accelerator, engine, ideal)


def build(load: Work, weights: Format, keys: Format, accelerator: Accelerator, engine: str, ideal: bool) -> Step:
    """The Step of given work."""
    used: list[Fit] = []

    def pick(operation: str, compute: str) -> Fit:
        fit = IDEAL if ideal else choose(operation, accelerator, compute, engine)
        used.append(fit)
        return fit

    def product(item: Product) -> ProductTime:
        compute = "bf16" if item.sixteen_bit else arithmetic(weights, accelerator)
        return product_time(item, compute, pick("product", compute), accelerator, engine)

    cached = "kv8" if keys.bits_per_weight <= 9 else "kv16"
    experts = None
    if load.experts:
        compute = arithmetic(weights, accelerator, "experts")
        experts = expert_time(load.experts, compute, pick("experts", compute), accelerator, engine)
    attention = tuple(attention_time(group, pick("decode", cached), pick("prefill", cached), accelerator, engine)
                      for group in load.attention)
    small, sampling = pick("elementwise", "bf16"), pick("sampling", "bf16")
    return Step(
        products=tuple(map(product, load.products)), head=product(load.head), experts=experts, attention=attention,
        message_token=2.0 * load.hidden, messages=load.messages, reduce=reduce_terms(load, accelerator, ideal),
        exchange=exchange_terms(load, accelerator, ideal), passes=pass_terms(load, accelerator, ideal),
        elementwise=(0.0, 0.0) if ideal else (
            load.elementwise * small.launch_s,
            load.elementwise_bytes / (accelerator.bandwidth_bytes_per_s * small.bandwidth_share)),
        sampling=(0.0, 0.0) if ideal or streamed(accelerator, engine) else (sampling.launch_s, sampling.extra * 1e-9),
        floor=0.0 if ideal else load.layers * host_floor(engine, arithmetic(weights, accelerator)), pipeline=load.pipeline,
        timed_prompts=known_rate(accelerator, "bf16", engine) < math.inf,
        calibrated=all(fit.calibrated for fit in used if fit.operation not in ("elementwise", "sampling")))


def known_rate(accelerator: Accelerator, compute: str, engine: str) -> float:
    """Dense FLOP/s, infinite where no source gave one: arithmetic then never bounds, which suits decoding of few sequences."""
    try:
        return rate(accelerator, compute, engine)
    except NotKnown:
        return math.inf


def product_time(item: Product, compute: str, fit: Fit, accelerator: Accelerator, engine: str) -> ProductTime:
    """Seconds of a product, per step and per token."""
    bandwidth = accelerator.bandwidth_bytes_per_s * fit.bandwidth_share
    moved = item.columns * ACTIVATION_BYTES.get(compute, 2.0) + 2.0 * item.rows
    flop = 2.0 * item.count * item.rows * item.columns
    return ProductTime(read_fixed=item.count * item.weight_bytes / bandwidth + unpacking(flop, fit, accelerator),
                       read_token=item.count * moved / bandwidth,
                       work_token=flop / (known_rate(accelerator, compute, engine) * fit.compute_share),
                       blend=fit.blend, launch=item.count * fit.launch_s)


def unpacking(flop: float, fit: Fit, accelerator: Accelerator) -> float:
    """Seconds that llama.cpp's vector kernels take to unpack and multiply so many weights, once a step."""
    if fit.engine != "llama.cpp" or not fit.extra or not accelerator.fp32_flops:
        return 0.0
    return flop / (accelerator.fp32_flops * fit.extra)


def expert_time(item: ExpertWork, compute: str, fit: Fit, accelerator: Accelerator, engine: str) -> ExpertTime:
    """Seconds of the mixture layers."""
    bandwidth = accelerator.bandwidth_bytes_per_s * fit.bandwidth_share
    routed = item.chosen * item.share * item.layers  # routed copies of one token of this replica, all layers
    flop = 2.0 * item.matrices * item.hidden * item.inner
    passes = 1.0 if fit.engine == "llama.cpp" else fit.extra
    return ExpertTime(missed=1.0 - item.chosen / item.count, gathered=item.gathered,
                      read_all=item.layers * item.held * item.expert_bytes / bandwidth
                      + unpacking(item.layers * item.held * flop, fit, accelerator),
                      read_token=routed * passes * 2.0 * item.hidden / bandwidth,
                      work_token=routed * flop / (known_rate(accelerator, compute, engine) * fit.compute_share),
                      launch=item.layers * fit.launch_s * (3 if fit.engine == "llama.cpp" else 1))


def attention_time(group: AttentionWork, decode: Fit, prefill: Fit, accelerator: Accelerator, engine: str) -> AttentionTime:
    """Seconds of one attention group. Decoding with a latent (MLA) can be bound by arithmetic: its work runs at the share
    that prompts reach, no MLA kernel being in the tables."""
    bandwidth = accelerator.bandwidth_bytes_per_s
    read, prompt = bandwidth * decode.bandwidth_share, bandwidth * prefill.bandwidth_share
    flops = known_rate(accelerator, "bf16", engine) * prefill.compute_share
    width, prompt_width = group.score_dim + group.value_dim, group.prompt_score_dim + group.prompt_value_dim
    layers, linear = group.layers, group.kind == "linear"
    return AttentionTime(
        window=group.window, read_token=layers * group.token_bytes / read, read_index=layers * group.index_bytes / read,
        sequence=layers * (decode.extra * 1e-9 * group.kv_heads + group.state_bytes / read),
        work_pair=layers * 2.0 * group.heads * width / flops if group.kind == "latent" else 0.0,
        launch=layers * decode.launch_s,
        prompt_pair=0.0 if linear else layers * 2.0 * group.heads * prompt_width / flops,
        prompt_token=layers * (2.0 * group.heads * prompt_width + group.token_bytes) / prompt
        + layers * group.state_flop / flops,
        prompt_launch=layers * prefill.launch_s, index_pair=layers * group.index_flop / flops)


def reduce_terms(load: Work, accelerator: Accelerator, ideal: bool) -> tuple[float, float, float, float]:
    """(launch, one shot, extra, two shots) of an all-reduce among the tensor-parallel devices."""
    if load.tensor == 1:
        return (0.0, 0.0, 0.0, 0.0)
    joined = link(accelerator, load.tensor)
    ring = 2.0 * (load.tensor - 1) / load.tensor / joined.bandwidth
    return (0.0, ring, 0.0, ring) if ideal else (joined.fit.launch_s, joined.one_shot, joined.fit.extra * 1e-6,
                                                 joined.two_shots)


def exchange_terms(load: Work, accelerator: Accelerator, ideal: bool) -> tuple[int, float, float]:
    """Sending tokens to the devices that hold their experts and back, twice a mixture layer, when replicas share experts."""
    if load.exchanged == 1 or load.experts is None:
        return (0, 0.0, 0.0)
    devices = load.tensor * load.exchanged
    joined = link(accelerator, devices)
    away = min(load.experts.chosen, devices) * (devices - 1) / devices / load.tensor
    share = 1.0 if ideal else joined.fit.bandwidth_share
    return (2 * load.experts.layers, 0.0 if ideal else joined.fit.launch_s,
            2.0 * load.hidden * away / (joined.bandwidth * share))


def pass_terms(load: Work, accelerator: Accelerator, ideal: bool) -> tuple[int, float, float]:
    """Handing hidden states from one pipeline stage to the next."""
    if load.pipeline == 1:
        return (0, 0.0, 0.0)
    joined = link(accelerator, 2)
    share = 1.0 if ideal else joined.fit.bandwidth_share
    seconds = pass_on_seconds(2.0 * load.hidden / load.tensor, 0.0, joined.bandwidth, share)
    return (load.pipeline - 1, 0.0 if ideal else joined.fit.launch_s, seconds)


def power(base: float, exponent: int) -> float:
    """base ** exponent by squaring: products alone, so that every machine gets the same bits."""
    result = 1.0
    while exponent:
        if exponent & 1:
            result *= base
        base *= base
        exponent >>= 1
    return result


def product_split(item: ProductTime, tokens: float) -> tuple[float, float]:
    """(seconds reading, seconds computing beyond that) of a product of `tokens` rows, launches aside."""
    read = item.read_fixed + item.read_token * tokens
    done = item.work_token * tokens
    apart = read - done
    both = (read + done + math.sqrt(apart * apart + 4.0 * item.blend * read * done)) / 2.0
    return read, both - read


def expert_split(item: ExpertTime, tokens: int) -> tuple[float, float]:
    """(seconds reading, seconds computing) of the mixture layers: the chance that an expert is chosen by none of the
    tokens is (1 − chosen / count) ^ tokens, choices taken as even and independent."""
    touched = 1.0 - power(item.missed, tokens * item.gathered)
    return item.read_all * touched + item.read_token * tokens, item.work_token * tokens


def prompt_pairs(tokens: int, before: int, window: int | None) -> int:
    """How many (query, key) pairs a causal chunk of `tokens` after `before` cached tokens has, within a window."""
    if window is None or before + tokens <= window:
        return tokens * before + tokens * (tokens + 1) // 2
    growing = max(0, window - before)  # queries that still see everything
    return growing * before + growing * (growing + 1) // 2 + (tokens - growing) * window


def step_parts(step: Step, decoding: int, cached: int, chunks: tuple[tuple[int, int, int], ...] = (), ended: int = 0) -> Parts:
    """Seconds of one step by cause.

    `decoding` sequences get one token each and hold `cached` tokens together (windows cut each one at the mean context);
    `chunks` are the prompts advanced in the same step as (tokens, tokens already cached, how many alike); `ended` of them
    finish and so need logits. With pipeline stages the step is one micro-batch through all of them.
    """
    tokens = decoding + sum(chunk * alike for chunk, _, alike in chunks)
    rows = decoding + ended
    weights = compute = 0.0
    launches = step.head.launch
    for item in step.products:
        read, rest = product_split(item, tokens)
        weights += read
        compute += rest
        launches += item.launch
    if rows:
        read, rest = product_split(step.head, rows)
        weights, compute = weights + read, compute + rest
    if step.experts is not None:
        read, rest = expert_split(step.experts, tokens)
        weights, compute, launches = weights + read, compute + rest, launches + step.experts.launch
    cache, attended, started = attention_parts(step, decoding, cached, chunks)
    talk, compute = communication(step, tokens), compute + attended
    overhead = (launches + started + step.elementwise[0] + step.elementwise[1] * tokens + step.sampling[0]
                + step.sampling[1] * rows)
    if step.floor:
        overhead = max(overhead, step.floor - weights - cache - compute - talk)
    return Parts(weights, cache, compute, talk, overhead)


def attention_parts(step: Step, decoding: int, cached: int, chunks: tuple[tuple[int, int, int], ...],
                    ) -> tuple[float, float, float]:
    """(seconds reading the cache, computing, launching) of every attention group."""
    read = work_seconds = launches = 0.0
    context = cached / decoding if decoding else 0.0
    for group in step.attention:
        if decoding:
            seen = cached if group.window is None or context <= group.window else decoding * group.window
            fetched = group.read_token * seen + group.read_index * cached
            read += fetched + group.sequence * decoding
            work_seconds += max(0.0, group.work_pair * seen + group.index_pair * cached - fetched)
            launches += group.launch
        for tokens, before, alike in chunks:
            pairs = prompt_pairs(tokens, before, group.window)
            read += alike * group.read_token * (before if group.window is None else min(before, group.window))
            work_seconds += alike * (group.prompt_pair * pairs + group.prompt_token * tokens)
            if group.index_pair:
                work_seconds += alike * group.index_pair * prompt_pairs(tokens, before, None)
            launches += group.prompt_launch
    return read, work_seconds, launches


def communication(step: Step, tokens: int) -> float:
    """Seconds of all-reduces, expert exchange and pipeline sends."""
    seconds = 0.0
    if step.messages:
        seconds += step.messages * allreduce_seconds(step.message_token * tokens, *step.reduce)
    for count, launch, per_token in (step.exchange, step.passes):
        if count:
            seconds += count * (launch + per_token * tokens)
    return seconds


def step_seconds(step: Step, decoding: int, cached: int, chunks: tuple[tuple[int, int, int], ...] = (), ended: int = 0) -> float:
    """Seconds of one step; arguments as in `step_parts`."""
    return sum_parts(step_parts(step, decoding, cached, chunks, ended))


def sum_parts(parts: Parts) -> float:
    """weights + cache + compute + communication + overhead"""
    return parts.weights + parts.cache + parts.compute + parts.communication + parts.overhead
