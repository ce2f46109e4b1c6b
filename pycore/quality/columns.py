"""GPTQ on a small layer, column after column: what each step sees and pushes on, and where the variants end."""

import functools
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pycore.errors import InputError
from pycore.kept import kept, kept_in_steps
from pycore.pack import gptq
from pycore.pack.grid import Grid
from pycore.quality import methods
from pycore.quality.methods import Calibration
from pycore.quality.weights import Weights

if TYPE_CHECKING:
    from numpy import ndarray

MOST_ROWS, MOST_COLUMNS = 16, 64  # of the weights: the layer that is stepped through
VARIANTS = (("gptq", "GPTQ", False, False), ("gptq-act-order", "GPTQ, act-order", True, False),
            ("bug", "with the plain inverse Hessian", False, True),
            ("bug-act-order", "with the plain inverse Hessian, act-order", True, True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One way to quantise the layer on the grid. `objective` = trace((W - Q) H (W - Q)^T), the squared output error.

    name: nearest, gptq, gptq-act-order, bug, bug-act-order. `ratio`: objective over rounding to nearest's (NaN where that
    has none). `fault`: why there are no figures (they are NaN then).
    """

    name: str
    label: str
    objective: float
    ratio: float
    fault: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Walk:
    """The layer after `done` of its columns. Arrays are (rows, columns) of the layer, float64 or float32, or as said.

    weights       as they were
    working       the columns done at their quantised values, the others with all errors so far pushed into them
    pushed        what this step changed: in its own column the rounding, in those still to come the error made good
    column        the column of this step, -1 at step 0; `order` all of them in the order taken
    error         (rows,): (column before - quantised) / its diagonal of the factor; zeros at step 0
    factor        (columns,): the row by which the error was spread; zero for columns done
    codes         (rows, columns) of the whole run; those of columns not done are what will come
    partial       the squared output error after each step so far and to come, step 0 first (columns + 1 numbers)
    chosen        the name of the variant that is stepped through
    variants      where each variant ends, rounding to nearest first
    """

    weights: "ndarray"
    working: "ndarray"
    pushed: "ndarray"
    column: int
    order: tuple[int, ...]
    error: "ndarray"
    factor: "ndarray"
    done: int
    codes: "ndarray"
    partial: tuple[float, ...]
    chosen: str
    variants: tuple[Variant, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The layer's inputs, and the grid it is quantised on: `group` 0 is a scale a row."""

    inputs: str = "outlier-channels"
    samples: int = 512
    seed: int = 1
    bits: int = 4
    group: int = 0
    damping: float = 0.01


def layer_of(weights: Weights) -> "ndarray":
    """The part of the weights that is stepped through."""
    return weights.values[:MOST_ROWS, :MOST_COLUMNS]


def hessian_of(weights: Weights, setting: Setting) -> "ndarray":
    """The layer's Hessian. Raises InputError."""
    columns = layer_of(weights).shape[1]
    if setting.group and columns % setting.group:
        raise InputError("grid_group", setting.group, f"accepted: what divides the layer's {columns} columns; 0 for a row")
    return methods.hessian_of(setting.inputs, setting.seed, setting.samples, columns, setting.damping)


@kept(12)
def run(weights: Weights, setting: Setting, calibration: Calibration) -> tuple[tuple[gptq.Step, ...], gptq.Layer]:
    """Every step (working copies kept) and the end. Raises InputError."""
    matrix, kept = hessian_of(weights, setting), []
    taken = gptq.steps(layer_of(weights), matrix, grid=Grid(bits=setting.bits, scale_type="float32"), group=setting.group,
                         act_order=calibration.act_order, factor=calibration.factor)
    while True:
        try:
            step = next(taken)
        except StopIteration as stop:
            return tuple(kept), stop.value
        except InputError as fault:
            if fault.field != "hessian":
                raise
            raise InputError("damping", setting.damping, "accepted here: more (0.01 is usual), or more samples than "
                                                         "columns: the Hessian has no inverse") from None
        kept.append(replace(step, weights=step.weights.copy()))


def variants(weights: Weights, setting: Setting) -> tuple[Variant, ...]:
    """Where each variant ends. Raises InputError."""
    return varying.whole(weights, setting)


@kept_in_steps(4)
def varying(weights: Weights, setting: Setting) -> Generator[str, None, tuple[Variant, ...]]:
    """The same, yielding each variant's name before it is run."""
    nearest = gptq.round_to_nearest(layer_of(weights), hessian_of(weights, setting),
                                    grid=Grid(bits=setting.bits, scale_type="float32"), group=setting.group).objective
    found = [Variant(name="nearest", label="rounding to nearest", objective=nearest, ratio=ratio(nearest, nearest))]
    for name, label, act_order, bug in VARIANTS:
        yield label
        end = run(weights, setting, Calibration(act_order=act_order, bug=bug, damping=setting.damping))[1].objective
        found.append(Variant(name=name, label=label, objective=end, ratio=ratio(end, nearest)))
    return tuple(found)


def ratio(objective: float, nearest: float) -> float:
    """One error over another; NaN where there is none to compare with."""
    return objective / nearest if nearest else float("nan")


@functools.lru_cache(maxsize=4)
def partial(weights: Weights, setting: Setting, calibration: Calibration) -> tuple[float, ...]:
    """The squared output error of the working copy before the first step and after each."""
    import numpy as np

    from pycore.pack.sums import folded_sum

    steps, _ = run(weights, setting, calibration)
    matrix, layer = hessian_of(weights, setting), layer_of(weights).astype(np.float64)
    differences = np.stack([layer, *(step.weights for step in steps)]) - layer
    spread = folded_sum(np.moveaxis(differences, 2, 0)[..., np.newaxis] * matrix[:, np.newaxis, np.newaxis, :])
    sums = folded_sum(np.moveaxis(spread * differences, 0, 2).reshape(-1, len(steps) + 1))
    return tuple(sums.tolist())


def walk(weights: Weights, setting: Setting, calibration: Calibration, step: int) -> Walk:
    """The layer after `step` columns (at most all); equal questions give the same object. Raises InputError."""
    return walking.whole(weights, setting, calibration, step)


@kept_in_steps(4)
def walking(weights: Weights, setting: Setting, calibration: Calibration, step: int) -> Generator[str, None, Walk]:
    """The same, yielding what comes next."""
    import numpy as np

    ends = yield from varying(weights, setting)
    yield "every step"
    steps, end = run(weights, setting, calibration)
    layer, done = layer_of(weights), min(step, len(steps))
    states = (layer.astype(np.float64), *(one.weights for one in steps))
    now = steps[done - 1] if done else None
    name = next(name for name, _, act_order, bug in VARIANTS
                if (act_order, bug) == (calibration.act_order, calibration.bug))
    return Walk(
        weights=layer, working=states[done], pushed=states[done] - states[max(done - 1, 0)], done=done, order=end.order,
        column=now.column if now else -1, error=now.error if now else np.zeros(layer.shape[0]),
        factor=now.factor if now else np.zeros(layer.shape[1]), codes=end.codes, chosen=name,
        partial=partial(weights, setting, calibration), variants=ends)
