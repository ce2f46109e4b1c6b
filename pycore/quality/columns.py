"""GPTQ on a small layer, column after column: what each step sees and pushes on, and where the variants end."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numpy import ndarray

MOST_ROWS, MOST_COLUMNS = 16, 64  # of the weights: the layer that is stepped through


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Walk:
    """The layer after `step` of its columns. Arrays are (rows, columns) of the layer, float64 or float32, or (columns,).

    weights       as they were
    working       the columns done at their quantised values, the others with all errors so far pushed into them
    pushed        working - what it was before this step: what this step's error did to the columns still to come
    column        the column of this step, -1 at step 0; `order` all of them in the order taken
    error         (rows,): (column before - quantised) / its diagonal of the factor; zeros at step 0
    factor        (columns,): the row by which the error was spread; zero for columns done
    done          how many columns are quantised, as the question says, at most all
    codes         (rows, columns) of the whole run, for the columns done
    variants      where each variant ends
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
    variants: tuple["Variant", ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One way to quantise the layer on the grid. `objective` = trace((W - Q) H (W - Q)^T), the squared output error.

    name: nearest, gptq, gptq-act-order, bug, bug-act-order. `ratio`: objective over rounding to nearest's.
    `partial`: the objective after each step of GPTQ's (columns not done count as exact); () for nearest.
    """

    name: str
    label: str
    objective: float
    ratio: float
    partial: tuple[float, ...] = ()
