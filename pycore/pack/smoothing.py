"""Scaling columns before quantising: SmoothQuant and AWQ.

W X = (W diag(s)) (diag(1/s) X): multiply a weight column and divide the input by the same number, and the output stays.

SmoothQuant (Xiao 2022, arXiv 2211.10438) moves the outliers of activations into weights, so that both quantise:
    s_j = max |X_j|^alpha / max |W_j|^(1 - alpha)

AWQ (Lin 2023, arXiv 2306.00978) quantises weights only and gives the columns with large inputs finer steps:
    s_j = (mean |X_j|)^alpha, divided by sqrt(max s x min s); alpha by search over the layer's output error
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pycore.errors import InputError
from pycore.pack import linear
from pycore.pack.sums import folded_sum
from pycore.pack.values import as_rows

if TYPE_CHECKING:
    from numpy import ndarray

SMALLEST = 1e-5
TRIES = 20


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scaled:
    """Column scales found, the alpha behind them, the restored weights, and the output error of each alpha tried."""

    alpha: float
    scales: object
    restored: object
    output_error: float
    tried: tuple[tuple[float, float], ...] = ()


def pair(weights: object, inputs: object) -> tuple["ndarray", "ndarray"]:
    """Weights (outputs, columns) and inputs (samples, columns). Raises InputError when the columns differ."""
    left, right = as_rows(weights)[0], as_rows(inputs)[0]
    if left.shape[1] != right.shape[1]:
        raise InputError("inputs", f"{right.shape[1]} columns", f"the weights have {left.shape[1]}")
    return left, right


def smooth_scales(weights: object, inputs: object, alpha: float = 0.5) -> "ndarray":
    """SmoothQuant's s (columns), float32: weights x s, inputs / s. Raises InputError."""
    import numpy as np

    if not isinstance(alpha, int | float) or not 0 <= alpha <= 1:
        raise InputError("alpha", alpha, "use 0 to 1")
    weights, inputs = pair(weights, inputs)
    largest_input = np.maximum(np.abs(inputs).max(axis=0), SMALLEST).astype(np.float64)
    largest_weight = np.maximum(np.abs(weights).max(axis=0), SMALLEST).astype(np.float64)
    return np.maximum(largest_input**alpha / largest_weight ** (1 - alpha), SMALLEST).astype(np.float32)


def awq_scales(inputs: "ndarray", alpha: float) -> "ndarray":
    """AWQ's s (columns), float32, for one alpha."""
    import numpy as np

    mean = folded_sum(np.abs(inputs).astype(np.float64)) / inputs.shape[0]
    scales = np.maximum(mean**alpha, 1e-4)
    return (scales / np.sqrt(scales.max() * scales.min())).astype(np.float32)


def awq(weights: object, inputs: object, restore: Callable[["ndarray"], "ndarray"], tries: int = TRIES) -> Scaled:
    """The best of `tries` alphas from 0 up, for a function that quantises and restores weights. Raises InputError.

    Alpha 0 scales nothing, so the result is never worse than the plain format on these inputs.
    """
    weights, inputs = pair(weights, inputs)
    # The error of the outputs needs only the inputs' Gram matrix: |(W - Q) X|^2 = sum of (W - Q) G . (W - Q).
    matrix, tried, best = linear.gram(inputs), [], None
    for number in range(tries):
        alpha = number / tries
        scales = awq_scales(inputs, alpha)
        restored = restore(weights * scales) / scales
        error = output_error(weights, restored, matrix)
        tried.append((alpha, error))
        if best is None or error < best.output_error:
            best = Scaled(alpha=alpha, scales=scales, restored=restored, output_error=error)
    return Scaled(alpha=best.alpha, scales=best.scales, restored=best.restored, output_error=best.output_error,
                  tried=tuple(tried))


def output_error(weights: "ndarray", restored: "ndarray", matrix: "ndarray") -> float:
    """Sum of squared differences of the layer's outputs, from the Gram matrix of its inputs."""
    import numpy as np

    difference = np.asarray(weights, np.float64) - np.asarray(restored, np.float64)
    return float(folded_sum((linear.product(difference, matrix) * difference).reshape(-1)))
