"""Two kinds of GGUF tensor of 5-bit codes that are read here and written nowhere: Q5_1 and Q5_K, as ggml lays them out.

    Q5_1    32 weights, 24 bytes:    | d | m | 32 fifth bits | 16 bytes of low bits: j low, j + 16 high |
            weight = d x code + m
    Q5_K    256 weights, 176 bytes:  | d | m | 12 bytes of scales, minima | 32 bytes of fifth bits | 128 bytes of low bits |
            as Q4_K, and bit g of byte j of the fifth bits is that of weight j in group g
"""

from typing import TYPE_CHECKING

from pycore.pack import blocks as block_tools
from pycore.pack import q4_k

if TYPE_CHECKING:
    from numpy import ndarray

FIFTH_K = slice(16, 48)  # where Q5_K has what Q4_K lacks


def q5_1(data: bytes, shape: tuple[int, ...]) -> "ndarray":
    """Weights (float32, in their shape). Raises InputError where the bytes do not fit the shape."""
    import numpy as np

    block = block_tools.read_blocks(data, shape, 32, 24, "a Q5_1 tensor")
    fifth = np.unpackbits(block[:, 4:8], axis=1, bitorder="little")
    codes = np.concatenate([block[:, 8:] & 15, block[:, 8:] >> 4], axis=1) | fifth << 4
    return (block_tools.halves(block, 0) * codes + block_tools.halves(block, 2)).reshape(shape)


def q5_k(data: bytes, shape: tuple[int, ...]) -> "ndarray":
    """Weights (float32, in their shape). Raises InputError where the bytes do not fit the shape."""
    import numpy as np

    block = block_tools.read_blocks(data, shape, q4_k.BLOCK, 176, "a Q5_K tensor")
    low, scales, minima = q4_k.unpack(np.delete(block, FIFTH_K, axis=1))
    fifth = block[:, None, FIFTH_K] >> np.arange(8, dtype=np.uint8)[:, None] & 1
    codes = low.reshape(fifth.shape) | fifth << 4
    return (scales[..., None] * codes - minima[..., None]).reshape(shape)
