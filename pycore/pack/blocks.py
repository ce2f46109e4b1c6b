"""What GGUF's block formats have in common: a tensor is a run of blocks of equal size, scales inside."""

from typing import TYPE_CHECKING

from pycore.errors import InputError
from pycore.pack.packed import Packed
from pycore.pack.values import as_rows, checked_size, padded, stride_of

if TYPE_CHECKING:
    from numpy import ndarray


def in_blocks(values: object, size: int) -> tuple["ndarray", tuple[int, ...]]:
    """(blocks, size) float32 and the shape given. Raises InputError.

    A row that does not fill its last block is lengthened by its last value; llama.cpp refuses such rows.
    """
    rows, shape = as_rows(values)
    return padded(rows, size).reshape(-1, size), shape


def refuse_huge(blocks: "ndarray", limit: float) -> None:
    """Raise InputError for a magnitude whose scale no float16 could hold; its square would overflow in the search."""
    import numpy as np

    largest = float(np.abs(blocks).max())
    if largest > limit:
        raise InputError("values", f"{largest:.6g}", f"the float16 scale of this format reaches {limit:.6g}; give smaller "
                                                     "values")


def read_blocks(data: bytes, shape: tuple[int, ...], size: int, width: int, what: str) -> "ndarray":
    """The blocks in `data`, (blocks, width) of bytes. Raises InputError when their number does not fit the shape."""
    import numpy as np

    rows = int(np.prod(shape)) // shape[-1]
    count = rows * stride_of(shape[-1], size) // size
    return np.frombuffer(checked_size(data, count * width, what), np.uint8).reshape(count, width)


def in_shape(values: "ndarray", packed: Packed) -> "ndarray":
    """Slots back to the tensor's shape, padding dropped."""
    import numpy as np

    return np.ascontiguousarray(values.reshape(-1, packed.stride)[:, :packed.columns]).reshape(packed.shape)


def half_bytes(scales: "ndarray") -> tuple["ndarray", "ndarray"]:
    """float16 scales (n): as (n, 2) bytes and, rounded so, as float32. Raises InputError where float16 overflows."""
    import numpy as np

    from pycore.pack.scales import stored

    rounded, data = stored(scales, "float16")
    return np.frombuffer(data, np.uint8).reshape(-1, 2), rounded


def halves(block: "ndarray", start: int) -> "ndarray":
    """The float16 at byte `start` of each block, as float32 (n, 1)."""
    import numpy as np

    return np.ascontiguousarray(block[:, start:start + 2]).view("<f2").astype(np.float32)


def sequential(terms: "ndarray") -> "ndarray":
    """Sums over the first axis in its order, in float32, as a plain loop in C adds them."""
    total = terms[0].copy()
    for term in terms[1:]:
        total += term
    return total
