"""Measured points joined by straight lines: one axis (`Line`), and the four axes of an attention table (`Grid`).

Below the first point of an axis the first point holds (a kernel has a floor). Beyond the last point of a line it goes on
with the slope of its upper half: the last two points are so close that their slope is mostly noise (on the RTX 4090 it
would make 8,192 tokens a third of what they cost). Beyond the last point of an attention axis the last two go on.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Line(NamedTuple):
    """Piecewise linear value over `at`, which ascends."""

    at: tuple[float, ...]
    value: tuple[float, ...]

    def __call__(self, place: float) -> float:
        at, value = self.at, self.value
        if place <= at[0] or len(at) == 1:
            return value[0]
        upper = bisect_right(at, place)
        if upper == len(at):
            half = max(0, bisect_right(at, at[-1] / 2) - 1)
            return value[-1] + (value[-1] - value[half]) / (at[-1] - at[half]) * (place - at[-1])
        lower = upper - 1
        slope = (value[upper] - value[lower]) / (at[upper] - at[lower])
        return value[lower] + slope * (place - at[lower])


def line(points: Iterable[tuple[float, float]]) -> Line:
    """A line through points in any order. Raises ValueError where there is none, or two at one place."""
    ordered = sorted(points)
    places = tuple(place for place, _ in ordered)
    if not places or len(set(places)) != len(places):
        raise ValueError("a line needs at least one point, and no two at the same place")
    return Line(places, tuple(value for _, value in ordered))


def bracket(axis: Sequence[float], place: float) -> tuple[float, float, float]:
    """The neighbours of `place` on an ascending axis, and the weight of the upper one (above 1 beyond the last)."""
    if place <= axis[0] or len(axis) == 1:
        return axis[0], axis[0], 0.0
    upper = min(bisect_right(axis, place), len(axis) - 1)
    low, high = axis[upper - 1], axis[upper]
    return low, high, (place - low) / (high - low)


def between(low: float, high: float, weight: float) -> float:
    """low + weight × (high − low)"""
    return low + weight * (high - low)


def thinned(points: Sequence[tuple[float, float]], tolerance: float) -> list[tuple[float, float]]:
    """The points without those that a straight line between kept neighbours gives within `tolerance` (relative)."""
    kept, first = [points[0]], 0
    while first < len(points) - 1:
        last = first + 1
        while last + 1 < len(points) and straight(points[first:last + 2], tolerance):
            last += 1
        kept.append(points[last])
        first = last
    return kept


def straight(points: Sequence[tuple[float, float]], tolerance: float) -> bool:
    """Whether every inner point lies within `tolerance` of the line from the first to the last."""
    (start, low), (end, high) = points[0], points[-1]
    return all(abs(between(low, high, (place - start) / (end - start)) - value) <= tolerance * value
               for place, value in points[1:-1])


@dataclass(frozen=True, slots=True)
class Grid:
    """Seconds (or any unit) over (prompt tokens, prompt tokens cached before them, decoding sequences, their context).

    Measured shapes need not fill the grid: each pair of (prompt tokens, sequences) has its own two other axes. A step
    without prompt tokens is looked up among those measured without.
    """

    prompts: tuple[float, ...]
    sequences: dict[float, tuple[float, ...]]  # by prompt tokens
    before: dict[tuple[float, float], tuple[float, ...]]  # by (prompt tokens, sequences)
    lines: dict[tuple[float, float, float], Line]  # by (prompt tokens, sequences, before), over the context

    def __call__(self, prompt: float, before: float, decoding: float, context: float) -> float:
        if not prompt:
            return self.at_prompt(0, before, decoding, context)
        low, high, weight = bracket(self.prompts, prompt)
        value = self.at_prompt(low, before, decoding, context) if low or decoding else 0.0
        return between(value, self.at_prompt(high, before, decoding, context), weight) if weight else value

    def at_prompt(self, prompt: float, before: float, decoding: float, context: float) -> float:
        """At a measured number of prompt tokens."""
        low, high, weight = bracket(self.sequences[prompt], decoding)
        value = self.at_shape(prompt, low, before, context)
        return between(value, self.at_shape(prompt, high, before, context), weight) if weight else value

    def at_shape(self, prompt: float, decoding: float, before: float, context: float) -> float:
        """At a measured pair of prompt tokens and sequences."""
        low, high, weight = bracket(self.before[prompt, decoding], before)
        value = self.lines[prompt, decoding, low](context)
        return between(value, self.lines[prompt, decoding, high](context), weight) if weight else value


def grid(rows: Iterable[tuple[float, float, float, float, float]]) -> Grid:
    """A grid from rows (prompt tokens, cached before, decoding sequences, context, value).

    Raises ValueError where no row is decode-only (prompt 0), or two rows have the same place.
    """
    cells: dict[tuple[float, float, float], list[tuple[float, float]]] = {}
    for prompt, before, decoding, context, value in rows:
        cells.setdefault((prompt, decoding, before), []).append((context, value))
    shapes = sorted({(prompt, decoding) for prompt, decoding, _ in cells})
    prompts = tuple(sorted({prompt for prompt, _ in shapes}))
    if 0 not in prompts:
        raise ValueError("no row is of a step without prompt tokens")
    before: dict[tuple[float, float], list[float]] = {shape: [] for shape in shapes}
    for prompt, decoding, cached in sorted(cells):
        before[prompt, decoding].append(cached)
    return Grid(prompts=prompts,
                sequences={prompt: tuple(count for other, count in shapes if other == prompt) for prompt in prompts},
                before={shape: tuple(places) for shape, places in before.items()},
                lines={key: line(points) for key, points in cells.items()})
