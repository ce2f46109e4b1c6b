"""BitNet b1.58: codes 0, 1, 2 for -1, 0, 1, four or five in a byte, in rows or in GGUF's blocks."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from pycore.pack import bitnet, trits
from runtime.quantbench.unpack import bits

if TYPE_CHECKING:
    from runtime.quantbench.unpack import Layout


def scaled(codes: Tensor, scales: Tensor, layout: "Layout") -> Tensor:
    """(code - 1) x scale in rows; one scale for the tensor or one a block."""
    values = (codes.reshape(scales.numel(), -1).float() - 1).mul_(scales.reshape(-1, 1))
    return values.reshape(layout.rows, layout.stride)


def two_bits(data: Tensor, layout: "Layout") -> Tensor:
    """Four codes a byte, or TQ2_0."""
    shifts = torch.tensor([0, 2, 4, 6], dtype=torch.uint8, device=data.device)
    if layout.option("layout") == "rows":
        codes = data[:-4, None] >> shifts & 3
        return scaled(codes, bits.numbers(data[-4:], torch.float32), layout)
    block = data.reshape(-1, bitnet.BLOCK_BYTES["2bit"])
    codes = block[:, :-2].reshape(-1, 2, 1, 32) >> shifts.reshape(1, 1, 4, 1) & 3
    return scaled(codes, bits.numbers(block[:, -2:], torch.float16), layout)


def five_in_eight(data: Tensor, layout: "Layout") -> Tensor:
    """Five codes a byte, or TQ1_0."""
    if layout.option("layout") == "rows":
        powers = torch.tensor(trits.POWERS, dtype=torch.uint8, device=data.device)
        codes = data[:-4].clamp(max=242)[:, None] // powers % 3
        return scaled(codes, bits.numbers(data[-4:], torch.float32), layout)
    block, parts, start = data.reshape(-1, bitnet.BLOCK_BYTES["5in8"]), [], 0
    for _, width, digits in trits.RUNS:
        powers = torch.tensor(trits.POWERS[:digits], dtype=torch.uint8, device=data.device).reshape(1, -1, 1)
        # The product wraps at 256 on purpose: what is left are the digits below, and times 3 the next one comes out on top.
        top = (block[:, None, start:start + width] * powers).short() * 3 >> 8
        parts.append(top.reshape(-1, digits * width))
        start += width
    return scaled(torch.cat(parts, dim=1), bits.numbers(block[:, -2:], torch.float16), layout)
