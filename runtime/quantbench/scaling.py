"""Column scales that make a layer easier to quantise: SmoothQuant and the search of AWQ.

W x = (W diag(s)) (x / s). The formulas are those of `pycore.pack.smoothing`; here the inputs are known by their moments
only, so the squared error of the outputs is taken as the sum over (W - Q) G . (W - Q), with G = X^T X.
Scales are kept as float16 beside the packed bytes (2 bytes a column, counted), not folded into the layer before.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from runtime.quantbench.calibrate import Moments

ALPHA, TRIES, SMALLEST = 0.5, 20, 1e-5


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
    difference = (weight - restored).double()
    return float(((difference @ gram) * difference).sum())


def search(weight: Tensor, moments: Moments, rebuilt: Callable[[Tensor], Tensor], tries: int = TRIES) -> Tensor:
    """AWQ's best scales among `tries` alphas from 0 up. `rebuilt` quantises and restores weights of that shape.

    Alpha 0 scales nothing (all ones), so that the result is never worse than the plain format on these inputs.
    """
    best, least = torch.ones(weight.shape[1]).half(), None
    for number in range(tries):
        scales = awq_scales(moments, number / tries)
        wide = scales.float()
        error = output_error(weight, rebuilt(weight * wide) / wide, moments.gram)
        if least is None or error < least:
            best, least = scales, error
    return best
