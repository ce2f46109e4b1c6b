"""Every format and group size on the same weights: error against true bits, and who is beaten by whom."""

from collections.abc import Sequence
from dataclasses import dataclass

from pycore.pack.formats import FORMATS, Format


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
