"""The searches behind GGUF's K-quants: scale (and minimum) of small groups by weighted least squares over several tries.

Groups come as columns, (values in a group, groups), and every sum runs down the column in float32 in the order of the
values, so that the result is that of ggml's reference loop to the last bit. What is minimised is the weighted squared
error; the tries differ in how far the codes are stretched before the least-squares fit.
"""

from typing import TYPE_CHECKING

from pycore.pack.blocks import sequential

if TYPE_CHECKING:
    from numpy import ndarray

ALL_ZERO = 1e-15  # below this magnitude a group counts as zero (ggml's GROUP_MAX_EPS)


def importance(columns: "ndarray") -> "ndarray":
    """Weight of each value in the fit: root mean square of its group + its own magnitude (Q4_K)."""
    import numpy as np

    mean = sequential(columns * columns) / np.float32(columns.shape[0])
    return np.sqrt(mean) + np.abs(columns)


def scale_and_minimum(columns: "ndarray", weights: "ndarray", top: int, tries: int = 20, first: float = -1.0,
                      step: float = 0.1) -> tuple["ndarray", "ndarray", "ndarray"]:
    """(scales, minima subtracted, codes 0 to `top`) with value = scale x code - minimum, minimum >= 0.

    Try t stretches the range to `first + step x t + top` codes. A better fit moves the lower end for the tries after it.
    """
    import numpy as np

    low, high = np.minimum(columns.min(axis=0), 0).astype(np.float32), columns.max(axis=0)
    sums = sequential(weights), sequential(weights * columns)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        inverse = np.float32(top) / (high - low)
        flat = ~np.isfinite(inverse)  # one value, or so small that no float16 scale is left of it: 0, not a cast of NaN
        scale = np.float32(1) / inverse
        codes = rounded(columns, low, inverse, top)
        best = weighted_error(columns, weights, codes, scale, low)
        for number in range(tries + 1):
            inverse = (np.float32(first) + np.float32(step) * np.float32(number) + np.float32(top)) / (high - low)
            trial = rounded(columns, low, inverse, top)
            trial_scale, trial_low, valid = fitted(columns, weights, trial, *sums)
            error = weighted_error(columns, weights, trial, trial_scale, trial_low)
            better = valid & (error < best)
            best, scale, low = (np.where(better, new, old) for new, old in
                                ((error, best), (trial_scale, scale), (trial_low, low)))
            codes = np.where(better, trial, codes)
    low = np.where(flat, np.minimum(columns.min(axis=0), 0), low).astype(np.float32)
    return np.where(flat, np.float32(0), scale), -low, np.where(flat, 0, codes).astype(np.uint8)


def rounded(columns: "ndarray", low: "ndarray", inverse: "ndarray", top: int) -> "ndarray":
    """Nearest codes 0 to `top`, as float32, under lower ends and reciprocal scales."""
    import numpy as np

    codes = np.subtract(columns, low)
    codes *= inverse
    np.rint(codes, out=codes)
    return np.clip(codes, 0, top, out=codes)


def fitted(columns: "ndarray", weights: "ndarray", codes: "ndarray", sum_w: "ndarray",
           sum_x: "ndarray") -> tuple["ndarray", "ndarray", "ndarray"]:
    """Least squares for scale and lower end (at most 0) given the codes; third: where the system has a solution."""
    import numpy as np

    weighted = weights * codes
    sum_l, sum_l2, sum_xl = sequential(weighted), sequential(weighted * codes), sequential(weighted * columns)
    determinant = sum_w * sum_l2 - sum_l * sum_l
    scale = (sum_w * sum_xl - sum_x * sum_l) / determinant
    low = (sum_l2 * sum_x - sum_l * sum_xl) / determinant
    scale = np.where(low > 0, sum_xl / sum_l2, scale)
    return scale, np.minimum(low, np.float32(0)), determinant > 0


def weighted_error(columns: "ndarray", weights: "ndarray", codes: "ndarray", scale: "ndarray",
                   low: "ndarray") -> "ndarray":
    """Sum of weight x (scale x code + low - value)^2."""
    difference = scale * codes
    difference += low
    difference -= columns
    difference *= difference
    difference *= weights
    return sequential(difference)


def scale_only(columns: "ndarray", top: int) -> tuple["ndarray", "ndarray"]:
    """(signed scales, codes 0 to 2 x top - 1) with value = scale x (code - top); weights are the squared values (Q6_K).

    Tries -9 to 9 stretch the range by 0.1 code each; a try wins when its explained sum is larger.
    """
    import numpy as np

    first = np.abs(columns).argmax(axis=0)
    largest = np.take_along_axis(columns, first[np.newaxis], axis=0)[0]
    zero = np.abs(largest) < np.float32(ALL_ZERO)
    divisor = np.where(zero, np.float32(1), largest)
    weights = columns * columns
    weighted = weights * columns
    codes, sum_lx, sum_l2 = explained(columns, weights, weighted, np.float32(-top) / divisor, top)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        scale = np.where(sum_l2 != 0, sum_lx / sum_l2, np.float32(0))
        best = scale * sum_lx
        for number in range(-9, 10):
            if number == 0:
                continue
            inverse = -(np.float32(top) + np.float32(0.1) * np.float32(number)) / divisor
            trial, sum_lx, sum_l2 = explained(columns, weights, weighted, inverse, top)
            better = (sum_l2 > 0) & (sum_lx * sum_lx > best * sum_l2)
            scale = np.where(better, sum_lx / sum_l2, scale)
            best = np.where(better, scale * sum_lx, best)
            codes = np.where(better, trial, codes)
    return np.where(zero, np.float32(0), scale), np.where(zero, 0, codes + top).astype(np.uint8)


def explained(columns: "ndarray", weights: "ndarray", weighted: "ndarray", inverse: "ndarray",
              top: int) -> tuple["ndarray", "ndarray", "ndarray"]:
    """Signed codes, and the sums of weight x value x code and weight x code^2."""
    import numpy as np

    codes = columns * inverse
    np.rint(codes, out=codes)
    np.clip(codes, -top, top - 1, out=codes)
    return codes, sequential(weighted * codes), sequential(weights * codes * codes)
