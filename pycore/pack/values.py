"""What a format is given: numbers as rows of 32-bit floats, checked, and padded to whole groups."""

from typing import TYPE_CHECKING

from pycore.errors import InputError

if TYPE_CHECKING:
    from numpy import ndarray

MOST_VALUES = 1 << 28  # 1 GiB of 32-bit floats: what one call may hold
# Scales and zeros round: what comes back may exceed what was given by half a step of 4 bits, a fifteenth, and has to stay
# within float32's 3.4e38.
LARGEST = 3e38
ACCEPTED = "give at least one finite number, as a list, a list of lists, or an array"


def as_rows(values: object, *, finite: bool = True) -> tuple["ndarray", tuple[int, ...]]:
    """(rows, columns) of float32, and the shape as given; a flat list is one row.

    Numbers of higher precision are rounded to float32 first, as a checkpoint's weights are. Raises InputError for
    text, nothing, ragged lists, and (with `finite`) for NaN, infinity and magnitudes above `LARGEST`.
    """
    array = as_array(values)
    if finite:
        refuse_non_finite(array)
    return array.reshape(-1, array.shape[-1]), array.shape


def as_array(values: object) -> "ndarray":
    """`values` as a float32 array of at least one dimension. Raises InputError."""
    import numpy as np

    try:
        array = np.asarray(values)
    except (ValueError, TypeError, OverflowError):
        raise InputError("values", type(values).__name__, ACCEPTED + ", every row of the same length") from None
    if array.dtype.kind not in "fiub":
        raise InputError("values", array.dtype.name, ACCEPTED)
    if array.ndim == 0 or not 0 < array.size <= MOST_VALUES:
        raise InputError("values", f"{array.size:,} numbers", f"{ACCEPTED}, at most {MOST_VALUES:,}")
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(array, dtype=np.float32)


def refuse_non_finite(array: "ndarray") -> None:
    """Raise InputError at the first NaN, infinity or number above `LARGEST`, with its place."""
    import numpy as np

    # Both ends are within the limit only when all is: NaN spreads through a minimum, and compares as false.
    if -LARGEST <= array.min() and array.max() <= LARGEST:
        return
    first = int(np.flatnonzero(~(np.abs(array) <= LARGEST))[0])
    shown = f"{array.reshape(-1)[first]} at index {first}"
    raise InputError("values", shown, "this format has no code for NaN or infinity; give finite numbers of at most "
                                      f"{LARGEST:.0e}".replace("e+", "e"))


def padded(rows: "ndarray", multiple: int, *, fill: str = "edge") -> "ndarray":
    """Rows lengthened to a multiple of `multiple`: by their last value ("edge", which widens no group's range) or "zero"."""
    import numpy as np

    missing = -rows.shape[1] % multiple
    if not missing:
        return rows
    if fill == "edge":
        return np.pad(rows, ((0, 0), (0, missing)), mode="edge")
    return np.pad(rows, ((0, 0), (0, missing)))


def stride_of(columns: int, multiple: int) -> int:
    """`columns` rounded up to a multiple of `multiple`."""
    return columns + -columns % multiple


def checked_size(data: bytes, expected: int, what: str) -> bytes:
    """`data` when it has `expected` bytes. Raises InputError."""
    if len(data) != expected:
        raise InputError("data", f"{len(data):,} bytes", f"{what} of this shape has {expected:,} bytes")
    return bytes(data)


def chosen(field: str, value: object, among: tuple) -> object:
    """`value` when it is one of `among`. Raises InputError."""
    if value not in among:
        raise InputError(field, value, "use one of " + ", ".join(str(one) for one in among))
    return value
