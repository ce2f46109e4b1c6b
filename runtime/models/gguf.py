"""GGUF files, version 2 and 3: header, metadata, and tensors that stay in the file until they are asked for.

    | "GGUF" | version | tensors | pairs |  pair: key, type, value ...  |  tensor: name, shape, kind, offset ...  | data |

Everything in the file is doubted: lengths that go beyond its end, tensors that overlap or are not aligned, names that
come twice, kinds that nobody defined. What is wrong is named, and no count in the file makes us reserve memory for it.
Source: ggml's specification of GGUF (docs/gguf.md).
"""

import mmap
import struct
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

from pycore.errors import SourceError
from runtime.models.gguf_kinds import Kind, kind_of, numbers

if TYPE_CHECKING:
    from numpy import ndarray

MAGIC, VERSIONS = b"GGUF", (2, 3)
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9
MOST_DIMENSIONS, DEEPEST_ARRAY, LONGEST_NAME = 4, 2, 65_535
DEFAULT_ALIGNMENT, MOST_ALIGNMENT = 32, 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """A tensor in the file: `shape` with rows last (GGUF writes it the other way round), `start` counted from the file's."""

    name: str
    kind: Kind
    shape: tuple[int, ...]
    start: int

    @property
    def size(self) -> int:
        """Bytes in the file."""
        return self.kind.bytes_of(prod(self.shape))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Gguf:
    """A file that was understood. `view` is its bytes, mapped, not read."""

    source: str
    version: int
    metadata: dict[str, object]
    tensors: dict[str, Tensor]
    view: memoryview

    def tensor(self, name: str) -> Tensor:
        """The tensor of that name. Raises SourceError."""
        if name not in self.tensors:
            raise SourceError(self.source, f"has no tensor {name!r}")
        return self.tensors[name]

    def raw(self, name: str) -> bytes:
        """Its bytes. Raises SourceError."""
        tensor = self.tensor(name)
        return bytes(self.view[tensor.start:tensor.start + tensor.size])

    def numbers(self, name: str) -> "ndarray":
        """It as float32 in its shape. Raises SourceError."""
        tensor = self.tensor(name)
        return numbers(tensor.kind, self.raw(name), tensor.shape)

    def value(self, key: str, kind: type | tuple[type, ...], default: object = None) -> object:
        """A metadata value of that type. Raises SourceError where it is missing (and no default given) or another type."""
        found = self.metadata.get(key, default)
        if found is None:
            raise SourceError(self.source, f"has no metadata {key!r}")
        if not isinstance(found, kind) or isinstance(found, bool) and kind is int:
            raise SourceError(self.source, f"metadata {key!r} is {type(found).__name__} {str(found)[:60]!r}, not the "
                                           "expected type")
        return found


class Cursor:
    """A place in the file that never goes beyond its end."""

    def __init__(self, view: memoryview, source: str):
        self.view, self.source, self.at = view, source, 0

    def take(self, size: int, what: str) -> memoryview:
        """The next `size` bytes. Raises SourceError."""
        if size > len(self.view) - self.at:
            raise SourceError(self.source, f"ends within {what}: {size:,} bytes are announced at byte {self.at:,} of "
                                           f"{len(self.view):,}")
        self.at += size
        return self.view[self.at - size:self.at]

    def number(self, code: str, what: str) -> object:
        """One little-endian number."""
        return struct.unpack("<" + code, self.take(struct.calcsize("<" + code), what))[0]

    def text(self, what: str, longest: int | None = None) -> str:
        """A string: length and UTF-8."""
        size = self.number("Q", what)
        if longest is not None and size > longest:
            raise SourceError(self.source, f"{what} has {size:,} bytes; at most {longest:,} are allowed")
        try:
            return bytes(self.take(size, what)).decode("utf-8")
        except UnicodeDecodeError:
            raise SourceError(self.source, f"{what} is not UTF-8") from None

    def value(self, kind: int, what: str, depth: int = 0) -> object:
        """A metadata value of a type; arrays as lists."""
        if kind in SCALARS:
            return self.number(SCALARS[kind], what)
        if kind == STRING:
            return self.text(what)
        if kind != ARRAY or depth >= DEEPEST_ARRAY:
            raise SourceError(self.source, f"{what} has type {kind}, which is not defined (or nests too deep)")
        inner, count = self.number("I", what), self.number("Q", what)
        if inner in SCALARS:
            code = SCALARS[inner]
            size = struct.calcsize("<" + code)
            return list(struct.unpack(f"<{count}{code}", self.take(count * size, what)))
        if count > (len(self.view) - self.at) // 8:  # a string has at least its 8 bytes of length
            raise SourceError(self.source, f"{what} announces {count:,} values, more than the file has room for")
        return [self.value(inner, what, depth + 1) for _ in range(count)]


def open_gguf(path: str | Path) -> Gguf:
    """Map and understand a file. Raises SourceError where it cannot be read or is not sound."""
    path = Path(path)
    try:
        with open(path, "rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:  # ValueError: an empty file
        raise SourceError(path.name, f"cannot be read: {getattr(error, 'strerror', None) or error}") from None
    return parse(memoryview(mapped), path.name)


def parse(view: memoryview, source: str) -> Gguf:
    """A file from its bytes. Raises SourceError."""
    cursor = Cursor(view, source)
    if len(view) < 4 or bytes(cursor.take(4, "the magic")) != MAGIC:
        raise SourceError(source, "is not a GGUF file (its first bytes are not GGUF)")
    version = cursor.number("I", "the version")
    if version not in VERSIONS:
        detail = "; its bytes are big-endian" if version >> 24 in VERSIONS else ""
        raise SourceError(source, f"is GGUF version {version}; versions 2 and 3, little-endian, are read{detail}")
    tensor_count, pair_count = cursor.number("Q", "the header"), cursor.number("Q", "the header")
    metadata = pairs(cursor, pair_count)
    declared = [declaration(cursor) for _ in counted(cursor, tensor_count, 24, "tensors")]
    return Gguf(source=source, version=version, metadata=metadata, tensors=placed(cursor, declared, metadata), view=view)


def counted(cursor: Cursor, count: int, least: int, what: str) -> range:
    """`range(count)`, when the rest of the file has room for that many of `least` bytes. Raises SourceError."""
    if count > (len(cursor.view) - cursor.at) // least:
        raise SourceError(cursor.source, f"announces {count:,} {what}, more than the file has room for")
    return range(count)


def pairs(cursor: Cursor, count: int) -> dict[str, object]:
    """The metadata. Raises SourceError."""
    metadata: dict[str, object] = {}
    for _ in counted(cursor, count, 13, "metadata pairs"):
        key = cursor.text("a metadata key", LONGEST_NAME)
        if key in metadata:
            raise SourceError(cursor.source, f"has metadata {key!r} twice")
        metadata[key] = cursor.value(cursor.number("I", f"metadata {key!r}"), f"metadata {key!r}")
    return metadata


def declaration(cursor: Cursor) -> tuple[str, tuple[int, ...], Kind, int]:
    """(name, shape with rows last, kind, offset) of one tensor. Raises SourceError."""
    name = cursor.text("a tensor's name", LONGEST_NAME)
    what = f"the declaration of tensor {name!r}"
    dimensions = cursor.number("I", what)
    if not 1 <= dimensions <= MOST_DIMENSIONS:
        raise SourceError(cursor.source, f"tensor {name!r} has {dimensions} dimensions; 1 to {MOST_DIMENSIONS} are allowed")
    shape = tuple(cursor.number("Q", what) for _ in range(dimensions))[::-1]
    kind = kind_of(cursor.number("I", what), name, cursor.source)
    if 0 in shape or shape[-1] % kind.block:
        raise SourceError(cursor.source, f"tensor {name!r} of {kind.name} has shape {shape}; its rows are whole blocks of "
                                         f"{kind.block}")
    return name, shape, kind, cursor.number("Q", what)


def placed(cursor: Cursor, declared: list[tuple[str, tuple[int, ...], Kind, int]],
           metadata: dict[str, object]) -> dict[str, Tensor]:
    """The tensors with where they lie: aligned, inside the file, apart from each other. Raises SourceError."""
    alignment = metadata.get("general.alignment", DEFAULT_ALIGNMENT)
    if type(alignment) is not int or not 0 < alignment <= MOST_ALIGNMENT or alignment & alignment - 1:
        raise SourceError(cursor.source, f"general.alignment is {alignment!r}; it is a power of two")
    first = cursor.at + -cursor.at % alignment
    tensors: dict[str, Tensor] = {}
    for name, shape, kind, offset in declared:
        if name in tensors:
            raise SourceError(cursor.source, f"has tensor {name!r} twice")
        tensor = Tensor(name=name, kind=kind, shape=shape, start=first + offset)
        if offset % alignment or tensor.start + tensor.size > len(cursor.view):
            raise SourceError(cursor.source, f"tensor {name!r} lies at bytes {tensor.start:,} to "
                                             f"{tensor.start + tensor.size:,}; the file has {len(cursor.view):,} and "
                                             f"tensors are aligned to {alignment}")
        tensors[name] = tensor
    in_order = sorted(tensors.values(), key=lambda one: one.start)
    for left, right in zip(in_order, in_order[1:], strict=False):
        if left.start + left.size > right.start:
            raise SourceError(cursor.source, f"tensors {left.name!r} and {right.name!r} overlap")
    return tensors
