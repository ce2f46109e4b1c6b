"""2:4 sparsity: two stored values for every four weights, and two bits each that say where they go."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from pycore.pack import sparse as sparse_format
from runtime.quantbench.unpack import bits
from runtime.quantbench.unpack.integers import TYPES

if TYPE_CHECKING:
    from runtime.quantbench.unpack import Layout


def two_of_four(data: Tensor, layout: "Layout") -> Tensor:
    """Values into their places, zeros elsewhere: `pycore.pack.sparse`."""
    pairs = bits.numbers(data[:layout.slots], TYPES[layout.option("value_type")]).reshape(-1, 2)
    metadata = data[layout.slots:]
    if layout.option("metadata") == "cutlass":
        words = metadata.clone().view(torch.int16)
        place = sparse_format.places(layout.rows, layout.stride // sparse_format.WORD_SLOTS)
        metadata = words[torch.from_numpy(place).to(data.device)].view(torch.uint8)
    quads = bits.nibbles(metadata)
    index = torch.stack([quads & 3, quads >> 2], dim=1).long()
    return torch.zeros(pairs.shape[0], 4, device=data.device).scatter_(1, index, pairs).reshape(layout.rows, layout.stride)
