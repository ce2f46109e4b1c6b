"""Linear algebra whose every rounding is in a fixed order, so that a page and a command show the same digits.

BLAS and LAPACK add in an order that depends on the machine. These are for the small layers that a page shows (hundreds of
columns); they use elementwise operations and `folded_sum` only.
"""

from typing import TYPE_CHECKING

from pycore.errors import InputError
from pycore.pack.sums import folded_sum

if TYPE_CHECKING:
    from numpy import ndarray


def gram(inputs: "ndarray") -> "ndarray":
    """X^T X (columns, columns), float64, of inputs (samples, columns)."""
    import numpy as np

    inputs = np.ascontiguousarray(inputs, dtype=np.float64)
    out = np.empty((inputs.shape[1], inputs.shape[1]))
    for column in range(inputs.shape[1]):
        out[column, column:] = folded_sum(inputs[:, column:] * inputs[:, column:column + 1])
        out[column:, column] = out[column, column:]
    return out


def product(left: "ndarray", right: "ndarray") -> "ndarray":
    """left (m, k) @ right (k, n), float64."""
    import numpy as np

    left, right = np.asarray(left, np.float64), np.asarray(right, np.float64)
    return np.stack([folded_sum(row[:, np.newaxis] * right) for row in left])


def cholesky(matrix: "ndarray") -> "ndarray":
    """Lower L with matrix = L L^T. Raises InputError when the matrix is not positive definite."""
    import numpy as np

    rest, lower = np.array(matrix, dtype=np.float64), np.zeros_like(matrix, dtype=np.float64)
    for column in range(rest.shape[0]):
        pivot = rest[column, column]
        if not pivot > 0:
            raise InputError("hessian", f"pivot {pivot:.6g} at column {column}", "it is positive definite: give more "
                                                                                   "samples than columns, or more damping")
        lower[column:, column] = rest[column:, column] / np.sqrt(pivot)
        below = lower[column + 1:, column]
        rest[column + 1:, column + 1:] -= below[:, np.newaxis] * below
    return lower


def inverse_upper(upper: "ndarray") -> "ndarray":
    """The inverse of an upper triangular matrix, upper triangular itself."""
    import numpy as np

    size = upper.shape[0]
    out = np.zeros((size, size))
    for row in range(size - 1, -1, -1):
        out[row, row] = 1 / upper[row, row]
        if row + 1 < size:
            out[row, row + 1:] = -folded_sum(upper[row, row + 1:, np.newaxis] * out[row + 1:, row + 1:]) / upper[row, row]
    return out


def inverse_factor(matrix: "ndarray") -> "ndarray":
    """Upper U with matrix^-1 = U^T U, without forming the inverse.

    Cholesky of the matrix with rows and columns reversed gives matrix = M M^T with M upper triangular; U = M^-1.
    """
    return inverse_upper(cholesky(matrix[::-1, ::-1])[::-1, ::-1])
