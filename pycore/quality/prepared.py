"""Weights made easier to quantise, and back: columns scaled (SmoothQuant, AWQ), rows rotated (Hadamard)."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pycore.errors import InputError
from pycore.pack import formats, rotation, smoothing
from pycore.quality.inputs import INPUTS
from pycore.quality.weights import Weights

if TYPE_CHECKING:
    from numpy import ndarray

Options = tuple[tuple[str, object], ...]
SEARCH_ROWS, SEARCH_COLUMNS = 32, 256  # of the weights: what AWQ's alpha is searched on, and methods are compared on
TRIES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Methods:
    """Which methods prepare the weights, and for which inputs."""

    rotation: bool = False
    smoothing: bool = False
    awq: bool = False
    alpha: float = 0.5
    inputs: str = "outlier-channels"
    samples: int = 512
    seed: int = 1

    @property
    def any(self) -> bool:
        """Whether anything is done at all."""
        return self.rotation or self.smoothing or self.awq

    @property
    def words(self) -> str:
        """'SmoothQuant, then rotation'."""
        names = (("SmoothQuant", self.smoothing), ("AWQ", self.awq), ("rotation", self.rotation))
        return ", then ".join(name for name, on in names if on)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Prepared:
    """Values to quantise instead of the weights; `undo` takes what came back to the weights' own space."""

    values: "ndarray"
    undo: Callable[["ndarray"], "ndarray"]
    notes: tuple[str, ...]


@functools.lru_cache(maxsize=4)
def inputs_of(kind: str, seed: int, samples: int, columns: int) -> "ndarray":
    """Calibration inputs, float32 (samples, columns)."""
    import numpy as np

    return INPUTS[kind](seed, samples, columns).astype(np.float32)


def prepared(weights: "ndarray", methods: Methods, format_id: str, options: Options) -> Prepared:
    """The weights (rows, columns) prepared: columns scaled, then rows rotated. Raises InputError."""
    import numpy as np

    if methods.rotation and weights.shape[1] % 2:
        raise InputError("rotation", f"rows of {weights.shape[1]}", "accepted: an even number of columns")
    scales, notes = np.ones(weights.shape[1], np.float32), []
    inputs = None
    if methods.smoothing or methods.awq:
        inputs = inputs_of(methods.inputs, methods.seed, methods.samples, weights.shape[1])
    if methods.smoothing:
        scales = smoothing.smooth_scales(weights, inputs, methods.alpha)
        notes.append(f"SmoothQuant: columns scaled by {scales.min():.3g} to {scales.max():.3g}")
    if methods.awq:
        found = searched(weights * scales, inputs / scales, restorer(format_id, options, methods.rotation))
        own = smoothing.awq_scales(inputs / scales, found.alpha)
        scales = scales * own
        notes.append(f"AWQ: alpha {found.alpha:.2f}, columns scaled by {own.min():.3g} to {own.max():.3g}")
    scaled = weights * scales
    return Prepared(values=rotation.rotate(scaled) if methods.rotation else scaled, notes=tuple(notes),
                    undo=lambda restored: (rotation.rotate_back(restored) if methods.rotation else restored) / scales)


def searched(weights: "ndarray", inputs: "ndarray", restore: Callable[["ndarray"], "ndarray"]) -> smoothing.Scaled:
    """AWQ's search for alpha on a part of the weights."""
    columns = min(SEARCH_COLUMNS, weights.shape[1])
    return smoothing.awq(weights[:SEARCH_ROWS, :columns], inputs[:, :columns], restore, TRIES)


def restorer(format_id: str, options: Options, rotated: bool) -> Callable[["ndarray"], "ndarray"]:
    """What a format makes of weights, rotated before and after where asked."""
    def restore(values: "ndarray") -> "ndarray":
        if not rotated:
            return formats.dequantise(formats.quantise(format_id, values, **dict(options)))
        turned = rotation.rotate(values)
        return rotation.rotate_back(formats.dequantise(formats.quantise(format_id, turned, **dict(options))))

    return restore


def finite(weights: Weights) -> bool:
    """Whether every weight is a number."""
    import numpy as np

    return bool(np.isfinite(weights.values).all())
