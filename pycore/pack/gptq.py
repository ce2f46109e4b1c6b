"""GPTQ: columns are quantised one after another, and what each loses is made good in the columns still to come.

With H = 2 X^T X of the layer's inputs and U upper triangular, H^-1 = U^T U (Frantar 2022, arXiv 2210.17323):

    for column i:  q = nearest(W[:, i])
                   e = (W[:, i] - q) / U[i, i]
                   W[:, i+1:] -= e x U[i, i+1:]

Row i of U is row i of the inverse Hessian of the columns from i on, divided by the root of its corner: it already knows
that the earlier columns are fixed. The common bug is to use the rows of the plain H^-1 throughout (`plain-inverse-bug`):
it goes on correcting with columns that cannot move any more, and ends worse, at few bits worse than rounding.

Act-order takes the columns with the largest diagonal of H first, while there are many left to make good. Scales of groups
are set from the weights as they are when a group begins; with act-order, whose groups are scattered, from the start.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pycore.errors import InputError
from pycore.pack import linear
from pycore.pack.grid import Grid
from pycore.pack.sums import folded_sum
from pycore.pack.values import as_rows, chosen

if TYPE_CHECKING:
    from numpy import ndarray

FACTORS = ("cholesky", "plain-inverse-bug")
DAMPING = 0.01
MOST_COLUMNS = 4096


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Step:
    """One column quantised. `weights` is the working copy after its error was pushed on: copy what you keep.

    `factor` is the row by which the error was spread, over all columns in their own order, zero for those done.
    """

    number: int
    column: int
    codes: object
    restored: object
    error: object
    factor: object
    weights: object


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Layer:
    """A quantised layer: codes (rows, columns), scales and zeros (rows, groups), restored weights, and the order taken."""

    codes: object
    scales: object
    zeros: object
    restored: object
    order: tuple[int, ...]
    objective: float  # trace of (W - Q) H (W - Q)^T


def hessian(inputs: object, damping: float = DAMPING) -> "ndarray":
    """2 X^T X (columns, columns), float64, with `damping` x the mean of its diagonal added; dead inputs get 1 there.

    Raises InputError.
    """
    import numpy as np

    if not isinstance(damping, int | float) or not 0 <= damping <= 1:
        raise InputError("damping", damping, "use 0 to 1")
    rows, _ = as_rows(inputs)
    if rows.shape[1] > MOST_COLUMNS:
        raise InputError("inputs", f"{rows.shape[1]:,} columns", f"at most {MOST_COLUMNS:,} here")
    matrix = 2 * linear.gram(rows)
    diagonal = np.diagonal(matrix).copy()
    dead = diagonal == 0
    mean = float(folded_sum(diagonal)) / diagonal.size
    matrix[np.arange(diagonal.size), np.arange(diagonal.size)] += damping * mean + dead
    return matrix


def objective(weights: object, restored: object, matrix: "ndarray") -> float:
    """trace((W - Q) H (W - Q)^T): the squared error of the layer's outputs, as GPTQ minimises it."""
    import numpy as np

    difference = np.asarray(weights, np.float64) - np.asarray(restored, np.float64)
    return float(folded_sum((linear.product(difference, matrix) * difference).reshape(-1)))


def check(weights: "ndarray", matrix: "ndarray", group: int) -> None:
    """Raise InputError when shapes do not fit."""
    columns = weights.shape[1]
    if matrix.shape != (columns, columns):
        raise InputError("hessian", matrix.shape, f"it has one row and column for each of the {columns} columns")
    if group and columns % group:
        raise InputError("group", group, f"it divides the {columns} columns")


def steps(weights: object, matrix: "ndarray", *, grid: Grid | None = None, group: int = 0, act_order: bool = False,
          factor: str = "cholesky") -> Iterator[Step]:
    """Quantise column after column; returns the Layer. `group` 0 gives one scale a row. Raises InputError."""
    import numpy as np

    grid, rows = grid or Grid(), as_rows(weights)[0]
    check(rows, matrix, group)
    group = group or rows.shape[1]
    order = order_of(matrix, act_order)
    spread = spread_of(matrix[np.ix_(order, order)], chosen("factor", factor, FACTORS))
    work = rows.astype(np.float64)
    codes, restored = np.zeros(rows.shape, np.uint8), np.zeros(rows.shape, np.float32)
    scales = np.zeros((rows.shape[0], rows.shape[1] // group), np.float32)
    zeros = np.zeros_like(scales)
    for number, column in enumerate(order):
        place = column // group
        if act_order and number == 0 or not act_order and column % group == 0:
            for one in range(scales.shape[1]) if act_order else (place,):
                part = work[:, one * group:(one + 1) * group].astype(np.float32)
                scales[:, one:one + 1], zeros[:, one:one + 1] = grid.parameters(part)
        one = slice(column, column + 1)
        current, scale, zero = work[:, one].astype(np.float32), scales[:, place:place + 1], zeros[:, place:place + 1]
        codes[:, one] = grid.nearest(current, scale, zero)
        restored[:, one] = grid.values(codes[:, one], scale, zero)
        error = (work[:, column] - restored[:, column]) / spread[number, number]
        later = order[number + 1:]
        work[:, later] -= error[:, np.newaxis] * spread[number, number + 1:]
        work[:, column] = restored[:, column]
        row = np.zeros(len(order))
        row[order[number:]] = spread[number, number:]
        yield Step(number=number, column=int(column), codes=codes[:, column], restored=restored[:, column], error=error,
                   factor=row, weights=work)
    return Layer(codes=codes, scales=scales, zeros=zeros, restored=restored, order=tuple(int(one) for one in order),
                 objective=objective(rows, restored, matrix))


def order_of(matrix: "ndarray", act_order: bool) -> "ndarray":
    """The columns as they come, or by falling diagonal of H."""
    import numpy as np

    diagonal = np.diagonal(matrix)
    return np.argsort(-diagonal, kind="stable") if act_order else np.arange(diagonal.size)


def spread_of(matrix: "ndarray", factor: str) -> "ndarray":
    """Row i says how the error of column i is spread over the columns from i on."""
    upper = linear.inverse_factor(matrix)
    return upper if factor == "cholesky" else linear.product(upper.T, upper)


def quantise(weights: object, matrix: "ndarray", **options: object) -> Layer:
    """The Layer that `steps` ends with."""
    work = steps(weights, matrix, **options)
    while True:
        try:
            next(work)
        except StopIteration as stop:
            return stop.value


def round_to_nearest(weights: object, matrix: "ndarray", *, grid: Grid | None = None, group: int = 0) -> Layer:
    """The same grid without GPTQ: what it has to beat. Raises InputError."""
    grid, rows = grid or Grid(), as_rows(weights)[0]
    check(rows, matrix, group)
    group = group or rows.shape[1]
    parts = rows.reshape(-1, group)
    scales, zeros = grid.parameters(parts)
    codes = grid.nearest(parts, scales, zeros)
    restored = grid.values(codes, scales, zeros).reshape(rows.shape)
    count = rows.shape[1] // group
    return Layer(codes=codes.reshape(rows.shape), scales=scales.reshape(-1, count), zeros=zeros.reshape(-1, count),
                 restored=restored, order=tuple(range(rows.shape[1])), objective=objective(rows, restored, matrix))
