"""Training a model whose projections are ternary when it runs (BitNet b1.58): what few bits need that rounding cannot give.

Forward, the weights are -s, 0 or s with s their mean magnitude, exactly what `pycore.pack.bitnet` will store; backward, the
rounding counts as the identity (straight-through estimator, Bengio 2013, arXiv 1308.3432), so that the weights behind it
go on learning. Ma 2024, arXiv 2402.17764. Activations are left alone.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from runtime.quantbench.targets import targets


def ternary(weight: Tensor) -> Tensor:
    """-s, 0 or s; s is the mean magnitude, added in float64 as the packed format does."""
    scale = weight.abs().mean(dtype=torch.float64).float()
    return torch.clamp(torch.round(weight / scale.clamp(min=torch.finfo(torch.float32).tiny)), -1, 1) * scale


class TernaryLinear(nn.Linear):
    """A linear layer that multiplies by its ternary weights and learns the ones behind them."""

    def forward(self, x: Tensor) -> Tensor:
        straight = self.weight + (ternary(self.weight) - self.weight).detach()
        return functional.linear(x, straight, self.bias)


def switch(model: nn.Module, *, on: bool) -> None:
    """Make every projection ternary in training, or plain again; the weights stay."""
    for target in targets(model):
        target.module.__class__ = TernaryLinear if on else nn.Linear
