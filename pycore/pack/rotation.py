"""Rotation by a Hadamard matrix: outliers are spread over all columns, so that one scale fits a whole row.

W X = (W R^T) (R X) for orthogonal R: rotate a layer's weights and its inputs and its outputs stay. With R = H D / sqrt(n),
H a Hadamard matrix (entries 1 and -1) and D random signs, every rotated weight is a sum of all of its row's with equal
magnitudes, nearly normal whatever it was before (QuaRot, Ashkboos 2024, arXiv 2404.00456).

The Sylvester matrix exists for powers of two; other widths are rotated in blocks of the largest power of two that divides
them. The transform takes n log n additions, no multiplication but the last.
"""

import math
import random
from typing import TYPE_CHECKING

from pycore.errors import InputError
from pycore.pack.values import as_array

if TYPE_CHECKING:
    from numpy import ndarray


def block_of(columns: int) -> int:
    """The largest power of two that divides `columns`."""
    return columns & -columns


def signs(columns: int, seed: int) -> tuple[int, ...]:
    """`columns` signs, 1 or -1, the same for the same seed on every machine."""
    draw = random.Random(seed)
    return tuple(1 if draw.getrandbits(1) else -1 for _ in range(columns))


def rotate(values: object, seed: int | None = 0) -> "ndarray":
    """values R^T along the last axis, float32; `seed` None leaves the signs out. Raises InputError for an odd width."""
    import numpy as np

    array = as_array(values)
    size = checked_block(array.shape[-1])
    turned = array.astype(np.float64)
    if seed is not None:
        turned = turned * np.array(signs(array.shape[-1], seed), np.float64)
    return (butterflies(turned, size) / math.sqrt(size)).astype(np.float32)


def rotate_back(values: object, seed: int | None = 0) -> "ndarray":
    """values R along the last axis, float32: undoes `rotate` with the same seed. Raises InputError for an odd width."""
    import numpy as np

    array = as_array(values)
    size = checked_block(array.shape[-1])
    turned = butterflies(array.astype(np.float64), size) / math.sqrt(size)
    if seed is not None:
        turned = turned * np.array(signs(array.shape[-1], seed), np.float64)
    return turned.astype(np.float32)


def checked_block(columns: int) -> int:
    """The block for a width. Raises InputError where it would be 1."""
    size = block_of(columns)
    if size < 2:
        raise InputError("columns", columns, "a rotation needs an even number of columns")
    return size


def butterflies(values: "ndarray", size: int) -> "ndarray":
    """H values in blocks of `size` along the last axis: log2(size) rounds of sums and differences."""
    import numpy as np

    work, width = values.reshape(-1, size), 1
    while width < size:
        pairs = work.reshape(-1, size // (2 * width), 2, width)
        left, right = pairs[:, :, 0], pairs[:, :, 1]
        work = np.stack([left + right, left - right], axis=2).reshape(-1, size)
        width *= 2
    return work.reshape(values.shape)
