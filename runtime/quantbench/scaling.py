"""Column scales that make a layer easier to quantise: SmoothQuant and the search of AWQ.

W x = (W diag(s)) (x / s). The formulas are those of `pycore.pack.smoothing`; here the inputs are known by their moments
only, so the squared error of the outputs is taken as the sum over (W - Q) G . (W - Q), with G = X^T X.
Scales are kept as float16 beside the packed bytes (2 bytes a column, counted), not folded into the layer before.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from runtime.quantbench.calibrate import Moments

ALPHA, TRIES, ROWS, SMALLEST = 0.5, 20, 256, 1e-5


def smooth_scales(weight: Tensor, moments: Moments, alpha: float = ALPHA) -> Tensor:
    """s = max|x|^alpha / max|w|^(1 - alpha), (columns) float16. Xiao 2022, arXiv 2211.10438."""
    inputs, weights = moments.largest.clamp(min=SMALLEST), weight.abs().amax(0).clamp(min=SMALLEST)
    return halved(inputs.double() ** alpha / weights.double() ** (1 - alpha))


def awq_scales(moments: Moments, alpha: float) -> Tensor:
    """s = (mean|x|)^alpha / sqrt(max s x min s), (columns) float16. Lin 2023, arXiv 2306.00978."""
    scales = (moments.mean.double() ** alpha).clamp(min=1e-4)
    return halved(scales / (scales.max() * scales.min()).sqrt())


def halved(scales: Tensor) -> Tensor:
    """As float16, within what it holds without becoming subnormal."""
    return scales.clamp(6.2e-5, 65_504.0).half()


def output_error(weight: Tensor, restored: Tensor, gram: Tensor) -> float:
    """Squared error of the layer's outputs over the calibration inputs."""
    difference = weight - restored
    return float(((difference @ gram) * difference).sum(dtype=torch.float64))


def search(weight: Tensor, moments: Moments, rebuilt: Callable[[Tensor], Tensor], tries: int = TRIES) -> Tensor:
    """AWQ's best scales among `tries` alphas from 0 up. `rebuilt` quantises and restores weights of that many columns.

    Alphas are compared on at most 256 rows, evenly spaced (errors of rows add up); the best is then held against alpha 0,
    which scales nothing, on all of them: the result is never worse than the plain format on these inputs.
    """
    sample, gram = weight[::-(-weight.shape[0] // ROWS)], moments.gram.float()

    def error(rows: Tensor, scales: Tensor) -> float:
        wide = scales.float()
        return output_error(rows, rebuilt(rows * wide) / wide, gram)

    found = [awq_scales(moments, number / tries) for number in range(tries)]
    best = min(found, key=lambda scales: error(sample, scales))
    return best if error(weight, best) < error(weight, found[0]) else torch.ones_like(found[0])
