"""Packed bytes to weights in torch, each format as `pycore/pack` lays it out, equal to it bit for bit.

Every function takes the tensor's bytes (uint8, flat) and its Layout and gives (rows, stride) float32 values: rows padded
as they are stored. `restore` cuts the padding off.
"""

from dataclasses import dataclass
from math import prod

from torch import Tensor

from pycore.errors import UnknownName
from pycore.pack.packed import Packed
from runtime.quantbench.unpack import floats, integers, sparse, superblocks, ternary

READERS = {
    "int8": integers.int8, "int4": integers.int4, "nf4": integers.nf4,
    "fp8-e4m3": floats.fp8, "fp8-e5m2": floats.fp8, "mxfp4": floats.mxfp4, "nvfp4": floats.nvfp4,
    "bitnet-2bit": ternary.two_bits, "bitnet-5in8": ternary.five_in_eight,
    "q4_0": superblocks.q4_0, "q4_1": superblocks.q4_1, "q5_0": superblocks.q5_0, "q8_0": superblocks.q8_0,
    "q4_k": superblocks.q4_k, "q6_k": superblocks.q6_k, "sparse-2:4": sparse.two_of_four,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How bytes are to be read: format, shape of the tensor, slots in a row, and the options the format was made with."""

    format: str
    shape: tuple[int, ...]
    stride: int
    options: tuple[tuple[str, object], ...] = ()

    def __post_init__(self):
        if self.format not in READERS:
            raise UnknownName("format", self.format, "use one of " + ", ".join(READERS))

    @property
    def rows(self) -> int:
        """Rows: the product of all dimensions but the last."""
        return prod(self.shape[:-1])

    @property
    def slots(self) -> int:
        """Places for weights, padding included."""
        return self.rows * self.stride

    def option(self, name: str) -> object:
        """An option's value. Raises KeyError."""
        return dict(self.options)[name]

    def as_dict(self) -> dict[str, object]:
        """Plain data; `layout_from` reads it."""
        return {"format": self.format, "shape": list(self.shape), "stride": self.stride, "options": dict(self.options)}


def layout_of(packed: Packed) -> Layout:
    """The layout of what `pycore.pack` packed."""
    return Layout(format=packed.format, shape=tuple(packed.shape), stride=packed.stride, options=tuple(packed.options))


def restore(data: Tensor, layout: Layout) -> Tensor:
    """The weights that the bytes stand for, float32, in the tensor's shape."""
    return READERS[layout.format](data, layout)[:, :layout.shape[-1]].reshape(layout.shape)
