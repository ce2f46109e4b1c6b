"""The numbers that keys and values are kept in, and what a token of them takes.

    float32, float16, bfloat16    as they are
    fp8       e4m3 (arXiv 2209.05433), one byte each, no scale: what is above 448 becomes 448
    int8      groups of up to 64 numbers of a head share a scale: 16 bits
    int4      groups of up to 64 share a scale and a least value, 16 bits each (asymmetric)
"""

from dataclasses import dataclass

import torch

from pycore.errors import InputError
from pycore.nouns import Format

GROUP = 64
TORCH = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
BITS = {"float32": 32, "float16": 16, "bfloat16": 16, "fp8": 8, "int8": 8, "int4": 4}
SCALES = {"int8": 1, "int4": 2}  # 16-bit numbers beside each group


@dataclass(frozen=True, slots=True, kw_only=True)
class KvFormat:
    """A format for heads of one width."""

    name: str
    head_width: int

    @property
    def group(self) -> int:
        """Numbers that share a scale: the largest divisor of the head's width up to GROUP."""
        return max(size for size in range(1, min(GROUP, self.head_width) + 1) if self.head_width % size == 0)

    @property
    def row_bytes(self) -> int:
        """Bytes of one head's keys (or values) of one token, its scales among them."""
        return self.head_width * BITS[self.name] // 8 + 2 * SCALES.get(self.name, 0) * (self.head_width // self.group)

    @property
    def format(self) -> Format:
        """It as the sizing formulas know formats."""
        return Format(id=f"kv-{self.name}", name=self.name, family="KV cache", scope="kv",
                      bits_per_weight=8 * self.row_bytes / self.head_width, block_elements=self.head_width,
                      block_bytes=self.row_bytes)


def kv_format(name: str, head_width: int) -> KvFormat:
    """The format of that name. Raises InputError."""
    if name not in BITS:
        raise InputError("kv_format", name, "accepted: " + ", ".join(BITS))
    return KvFormat(name=name, head_width=head_width)
