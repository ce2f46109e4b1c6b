"""GGUF's blocks: Q4_0, Q4_1, Q5_0, Q8_0 of 32, Q4_K and Q6_K of 256. Bytes are drawn in `pycore/pack`, one file each."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from pycore.pack import q4_0 as four
from pycore.pack import q4_1 as four_one
from pycore.pack import q4_k as four_k
from pycore.pack import q5_0 as five
from pycore.pack import q6_k as six_k
from pycore.pack import q8_0 as eight
from runtime.quantbench.unpack import bits

if TYPE_CHECKING:
    from runtime.quantbench.unpack import Layout


def half(block: Tensor, start: int) -> Tensor:
    """The float16 at byte `start` of each block, (n, 1) float32."""
    return bits.numbers(block[:, start:start + 2], torch.float16)


def in_rows(values: Tensor, layout: "Layout") -> Tensor:
    return values.reshape(layout.rows, layout.stride)


def q4_0(data: Tensor, layout: "Layout") -> Tensor:
    """(code - 8) x d."""
    block = data.reshape(-1, four.BLOCK_BYTES)
    return in_rows((bits.halves(block[:, 2:]).float() - 8).mul_(half(block, 0)), layout)


def q4_1(data: Tensor, layout: "Layout") -> Tensor:
    """code x d + m."""
    block = data.reshape(-1, four_one.BLOCK_BYTES)
    return in_rows(bits.halves(block[:, 4:]).float().mul_(half(block, 0)).add_(half(block, 2)), layout)


def q5_0(data: Tensor, layout: "Layout") -> Tensor:
    """(code - 16) x d, the fifth bits apart."""
    block = data.reshape(-1, five.BLOCK_BYTES)
    fifth = block[:, 2:6, None] >> torch.arange(8, dtype=torch.uint8, device=data.device) & 1
    codes = bits.halves(block[:, 6:]) | fifth.reshape(-1, five.BLOCK) << 4
    return in_rows((codes.float() - 16).mul_(half(block, 0)), layout)


def q8_0(data: Tensor, layout: "Layout") -> Tensor:
    """code x d."""
    block = data.reshape(-1, eight.BLOCK_BYTES)
    return in_rows(bits.numbers(block[:, 2:], torch.int8).mul_(half(block, 0)), layout)


def q4_k(data: Tensor, layout: "Layout") -> Tensor:
    """d x scale x code - dmin x minimum, eight groups under 6-bit scales and minima."""
    block = data.reshape(-1, four_k.BLOCK_BYTES)
    nibbles = block[:, 16:].reshape(-1, 4, 1, four_k.GROUP)
    codes = torch.cat([nibbles & 15, nibbles >> 4], dim=2).reshape(-1, 8, four_k.GROUP)
    first, second, third = block[:, 4:8], block[:, 8:12], block[:, 12:16]
    steps = torch.cat([first & 63, third & 15 | first >> 6 << 4], dim=1)
    low_steps = torch.cat([second & 63, third >> 4 | second >> 6 << 4], dim=1)
    scales, minima = half(block, 0) * steps, half(block, 2) * low_steps
    return in_rows(codes.float().mul_(scales.unsqueeze(2)).sub_(minima.unsqueeze(2)), layout)


def q6_k(data: Tensor, layout: "Layout") -> Tensor:
    """d x scale x (code - 32), sixteen groups under signed 8-bit scales."""
    block = data.reshape(-1, six_k.BLOCK_BYTES)
    low, high = block[:, :128].reshape(-1, 2, 2, 32), block[:, 128:192].reshape(-1, 2, 1, 32)
    codes = torch.cat([low & 15, low >> 4], dim=2)
    codes |= (high >> torch.tensor([0, 2, 4, 6], dtype=torch.uint8, device=data.device).reshape(1, 1, 4, 1) & 3) << 4
    scales = half(block, 208) * bits.numbers(block[:, 192:208], torch.int8)
    return in_rows((codes.reshape(-1, 16, six_k.GROUP).float() - six_k.MIDDLE).mul_(scales.unsqueeze(2)), layout)
