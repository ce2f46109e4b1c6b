"""Bytes and FLOP of a step on one device, counted apart from any clock: what the utilisations are shares of."""

import math

from pycore.roofline.step import power, prompt_pairs
from pycore.roofline.work import AttentionWork, Work


def weight_bytes(load: Work, tokens: int) -> float:
    """Bytes of weights that one device reads in a step of `tokens` tokens: experts that no token chose are not read."""
    size = load.head.weight_bytes + math.fsum(item.weight_bytes * item.count for item in load.products)
    if load.experts is None:
        return size
    experts = load.experts
    touched = 1.0 - power(1.0 - experts.chosen / experts.count, tokens * experts.gathered)
    return size + experts.layers * experts.held * experts.expert_bytes * touched


def seen(group: AttentionWork, context: float) -> float:
    """Cached tokens that one query reads."""
    return context if group.window is None else min(context, group.window)


def cache_bytes(load: Work, sequences: int, context: float) -> float:
    """Bytes of cached keys, values and states that one device reads (states: and writes) for one token of each
    sequence."""
    return math.fsum(group.layers * sequences * (group.token_bytes * seen(group, context) + group.index_bytes * context
                                           + group.state_bytes) for group in load.attention)


def decode_flop(load: Work, sequences: int, context: float) -> float:
    """FLOP of one device for one token of each sequence."""
    attention = math.fsum(group.layers * (2.0 * group.heads * (group.score_dim + group.value_dim) * seen(group, context)
                                    * (group.kind != "linear") + group.index_flop * context + group.state_flop)
                    for group in load.attention)
    return sequences * (load.token_flop + load.head_flop + attention)


def prompt_flop(load: Work, tokens: int, before: int = 0) -> float:
    """FLOP of one device to read `tokens` of a prompt after `before` cached ones, with one row of logits."""
    attention = 0.0
    for group in load.attention:
        if group.kind == "linear":
            attention += group.layers * group.state_flop * tokens
            continue
        width = 2.0 * group.heads * (group.prompt_score_dim + group.prompt_value_dim)
        attention += group.layers * (width * prompt_pairs(tokens, before, group.window)
                                     + group.index_flop * prompt_pairs(tokens, before, None))
    return tokens * load.token_flop + load.head_flop + attention
