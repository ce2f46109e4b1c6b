"""The header of a safetensors file: which tensors it holds, in which number type, in how many bytes.

The file begins with the header's length (8 bytes, little-endian), then the header itself: a JSON object from tensor
name to dtype, shape and byte range (https://huggingface.co/docs/safetensors/en/metadata_parsing).
"""

import json
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pycore.errors import SourceError
from pycore.nesting import deeper

LENGTH_BYTES = 8
HEADER_LIMIT = 32 << 20  # the largest headers known (mixtures with thousands of experts) have a few MB
FIRST_READ = 256 << 10
MOST_DIMENSIONS = 16
DEEPEST = 8  # levels of JSON; the format needs three
DTYPE_BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
    "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32, "I64": 64, "U64": 64, "F64": 64,
    "C64": 64, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
}
# A tensor's part of the model by what its name holds; the first that fits counts.
COMPONENTS = (
    ("vision", ("visual.", "vision", "multi_modal_projector", "image_newline")),
    ("experts", (".experts.", "shared_expert")),
    ("head", ("lm_head", "embed_out")),
    ("embedding", ("embed_tokens", "wte.", "word_embeddings", "tok_embeddings", "embed_in", "wpe.")),
    ("norms", ("norm", ".ln_", "ln_f")),
    ("attention", ("attn", "attention", "rotary")),
    ("mlp", ("mlp", "feed_forward", "ffn", ".gate.")),
)


@dataclass(frozen=True, slots=True)
class Tensor:
    """One stored tensor; `elements` counts packed words where a format packs several weights into one."""

    name: str
    dtype: str
    elements: int
    bytes: int

    @property
    def component(self) -> str:
        """embedding, head, attention, mlp, experts, norms, vision or other, by name."""
        return next((part for part, marks in COMPONENTS if any(mark in self.name for mark in marks)), "other")


def read_header(start: Callable[[int], bytes], file: str) -> tuple[Tensor, ...]:
    """The tensors of a file, given `start(n)` that reads its first n bytes. Raises SourceError."""
    head = start(FIRST_READ)
    if len(head) < LENGTH_BYTES:
        raise SourceError(file, "is no safetensors file: it ends before its header begins")
    length = int.from_bytes(head[:LENGTH_BYTES], "little")
    if not 2 <= length <= HEADER_LIMIT:
        raise SourceError(file, f"is no safetensors file: its header would have {length:,} bytes")
    if len(head) < LENGTH_BYTES + length:
        head = start(LENGTH_BYTES + length)
    if len(head) < LENGTH_BYTES + length:
        raise SourceError(file, f"ends within its header ({len(head):,} of {LENGTH_BYTES + length:,} bytes)")
    return parse_header(head[LENGTH_BYTES:LENGTH_BYTES + length], file)


def parse_header(text: bytes, file: str) -> tuple[Tensor, ...]:
    """The tensors that a header lists. Raises SourceError where it contradicts itself."""
    if deeper(text, DEEPEST):
        raise SourceError(file, f"has a safetensors header nested deeper than {DEEPEST} levels")
    try:
        header = json.loads(text)
        entries = {name: entry for name, entry in header.items() if name != "__metadata__"}
    except (ValueError, AttributeError):
        raise SourceError(file, "has a safetensors header that is not a JSON object") from None
    return tuple(tensor(name, entry, file) for name, entry in entries.items())


def tensor(name: str, entry: object, file: str) -> Tensor:
    """One entry, its byte range checked against its shape. Raises SourceError."""
    try:
        dtype, shape, (begin, end) = entry["dtype"], entry["shape"], entry["data_offsets"]
        if len(shape) > MOST_DIMENSIONS or not all(type(size) is int and 0 <= size < 1 << 63
                                                   for size in (*shape, begin, end)):
            raise TypeError
        elements = math.prod(shape)
        bits = DTYPE_BITS.get(dtype)
    except (KeyError, TypeError, ValueError):
        raise SourceError(file, f"does not say dtype, shape and byte range of tensor {name[:80]!r}") from None
    if bits is not None and 8 * (end - begin) != elements * bits or end < begin:
        raise SourceError(file, f"contradicts itself: tensor {name[:80]!r} of {elements:,} {dtype} elements has "
                                f"{end - begin:,} bytes")
    return Tensor(name, str(dtype), elements, end - begin)


def totals(tensors: Iterable[Tensor], key: Callable[[Tensor], str]) -> tuple[tuple[str, int, int], ...]:
    """(group, elements, bytes) by `key`, largest first."""
    sums: dict[str, tuple[int, int]] = {}
    for one in tensors:
        elements, size = sums.get(key(one), (0, 0))
        sums[key(one)] = (elements + one.elements, size + one.bytes)
    return tuple(sorted(((group, *pair) for group, pair in sums.items()), key=lambda row: (-row[2], row[0])))
