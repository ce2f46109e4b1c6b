"""GPTQ for whole layers: columns one after another, each one's error made good in those to come.

The arithmetic is that of `pycore.pack.gptq` (which says why, and what the common bug is); here LAPACK factors the Hessian
and errors go on in blocks of 128 columns, so that a layer of thousands of columns takes seconds.

    U upper with H^-1 = U^T U;   e = (w_i - q_i) / U_ii;   w_j -= e x U_ij for all j after i

Codes come out in INT4's own layout, groups within rows.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from pycore.errors import InputError
from pycore.pack import int4
from pycore.pack.grid import Grid
from pycore.pack.packed import Packed
from pycore.pack.values import stride_of

if TYPE_CHECKING:
    from numpy import ndarray

BLOCK = 128
DAMPING = 0.01
DEFAULTS = {"group": 64, "symmetric": True, "levels": 15, "nibble_order": "low-first", "scale_type": "float16"}


@dataclass(slots=True, kw_only=True, eq=False)
class _State:
    """What the loop works on: weights as they are now (rows, columns) float64, and what has been found."""

    work: "ndarray"
    codes: "ndarray"
    scales: "ndarray"
    zeros: "ndarray"
    grid: Grid
    group: int


def factor(gram: Tensor, damping: float = DAMPING) -> Tensor:
    """U (columns, columns) float64 with (2 X^T X + damping)^-1 = U^T U. Raises InputError where there is none."""
    hessian = 2 * gram.double()
    diagonal = hessian.diagonal()
    dead = diagonal == 0
    diagonal += damping * diagonal.mean() + dead
    try:
        inverse = torch.cholesky_inverse(torch.linalg.cholesky(hessian))
        return torch.linalg.cholesky(inverse, upper=True)
    except torch.linalg.LinAlgError:
        raise InputError("calibration", "a Hessian that is not positive definite", "give more tokens than the layer has "
                                                                                   "columns, or more damping") from None


def quantise(weight: Tensor, gram: Tensor, *, ordered: bool = False, damping: float = DAMPING, **options: object) -> Packed:
    """`weight` (rows, columns) in INT4 with those options, by GPTQ. Raises InputError."""
    import numpy as np

    given = DEFAULTS | options
    group, columns = given["group"], weight.shape[1]
    order = np.argsort(-gram.diagonal().numpy(), kind="stable") if ordered else np.arange(columns)
    upper = factor(gram[order][:, order], damping).numpy()
    groups = -(-columns // group)
    state = _State(work=weight.double().numpy()[:, order].copy(), group=group,
                   codes=np.zeros((weight.shape[0], columns), np.uint8),
                   scales=np.zeros((weight.shape[0], groups), np.float32),
                   zeros=np.zeros((weight.shape[0], groups), np.float32),
                   grid=Grid(bits=4, symmetric=given["symmetric"], full=given["levels"] == 16,
                             scale_type=given["scale_type"]))
    if ordered:  # groups are scattered over the order: their scales are set from the weights as given
        for place in range(groups):
            set_scales(state, place, weight.numpy()[:, place * group:(place + 1) * group])
    for start in range(0, columns, BLOCK):
        block(state, upper, order, start, min(start + BLOCK, columns), ordered)
    return packed(state, tuple(weight.shape), given)


def set_scales(state: _State, place: int, part: "ndarray") -> None:
    """Scale and zero of one group of every row from its weights."""
    import numpy as np

    scales, zeros = state.grid.parameters(np.ascontiguousarray(part, dtype=np.float32))
    state.scales[:, place], state.zeros[:, place] = scales[:, 0], zeros[:, 0]


def block(state: _State, upper: "ndarray", order: "ndarray", start: int, end: int, ordered: bool) -> None:
    """Quantise columns start to end of the order; push their errors within the block at once, beyond it together."""
    import numpy as np

    work, errors = state.work, np.zeros((state.work.shape[0], end - start))
    for number in range(start, end):
        column = order[number]
        place = column // state.group
        if not ordered and column % state.group == 0:
            set_scales(state, place, work[:, column:column + state.group])
        scale, zero, current = state.scales[:, place], state.zeros[:, place], work[:, number].astype(np.float32)
        columns = (one[:, np.newaxis] for one in (current, scale, zero))
        state.codes[:, column] = state.grid.nearest(*columns)[:, 0]
        restored = state.grid.values(state.codes[:, column], scale, zero)
        error = (work[:, number] - restored) / upper[number, number]
        work[:, number + 1:end] -= error[:, np.newaxis] * upper[number, number + 1:end]
        errors[:, number - start] = error
    work[:, end:] -= errors @ upper[start:end, end:]


def packed(state: _State, shape: tuple[int, ...], options: dict[str, object]) -> Packed:
    """INT4's bytes from the codes; a row's last group is filled up with its last code, as `int4.quantise` does."""
    import numpy as np

    missing = stride_of(shape[1], state.group) - shape[1]
    codes = np.pad(state.codes, ((0, 0), (0, missing)), mode="edge").reshape(-1, state.group)
    return int4.made(codes, state.scales.reshape(-1, 1), state.zeros.reshape(-1, 1), shape, **options)
