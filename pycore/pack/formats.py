"""Every format: its id, what it is, the module that knows its bits, and the options it takes."""

from dataclasses import dataclass, replace
from types import ModuleType
from typing import TYPE_CHECKING

from pycore.errors import InputError, UnknownName
from pycore.pack import (
    bitnet,
    fields,
    fp8,
    int4,
    int8,
    mxfp4,
    nf4,
    nvfp4,
    q4_0,
    q4_1,
    q4_k,
    q5_0,
    q6_k,
    q8_0,
    sparse,
)
from pycore.pack.fields import Field, Owner
from pycore.pack.packed import Packed, Section

if TYPE_CHECKING:
    from numpy import ndarray


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A format. `fixed` are options that its id stands for, `options` those a caller may choose, first the default.

    `ends` are its outermost codes and their inner neighbours, lowest first; empty where nothing can saturate.
    `group` is how many weights share their own scale by default; 0 for a row, -1 for the tensor. `formula` makes the weight
    from the fields that `fields_of` names.
    """

    id: str
    label: str
    formula: str
    module: ModuleType
    group: int
    fixed: tuple[tuple[str, object], ...] = ()
    options: tuple[tuple[str, tuple], ...] = ()
    ends: tuple[int, int, int, int] | tuple[()] = ()


NIBBLE = (0, 1, 14, 15)
SMALL_FLOAT = (15, 14, 6, 7)
FORMATS = (
    Format(id="int8", label="INT8",
           formula="(code − zero) × scale",
           module=int8, group=0, ends=(-128, -127, 126, 127),
           options=(("granularity", ("channel", "tensor", "token")), ("symmetric", (True, False)),
                    ("scale_type", ("float32", "float16", "bfloat16")))),
    Format(id="int4", label="INT4 in blocks",
           formula="(code − zero) × scale, zero = 8 when symmetric",
           module=int4, group=64, ends=NIBBLE,
           options=(("group", (64, 32, 128)), ("symmetric", (True, False)), ("levels", (15, 16)),
                    ("nibble_order", ("low-first", "high-first", "awq")),
                    ("scale_type", ("float16", "bfloat16", "float32")))),
    Format(id="nf4", label="NF4",
           formula="level(code) × (map(scale code) × second scale + offset)",
           module=nf4, group=64, ends=NIBBLE,
           options=(("block", (64, 32, 128)), ("double", (True, False)))),
    Format(id="fp8-e4m3", label="FP8 E4M3",
           formula="value(code) × scale",
           module=fp8, group=0, fixed=(("kind", "e4m3"),), ends=(0xFE, 0xFD, 0x7D, 0x7E),
           options=(("granularity", ("channel", "none", "tensor", "token")), ("overflow", ("saturate", "nan")))),
    Format(id="fp8-e5m2", label="FP8 E5M2",
           formula="value(code) × scale",
           module=fp8, group=0, fixed=(("kind", "e5m2"),), ends=(0xFB, 0xFA, 0x7A, 0x7B),
           options=(("granularity", ("channel", "none", "tensor", "token")), ("overflow", ("saturate", "nan")))),
    Format(id="mxfp4", label="MXFP4",
           formula="value(code) × 2^(shared exponent − 127)",
           module=mxfp4, group=32, ends=SMALL_FLOAT,
           options=(("layout", ("split", "gguf")),)),
    Format(id="nvfp4", label="NVFP4",
           formula="value(code) × block scale × tensor scale",
           module=nvfp4, group=16, ends=SMALL_FLOAT,
           options=(("layout", ("split", "gguf")),)),
    Format(id="bitnet-2bit", label="BitNet b1.58, 2 bits",
           formula="(code − 1) × scale",
           module=bitnet, group=-1, fixed=(("packing", "2bit"),),
           ends=(0, 1, 1, 2), options=(("layout", ("rows", "gguf")),)),
    Format(id="bitnet-5in8", label="BitNet b1.58, 5 in a byte",
           formula="(digit − 1) × scale",
           module=bitnet, group=-1, fixed=(("packing", "5in8"),),
           ends=(0, 1, 1, 2), options=(("layout", ("rows", "gguf")),)),
    Format(id="q4_0", label="GGUF Q4_0",
           formula="(code − 8) × d",
           module=q4_0, group=32, ends=NIBBLE),
    Format(id="q4_1", label="GGUF Q4_1",
           formula="code × d + m",
           module=q4_1, group=32, ends=NIBBLE),
    Format(id="q5_0", label="GGUF Q5_0",
           formula="(code − 16) × d",
           module=q5_0, group=32, ends=(0, 1, 30, 31)),
    Format(id="q8_0", label="GGUF Q8_0",
           formula="code × d",
           module=q8_0, group=32, ends=(-128, -127, 126, 127)),
    Format(id="q4_k", label="GGUF Q4_K",
           formula="code × group scale × d − group minimum × dmin",
           module=q4_k, group=32, ends=NIBBLE),
    Format(id="q6_k", label="GGUF Q6_K",
           formula="(code − 32) × group scale × d",
           module=q6_k, group=16, ends=(0, 1, 62, 63)),
    Format(id="sparse-2:4", label="2:4 sparse",
           formula="value where kept, 0 elsewhere",
           module=sparse, group=4,
           options=(("value_type", ("float16", "bfloat16")), ("metadata", ("plain", "cutlass")))),
)


def format_of(name: str) -> Format:
    """The format with that id. Raises UnknownName."""
    for one in FORMATS:
        if one.id == name:
            return one
    known = [one.id for one in FORMATS]
    near = [other for other in known if str(name).lower().replace("_", "-") in (other, other.replace("_", "-"))]
    raise UnknownName("format", name, "use one of " + ", ".join(known), near)


def checked(one: Format, options: dict[str, object]) -> dict[str, object]:
    """The options that a caller gave, with what the id stands for. Raises InputError for one the format does not take."""
    known = dict(one.options)
    for name, value in options.items():
        if name not in known:
            raise InputError(name, value, f"{one.id} takes " + (", ".join(known) or "no options"))
        if not any(type(value) is type(choice) and value == choice for choice in known[name]):
            raise InputError(name, value, "use one of " + ", ".join(str(choice) for choice in known[name]))
    return dict(one.fixed) | options


def quantise(name: str, values: object, **options: object) -> Packed:
    """`values` in the named format. Raises InputError."""
    one = format_of(name)
    return one.module.quantise(values, **checked(one, options))


def read(name: str, data: bytes, shape: tuple[int, ...], **options: object) -> Packed:
    """A tensor of that shape from the bytes of the named format. Raises InputError."""
    one = format_of(name)
    if not shape or any(type(size) is not int or size < 1 for size in shape):
        raise InputError("shape", shape, "give one positive whole number a dimension")
    return one.module.read(data, shape, **checked(one, options))


def dequantise(packed: Packed) -> "ndarray":
    """The weights that the bytes stand for, float32."""
    return format_of(packed.format).module.dequantise(packed)


def sections(packed: Packed) -> tuple[Section, ...]:
    """The runs of records that the bytes are made of."""
    return format_of(packed.format).module.sections(packed)


def fields_of(packed: Packed, index: int) -> tuple[Field, ...]:
    """The bits of the weight at flat `index`: code, scale, zero, metadata. Raises InputError."""
    return fields.fields(packed, index, sections(packed))


def owner_of(packed: Packed, byte: int, bit: int) -> Owner:
    """Whose a bit is, and which weights it helps to make. Raises InputError."""
    return fields.owner(packed, byte, bit, sections(packed))


def saturated(values: object, packed: Packed) -> int:
    """How many weights were cut off: they lie beyond the outermost level of their scale by more than half of its step."""
    import numpy as np

    ends = format_of(packed.format).ends
    if not ends:
        return 0
    with np.errstate(invalid="ignore", over="ignore"):  # the outermost level may be one that no weight needs: infinite
        levels = [dequantise(replace(packed, codes=np.full_like(packed.codes, code))).astype(np.float64) for code in ends]
        given = np.asarray(values).astype(np.float32).reshape(packed.shape)
        low, low_inner, high_inner, high = levels
        swap = low > high  # a negative scale turns the order round
        low, high = np.where(swap, high, low), np.where(swap, low, high)
        low_inner, high_inner = np.where(swap, high_inner, low_inner), np.where(swap, low_inner, high_inner)
        return int(((given > high + (high - high_inner) / 2) | (given < low - (low_inner - low) / 2)).sum())
