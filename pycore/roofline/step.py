"""Seconds of one forward step: the function that speed, the matrix and the simulator share.

`pycore.roofline.prepare` turns a model on a card into a `Step` of plain numbers; `step_parts(step, ...)` is closed-form
arithmetic on them (about ten microseconds), `step_seconds` its sum. Each matrix product takes

    launch + (read + work + √((read − work)² + 4 × blend × read × work)) / 2

where read = bytes / (bandwidth × share) and work = FLOP / (rate × share): the roofline of Williams et al. 2009 with a
rounded corner. Shares, blend and launch are fitted (see `efficiency`); share 1, blend 0, launch 0 is the plain
roofline.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

from pycore.roofline.interconnect import allreduce_seconds


class Parts(NamedTuple):
    """Where a step's seconds go; they add up to the step. `compute` is what matrix units take beyond hidden behind
    reads."""

    weights: float
    cache: float
    compute: float
    communication: float
    overhead: float


class ProductTime(NamedTuple):
    """One product as seconds: read = read_fixed + read_token x m, work = work_token x m, for all its layers
    together."""

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


def expert_split(item: ExpertTime, tokens: float) -> tuple[float, float]:
    """(seconds reading, seconds computing) of the mixture layers: the chance that an expert is chosen by none of the
    tokens is (1 − chosen / count) ^ tokens, choices taken as even and independent."""
    touched = 1.0 - power(item.missed, round(tokens * item.gathered))
    return item.read_all * touched + item.read_token * tokens, item.work_token * tokens


def prompt_pairs(tokens: int, before: int, window: int | None) -> int:
    """How many (query, key) pairs a causal chunk of `tokens` after `before` cached tokens has, within a window."""
    if window is None or before + tokens <= window:
        return tokens * before + tokens * (tokens + 1) // 2
    growing = max(0, window - before)  # queries that still see everything
    return growing * before + growing * (growing + 1) // 2 + (tokens - growing) * window


def step_parts(step: Step, decoding: int, cached: int, chunks: tuple[tuple[int, int, float], ...] = (),
               ended: float = 0) -> Parts:
    """Seconds of one step by cause.

    `decoding` sequences get one token each and hold `cached` tokens together (windows cut each one at the mean
    context); `chunks` are the prompts advanced in the same step as (tokens, tokens already cached, how many alike,
    which may be a mean); `ended` of them finish and so need logits. With pipeline stages the step is one micro-batch
    through all of them.
    """
    tokens = decoding
    for chunk, _, alike in chunks:
        tokens += chunk * alike
    rows = decoding + ended
    return joined_parts(step, matrix_parts(step, tokens, rows), attention_parts(step, decoding, cached, chunks))


def matrix_parts(step: Step, tokens: float, rows: float) -> Parts:
    """Everything but attention of a step with `tokens` tokens of which `rows` need logits; it depends on nothing else,
    so that a simulator can keep it. Launches of attention are not in its overhead, nor is the host's floor."""
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
    small = step.elementwise[0] + step.elementwise[1] * tokens + step.sampling[0] + step.sampling[1] * rows
    return Parts(weights, 0.0, compute, communication(step, tokens), launches + small)


def joined_parts(step: Step, matrices: Parts, attention: tuple[float, float, float]) -> Parts:
    """A whole step from its matrices and its attention (as `attention_parts` gives it), the host's floor applied."""
    cache, attended, started = attention
    weights, _, compute, talk, overhead = matrices
    compute, overhead = compute + attended, overhead + started
    if step.floor:
        overhead = max(overhead, step.floor - weights - cache - compute - talk)
    return Parts(weights, cache, compute, talk, overhead)


def attention_parts(step: Step, decoding: int, cached: int, chunks: tuple[tuple[int, int, float], ...],
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


def decode_seconds(step: Step, matrices: Parts, decoding: int, cached: int) -> Iterator[float]:
    """Seconds of one decode step after another: the same `decoding` sequences, each a token longer every time, `cached`
    tokens together in the first; without end. `matrices` as for so many tokens and rows.

    The sums of `attention_parts`, `joined_parts` and `sum_parts` in their order, so that every bit is the same; with one
    kind of attention and no window they are written out, because a simulator asks for hundreds of thousands.
    """
    if len(step.attention) != 1 or step.attention[0].window is not None:
        while True:
            yield sum_parts(joined_parts(step, matrices, attention_parts(step, decoding, cached, ())))
            cached += decoding
    group, floor = step.attention[0], step.floor
    own, weights, talk = group.sequence * decoding, matrices.weights, matrices.communication
    done, started = matrices.compute, matrices.overhead + group.launch
    read_token, read_index, pair, index_pair = group.read_token, group.read_index, group.work_pair, group.index_pair
    while True:
        fetched = read_token * cached + read_index * cached
        cache, beyond = fetched + own, pair * cached + index_pair * cached - fetched
        compute, overhead = done + beyond if beyond > 0.0 else done, started
        if floor:
            overhead = max(overhead, floor - weights - cache - compute - talk)
        yield weights + cache + compute + talk + overhead
        cached += decoding


def communication(step: Step, tokens: float) -> float:
    """Seconds of all-reduces, expert exchange and pipeline sends."""
    seconds = 0.0
    if step.messages:
        seconds += step.messages * allreduce_seconds(step.message_token * tokens, *step.reduce)
    for count, launch, per_token in (step.exchange, step.passes):
        if count:
            seconds += count * (launch + per_token * tokens)
    return seconds


def step_seconds(step: Step, decoding: int, cached: int, chunks: tuple[tuple[int, int, float], ...] = (),
                 ended: float = 0) -> float:
    """Seconds of one step; arguments as in `step_parts`."""
    return sum_parts(step_parts(step, decoding, cached, chunks, ended))


def sum_parts(parts: Parts) -> float:
    """weights + cache + compute + communication + overhead"""
    return parts.weights + parts.cache + parts.compute + parts.communication + parts.overhead
