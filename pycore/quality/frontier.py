"""Every format and group size on the same weights: error against true bits, and who is beaten by whom."""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pycore.errors import InputError
from pycore.pack import measures
from pycore.pack.formats import FORMATS, Format
from pycore.pack.sums import folded_sum
from pycore.quality.rounding import rounded
from pycore.quality.weights import Weights

if TYPE_CHECKING:
    from numpy import ndarray


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """A format with its options as a question writes them; `id` is short and stable ("int4-g64-asym")."""

    id: str
    label: str
    format: str
    options: tuple[tuple[str, object], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One configuration on the weights. `sqnr_db` is infinite where nothing was lost, NaN for weights all zero.

    `dominated_by`: the id of a configuration with no more bits and no smaller SQNR, better in one of the two; '' on the
    frontier. `fault`: why the format refuses these weights, '' where it does not (figures are then NaN).
    """

    configuration: Configuration
    bits_per_weight: float
    sqnr_db: float
    max_error: float
    dominated_by: str
    fault: str = ""


@functools.cache
def configurations() -> tuple[Configuration, ...]:
    """What is compared: every format, with the options that change bits or error."""
    return tuple(configuration(one, options) for one in FORMATS for options in VARIANTS.get(one.id, ({},)))


VARIANTS: dict[str, tuple[dict[str, object], ...]] = {
    "int8": ({}, {"granularity": "tensor"}, {"symmetric": False}),
    "int4": tuple({"group": group} | extra for group in (32, 64, 128)
                  for extra in ({}, {"levels": 16}, {"symmetric": False})),
    "nf4": ({"block": 32}, {"block": 64}, {"block": 64, "double": False}, {"block": 128}),
    "fp8-e4m3": ({}, {"granularity": "none"}, {"granularity": "tensor"}),
    "fp8-e5m2": ({}, {"granularity": "none"}),
}
SHORT = {"group": "g{}", "block": "g{}", "granularity": "{}", "symmetric": "asym", "levels": "{}-levels",
         "double": "single"}
WORDS = {"group": "groups of {}", "block": "blocks of {}", "granularity": "scale: {}", "symmetric": "asymmetric",
         "levels": "{} levels", "double": "scales float32"}


def configuration(one: Format, options: dict[str, object]) -> Configuration:
    """A format with options, named."""
    return Configuration(
        id="-".join([one.id, *(SHORT[name].format(value) for name, value in options.items())]),
        label=", ".join([one.label, *(WORDS[name].format(value) for name, value in options.items())]),
        format=one.id, options=tuple(options.items()))


def dominated(points: Sequence[tuple[str, float, float]]) -> dict[str, str]:
    """Of (id, cost, gain): id -> who dominates it (the best gain among those that do; of equals the first given).

    A NaN never dominates and is never dominated.
    """
    found = {}
    for name, cost, gain in points:
        rivals = [(-other_gain, other_cost, place, other)
                  for place, (other, other_cost, other_gain) in enumerate(points)
                  if other_cost <= cost and other_gain >= gain and (other_cost < cost or other_gain > gain)]
        if rivals:
            found[name] = min(rivals)[3]
    return found


@functools.lru_cache(maxsize=160)
def measured(weights: Weights, one: Configuration) -> tuple[float, float, float, str]:
    """(bits per weight, SQNR, largest error, why it is refused) of one configuration."""
    import numpy as np

    try:
        with np.errstate(over="ignore", invalid="ignore"):
            bits, restored = rounded(weights, one.format, one.options)
            return bits, *error(weights, restored), ""
    except InputError as fault:
        return math.nan, math.nan, math.nan, str(fault)


def error(weights: Weights, restored: "ndarray") -> tuple[float, float]:
    """(SQNR, largest error): the very figures of `measures.error`, the weights' part taken once for all formats.

    Raises InputError where a number is not finite.
    """
    before, signal = doubled(weights)
    difference = before - restored
    largest = float(max(difference.max(), -difference.min()))
    difference *= difference
    noise = float(folded_sum(difference.reshape(-1)))
    if not math.isfinite(noise) or not math.isfinite(signal):
        raise InputError("values", "NaN or infinity", "an error is measured between finite numbers")
    return measures.decibels(signal, noise), largest


@functools.lru_cache(maxsize=2)
def doubled(weights: Weights) -> tuple["ndarray", float]:
    """The weights as float64, and the sum of their squares."""
    import numpy as np

    values = weights.values.astype(np.float64)
    return values, float(folded_sum((values * values).reshape(-1)))


@functools.lru_cache(maxsize=4)
def points(weights: Weights) -> tuple[Point, ...]:
    """Every configuration on the weights, in the order of `configurations()`; the same weights give the same object."""
    found = [(one, *measured(weights, one)) for one in configurations()]
    beaten = dominated([(one.id, bits, sqnr) for one, bits, sqnr, _, _ in found])
    return tuple(Point(configuration=one, bits_per_weight=bits, sqnr_db=sqnr, max_error=largest, fault=fault,
                       dominated_by=beaten.get(one.id, "")) for one, bits, sqnr, largest, fault in found)
