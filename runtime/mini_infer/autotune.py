"""Which way of multiplying is the fastest on this CPU: each is tried on the model's own weights, for seconds in all.

The same product takes one to four times as long by the order of its operands and by whether weights lie row by row or
column by column, and which is best depends on the library, the CPU and the number of rows. Weights lie one way only, so
the storage is chosen that loses least over all numbers of rows; then a way for each of them. Weights are read in a
step's own order, layer by layer: one matrix again and again would come from a cache, and what is fastest there is not
in a step.
"""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from runtime.mini_infer.model import Model, Projection
from runtime.mini_infer.projections import NAMES, Tuned, Way, by_columns, by_rows, by_vector

ROWS = (1, 2, 4, 8, 16, 32, 64, 128)  # 2^(k - 1): one for each number of binary digits k
WAYS = (by_rows, by_columns)
MOST_BYTES = 1 << 29  # of weights are gone through in turn: more than a cache holds, as in a step
MOST_PRODUCTS = 1 << 30  # of one walk through them: more rows, where arithmetic takes the time, need fewer weights
ROUNDS = 2
SMALL_BYTES = 16 << 20  # a model whose weights stay in the cache of a core or two has nothing to gain
CLEARLY = 0.95  # another way, or another storage, has to be faster than torch's own by this much
HEAD = "head"
Weights = Mapping[str, Sequence[Tensor]]  # of each projection, layer by layer; one of the head


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Best seconds of one storage of one projection: by number of rows, then by way."""

    columns: bool
    seconds: tuple[dict[Way, float], ...]

    @property
    def ways(self) -> tuple[Way, ...]:
        """The fastest way for numbers of rows with 0, 1, 2, ... binary digits."""
        best = tuple(_fastest(tried) for tried in self.seconds)
        return best[:1] + best


def tune(model: Model) -> str:
    """Give every projection of a model on a CPU the ways that are fastest here, in place; what was chosen, in words.

    Where the head is the embedding, tokens are looked up in what is stored for it: by columns that takes longer, by far
    less than the head gains.
    """
    if model.device.type != "cpu":
        return "torch's own way on " + model.device.type
    if sum(getattr(layer, name).weight.nbytes for layer in model.layers for name in NAMES) < SMALL_BYTES:
        return "torch's own way: the weights are small"
    trials = tried({name: [getattr(layer, name).weight for layer in model.layers] for name in NAMES}
                   | {HEAD: [model.head.weight]}, time.perf_counter)
    for name in NAMES:
        for layer in model.layers:
            setattr(layer, name, tuned(getattr(layer, name), trials[name]))
    model.head = tuned(model.head, trials[HEAD])
    if model.configuration.tied:
        model.embedding = model.head.weight
    return "; ".join(f"{name} {_words(trial)}" for name, trial in trials.items())


def tuned(old: Projection, trial: Trial) -> Tuned:
    """A projection with the ways of a trial, its weights moved where they lie the other way."""
    weight = _by_columns(old.weight) if trial.columns else old.weight
    return Tuned(weight, old.bias, trial.ways)


def tried(weights: Weights, clock: Callable[[], float]) -> dict[str, Trial]:
    """The better storage for each projection's weights, measured."""
    layer, head = sum(one[0].nbytes for name, one in weights.items() if name != HEAD), weights[HEAD][0].nbytes
    some = {name: one[:max(1, (MOST_BYTES - head) // layer)] for name, one in weights.items()}
    with torch.inference_mode():
        rows = measured(some, False, clock)
        columns = measured({name: [_by_columns(weight) for weight in one] for name, one in some.items()}, True, clock)
    return {name: _better(rows[name], columns[name]) for name in weights}


def _better(rows: Trial, columns: Trial) -> Trial:
    pairs = [(min(left.values()), min(right.values())) for left, right in zip(rows.seconds, columns.seconds, strict=True)]
    lost_by_rows, lost_by_columns = (sum(pair[side] / min(pair) for pair in pairs) for side in (0, 1))
    return columns if lost_by_columns < CLEARLY * lost_by_rows else rows


def measured(weights: Weights, columns: bool, clock: Callable[[], float]) -> dict[str, Trial]:
    """Every way and number of rows, in rounds, so that what disturbs one round does not decide."""
    found: dict[str, list[dict[Way, float]]] = {name: [] for name in weights}
    for rows in ROWS:
        best: dict[tuple[str, Way], float] = {}
        for _ in range(ROUNDS):
            for way in (*WAYS, *((by_vector,) if rows == 1 else ())):
                for name, seconds in _walk(way, rows, weights, clock).items():
                    best[name, way] = min(best.get((name, way), seconds), seconds)
        for (name, way), seconds in best.items():
            if way is by_rows:
                found[name].append({})
            found[name][-1][way] = seconds
    return {name: Trial(columns=columns, seconds=tuple(seconds)) for name, seconds in found.items()}


def _walk(way: Way, rows: int, weights: Weights, clock: Callable[[], float]) -> dict[str, float]:
    """Mean seconds of a call by projection, through as many layers as the arithmetic allows; a head that is too large for
    it is left out, and goes as with the most rows that it was tried with."""
    blocks = {name: one for name, one in weights.items() if name != HEAD}
    reach = MOST_PRODUCTS // (rows * sum(one[0].numel() for one in blocks.values()))
    layers = max(1, min(reach, *map(len, blocks.values())))
    order = [(name, one[index]) for index in range(layers) for name, one in blocks.items()]
    if rows * weights[HEAD][0].numel() <= MOST_PRODUCTS:
        order.append((HEAD, weights[HEAD][0]))
    inputs = {name: torch.ones(rows, weight.shape[1], dtype=weight.dtype) for name, weight in order}
    seconds: dict[str, list[float]] = {name: [] for name in inputs}
    for name, weight in order:
        seconds[name].append(_call(way, inputs[name], weight, clock))
    return {name: statistics.fmean(some) for name, some in seconds.items()}


def _call(way: Way, x: Tensor, weight: Tensor, clock: Callable[[], float]) -> float:
    before = clock()
    way(x, weight, None)
    return clock() - before


def _by_columns(weight: Tensor) -> Tensor:
    """It, stored column by column."""
    return weight.t().contiguous().t()


def _fastest(tried: dict[Way, float]) -> Way:
    """The fastest, where it is clearly faster than torch's own way: what a busy moment shows should decide little."""
    best = min(tried, key=tried.get)
    return best if tried[best] < CLEARLY * tried[by_rows] else by_rows


def _words(trial: Trial) -> str:
    """'columns: vector 1, rows 2-128'"""
    runs: list[list] = []
    for rows, way in zip(ROWS, trial.ways[1:], strict=False):
        if runs and runs[-1][0] is way:
            runs[-1][2] = rows
        else:
            runs.append([way, rows, rows])
    spans = [f"{way.__name__.removeprefix('by_')} {first}" + f"-{last}" * (last != first) for way, first, last in runs]
    return f"stored by {'columns' if trial.columns else 'rows'}: " + ", ".join(spans)
