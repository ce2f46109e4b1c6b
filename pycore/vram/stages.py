"""Which layers each pipeline stage (or each device of a layer-splitting engine) holds."""

import functools
from itertools import pairwise

from pycore.nouns import AttentionGroup, Model
from pycore.vram.engines import Engine


@functools.lru_cache(maxsize=1024)
def stages(layers: int, count: int, rule: str) -> tuple[range, ...]:
    """`count` consecutive ranges that cover `layers`.

    tensor engines: equal shares, what is left over goes one each to the stages before the last, last first (vllm
    distributed/utils.py get_pp_indices). layer engines: layer i of L goes to device floor(i x n / (L + 1)), the output
    matrix counting as one more layer (llama.cpp llama-model.cpp, equal cards).
    """
    if rule == "layer":
        edges = [-(-(layers + 1) * stage // count) for stage in range(count)] + [layers]
        return tuple(range(min(first, layers), min(last, layers)) for first, last in pairwise(edges))
    shares = [layers // count] * count
    for extra in range(layers % count):
        shares[-(2 + extra)] += 1
    edges = [sum(shares[:stage]) for stage in range(count + 1)]
    return tuple(range(first, last) for first, last in pairwise(edges))


def split(model: Model, engine: Engine, count: int) -> tuple[range, ...]:
    """The stages of a model under an engine's rule."""
    return stages(model.layers, count, engine.split)


@functools.lru_cache(maxsize=4096)
def group_layers(model: Model, stage: range) -> dict[AttentionGroup, int]:
    """How many layers of each attention group a stage holds. Treat as read-only: the result is cached."""
    counts = dict.fromkeys(model.groups, 0)
    for layer in stage:
        counts[model.group_of(layer)] += 1
    return counts
