"""INT4 in blocks: a row is cut into groups of 32, 64 or 128 weights, each with its own scale.

    codes   | w1 w0 | w3 w2 | ...       two a byte, in one of the orders of `nibbles.py`; a group never crosses a row
    scales  | s0 | s1 | ...             one a group, row after row; float16 by default
    zeros   | z1 z0 | z3 z2 | ...       asymmetric only: one 4-bit code a group, low nibble first

    weight = (code - zero) x scale,   zero = 8 when symmetric

Symmetric with 15 levels: scale = largest magnitude / 7, codes 1 to 15, nothing saturates. With 16 levels: scale = largest
magnitude / 7.5, codes 0 to 15, and the positive end may lose half a step (torchao's and compressed-tensors' choice).
Asymmetric: scale = (largest - smallest) / 15 with 0 inside the range, zero = round(-smallest / scale).
Codes are round(value x (1 / scale)) + zero, ties to even. A row that does not fill its last group is padded to it, and the
padding counts in the bits per weight.

Bits per weight at group G with float16 scales: 4 + 16 / G, and 4 / G more when asymmetric (G = 32: 4.5 and 4.625).
"""

from typing import TYPE_CHECKING

from pycore.pack import nibbles
from pycore.pack import scales as scale_types
from pycore.pack.blocks import in_shape
from pycore.pack.grid import Grid
from pycore.pack.groups import affine
from pycore.pack.packed import Packed, Part, Section, Span, own, whole
from pycore.pack.values import as_rows, checked_size, chosen, padded, stride_of

if TYPE_CHECKING:
    from numpy import ndarray

GROUPS = (32, 64, 128)
LEVELS = (15, 16)
MIDDLE = 8


def quantise(values: object, *, group: int = 64, symmetric: bool = True, levels: int = 15,
             nibble_order: str = "low-first", scale_type: str = "float16") -> Packed:
    """`values` (any shape; the last dimension is a row) in blocks of INT4. Raises InputError."""

    rows, shape = as_rows(values)
    chosen("group", group, GROUPS)
    chosen("levels", levels, LEVELS)
    grouped = padded(rows, group).reshape(-1, group)
    grid = Grid(bits=4, symmetric=symmetric, full=levels == 16, scale_type=scale_type)
    scales, zeros = grid.parameters(grouped)
    return made(grid.nearest(grouped, scales, zeros), scales, zeros, shape, group=group, symmetric=symmetric,
                levels=levels, nibble_order=nibble_order, scale_type=scale_type)


def made(codes: "ndarray", scales: "ndarray", zeros: "ndarray", shape: tuple[int, ...], **options: object) -> Packed:
    """The noun from codes (groups, group), scales and zeros (groups, 1) that the scale type holds exactly."""
    stride = stride_of(shape[-1], options["group"])
    scale_bytes = scale_types.stored(scales, options["scale_type"])[1]
    symmetric = options["symmetric"]
    data = b"".join((nibbles.pack(codes, options["nibble_order"]), scale_bytes, b"" if symmetric else zero_bytes(zeros)))
    return Packed(format="int4", shape=tuple(shape), stride=stride, codes=codes.reshape(-1, stride), scales=scales,
                  zeros=None if symmetric else zeros, data=data, options=tuple(options.items()))


def zero_bytes(zeros: "ndarray") -> bytes:
    """Zeros two a byte, low nibble first."""
    import numpy as np

    flat = zeros.reshape(-1).astype(np.uint8)
    return nibbles.pack(np.append(flat, np.zeros(flat.size % 2, np.uint8))).tobytes()


def pack(codes: "ndarray", nibble_order: str = "low-first") -> "ndarray":
    """Codes 0 to 15 to bytes."""
    return nibbles.pack(codes, nibble_order)


def unpack(data: "ndarray", nibble_order: str = "low-first") -> "ndarray":
    """Bytes to codes 0 to 15."""
    return nibbles.unpack(data, nibble_order)


def read(data: bytes, shape: tuple[int, ...], *, group: int = 64, symmetric: bool = True, levels: int = 15,
         nibble_order: str = "low-first", scale_type: str = "float16") -> Packed:
    """A tensor from its bytes. Raises InputError when their number does not fit the shape."""
    import numpy as np

    stride = stride_of(shape[-1], chosen("group", group, GROUPS))
    slots = int(np.prod(shape)) // shape[-1] * stride
    count, width = slots // group, scale_types.BYTES[chosen("scale_type", scale_type, scale_types.TYPES)]
    code_end = slots // 2
    scale_end = code_end + count * width
    data = checked_size(data, scale_end + (0 if symmetric else -(-count // 2)), "an INT4 tensor")
    zeros = None if symmetric else nibbles.unpack(data[scale_end:])[:count].astype(np.float32).reshape(-1, 1)
    return Packed(format="int4", shape=tuple(shape), stride=stride, data=data, zeros=zeros,
                  codes=nibbles.unpack(data[:code_end], nibble_order).reshape(-1, stride),
                  scales=scale_types.from_bytes(data[code_end:scale_end], scale_type).reshape(-1, 1),
                  options=(("group", group), ("symmetric", symmetric), ("levels", levels),
                           ("nibble_order", nibble_order), ("scale_type", scale_type)))


def dequantise(packed: Packed) -> "ndarray":
    """The weights that the codes stand for, float32, in the tensor's shape."""
    codes, zeros = packed.codes.reshape(-1, packed.option("group")), packed.zeros
    return in_shape(affine(codes, packed.scales, MIDDLE if zeros is None else zeros), packed)


def sections(packed: Packed) -> tuple[Section, ...]:
    """Codes, then scales, then zeros."""
    group, kind, order = packed.option("group"), packed.option("scale_type"), packed.option("nibble_order")
    groups, (size, slots) = packed.slots // group, nibbles.record(order)
    units, width = nibbles.code_parts(order), scale_types.BYTES[kind]
    code = Section(name="codes", start=0, record_bytes=size, record_slots=slots, records=packed.slots // slots,
                   inside=lambda slot, record: units[slot])
    scale = Section(name="scales", start=code.end, record_bytes=width, record_slots=group, records=groups, shared=True,
                    inside=own((whole("scale", "scale", width, scale_types.decoder(kind)),)))
    if packed.zeros is None:
        return code, scale
    zero = Section(name="zeros", start=scale.end, record_bytes=1, record_slots=2 * group, records=-(-groups // 2),
                   inside=lambda slot, record: (Part("zero", "zero", (Span(0, 4 * (slot // group), 4),)),))
    return code, scale, zero
