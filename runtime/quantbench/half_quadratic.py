"""HQQ's fit of scale and minimum without any data: robust to outliers, in a dozen cheap rounds.

    minimise sum |W - ((codes) d + m)|^p with p = 0.7, by half-quadratic splitting (Badri and Shaji 2023, "Half-Quadratic
    Quantization of Large Machine Learning Models"): an auxiliary error E takes the outliers by soft thresholding, then m is
    the mean of what is left:

        E = shrink(W - Q),   m = mean(W - E - codes x d)

For GGUF's Q4_1, which stores both as float16 for blocks of 32. Blocks that come out worse than the plain format, in the
same measure, keep the plain format's values: the fit never loses.
"""

import numpy as np
import torch
from torch import Tensor

from pycore.pack import blocks as block_tools
from pycore.pack import q4_1
from pycore.pack.packed import Packed

POWER, BETA, GROWTH, ROUNDS, TOP = 0.7, 10.0, 1.01, 20, 15


def shrunk(error: Tensor, beta: float, power: float = POWER) -> Tensor:
    """Soft thresholding for |.|^p: sign(e) max(|e| - |e|^(p - 1) / beta, 0)."""
    size = error.abs()
    return error.sign() * (size - size.clamp(min=1e-12).pow(power - 1) / beta).clamp(min=0)


def codes_of(blocks: Tensor, scale: Tensor, low: Tensor) -> Tensor:
    """Nearest codes 0 to 15."""
    inverse = torch.where(scale == 0, 0.0, 1.0 / scale)
    return torch.round((blocks - low) * inverse).clamp(0, TOP)


def loss(blocks: Tensor, scale: Tensor, low: Tensor) -> Tensor:
    """sum |w - w'|^p of each block, with scale and minimum as float16 holds them, (n, 1)."""
    scale, low = scale.half().float(), low.half().float()
    return (blocks - codes_of(blocks, scale, low) * scale - low).abs().pow(POWER).sum(1, keepdim=True)


def fitted(blocks: Tensor) -> tuple[Tensor, Tensor]:
    """(scales, minima), (n, 1) each, of blocks (n, 32)."""
    low = blocks.amin(1, keepdim=True)
    scale = (blocks.amax(1, keepdim=True) - low) / TOP
    best, least = low, loss(blocks, scale, low)
    # The threshold is in units of the block's step, so that blocks of any size are treated alike.
    unit, beta = torch.where(scale == 0, 1.0, scale), BETA
    for _ in range(ROUNDS):
        codes = codes_of(blocks, scale, low)
        outliers = shrunk((blocks - codes * scale - low) / unit, beta) * unit
        low = (blocks - outliers - codes * scale).mean(1, keepdim=True)
        found = loss(blocks, scale, low)
        best, least = torch.where(found < least, low, best), torch.minimum(found, least)
        beta *= GROWTH
    return scale, best


def quantise(weight: Tensor) -> Packed:
    """`weight` (rows, columns) in Q4_1 with fitted minima. Raises InputError."""
    grouped, shape = block_tools.in_blocks(weight.numpy(), q4_1.BLOCK)
    blocks = torch.from_numpy(grouped)
    scale, low = fitted(blocks)
    (stored, scales), (stored_low, lows) = (block_tools.half_bytes(one.numpy().reshape(-1)) for one in (scale, low))
    codes = codes_of(blocks, torch.from_numpy(scales)[:, None], torch.from_numpy(lows)[:, None]).numpy().astype(np.uint8)
    return q4_1.made(codes, scales, lows, shape, q4_1.pack(codes, stored, stored_low).tobytes())
