"""What an engine sets aside for a sequence: blocks of pages (vLLM), pools (SGLang), rings of cells (llama.cpp).

Every engine comes down to the same few numbers, so that one formula serves the ledger and the matrix: a `Share` costs
`unit_bytes` for each unit, and a sequence of `context` tokens takes `fixed + ceil(min(context, cap) / step) + extra`
units of it.
"""

import functools
import math
from dataclasses import dataclass

from pycore.ledger import Term, term, total
from pycore.nouns import AttentionGroup, Format, Model
from pycore.vram.engines import Engine
from pycore.vram.kv import RECURRENT_BYTES, describe, state_bytes, token_bytes
from pycore.vram.stages import group_layers

UNBOUNDED = 1 << 62
SGLANG_WINDOW_POOL = (4, 5)  # swa_full_tokens_ratio 0.8: the window layers' pool holds 4/5 of the full pool's tokens
SGLANG_STATE_SLOTS = 3  # MAMBA_CACHE_SIZE_MAX_RUNNING_REQUESTS_RATIO, with the radix cache on
VLLM_STATE_BLOCKS = 2  # mamba_cache_mode "align", the mode of prefix caching: a state being written and a saved one
GROUP_SLACK = 1.5  # vLLM pads groups to the larger count where counts differ by less than this


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """One attention group's (or pool's) part of the reservation."""

    name: str
    unit_bytes: int
    step: int = 0  # tokens a unit holds; 0: only `fixed` units
    cap: int = UNBOUNDED  # tokens after which a sequence needs no more units
    extra: int = 0
    fixed: int = 0
    repeat: int = 1  # page groups that each take those units (a pattern of 5 window layers to 1 makes 5)

    def units(self, context: int) -> int:
        """Units that one sequence of `context` tokens takes."""
        if not self.step:
            return self.repeat * self.fixed
        kept = context if context < self.cap else self.cap
        return self.repeat * (self.fixed + self.extra - -kept // self.step)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """How one device's pool is cut. `block_bytes` is the smallest piece; `page_groups` how many share the pool."""

    shares: tuple[Share, ...]
    block_bytes: int
    block_tokens: int
    page_groups: int = 1

    def sequence_bytes(self, context: int) -> int:
        """Bytes that one sequence of `context` tokens reserves."""
        size = 0
        for share in self.shares:
            size += share.unit_bytes * share.units(context)
        return size

    def sequence_blocks(self, context: int) -> int:
        """Blocks that one sequence takes; meaningful where all shares use the same block (vLLM)."""
        return sum(share.units(context) for share in self.shares)

    def longest(self, pool_bytes: int, limit: int) -> int:
        """The longest sequence, at most `limit` tokens, that a pool can hold alone; 0 where none fits."""
        low, high = 0, limit
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self.sequence_bytes(middle) <= pool_bytes else (low, middle - 1)
        return low


@functools.lru_cache(maxsize=4096)
def reserve(model: Model, engine: Engine, keys: Format, values: Format, tensor: int, count: int, stage: range,
            batch_tokens: int, shards: int = 1) -> Reservation:
    """The reservation of one stage (of `count`) on each of its `tensor` devices.

    `batch_tokens`: most tokens in one step, which window layers must hold beside their window.
    """
    if engine.memory_rule == "total":
        return vllm_pages(model, engine, keys, values, tensor, count, stage, batch_tokens, shards)
    build = {"pools": sglang_pools, "cells": llama_cells, "exact": exact}[engine.hybrid]
    return build(model, engine, keys, values, tensor, stage, batch_tokens)


def vllm_pages(model: Model, engine: Engine, keys: Format, values: Format, tensor: int, count: int, stage: range,
               batch_tokens: int, shards: int) -> Reservation:
    """vLLM's pool: groups of equally many layers share tensors, and every group takes pages of one size.

    With decode context parallelism (`shards`) a page still holds as many tokens on its rank, of shards times as many.
    Source: vllm v1/core/kv_cache_utils.py (page size unified by longer blocks, groups of the least frequent kind's
    count) and v1/kv_cache_interface.py (units per sequence); the log rows v009, v012, v035, v036 come out exactly.
    """
    kinds = {group: layers for group, layers in group_layers(model, range(model.layers)).items() if layers}
    rows = {group: token_bytes(group, keys, values, tensor) for group in kinds}
    pages = page_sizes(kinds, rows, engine, tensor)
    page = max(size for size, _ in pages.values())
    least, most = min(kinds.values()), max(kinds.values())
    size = most if most < least * GROUP_SLACK else least
    held = group_layers(model, stage)
    in_group = max(-(-held[group] // -(-layers // size)) for group, layers in kinds.items())  # on this stage
    unit = page * in_group
    shares, groups = [], 0
    for group, layers in kinds.items():
        repeat = -(-layers // size)
        groups += repeat
        block = pages[group][1] * (page // pages[group][0]) if group.kind != "linear" else 0
        shares.append(vllm_share(group, unit, block * shards, repeat, batch_tokens))
    return Reservation(shares=tuple(shares), block_bytes=unit, page_groups=groups,
                       block_tokens=min(share.step for share in shares if share.step))


def page_sizes(kinds: dict[AttentionGroup, int], rows: dict[AttentionGroup, int], engine: Engine,
               tensor: int) -> dict[AttentionGroup, tuple[int, int]]:
    """(page bytes, tokens in it) of each group before unification.

    With linear layers the attention block grows until its page holds a state, in steps of the kernel's block.
    Source: vllm platforms/interface.py, 'Setting attention block size to ... >= mamba page size'.
    """
    states = [state_bytes(group, tensor, engine.convolution_bytes) for group in kinds if group.kind == "linear"]
    attention = [rows[group] for group in kinds if group.kind != "linear"]
    block = engine.page_tokens
    if states and attention:
        step = max(attention) * kernel_block(kinds, engine)
        block = -(-max(states) // step) * kernel_block(kinds, engine)
        return {group: (max(attention) * block, block) if group.kind == "linear" else (rows[group] * block, block)
                for group in kinds}
    if states:
        return {group: (max(states), 1) for group in kinds}
    return {group: (rows[group] * block, block) for group in kinds}


def kernel_block(kinds: dict[AttentionGroup, int], engine: Engine) -> int:
    """Tokens that an attention kernel's block holds: 64 for MLA kernels, else the page."""
    return 64 if any(group.kind == "latent" for group in kinds) else engine.page_tokens


def vllm_share(group: AttentionGroup, unit: int, block: int, repeat: int, batch_tokens: int) -> Share:
    """A group's units: every page of the context, a window and a step's tokens, or the state's blocks."""
    name = f"KV pages, {describe(group)}"
    if group.kind == "linear":
        return Share(name=name, unit_bytes=unit, fixed=VLLM_STATE_BLOCKS, repeat=repeat)
    if group.kind == "sliding":
        return Share(name=name, unit_bytes=unit, step=block, cap=group.window - 1 + batch_tokens, extra=1,
                     repeat=repeat)
    if group.kind == "chunked":
        return Share(name=name, unit_bytes=unit, step=block, cap=group.window + batch_tokens, repeat=repeat)
    return Share(name=name, unit_bytes=unit, step=block, repeat=repeat)


def sglang_pools(model: Model, engine: Engine, keys: Format, values: Format, tensor: int, stage: range,
                 batch_tokens: int) -> Reservation:
    """SGLang's pools: one for layers that keep every token, one of 4/5 its tokens for windows, state slots apart."""
    shares, mixed = [], any(group.kind in ("full", "latent", "chunked") for group in model.groups)
    for group, layers in group_layers(model, stage).items():
        row = layers * token_bytes(group, keys, values, tensor)
        name = f"KV pool, {describe(group)}"
        if group.kind == "linear":
            state = layers * state_bytes(group, tensor, engine.convolution_bytes, RECURRENT_BYTES)
            shares.append(Share(name=name, unit_bytes=state, fixed=SGLANG_STATE_SLOTS))
        elif group.kind == "sliding" and mixed:
            part, whole = SGLANG_WINDOW_POOL
            shares.append(Share(name=name, unit_bytes=-(-row * part // whole) * engine.page_tokens,
                                step=engine.page_tokens))
        else:
            shares.append(Share(name=name, unit_bytes=row * engine.page_tokens, step=engine.page_tokens))
    return Reservation(shares=tuple(shares), block_bytes=stepped_bytes(shares), block_tokens=engine.page_tokens)


def llama_cells(model: Model, engine: Engine, keys: Format, values: Format, tensor: int, stage: range,
                batch_tokens: int) -> Reservation:
    """llama.cpp's streams, one a sequence: cells padded to 256; a window's ring holds the window and one batch."""
    shares, pad = [], engine.page_tokens
    for group, layers in group_layers(model, stage).items():
        name = f"KV cells, {describe(group)}"
        if group.kind == "linear":
            state = layers * state_bytes(group, tensor, engine.convolution_bytes, RECURRENT_BYTES)
            shares.append(Share(name=name, unit_bytes=state, fixed=1))
        else:
            cap = UNBOUNDED if group.window is None else group.window + batch_tokens
            shares.append(Share(name=name, unit_bytes=layers * token_bytes(group, keys, values, tensor) * pad, step=pad,
                                cap=cap))
    return Reservation(shares=tuple(shares), block_bytes=stepped_bytes(shares), block_tokens=pad)


def exact(model: Model, engine: Engine, keys: Format, values: Format, tensor: int, stage: range,
          batch_tokens: int) -> Reservation:
    """No pool at all: tensors grow with the sequence (transformers' dynamic cache)."""
    shares = []
    for group, layers in group_layers(model, stage).items():
        name = f"KV tensors, {describe(group)}"
        if group.kind == "linear":
            state = layers * state_bytes(group, tensor, engine.convolution_bytes, RECURRENT_BYTES)
            shares.append(Share(name=name, unit_bytes=state, fixed=1))
        else:
            shares.append(Share(name=name, unit_bytes=layers * token_bytes(group, keys, values, tensor), step=1,
                                cap=UNBOUNDED if group.window is None else group.window))
    return Reservation(shares=tuple(shares), block_bytes=stepped_bytes(shares), block_tokens=1)


def stepped_bytes(shares: list[Share]) -> int:
    """Bytes of one unit of every share that grows with the context; at least 1."""
    return max(1, sum(share.unit_bytes for share in shares if share.step))


@term("KV cache", "B", source="the engine's own unit sizes, see pycore/vram/reservation.py")
def reserved_bytes(unit_bytes, units_per_sequence, sequences):
    """unit_bytes × units_per_sequence × sequences"""
    return unit_bytes * units_per_sequence * sequences


def reserved(reservation: Reservation, context: int, sequences: int) -> Term:
    """What the load reserves on one device, one part per share."""
    parts = [reserved_bytes(unit_bytes=share.unit_bytes, units_per_sequence=share.units(context),
                            sequences=sequences).renamed(share.name)
             for share in reservation.shares]
    return total("KV cache, reserved", parts)


def capacity_tokens(reservation: Reservation, engine: Engine, pool_bytes: int, context: int, sequences: int = 1) -> int:
    """Tokens the engine says its pool holds, as each engine counts them.

    vLLM from 0.21: int(concurrency x max_model_len). Before: blocks // groups x block size. SGLang: tokens of the full
    pool, the state slots of `sequences` taken off. llama.cpp, transformers: whole sequences of this context.
    """
    if engine.memory_rule == "total":
        blocks = pool_bytes // reservation.block_bytes
        if engine.hybrid == "by window":
            return int(blocks / reservation.sequence_blocks(context) * context)
        return blocks // reservation.page_groups * reservation.block_tokens
    if engine.hybrid == "pools":
        states = sequences * sum(share.unit_bytes * share.fixed for share in reservation.shares)
        return max(0, pool_bytes - states) // reservation.block_bytes * reservation.block_tokens
    return pool_bytes // max(1, reservation.sequence_bytes(context)) * context


def concurrency(reservation: Reservation, pool_bytes: int, context: int) -> float:
    """How many sequences of `context` tokens the pool holds, as a fraction where the engine logs one."""
    return (pool_bytes // reservation.block_bytes) / max(1, reservation.sequence_blocks(context))


def whole_sequences(reservation: Reservation, pool_bytes: int, context: int) -> int:
    """How many whole sequences of `context` tokens the pool holds."""
    return math.floor(pool_bytes / max(1, reservation.sequence_bytes(context)))
