"""A linear layer that keeps only packed bytes: weights come back for the length of one multiplication.

    y = restore(bytes) @ (x / column scale, rounded to 8 bits per token where asked) + bias

No copy in full precision stays: what a model takes is `stored_bytes` of its layers, and the largest layer once more while
it runs. The bytes are those of `pycore.pack`, so that a file written here can be read bit by bit there.
"""

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from pycore.pack.packed import Packed
from runtime.quantbench.unpack import Layout, layout_of, restore

LARGEST_CODE = 127


class QuantLinear(nn.Module):
    """`data` uint8, flat. `column_scale` (columns) float16: inputs are divided by it (SmoothQuant, AWQ); None without."""

    def __init__(self, data: Tensor, layout: Layout, *, bias: Tensor | None = None, column_scale: Tensor | None = None,
                 activations: bool = False):
        super().__init__()
        self.layout, self.activations = layout, activations
        self.register_buffer("data", data)
        self.register_buffer("bias", bias)
        self.register_buffer("column_scale", column_scale)

    @property
    def in_features(self) -> int:
        return self.layout.shape[-1]

    @property
    def out_features(self) -> int:
        return self.layout.rows

    @property
    def stored_bytes(self) -> int:
        """What the weights take: packed bytes and column scales. The bias, the same in every format, is not counted."""
        return self.data.numel() + (0 if self.column_scale is None else 2 * self.column_scale.numel())

    def weight(self) -> Tensor:
        """The weights that multiply the inputs as they come, (rows, columns) float32, made anew at each call."""
        found = restore(self.data, self.layout)
        return found if self.column_scale is None else found / self.column_scale.float()

    def forward(self, x: Tensor) -> Tensor:
        if self.column_scale is not None:
            x = x / self.column_scale.to(x.dtype)
        if self.activations:
            x = rounded_per_token(x)
        bias = None if self.bias is None else self.bias.to(x.dtype)
        return functional.linear(x, restore(self.data, self.layout).to(x.dtype), bias)

    def extra_repr(self) -> str:
        return f"{self.in_features} -> {self.out_features}, {self.layout.format} {dict(self.layout.options)}"


def rounded_per_token(x: Tensor) -> Tensor:
    """x with each token (last dimension) on an INT8 grid of its own: largest magnitude / 127, ties to even."""
    scale = x.abs().amax(-1, keepdim=True) / LARGEST_CODE
    return torch.round(x / scale.clamp(min=torch.finfo(x.dtype).tiny)).mul_(scale)


def from_packed(packed: Packed, *, bias: Tensor | None = None, column_scale: Tensor | None = None,
                activations: bool = False) -> QuantLinear:
    """A layer from what `pycore.pack` packed."""
    data = torch.from_numpy(np.frombuffer(packed.data, np.uint8).copy())
    return QuantLinear(data, layout_of(packed), bias=None if bias is None else bias.detach().clone(),
                       column_scale=column_scale, activations=activations)
