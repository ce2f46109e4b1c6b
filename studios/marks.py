"""Positions of small drawings: bars, ranges and steps, as the percentages that SVG attributes take.

Templates draw, they do not calculate; so everything that needs a division is here.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from studios.explain import Number, help_field


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """One piece of a stacked bar."""

    label: str = help_field("what it is")
    style: int = help_field("1 to 7: colour and pattern")
    x: str = help_field("left edge, '12.5%'")
    width: str = help_field("width, '3.2%'")
    middle: str = help_field("centre, for text inside")
    room: str = help_field("'wide': its label fits inside even on a phone; 'some': on a page; '': nowhere")
    number: Number = help_field("its value")


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeMark:
    """A value on a line from zero, with the span it may lie in."""

    low: str = help_field("left end of the span, as a percentage")
    width: str = help_field("width of the span")
    point: str = help_field("where the value itself is")


def percent(value: float, whole: float) -> str:
    """`value` of `whole` as an SVG percentage, kept between 0 and 100; 0 where the value is not a number."""
    share = 100 * value / whole if whole > 0 and value == value else 0.0
    return f"{min(max(share, 0.0), 100.0):.2f}%"


def share_text(value: float, whole: float) -> str:
    """A share in words: '31 %', '<1 %'."""
    share = 100 * value / whole if whole > 0 else 0.0
    return "<1 %" if 0 < share < 1 else f"{share:.0f} %"


def stack(pieces: Sequence[tuple[str, float, int, Number]], whole: float) -> tuple[Segment, ...]:
    """A stacked bar of (label, value, style, number) on a scale that ends at `whole`; empty pieces are left out."""
    at, segments = 0.0, []
    for label, value, style, number in pieces:
        if value > 0:
            segments.append(Segment(
                label=label, style=style, x=percent(at, whole), width=percent(min(value, whole - at), whole),
                middle=percent(at + value / 2, whole), room=room(label, value / whole), number=number))
        at += value
    return tuple(segments)


def room(label: str, share: float) -> str:
    """Whether a label of this length fits into this share of a bar that is 850 pixels long, or 350 on a phone."""
    needed = 8 * len(label) + 12
    return "wide" if needed <= 350 * share else "some" if needed <= 850 * share else ""


def range_mark(low: float, value: float, high: float, whole: float) -> RangeMark:
    """`value` and its span on a scale from 0 to `whole`."""
    return RangeMark(low=percent(low, whole), width=percent(high - low, whole), point=percent(value, whole))


def step(value: float, thresholds: Sequence[float]) -> int:
    """Which step of a heat scale a value falls on: 1 below the first threshold, rising by one at each."""
    return 1 + sum(value >= threshold for threshold in thresholds)
