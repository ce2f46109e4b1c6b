"""FP8, MXFP4, NVFP4."""

import functools
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from pycore.pack import fp4
from pycore.pack import mxfp4 as mx_format
from pycore.pack import nvfp4 as nv_format
from runtime.quantbench.unpack import bits

if TYPE_CHECKING:
    from runtime.quantbench.unpack import Layout

EIGHT = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}


def fp8(data: Tensor, layout: "Layout") -> Tensor:
    """Codes and scales: `pycore.pack.fp8`; torch's own conversion reads the codes."""
    values = data[:layout.slots].view(EIGHT[layout.option("kind")]).float().reshape(layout.rows, layout.stride)
    if layout.option("granularity") != "none":
        values *= bits.numbers(data[layout.slots:], torch.float32).reshape(-1, 1)
    return values


@functools.cache
def four_bit_values() -> Tensor:
    """What the 16 codes of E2M1 stand for."""
    return torch.tensor(fp4.VALUES, dtype=torch.float32)


def powers(codes: Tensor) -> Tensor:
    """E8M0 codes to 2^(code - 127); 255 is NaN. Exact: the exponent field of a float32, written."""
    wide = codes.int()
    values = torch.where(wide == 0, 0x00400000, wide << 23).view(torch.float32)
    return torch.where(wide == 255, torch.nan, values)


def mxfp4(data: Tensor, layout: "Layout") -> Tensor:
    """Codes under powers of two: `pycore.pack.mxfp4`."""
    blocks = layout.slots // mx_format.BLOCK
    if layout.option("layout") == "split":
        codes, shared = bits.nibbles(data[:16 * blocks]).reshape(blocks, -1), data[16 * blocks:]
    else:
        block = data.reshape(blocks, mx_format.BLOCK_BYTES)
        codes, shared = bits.halves(block[:, 1:]), block[:, 0]
    values = four_bit_values().to(data.device)[codes.int()] * powers(shared).reshape(-1, 1)
    return values.reshape(layout.rows, layout.stride)


def nvfp4(data: Tensor, layout: "Layout") -> Tensor:
    """Codes under E4M3 scales, under one for the tensor: `pycore.pack.nvfp4`."""
    blocks = layout.slots // nv_format.BLOCK
    if layout.option("layout") == "split":
        codes, steps = bits.nibbles(data[:8 * blocks]).reshape(blocks, -1), data[8 * blocks:9 * blocks]
        tensor = bits.numbers(data[9 * blocks:], torch.float32)
    else:
        block = data.reshape(-1, nv_format.SUPER_BYTES)
        codes, steps = bits.halves(block[:, 4:].reshape(blocks, -1)), block[:, :4].reshape(-1)
        tensor = torch.ones(1, device=data.device)
    scales = steps.view(torch.float8_e4m3fn).float() * tensor
    return (four_bit_values().to(data.device)[codes.int()] * scales.reshape(-1, 1)).reshape(layout.rows, layout.stride)
