"""The weights that are looked at: typed, drawn from a preset, or part of a tensor of a .safetensors file."""

import functools
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pycore import cache
from pycore.errors import InputError, SourceError, StudioError
from pycore.pack.safetensors import READABLE, Entry, Header, Reader, file_reader, read_header, read_rows
from pycore.quality import draws

if TYPE_CHECKING:
    from numpy import ndarray

DEVIATION = 0.02  # of the presets: GPT-2's initial weights (Radford 2019); no format but FP8 without scale depends on it
OUTLIERS_EVERY, OUTLIERS_TIMES = 64, 20.0  # one column in 64 is 20 times as large
MOST = 1 << 20
ROW_ENDS = re.compile(r"[\n;]")
SEPARATORS = re.compile(r"[\s,\[\]]+")
EDIT = re.compile(r"([0-9]{1,9})\s*[=:]\s*(\S+)")
EMPTY_PLACE = re.compile(r",\s*,")
NUMBERS = "numbers separated by commas or spaces (0.1, -2e-3, nan, inf); a new line or ; begins a row"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Weights:
    """Numbers in rows (output channels) of columns (inputs).

    values    float32 (rows, columns); NaN and infinity only where they were typed or lie in the file
    source    "typed", "preset" or "file"; `label` says which, in words
    tensor    of a file: the tensor as its header lists it; `tensors`: those of the file that can be read
    remarks   what was done to what was asked for (fewer rows than asked, say)
    before    the weights that some were set by hand of, in the rows `touched`; None where none were
    """

    values: "ndarray"
    source: str
    label: str
    tensor: Entry | None = None
    tensors: tuple[Entry, ...] = ()
    remarks: tuple[str, ...] = ()
    before: "Weights | None" = None
    touched: tuple[int, ...] = ()

    @property
    def rows(self) -> int:
        """Output channels."""
        return self.values.shape[0]

    @property
    def columns(self) -> int:
        """Weights in a row."""
        return self.values.shape[1]

    @property
    def count(self) -> int:
        """How many there are."""
        return self.values.size


def uniform(seed: int, rows: int, columns: int) -> "ndarray":
    """Every value within +- sqrt(3) deviations equally likely: what the textbook's 6.02 dB a bit assumes."""
    return (2.0 * draws.uniforms(seed, 0, 0, rows * columns) - 1.0).reshape(rows, columns) * (math.sqrt(3.0) * DEVIATION)


def normal(seed: int, rows: int, columns: int) -> "ndarray":
    """Normal, as most trained weights nearly are."""
    return draws.normals(seed, 0, rows * columns).reshape(rows, columns) * DEVIATION


def heavy_tailed(seed: int, rows: int, columns: int) -> "ndarray":
    """Student's t with 4 degrees of freedom, scaled to the same deviation: a few weights far out."""
    return draws.student(seed, 0, rows * columns).reshape(rows, columns) * (DEVIATION / math.sqrt(2.0))


def outlier_channel(seed: int, rows: int, columns: int) -> "ndarray":
    """Normal, but one column in 64 is 20 times as large."""
    values = normal(seed, rows, columns)
    values[:, OUTLIERS_EVERY // 8::OUTLIERS_EVERY] *= OUTLIERS_TIMES
    return values


PRESETS: dict[str, Callable[[int, int, int], "ndarray"]] = {
    "normal": normal, "heavy-tailed": heavy_tailed, "outlier-channel": outlier_channel, "uniform": uniform}


@functools.lru_cache(maxsize=4)
def typed(text: str) -> Weights:
    """Weights from numbers as people write them. Raises InputError."""
    import numpy as np

    rows = rows_of(text)
    with np.errstate(over="ignore"):
        values = np.array(rows, np.float64).astype(np.float32)
    count = "1 number" if values.size == 1 else f"{values.size:,} numbers"
    return Weights(values=values, source="typed", label=f"{count} given")


def rows_of(text: str) -> list[list[float]]:
    """The numbers of every row. Raises InputError."""
    rows = [numbers(line) for line in ROW_ENDS.split(text)]
    rows = [row for row in rows if row]
    if not rows:
        raise InputError("values", text, f"accepted: {NUMBERS}; at least one")
    if len({len(row) for row in rows}) > 1:
        lengths = ", ".join(str(len(row)) for row in rows[:6]) + (", ..." if len(rows) > 6 else "")
        raise InputError("values", f"rows of {lengths} numbers", "accepted: every row of the same length")
    return rows


def numbers(line: str) -> list[float]:
    """The numbers of one row. Raises InputError at the first thing that is none, a place left empty included."""
    if EMPTY_PLACE.search(line):
        raise InputError("values", line, "accepted: a number between two commas")
    return [number(part, "values", NUMBERS) for part in SEPARATORS.split(line) if part]


def number(text: str, field: str, accepted: str) -> float:
    """One number. Raises InputError."""
    try:
        return float(text)
    except ValueError:
        raise InputError(field, text, f"accepted: {accepted}") from None


@functools.lru_cache(maxsize=4)
def drawn(preset: str, seed: int, rows: int, columns: int) -> Weights:
    """Weights of a preset. Raises InputError for too many."""
    import numpy as np

    if rows * columns > MOST:
        raise InputError("rows", f"{rows:,} x {columns:,}", f"accepted: at most {MOST:,} weights")
    values = PRESETS[preset](seed, rows, columns).astype(np.float32)
    return Weights(values=values, source="preset", label=f"{preset.replace('-', ' ')}, seed {seed}")


@functools.lru_cache(maxsize=2)
def header_of(file: str, stamp: tuple[int, int]) -> Header:
    """The header of a file, kept as long as the file's `stamp` is the same. Raises SourceError, InputError."""
    name, size, read = opened(file)
    return read_header(read, size, name)


def opened(file: str) -> tuple[str, int, Reader]:
    """(name, size, reader) of a file of the reader's, chosen on the page or named by its path. Raises StudioError."""
    if cache.is_upload(file):
        return cache.opened("file", file)
    read, size = file_reader(Path(file))
    return Path(file).name, size, read


def stamp_of(file: str) -> tuple[int, int]:
    """What changes when a file does; nothing for one chosen on the page, whose reference does."""
    if cache.is_upload(file):
        return 0, 0
    try:
        found = Path(file).stat()
    except (OSError, ValueError) as error:
        raise SourceError(file[-80:], getattr(error, "strerror", None) or str(error), "file") from None
    if not Path(file).is_file():
        raise SourceError(file[-80:], "is no file", "file")
    return found.st_size, found.st_mtime_ns


def tensors(file: str) -> tuple[Entry, ...]:
    """The tensors of a file whose numbers can be read, in its order. Raises StudioError with the field."""
    return tuple(one for one in at_field(header_of, file, stamp_of(file)).entries if one.dtype in READABLE and one.elements)


def at_field(call: Callable, *arguments: object) -> object:
    """What a call returns; what it raises belongs to the question's file. Raises StudioError."""
    try:
        return call(*arguments)
    except StudioError as error:
        error.field = error.field or "file"
        raise


def chosen_tensor(file: str, stamp: tuple[int, int], tensor: str, first_row: int) -> tuple[
        Header, tuple[Entry, ...], Entry, int]:
    """(header, tensors that can be read, the one asked for or the first with rows, how many rows it has); no numpy.

    Raises StudioError.
    """
    header, found = at_field(header_of, file, stamp), tensors(file)
    if not found:
        raise SourceError(header.file, "holds no tensor with numbers of a kind that can be read", "file")
    one = header.entry(tensor) if tensor else next((each for each in found if len(each.shape) > 1), found[0])
    have = one.elements // one.columns if one.elements else 0
    if first_row >= have > 0:
        raise InputError("first_row", first_row, f"accepted: 0 to {have - 1:,}, the rows of {one.name[:80]}")
    if one.columns > MOST:
        raise InputError("tensor", one.name, f"accepted: rows of at most {MOST:,} numbers; these have {one.columns:,}")
    return header, found, one, have


@functools.lru_cache(maxsize=4)
def stored(file: str, stamp: tuple[int, int], tensor: str, first_row: int, rows: int) -> Weights:
    """Rows of a tensor; only their bytes are read. Raises StudioError."""
    header, found, one, have = chosen_tensor(file, stamp, tensor, first_row)
    count = min(rows, have - first_row, MOST // one.columns)
    _, _, read = opened(file)
    values = at_field(read_rows, read, header, one.name, first_row, count)
    remark = (f"{count:,} rows instead of {rows:,}: " + (
        f"the tensor has {have:,}" if count == have - first_row else f"at most {MOST:,} weights are looked at at once"),)
    return Weights(values=values, source="file", tensor=one, tensors=found, remarks=remark if count < rows else (),
                   label=f"{one.name} of {header.file}, rows {first_row:,} to {first_row + count - 1:,}")


@functools.lru_cache(maxsize=4)
def edited(weights: Weights, edits: str) -> Weights:
    """Weights with some set by hand: 'index=value, ...'. Raises InputError."""
    import numpy as np

    values, touched = weights.values.copy(), set()
    accepted = f"accepted: index=value, separated by commas, indexes 0 to {values.size - 1:,}"
    for part in filter(None, re.split(r"\s*[,;]\s*|\s+(?=[0-9]+\s*[=:])", edits.strip())):
        match = EDIT.fullmatch(part)
        if match is None or int(match[1]) >= values.size:
            raise InputError("edits", part, accepted)
        with np.errstate(over="ignore"):
            values.reshape(-1)[int(match[1])] = number(match[2], "edits", accepted.removeprefix("accepted: "))
        touched.add(int(match[1]) // weights.columns)
    return replace(weights, values=values, before=weights, touched=tuple(sorted(touched)))


def check(*, values: str, file: str, tensor: str, first_row: int) -> None:
    """Refuse what can be refused without numpy: before anything of the question is shown. Raises StudioError."""
    if values.strip():
        rows_of(values)
    elif file:
        chosen_tensor(file, stamp_of(file), tensor, first_row)


def weights_of(*, values: str, preset: str, seed: int, rows: int, columns: int, edits: str, file: str, tensor: str,
               first_row: int) -> Weights:
    """What a question asks to look at: typed numbers before a file before a preset. Equal questions give the same object.

    Raises StudioError.
    """
    if values.strip():
        found = typed(values)
    elif file:
        found = stored(file, stamp_of(file), tensor, first_row, rows)
    else:
        found = drawn(preset, seed, rows, columns)
    return edited(found, edits) if edits.strip() else found
