"""The weights that are looked at: typed, drawn from a preset, or part of a tensor of a .safetensors file."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pycore.pack.safetensors import Entry
from pycore.quality import draws

if TYPE_CHECKING:
    from numpy import ndarray

DEVIATION = 0.02  # of the presets: GPT-2's initial weights (Radford 2019); no format but FP8 without scale depends on it
OUTLIERS_EVERY, OUTLIERS_TIMES = 64, 20.0  # one column in 64 is 20 times as large
MOST = 1 << 20
SEPARATORS = re.compile(r"[\s,]+")
EDIT = re.compile(r"\s*([0-9]+)\s*[=:]\s*(\S+)\s*")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Weights:
    """Numbers in rows (output channels) of columns (inputs).

    values    float32 (rows, columns); NaN and infinity only where they were typed or lie in the file
    source    "typed", "preset" or "file"; `label` says which, in words
    tensor    of a file: the tensor as its header lists it; `tensors`: those of the file that can be read
    given     how many numbers were given where short rows were filled up with zeros, else all of them
    remarks   what was done to what was asked for (rows cut, filled up, rounded)
    """

    values: "ndarray"
    source: str
    label: str
    tensor: Entry | None = None
    tensors: tuple[Entry, ...] = ()
    given: int = 0
    remarks: tuple[str, ...] = ()

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
    """Normal, but one column in 64 (the first of each) is 20 times as large."""
    values = normal(seed, rows, columns)
    values[:, OUTLIERS_EVERY // 8::OUTLIERS_EVERY] *= OUTLIERS_TIMES
    return values


PRESETS: dict[str, Callable[[int, int, int], "ndarray"]] = {
    "normal": normal, "heavy-tailed": heavy_tailed, "outlier-channel": outlier_channel, "uniform": uniform}
