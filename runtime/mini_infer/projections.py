"""Faster ways of multiplying by a model's weights on a CPU, none of them a change of the model's own numbers but `Eight`.

    Tuned    the same product by another order of operands, or from weights stored column by column; which, by the number
             of rows of the input, is measured at start (`autotune`)
    Eight    weights and inputs in 8 bits through torch's own kernel (fbgemm): every output has a scale of its own, every
             token too (its row is divided by its largest number first), so nobody's neighbours in the batch matter
"""

import warnings
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from runtime.mini_infer.model import Model, Projection

Way = Callable[[Tensor, Tensor, Tensor | None], Tensor]
NAMES = ("qkv", "out", "gate_up", "down")
INT8_RANGE, INT7_RANGE = 127, 63
MIDDLE = 128  # the byte that stands for 0
SMALLEST = 1e-30  # a row of zeros is divided by this


def by_rows(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x W', as `functional.linear` does it."""
    return functional.linear(x, weight, bias)


def by_columns(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """(W x')': the other order, which some libraries run on all cores where they run the first on one."""
    found = torch.mm(weight, x.t()).t().contiguous()
    return found if bias is None else found.add_(bias)


def by_vector(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """W x for a single row; for none of a step in which nobody speaks yet, none."""
    found = torch.mv(weight, x[0])[None] if len(x) else x.new_empty(0, len(weight))
    return found if bias is None else found.add_(bias)


class Tuned(Projection):
    """A projection whose way is chosen by how many rows come: `ways[k]` for those whose number has k binary digits (the last
    one for more). `weight` may lie column by column in memory; its shape is the same."""

    __slots__ = ("ways",)

    def __init__(self, weight: Tensor, bias: Tensor | None, ways: tuple[Way, ...]):
        super().__init__(weight, bias)
        self.ways = ways

    def __call__(self, x: Tensor) -> Tensor:
        return self.ways[min(len(x).bit_length(), len(self.ways) - 1)](x, self.weight, self.bias)


class Eight(Projection):
    """A projection in 8 bits. `weight` is gone; `packed` is what the kernel reads, `nbytes` of it.

    `widest`: the largest code of a weight.
    `fine`: what 8 bits leave of an input is multiplied as well, as further rows: 16 bits of input for twice the arithmetic,
    at the price of one reading of the weights.
    """

    __slots__ = ("packed", "fine", "nbytes")

    def __init__(self, weight: Tensor, bias: Tensor | None, widest: int, *, fine: bool = False):
        super().__init__(None, bias)
        scales = (weight.abs().amax(1).double() / widest).clamp(min=SMALLEST)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # torch says that it will drop these kernels: see `widest_code`
            codes = torch.quantize_per_channel(weight, scales, torch.zeros(len(scales), dtype=torch.long), 0, torch.qint8)
        self.packed, self.fine = torch.ops.quantized.linear_prepack(codes, None), fine
        self.nbytes = weight.numel() + 8 * len(scales)  # codes, and a scale (double) for each output

    def __call__(self, x: Tensor) -> Tensor:
        largest = x.abs().amax(1, keepdim=True).clamp_(min=SMALLEST)
        found = (self._finely if self.fine else self._once)(x / largest).mul_(largest)
        return found if self.bias is None else found.add_(self.bias)

    def _once(self, x: Tensor) -> Tensor:
        """x of numbers from -1 to 1."""
        return torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32(x, 1 / INT8_RANGE, MIDDLE, self.packed)

    def _finely(self, x: Tensor) -> Tensor:
        """The same, in steps and in parts of a step: a rest is at most half a step."""
        steps = x.mul(INT8_RANGE).round_().div_(INT8_RANGE)
        rest = (x - steps).mul_(2 * INT8_RANGE)
        coarse, small = self._once(torch.cat([steps, rest])).chunk(2)
        return coarse.add_(small, alpha=1 / (2 * INT8_RANGE))


def engines() -> list[str]:
    """The quantised kernels that torch has here."""
    return torch.backends.quantized.supported_engines


def widest_code() -> int | None:
    """The largest weight that the 8-bit kernel multiplies exactly on this CPU; None where there is no such kernel.

    Without AVX-512 VNNI it adds two products in 16 bits, which overflow for 8-bit weights: 7 bits do not. Tried, not
    looked up.
    """
    if "fbgemm" not in engines():
        return None
    for widest in (INT8_RANGE, INT7_RANGE):
        weight = torch.full((16, 64), float(widest))
        try:
            found = Eight(weight, None, widest)(torch.ones(2, 64))
        except (RuntimeError, AttributeError):  # quantised kernels are to leave torch one day
            return None
        if torch.allclose(found, torch.full((2, 16), 64.0 * widest), rtol=1e-5):
            return widest
    return None


def eight(model: Model, *, fine: bool = False) -> bool:
    """Put the projections of a float32 model on a CPU into 8 bits, in place; False, and nothing changed, where it cannot be.

    The output head goes along; the embedding stays as it is.
    """
    widest = widest_code() if model.device.type == "cpu" and model.dtype == torch.float32 else None
    if widest is None:
        return False
    torch.backends.quantized.engine = "fbgemm"
    for layer in model.layers:
        for name in NAMES:
            old = getattr(layer, name)
            setattr(layer, name, Eight(old.weight, old.bias, widest, fine=fine))
    model.head = Eight(model.head.weight, model.head.bias, widest, fine=fine)
    return True
