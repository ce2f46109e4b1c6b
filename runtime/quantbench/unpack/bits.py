"""Nibbles, and floats and integers found in runs of bytes."""

import torch
from torch import Tensor


def nibbles(data: Tensor, order: str = "low-first") -> Tensor:
    """Bytes to twice as many codes 0 to 15, in one of the orders of `pycore.pack.nibbles`."""
    if order == "awq":
        from pycore.pack.nibbles import AWQ

        codes = nibbles(data).reshape(-1, 8)
        back = torch.empty_like(codes)
        back[:, list(AWQ)] = codes
        return back.reshape(-1)
    pair = (data & 15, data >> 4) if order == "low-first" else (data >> 4, data & 15)
    return torch.stack(pair, dim=-1).reshape(-1)


def halves(data: Tensor) -> Tensor:
    """Bytes (n, k) to codes (n, 2 k): low nibbles, then high ones."""
    return torch.cat([data & 15, data >> 4], dim=-1)


def numbers(data: Tensor, dtype: torch.dtype) -> Tensor:
    """Bytes (wherever they start, whatever their strides) as numbers of `dtype`, as float32; the last dimension shrinks."""
    return data.clone(memory_format=torch.contiguous_format).view(dtype).float()
