"""NVFP4: E2M1 codes in blocks of 16, each with an E4M3 scale, and one float32 scale for the tensor.

    split   codes    | w1 w0 | w3 w2 | ...    8 bytes a block, low nibble first
            scales   | s0 | s1 | ...          one E4M3FN byte a block
            tensor   | t t t t |              float32
    gguf    block of 64: | s0 s1 s2 s3 | w8 w0 | ... | w15 w7 | w24 w16 | ...     36 bytes: block_nvfp4 of ggml

    weight = value(code) x value(s) x t,   t = largest magnitude of the tensor / (6 x 448),
                                           s = E4M3(block's largest / 6 / t)

The tensor scale puts the largest block's scale at the top of E4M3's range. GGUF keeps none (a model's file has it as a
tensor of its own), rounds the block's scale half up and makes every scale from 256 up 448; a block whose scale rounds to
0 is lost. Its layout here does the same, so that the bytes are the same.
Bits per weight: 4 + 8 / 16 = 4.5, and 32 for the tensor. Source: NVIDIA's description of NVFP4 (Blackwell, 2025).
"""

from typing import TYPE_CHECKING

from pycore.pack import fp4, minifloat, nibbles
from pycore.pack import scales as scale_types
from pycore.pack.groups import magnitude
from pycore.pack.minifloat import E4M3FN
from pycore.pack.packed import Packed, Part, Section, Span, own, whole
from pycore.pack.values import as_rows, checked_size, chosen, padded, stride_of

if TYPE_CHECKING:
    from numpy import ndarray

BLOCK, SUPER, SUPER_BYTES = 16, 64, 36


def quantise(values: object, *, layout: str = "split") -> Packed:
    """`values` (any shape; the last dimension is a row) in NVFP4. Raises InputError."""
    import numpy as np

    chosen("layout", layout, fp4.LAYOUTS)
    rows, shape = as_rows(values)
    blocks = padded(rows, BLOCK if layout == "split" else SUPER).reshape(-1, BLOCK)
    largest = magnitude(blocks)
    tensor = np.float32(1)
    if layout == "split":
        tensor = np.float32(largest.max() / np.float32(6 * 448))
        steps = minifloat.encode(largest / np.float32(6) * inverse(tensor), E4M3FN)
    else:
        steps = half_up(largest / np.float32(6))
    scales = minifloat.decode(steps, E4M3FN)
    if layout == "split":
        codes = fp4.encode(blocks, scale_types.reciprocal(scales * tensor), layout)
    else:  # ggml compares distances: a quotient keeps its ties exact where a product with 1 / scale would not
        codes = fp4.encode(np.divide(blocks, scales, out=np.zeros_like(blocks), where=scales != 0), None, layout)
    return made(codes, steps.reshape(-1), tensor, shape, layout, pack(codes, steps.reshape(-1), tensor, layout).tobytes())


def inverse(tensor: "ndarray") -> "ndarray":
    """1 / the tensor scale, 0 for an all-zero tensor."""
    import numpy as np

    return scale_types.reciprocal(np.asarray(tensor, np.float32))


def half_up(values: "ndarray") -> "ndarray":
    """E4M3FN codes of positive numbers by ggml's rule: the cut-off part rounded half up, 448 for all from 256 up."""
    import numpy as np

    values = np.minimum(values, np.float32(448))
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    normal = (bits + (1 << 19) >> 20).astype(np.int64) - (120 << 3)
    normal = np.where(normal >= 15 << 3, 0x7E, normal)
    small = np.minimum((values * np.float32(512) + np.float32(0.5)).astype(np.int64), 7)
    return np.where(values < np.float32(2.0**-6), small, normal).astype(np.uint8)


def made(codes: "ndarray", steps: "ndarray", tensor: float, shape: tuple[int, ...], layout: str, data: bytes) -> Packed:
    """The noun from block codes (n, 16), E4M3 codes (n) and the tensor scale."""
    import numpy as np

    stride = stride_of(shape[-1], BLOCK if layout == "split" else SUPER)
    scales = minifloat.decode(steps, E4M3FN) * np.float32(tensor)
    return Packed(format="nvfp4", shape=tuple(shape), stride=stride, codes=codes.reshape(-1, stride), data=data,
                  scales=scales.reshape(-1, 1), options=(("layout", layout),))


def pack(codes: "ndarray", steps: "ndarray", tensor: float = 1.0, layout: str = "split") -> "ndarray":
    """Block codes (n, 16), E4M3 codes (n) and the tensor scale to bytes."""
    import numpy as np

    if layout == "split":
        return np.concatenate([nibbles.pack(codes), steps, np.array([tensor], "<f4").view(np.uint8)])
    halves = nibbles.pack_halves(codes, BLOCK).reshape(-1, SUPER // 2)
    return np.concatenate([steps.reshape(-1, SUPER // BLOCK), halves], axis=1).reshape(-1)


def unpack(data: "ndarray", layout: str = "split") -> tuple["ndarray", "ndarray", float]:
    """Bytes to block codes (n, 16), E4M3 codes (n) and the tensor scale."""
    if layout == "split":
        blocks = (data.size - 4) // 9
        return (nibbles.unpack(data[:8 * blocks]).reshape(-1, BLOCK), data[8 * blocks:9 * blocks],
                float(scale_types.from_bytes(data[9 * blocks:].tobytes(), "float32")[0]))
    block = data.reshape(-1, SUPER_BYTES)
    return nibbles.unpack_halves(block[:, 4:].reshape(-1, BLOCK // 2), BLOCK), block[:, :4].reshape(-1), 1.0


def read(data: bytes, shape: tuple[int, ...], *, layout: str = "split") -> Packed:
    """A tensor from its bytes. Raises InputError when their number does not fit the shape."""
    import numpy as np

    chosen("layout", layout, fp4.LAYOUTS)
    slots = int(np.prod(shape)) // shape[-1] * stride_of(shape[-1], BLOCK if layout == "split" else SUPER)
    size = slots // BLOCK * 9 + 4 if layout == "split" else slots // SUPER * SUPER_BYTES
    data = checked_size(data, size, "an NVFP4 tensor")
    codes, steps, tensor = unpack(np.frombuffer(data, np.uint8), layout)
    return made(codes, steps, tensor, shape, layout, data)


def dequantise(packed: Packed) -> "ndarray":
    """The weights that the codes stand for, float32, in the tensor's shape."""
    import numpy as np

    values = fp4.decode(packed.codes).reshape(-1, BLOCK)
    values *= packed.scales
    return np.ascontiguousarray(values.reshape(-1, packed.stride)[:, :packed.columns]).reshape(packed.shape)


def step_value(code: int) -> float:
    """What a block's scale byte stands for."""
    return minifloat.value(E4M3FN, code)


def sections(packed: Packed) -> tuple[Section, ...]:
    """Codes, scales and the tensor's scale, or blocks of 64."""
    if packed.option("layout") == "gguf":
        return (Section(name="blocks", start=0, record_bytes=SUPER_BYTES, record_slots=SUPER,
                        records=packed.slots // SUPER, inside=lambda slot, record: super_parts(slot)),)
    units = nibbles.code_parts("low-first", fp4.VALUES.__getitem__)
    code = Section(name="codes", start=0, record_bytes=1, record_slots=2, records=packed.slots // 2,
                   inside=lambda slot, record: units[slot])
    scale = Section(name="scales", start=code.end, record_bytes=1, record_slots=BLOCK, records=packed.slots // BLOCK,
                    shared=True, inside=own((whole("scale", "block scale", 1, step_value),)))
    tensor = Section(name="tensor", start=scale.end, record_bytes=4, record_slots=packed.slots, records=1, shared=True,
                     inside=own((whole("scale", "tensor scale", 4, scale_types.decoder("float32")),)))
    return code, scale, tensor


def super_parts(slot: int) -> tuple[Part, ...]:
    """Code and scale of a slot in a GGUF block of 64."""
    block, within = divmod(slot, BLOCK)
    return (fp4.half_part(within, BLOCK // 2, 4 + 8 * block),
            Part("scale", "block scale", (Span(block, 0, 8),), step_value))
