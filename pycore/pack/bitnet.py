"""BitNet b1.58: every weight is -s, 0 or s, with one scale s for the tensor.

    codes   bits as in `trits.py`: 2 bits each, or five weights in a byte
    scale   | s s s s |      rows: float32 at the end; gguf: float16 in every block of 256 (TQ2_0, TQ1_0)

    weight = (code - 1) x s,   s = mean magnitude of the tensor,   code - 1 = round(value / s) clipped to -1..1

Source: Ma 2024, "The Era of 1-bit LLMs" (arXiv 2402.17764), absmean quantisation. Bits per weight: 2 and 1.6, and 32 for
the tensor; in GGUF blocks 2.0625 and 1.6875. Trained without it, a model does not survive this format.
"""

import functools
from typing import TYPE_CHECKING

from pycore.pack import scales as scale_types
from pycore.pack import trits
from pycore.pack.packed import Packed, Part, Section, Span, own, whole
from pycore.pack.sums import folded_sum
from pycore.pack.values import as_rows, checked_size, chosen, padded, stride_of

if TYPE_CHECKING:
    from numpy import ndarray

PACKINGS, LAYOUTS = ("2bit", "5in8"), ("rows", "gguf")
UNIT = {"2bit": 4, "5in8": 5}
BLOCK_BYTES = {"2bit": 66, "5in8": 54}
EMPTY = 1  # the code of 0


def quantise(values: object, *, packing: str = "2bit", layout: str = "rows") -> Packed:
    """`values` (any shape; the last dimension is a row) in three values. Raises InputError."""
    import numpy as np

    chosen("packing", packing, PACKINGS)
    chosen("layout", layout, LAYOUTS)
    rows, shape = as_rows(values)
    mean = np.float32(mean_magnitude(rows))
    scales, stored = scale_types.stored(mean.reshape(1, 1), "float32" if layout == "rows" else "float16")
    codes = np.clip(np.rint(rows * scale_types.reciprocal(mean.reshape(1))), -1, 1).astype(np.int8)
    codes = padded((codes + EMPTY).astype(np.uint8), unit(packing, layout))
    codes[:, shape[-1]:] = EMPTY
    return Packed(format=f"bitnet-{packing}", shape=shape, stride=codes.shape[1], codes=codes, scales=scales,
                  data=pack(codes, packing, layout, stored), options=(("packing", packing), ("layout", layout)))


def mean_magnitude(rows: "ndarray") -> float:
    """The mean of all magnitudes, in float64, added pairwise (the same on every machine)."""
    import numpy as np

    return float(folded_sum(np.abs(rows, dtype=np.float64).reshape(-1))) / rows.size


def unit(packing: str, layout: str) -> int:
    """The slots that a row is padded to a multiple of."""
    return UNIT[packing] if layout == "rows" else trits.BLOCK


def pack(codes: "ndarray", packing: str = "2bit", layout: str = "rows", stored: bytes = b"") -> bytes:
    """Codes 0 to 2 (whole units) and the bytes of the scale to the tensor's bytes."""
    import numpy as np

    if layout == "rows":
        kernel = trits.pack_2bit if packing == "2bit" else trits.pack_base3
        return kernel(codes.reshape(-1)).tobytes() + stored
    kernel = trits.pack_tq2 if packing == "2bit" else trits.pack_tq1
    body = kernel(codes.reshape(-1, trits.BLOCK))
    scale = np.broadcast_to(np.frombuffer(stored, np.uint8), (body.shape[0], 2))
    return np.concatenate([body, scale], axis=1).tobytes()


def unpack(data: "ndarray", packing: str = "2bit", layout: str = "rows") -> "ndarray":
    """The bytes of the codes (gguf: whole blocks, (n, 64) or (n, 52)) to flat codes."""
    if layout == "rows":
        return (trits.unpack_2bit if packing == "2bit" else trits.unpack_base3)(data)
    return (trits.unpack_tq2 if packing == "2bit" else trits.unpack_tq1)(data).reshape(-1)


def read(data: bytes, shape: tuple[int, ...], *, packing: str = "2bit", layout: str = "rows") -> Packed:
    """A tensor from its bytes. Raises InputError when their number does not fit the shape.

    GGUF blocks may have scales that differ: they are kept, one for 256 slots.
    """
    import numpy as np

    chosen("packing", packing, PACKINGS)
    stride = stride_of(shape[-1], unit(packing, chosen("layout", layout, LAYOUTS)))
    slots = int(np.prod(shape)) // shape[-1] * stride
    if layout == "rows":
        body = slots // UNIT[packing]
        data = checked_size(data, body + 4, "a ternary tensor")
        codes = unpack(np.frombuffer(data[:body], np.uint8), packing)
        scales = scale_types.from_bytes(data[body:], "float32")
    else:
        width = BLOCK_BYTES[packing]
        data = checked_size(data, slots // trits.BLOCK * width, "a ternary tensor")
        block = np.frombuffer(data, np.uint8).reshape(-1, width)
        codes = unpack(np.ascontiguousarray(block[:, :-2]), packing, layout)
        scales = scale_types.from_bytes(block[:, -2:].tobytes(), "float16")
    return Packed(format=f"bitnet-{packing}", shape=tuple(shape), stride=stride, codes=codes.reshape(-1, stride),
                  scales=scales.reshape(-1, 1), data=data, options=(("packing", packing), ("layout", layout)))


def dequantise(packed: Packed) -> "ndarray":
    """The weights that the codes stand for, float32, in the tensor's shape."""
    import numpy as np

    values = packed.codes.reshape(packed.scales.size, -1).astype(np.float32)
    values -= np.float32(EMPTY)
    values *= packed.scales
    return np.ascontiguousarray(values.reshape(-1, packed.stride)[:, :packed.columns]).reshape(packed.shape)


def sections(packed: Packed) -> tuple[Section, ...]:
    """Codes and the scale, or blocks."""
    packing = packed.option("packing")
    if packed.option("layout") == "gguf":
        width = BLOCK_BYTES[packing]
        scale = Part("scale", "d", (Span(width - 2, 0, 8), Span(width - 1, 0, 8)), scale_types.half)
        place = two_bits if packing == "2bit" else top_digit
        return (Section(name="blocks", start=0, record_bytes=width, record_slots=trits.BLOCK,
                        records=packed.slots // trits.BLOCK, inside=lambda slot, record: (place(slot), scale)),)
    units = tuple(Part("code", "code", (Span(0, 2 * slot, 2),)) for slot in range(4)) if packing == "2bit" else tuple(
        Part("code", f"digit {slot} of base 3", (Span(0, 0, 8),), digit_reader(slot)) for slot in range(5))
    code = Section(name="codes", start=0, record_bytes=1, record_slots=len(units), records=packed.slots // len(units),
                   inside=lambda slot, record: (units[slot],))
    return code, Section(name="scale", start=code.end, record_bytes=4, record_slots=packed.slots, records=1, shared=True,
                         inside=own((whole("scale", "scale", 4, scale_types.decoder("float32")),)))


def digit_reader(digit: int) -> object:
    """Base-3 digit `digit`, from the lowest, of a byte."""
    return lambda bits: min(bits, 242) // 3**digit % 3


@functools.cache
def two_bits(slot: int) -> Part:
    """The code of a slot of a TQ2_0 block."""
    run, rest = divmod(slot, 128)
    return Part("code", "code", (Span(32 * run + rest % 32, 2 * (rest // 32), 2),))


@functools.cache
def top_digit(slot: int) -> Part:
    """The byte that holds a slot of a TQ1_0 block, among four others."""
    byte, digit = trits.tq1_place(slot)
    return Part("code", f"digit {digit} of base 3, from the top", (Span(byte, 0, 8),),
                lambda bits: (bits * 3**digit % 256) * 3 >> 8)
