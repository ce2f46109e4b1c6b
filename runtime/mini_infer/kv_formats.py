"""The numbers that keys and values are kept in: what a token of them takes, and the way there and back.

    float32, float16, bfloat16    as they are
    fp8       e4m3 (arXiv 2209.05433), a byte each and no scale; what is above 448 becomes 448
    int8      groups of up to 64 numbers of a head share a 16-bit scale
    int4      groups of up to 32 share a 16-bit scale, of which the number farthest from 0 is -8 (the rule of ggml's Q4_0);
              heads are turned by a Hadamard matrix first, which spreads what a few large numbers would take from all others
              (arXiv 2404.00456), and what attention finds is turned back: q . k = (q H) . (k H)

A row (one head, one token) is one line of memory: its scales, then its codes. Attention always reads what was kept, also
in the step that wrote it: so cold, cached and chunked prompts see the same numbers.
"""

import functools
from dataclasses import dataclass

import torch
from torch import Tensor

from pycore.errors import InputError
from pycore.nouns import Format

PLAIN = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
BITS = {"float32": 32, "float16": 16, "bfloat16": 16, "fp8": 8, "int8": 8, "int4": 4}
GROUPS = {"int8": 64, "int4": 32}
SCALE_BYTES = 2
LARGEST_E4M3 = 448.0


@dataclass(frozen=True, slots=True, kw_only=True)
class KvFormat:
    """A format for heads of one width."""

    name: str
    head_width: int

    @property
    def group(self) -> int:
        """Numbers that share a scale: the largest divisor of the head's width up to the format's; 0 without scales."""
        most = min(GROUPS.get(self.name, 0), self.head_width)
        return max((size for size in range(1, most + 1) if self.head_width % size == 0), default=0)

    @property
    def scale_bytes(self) -> int:
        """Bytes of the scales of a row."""
        return SCALE_BYTES * (self.head_width // self.group) if self.group else 0

    @property
    def row_bytes(self) -> int:
        """Bytes of a row: one head's keys (or values) of one token, even so that scales lie where 16 bits are read."""
        size = self.scale_bytes + self.head_width * BITS[self.name] // 8
        return size + size % 2

    @property
    def stored(self) -> torch.dtype:
        """The numbers that memory is made of: the format's own, or bytes."""
        return PLAIN.get(self.name, torch.uint8)

    @property
    def row(self) -> int:
        """How many of them a row has."""
        return self.row_bytes // self.stored.itemsize

    @property
    def turns(self) -> bool:
        """Whether heads are turned by a Hadamard matrix: there is one of their width."""
        return self.name == "int4" and self.head_width & self.head_width - 1 == 0

    @property
    def format(self) -> Format:
        """It as the sizing formulas know formats."""
        return Format(id=f"mini-infer-kv-{self.name}", name=self.name, family="KV cache", scope="kv",
                      bits_per_weight=8 * self.row_bytes / self.head_width, block_elements=self.head_width,
                      block_bytes=self.row_bytes)

    def encode(self, x: Tensor) -> Tensor:
        """(..., head width) to (..., row)."""
        if self.name in PLAIN:
            return x.to(self.stored)
        if self.name == "fp8":
            codes = x.float().clamp(-LARGEST_E4M3, LARGEST_E4M3).to(torch.float8_e4m3fn).view(torch.uint8)
            return torch.nn.functional.pad(codes, (0, self.row - self.head_width))
        groups = x.float().unflatten(-1, (-1, self.group))
        scales = _scales8(groups) if self.name == "int8" else _scales4(groups)
        codes = (groups / torch.where(scales == 0, 1.0, scales.float())[..., None]).round().clamp(*self._codes).flatten(-2)
        rows = torch.zeros((*x.shape[:-1], self.row), dtype=torch.uint8, device=x.device)
        rows[..., :self.scale_bytes] = scales.view(torch.uint8)
        if self.name == "int8":
            rows[..., self.scale_bytes:self.scale_bytes + self.head_width] = codes.to(torch.int8).view(torch.uint8)
        else:  # the low half of a byte is the number before the one in its high half
            low, high = (codes + 8).to(torch.uint8).unflatten(-1, (-1, 2)).unbind(-1)
            rows[..., self.scale_bytes:self.scale_bytes + self.head_width // 2] = low | high << 4
        return rows

    @property
    def _codes(self) -> tuple[int, int]:
        return (-127, 127) if self.name == "int8" else (-8, 7)

    def decode(self, rows: Tensor, dtype: torch.dtype) -> Tensor:
        """(..., row) to (..., head width) of numbers `dtype`."""
        if self.name in PLAIN:
            return rows.to(dtype)
        if self.name == "fp8":
            codes = rows[..., :self.head_width]
            return _e4m3(rows.device).index_select(0, codes.flatten().int()).view(codes.shape).to(dtype)
        scales = rows[..., :self.scale_bytes].view(torch.float16).float()[..., None]
        if self.name == "int8":
            numbers = rows[..., self.scale_bytes:self.scale_bytes + self.head_width].view(torch.int8).float()
        else:
            codes = rows[..., self.scale_bytes:self.scale_bytes + self.head_width // 2]
            # Two numbers a byte: a table of all 256 pairs, each pair read as one number of 64 bits.
            pairs = _pairs(rows.device).index_select(0, codes.flatten().int())
            numbers = pairs.view(torch.float32).view(*codes.shape[:-1], self.head_width)
        return numbers.unflatten(-1, (-1, self.group)).mul_(scales).flatten(-2).to(dtype)


def kv_format(name: str, head_width: int) -> KvFormat:
    """The format of that name. Raises InputError."""
    if name not in BITS:
        raise InputError("kv_format", name, "accepted: " + ", ".join(BITS))
    return KvFormat(name=name, head_width=head_width)


def plain_name(dtype: torch.dtype) -> str:
    """The format that keeps such numbers as they are."""
    return str(dtype).removeprefix("torch.")


def hadamard(width: int, dtype: torch.dtype, device: torch.device | str) -> Tensor:
    """The Hadamard matrix of a power of two (Sylvester's), orthonormal and its own inverse."""
    matrix = torch.ones(1, 1, dtype=torch.float64)
    while len(matrix) < width:
        matrix = torch.cat([torch.cat([matrix, matrix], 1), torch.cat([matrix, -matrix], 1)])
    return (matrix / width**0.5).to(dtype).to(device)


def _scales8(groups: Tensor) -> Tensor:
    return (groups.abs().amax(-1) / 127).half()


def _scales4(groups: Tensor) -> Tensor:
    """What -8 stands for is the number farthest from 0, with its sign."""
    farthest = groups.gather(-1, groups.abs().argmax(-1, keepdim=True))[..., 0]
    return (farthest / -8).half()


@functools.cache
def _e4m3(device: torch.device) -> Tensor:
    """The value of every byte."""
    return torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn).float().to(device)


@functools.cache
def _pairs(device: torch.device) -> Tensor:
    """The two numbers of every byte, as one of 64 bits."""
    codes = torch.arange(256)
    return torch.stack([codes % 16 - 8, codes // 16 - 8], dim=1).float().view(torch.int64).flatten().to(device)
