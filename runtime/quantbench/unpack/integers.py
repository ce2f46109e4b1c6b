"""INT8, INT4 in blocks, NF4."""

import functools
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from pycore.pack import nf4 as nf4_format
from runtime.quantbench.unpack import bits

if TYPE_CHECKING:
    from runtime.quantbench.unpack import Layout

TYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


def int8(data: Tensor, layout: "Layout") -> Tensor:
    """Codes, scales, zeros: `pycore.pack.int8`."""
    dtype = TYPES[layout.option("scale_type")]
    count = 1 if layout.option("granularity") == "tensor" else layout.rows
    end = layout.slots + count * dtype.itemsize
    values = data[:layout.slots].view(torch.int8).reshape(layout.rows, layout.stride).float()
    if not layout.option("symmetric"):
        values -= data[end:].view(torch.int8).float().reshape(-1, 1)
    return values.mul_(bits.numbers(data[layout.slots:end], dtype).reshape(-1, 1))


def int4(data: Tensor, layout: "Layout") -> Tensor:
    """Codes, scales, zeros: `pycore.pack.int4`."""
    dtype, groups = TYPES[layout.option("scale_type")], layout.slots // layout.option("group")
    end = layout.slots // 2 + groups * dtype.itemsize
    values = bits.nibbles(data[:layout.slots // 2], layout.option("nibble_order")).reshape(groups, -1).float()
    values -= 8 if layout.option("symmetric") else bits.nibbles(data[end:])[:groups].float().reshape(-1, 1)
    values *= bits.numbers(data[layout.slots // 2:end], dtype).reshape(-1, 1)
    return values.reshape(layout.rows, layout.stride)


@functools.cache
def levels() -> Tensor:
    """The 16 levels of NF4."""
    return torch.tensor(nf4_format.LEVELS, dtype=torch.float32)


@functools.cache
def dynamic_map() -> Tensor:
    """The 256 values of a block scale's code."""
    return torch.tensor(nf4_format.dynamic_map(), dtype=torch.float32)


def nf4(data: Tensor, layout: "Layout") -> Tensor:
    """Codes and, singly or doubly quantised, scales: `pycore.pack.nf4`."""
    count, end = layout.slots // layout.option("block"), layout.slots // 2
    values = levels().to(data.device)[bits.nibbles(data[:end], "high-first").int()].reshape(count, -1)
    if layout.option("double"):
        seconds = bits.numbers(data[end + count:], torch.float32)
        scales = dynamic_map().to(data.device)[data[end:end + count].int()]
        scales = scales * seconds[:-1].repeat_interleave(nf4_format.SECOND)[:count] + seconds[-1]
    else:
        scales = bits.numbers(data[end:], torch.float32)
    return values.mul_(scales.reshape(-1, 1)).reshape(layout.rows, layout.stride)
