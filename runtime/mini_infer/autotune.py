"""Which way of multiplying is the fastest on this CPU: each is tried on the model's own weights, for a second in all.

The same product takes one to four times as long by the order of its operands and by whether weights lie row by row or
column by column, and which is best depends on the library, the CPU and the number of rows. Weights lie one way only, so
the storage is chosen that loses least over all numbers of rows; then a way for each of them.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from runtime.mini_infer.model import Model, Projection
from runtime.mini_infer.projections import NAMES, Tuned, Way, by_columns, by_rows, by_vector

ROWS = (1, 2, 4, 8, 16, 32, 64, 128)  # 2^(k - 1): one for each number of binary digits k
WAYS = (by_rows, by_columns)
MOST_MATRICES = 8  # of one shape are gone through in turn, so that none is found in the cache next to the core
MOST_PRODUCTS = 1 << 28  # of one call: what is larger is not tried, and goes as the largest that was
ROUNDS = 3
SMALL_BYTES = 16 << 20  # a model whose weights stay in the cache of a core or two has nothing to gain
CLEARLY = 0.95  # another way, or another storage, has to be faster than torch's own by this much
SECONDS = 1e-3  # for one way and one number of rows in each round


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Best seconds of one storage: by number of rows, then by way."""

    columns: bool
    seconds: tuple[dict[Way, float], ...]

    @property
    def ways(self) -> tuple[Way, ...]:
        """The fastest way for numbers of rows with 0, 1, 2, ... binary digits."""
        best = tuple(_fastest(tried) for tried in self.seconds)
        return best[:1] + best


def tune(model: Model, clock: Callable[[], float] = time.perf_counter) -> str:
    """Give every projection of a model on a CPU the ways that are fastest here, in place; what was chosen, in words.

    Where the head is the embedding, tokens are looked up in what is stored for it: by columns that takes longer, by far
    less than the head gains.
    """
    if model.device.type != "cpu":
        return "torch's own way on " + model.device.type
    if sum(getattr(layer, name).weight.nbytes for layer in model.layers for name in NAMES) < SMALL_BYTES:
        return "torch's own way: the weights are small"
    said = []
    for name in NAMES:
        trial = tried([getattr(layer, name).weight for layer in model.layers], clock)
        for layer in model.layers:
            setattr(layer, name, tuned(getattr(layer, name), trial))
        said.append(f"{name} {_words(trial)}")
    head = tried([model.head.weight], clock)
    model.head = tuned(model.head, head)
    if model.configuration.tied:
        model.embedding = model.head.weight
    return "; ".join([*said, f"head {_words(head)}"])


def tuned(old: Projection, trial: Trial) -> Tuned:
    """A projection with the ways of a trial, its weights moved where they lie the other way."""
    weight = old.weight.t().contiguous().t() if trial.columns else old.weight
    return Tuned(weight, old.bias, trial.ways)


def tried(weights: Sequence[Tensor], clock: Callable[[], float]) -> Trial:
    """The better storage for some weights of one shape, measured."""
    some = list(weights[:MOST_MATRICES])
    with torch.inference_mode():
        rows = measured(some, False, clock)
        columns = measured([weight.t().contiguous().t() for weight in some], True, clock)
    pairs = [(min(left.values()), min(right.values())) for left, right in zip(rows.seconds, columns.seconds, strict=True)]
    lost_by_rows, lost_by_columns = (sum(pair[side] / min(pair) for pair in pairs) for side in (0, 1))
    return columns if lost_by_columns < CLEARLY * lost_by_rows else rows


def measured(weights: Sequence[Tensor], columns: bool, clock: Callable[[], float]) -> Trial:
    """Every way and number of rows, in rounds, so that what disturbs one round does not decide."""
    sizes = [rows for rows in ROWS if rows <= 8 or rows * weights[0].numel() <= MOST_PRODUCTS]
    inputs = {rows: torch.ones(rows, weights[0].shape[1], dtype=weights[0].dtype) for rows in sizes}
    found = tuple({way: float("inf") for way in (*WAYS, *((by_vector,) if rows == 1 else ()))} for rows in sizes)
    for _ in range(ROUNDS):
        for rows, best in zip(sizes, found, strict=True):
            for way in best:
                best[way] = min(best[way], _best(way, inputs[rows], weights, clock))
    return Trial(columns=columns, seconds=found)


def _best(way: Way, x: Tensor, weights: Sequence[Tensor], clock: Callable[[], float]) -> float:
    """Seconds of the fastest call among those that fit into SECONDS (one at least, after one that does not count)."""
    way(x, weights[0], None)
    best, begin = float("inf"), clock()
    for count in range(1, 1000):
        before = clock()
        way(x, weights[count % len(weights)], None)
        after = clock()
        best = min(best, after - before)
        if after - begin > SECONDS:
            break
    return best


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
