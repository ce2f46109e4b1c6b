"""Part of one tensor of a .safetensors file, read without the rest of the file; files that lie are refused.

    | n n n n n n n n | header: JSON, n bytes | data |       n little-endian; offsets are counted from the data's first byte

The header maps a tensor's name to dtype, shape and [begin, end). Tensors lie back to back, without overlap or hole, to the
file's last byte (https://huggingface.co/docs/safetensors, "Format"). A reader is any function (first byte, count) -> bytes,
so the same code reads a file on disk and a file dropped on a page.
"""

import difflib
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pycore.errors import InputError, SourceError, UnknownName
from pycore.nesting import deeper
from pycore.pack import minifloat, scales
from pycore.pack.values import MOST_VALUES

if TYPE_CHECKING:
    from numpy import ndarray

LENGTH_BYTES = 8
MOST_HEADER_BYTES = 100_000_000  # the format's own limit
MOST_DIMENSIONS = 16
DEEPEST = 8  # levels of JSON; the format needs three
BITS = {"BOOL": 8, "U8": 8, "I8": 8, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "I16": 16, "U16": 16, "F16": 16,
        "BF16": 16, "I32": 32, "U32": 32, "F32": 32, "I64": 64, "U64": 64, "F64": 64, "C64": 64, "F4": 4,
        "F6_E2M3": 6, "F6_E3M2": 6, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8}
NUMPY = {"BOOL": "|b1", "U8": "|u1", "I8": "|i1", "I16": "<i2", "U16": "<u2", "F16": "<f2", "I32": "<i4", "U32": "<u4",
         "F32": "<f4", "I64": "<i8", "U64": "<u8", "F64": "<f8"}
READABLE = (*NUMPY, "BF16", "F8_E4M3", "F8_E5M2", "F8_E8M0")
Reader = Callable[[int, int], bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One tensor as the header lists it; begin and end are bytes from the start of the file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int

    @property
    def elements(self) -> int:
        """How many numbers it holds."""
        return math.prod(self.shape)

    @property
    def columns(self) -> int:
        """Numbers in a row: the last dimension, 1 for a single number."""
        return self.shape[-1] if self.shape else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What a file says of itself: its tensors in the order of their data, and its metadata as it stands."""

    file: str
    entries: tuple[Entry, ...]
    metadata: tuple[tuple[str, str], ...]

    def entry(self, name: str) -> Entry:
        """The tensor with that name. Raises UnknownName."""
        for one in self.entries:
            if one.name == name:
                return one
        names = [one.name for one in self.entries]
        raise UnknownName("tensor", name, f"the file holds {len(names):,} tensors",
                          difflib.get_close_matches(name, names, 3))


def file_reader(path: Path) -> tuple[Reader, int]:
    """A reader of a file on disk, and the file's size. Raises SourceError where it cannot be opened."""
    path = Path(path)

    def read(first: int, count: int) -> bytes:
        try:
            with path.open("rb") as file:
                file.seek(first)
                return file.read(count)
        except OSError as problem:
            raise SourceError(path.name, problem.strerror or str(problem)) from None

    try:
        return read, path.stat().st_size
    except OSError as problem:
        raise SourceError(path.name, problem.strerror or str(problem)) from None


def read_header(read: Reader, size: int, file: str = "the file") -> Header:
    """The header of a file of `size` bytes. Raises SourceError where the file contradicts itself."""
    if size < LENGTH_BYTES:
        raise SourceError(file, "is no safetensors file: it ends before its header begins")
    length = int.from_bytes(exactly(read, 0, LENGTH_BYTES, file), "little")
    if not 2 <= length <= min(size - LENGTH_BYTES, MOST_HEADER_BYTES):
        raise SourceError(file, f"is no safetensors file: its header would have {length:,} bytes, the file has {size:,}")
    header = parsed(exactly(read, LENGTH_BYTES, length, file), file)
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise SourceError(file, "has metadata that is not a table of texts")
    start = LENGTH_BYTES + length
    entries = sorted((entry(name, value, start, file) for name, value in header.items()),
                     key=lambda one: (one.begin, one.end))
    check_places(entries, start, size, file)
    return Header(file=file, entries=tuple(entries), metadata=tuple(metadata.items()))


def exactly(read: Reader, first: int, count: int, file: str) -> bytes:
    """`count` bytes from `first`. Raises SourceError when the file has fewer."""
    data = bytes(read(first, count))
    if len(data) != count:
        raise SourceError(file, f"ends early: {len(data):,} of {count:,} bytes at {first:,}")
    return data


def parsed(text: bytes, file: str) -> dict:
    """The header's JSON object. Raises SourceError: no object, or a name twice."""
    def once(pairs: list) -> dict:
        table = dict(pairs)
        if len(table) != len(pairs):
            raise ValueError("a name twice")
        return table

    if deeper(text, DEEPEST):
        raise SourceError(file, f"has a header nested deeper than {DEEPEST} levels")
    try:
        header = json.loads(text.decode("utf-8"), object_pairs_hook=once)
    except (ValueError, RecursionError) as problem:
        why = "names something twice" if str(problem) == "a name twice" else "is not JSON"
        raise SourceError(file, f"has a header that {why}") from None
    if not isinstance(header, dict) or not text.startswith(b"{"):
        raise SourceError(file, "has a header that is not a JSON object")
    return header


def whole(value: object) -> bool:
    """Whether a JSON value is a whole number that a file offset can be."""
    return type(value) is int and 0 <= value < 1 << 63


def entry(name: str, value: object, start: int, file: str) -> Entry:
    """One line of the header, its byte range checked against dtype and shape. Raises SourceError."""
    shown = f"tensor {name[:80]!r}"
    try:
        dtype, shape, (begin, end) = value["dtype"], value["shape"], value["data_offsets"]
        fits = isinstance(shape, list) and len(shape) <= MOST_DIMENSIONS and all(map(whole, (*shape, begin, end)))
    except (KeyError, TypeError, ValueError):
        fits = False
    if not fits:
        raise SourceError(file, f"does not say dtype, shape and byte range of {shown}")
    if not isinstance(dtype, str) or dtype not in BITS:
        raise SourceError(file, f"gives {shown} the unknown dtype {str(dtype)[:40]!r}")
    elements = math.prod(shape)
    if end < begin or 8 * (end - begin) != elements * BITS[dtype]:
        raise SourceError(file, f"contradicts itself: {shown} of {elements:,} {dtype} numbers has {end - begin:,} bytes")
    return Entry(name=name, dtype=dtype, shape=tuple(shape), begin=start + begin, end=start + end)


def check_places(entries: list[Entry], start: int, size: int, file: str) -> None:
    """Raise SourceError unless the tensors fill the data from its first byte to its last, back to back."""
    place = start
    for one in entries:
        if one.begin != place:
            what = "overlaps the one before it" if one.begin < place else "leaves a hole before it"
            raise SourceError(file, f"contradicts itself: tensor {one.name[:80]!r} {what}")
        place = one.end
    if place != size:
        what = "ends early" if place > size else "has bytes that belong to no tensor"
        raise SourceError(file, f"{what}: its tensors end at byte {place:,}, the file at {size:,}")


def read_rows(read: Reader, header: Header, name: str, first: int = 0, count: int | None = None) -> "ndarray":
    """Rows first to first + count of a tensor, (rows, columns) float32; only their bytes are read.

    A tensor of more than two dimensions counts as rows of its last. Raises InputError and SourceError.
    """
    one = header.entry(name)
    rows = one.elements // one.columns if one.elements else 0
    count = rows - first if count is None and isinstance(first, int) else count
    if not (whole(first) and whole(count) and count and first + count <= rows):
        raise InputError("rows", f"{count} from {first}", f"tensor {name[:80]!r} has {rows:,} rows")
    if one.dtype not in READABLE:
        raise InputError("tensor", f"{name[:80]} ({one.dtype})", "numbers can be read of " + ", ".join(READABLE))
    if count * one.columns > MOST_VALUES:
        raise InputError("rows", f"{count:,}", f"at most {MOST_VALUES // one.columns:,} rows of {one.columns:,} at once")
    width = one.columns * BITS[one.dtype] // 8
    return numbers(exactly(read, one.begin + first * width, count * width, header.file), one.dtype).reshape(count, -1)


def numbers(data: bytes, dtype: str) -> "ndarray":
    """The numbers in `data`, float32 (wider ones rounded)."""
    import numpy as np

    if dtype in NUMPY:
        with np.errstate(over="ignore"):
            return np.frombuffer(data, NUMPY[dtype]).astype(np.float32)
    if dtype == "BF16":
        return scales.from_bytes(data, "bfloat16")
    codes = np.frombuffer(data, np.uint8)
    if dtype == "F8_E8M0":
        return minifloat.power_of_two(codes)
    return minifloat.decode(codes, minifloat.E4M3FN if dtype == "F8_E4M3" else minifloat.E5M2)
