"""The Gantt as it stands in the page before any script runs: a still drawing per policy, and the scene for the player.

A mark is told by its height and line as well as by its colour: a prefill fills its lane, a decode is a bar of a third,
waiting is a line. Widths are percentages of the common time axis, as path units of `WIDE`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pycore.units import seconds
from studios.explain import Ledger, Number, help_field
from studios.sched_sim import scene
from studios.sched_sim.scene import Lane, Mark, Strip

WIDE = 4000
HEIGHTS = ((12, 20), (26, 14), (1000, 11))  # up to so many lanes: the height of one in pixels
LABELLED = 14  # from this height on a lane's tokens stand beside its name
STRIP = 34  # height of a server's strip
SHAPES = {0: (0.08, 0.84), 1: (0.3, 0.4), 2: (0.08, 0.84), 3: (0.08, 0.84), 4: (0.46, 0.08), 5: (0.42, 0.16),
          6: (0.42, 0.16), 7: (0.42, 0.16)}
"""Where in its lane a mark begins and how high it is, as shares of the lane's height; the player has the same."""
CLASSES = ("prefill", "decode", "swap", "swap", "wait", "held", "lost", "flight")
TICKS = tuple(digit * 10**power for power in range(0, 12) for digit in (1, 2, 5))


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """All marks of one kind."""

    style: str = help_field("class of the style sheet")
    d: str = help_field("path data in units of WIDE by pixels")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """One mark of the time axis."""

    x: str = help_field("'25.00%'")
    text: str = help_field("'1.5 s'")


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """What stands beside a lane."""

    text: str = help_field("request")
    tokens: str = help_field("prompt and answer in tokens, or '' where lanes are too low for it")
    y: str = help_field("base line in pixels")


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """The longest silence between two tokens of one request."""

    x: str = help_field("left edge, a percentage")
    width: str = help_field("width, a percentage")
    text: str = help_field("'1.2 s without a token'")
    anchor: str = help_field("'start' or 'end': on which side of its place the text fits")
    at: str = help_field("where the text is anchored, a percentage")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One policy's drawing."""

    label: str = help_field("the policy")
    gap: Number | None = help_field("longest time between two tokens of a request, or None where there is none")
    done: str = help_field("'9 of 9 requests in 2.86 s'")
    height: int = help_field("of the whole drawing, pixels")
    lanes_height: int = help_field("of the lanes alone")
    labels: tuple[Label, ...] = help_field("beside the lanes")
    paths: tuple[Path, ...] = help_field("marks of the lanes")
    band: Band | None = help_field("the longest silence, or None")
    strips: tuple[str, ...] = help_field("what stands beside the KV pools drawn below the lanes")
    pools: str = help_field("the pools in words: 'a KV pool of 2,469 blocks'")
    pool: tuple[Path, ...] = help_field("the KV pools: used and cached blocks")
    say: str = help_field("the drawing in words")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gantt:
    """Every policy on one time axis."""

    rows: tuple[Row, ...] = help_field("in the order of the question: the policy under test first")
    ticks: tuple[Tick, ...] = help_field("the time axis")
    thinned: str = help_field("what is left out of the drawing, or ''")
    scene: str = help_field("the same for the player, as JSON")


def gantt(answer: Any, ledger: Ledger, silences: Sequence[Any], worst: dict[str, tuple[int, int]]) -> Gantt:
    """The drawing of an answer. `silences`: per run (Term, start_ns, end_ns) of its longest token gap, or None; `worst`: see
    `scene.idle`."""
    results = [run.result for run in answer.runs]
    names = scene.drawn(results[0].requests, worst)
    span = max(max(result.makespan_ns for result in results) // 1000, 1)
    texts: dict[str, int] = {}
    rows, data = [], []
    for run, silence in zip(answer.runs, silences, strict=True):
        lanes = scene.lanes(run.result, names, texts)
        strips = tuple(scene.strip(server) for server in run.result.servers[:4])
        band = None if silence is None else (silence[1] // 1000, silence[2] // 1000,
                                             f"{seconds(silence[0].value)} without a token")
        rows.append(row(run, lanes, strips, band, span, None if silence is None else ledger.number(silence[0], seconds)))
        data.append(scene.run_json(run.label, lanes, strips, band))
    return Gantt(rows=tuple(rows), ticks=ticks(span), thinned=thinned(results[0], names, rows),
                 scene=scene.as_json(data, texts, span))


def row(run: Any, lanes: Sequence[Lane], strips: Sequence[Strip], band: Any, span: int, gap: Number | None) -> Row:
    """One policy."""
    high = next(height for most, height in HEIGHTS if len(lanes) <= most)
    whole = high * len(lanes)
    done = sum(one.finished for one in run.result.requests)
    count = len(run.result.requests)
    return Row(
        label=run.label, gap=gap, height=whole + STRIP * len(strips), lanes_height=whole,
        done=f"{done:,} of {count:,} requests in {seconds(run.result.makespan_ns / 1e9)}",
        labels=tuple(Label(text=one.id, tokens=one.tokens if high >= LABELLED else "",
                           y=f"{high * index + high * 0.75:g}") for index, one in enumerate(lanes)),
        paths=paths(lanes, high, span), band=None if band is None else drawn_band(band, span),
        strips=tuple(f"KV, {one.name}" if len(strips) > 1 else "KV pool" for one in strips),
        pools="; ".join(f"{f'{one.name}: ' if len(strips) > 1 else ''}a KV pool of {one.blocks:,} blocks" for one in strips),
        pool=pool(strips, whole, span),
        say=f"{run.label}: a lane for each of {len(lanes)} requests over {seconds(span / 1e6)}, and the KV pool below")


def paths(lanes: Sequence[Lane], high: int, span: int) -> tuple[Path, ...]:
    """The marks of all lanes, a path a class; what would fall on the same unit as its neighbour is left out."""
    found: dict[str, list[str]] = {}
    for index, one in enumerate(lanes):
        drawn: dict[int, int] = {}
        for mark in one.marks:
            text = rectangle(mark, index * high, high, span, drawn)
            if text:
                found.setdefault(CLASSES[mark[0]], []).append(text)
        if one.fate:  # given up: an upright bar where it ended
            x = min(one.end * WIDE // span, WIDE - 12)
            found.setdefault("lost", []).append(f"M{x} {index * high + 1}h12v{high - 2}h-12z")
    return tuple(Path(style=style, d="".join(found[style])) for style in dict.fromkeys(CLASSES) if style in found)


def rectangle(mark: Mark, y: int, high: int, span: int, drawn: dict[int, int]) -> str:
    """A mark as path data; '' where the last of its kind already covers its place."""
    kind, start, length, _ = mark
    left, right = start * WIDE // span, (start + length) * WIDE // span
    if right <= drawn.get(kind, -1):
        return ""
    left = max(left, drawn.get(kind, -1))
    drawn[kind] = right = max(right, left + 1)
    top, share = SHAPES[kind]
    return f"M{left} {y + top * high:.4g}h{right - left}v{share * high:.4g}h{left - right}z"


def pool(strips: Sequence[Strip], top: int, span: int) -> tuple[Path, ...]:
    """Used blocks, and cached ones on top of them, as steps of a skyline."""
    used, cached = [], []
    for index, one in enumerate(strips):
        floor = top + STRIP * (index + 1)
        room = STRIP - 6
        for into, count in ((cached, lambda bin_: bin_[4] + bin_[5]), (used, lambda bin_: bin_[4])):
            into.append(skyline([(bin_[0], bin_[1], count(bin_)) for bin_ in one.bins], floor, room, one.blocks, span))
    return tuple(Path(style=style, d="".join(parts)) for style, parts in (("cached", cached), ("used", used)))


def skyline(bins: Sequence[tuple[int, int, int]], floor: int, room: int, most: int, span: int) -> str:
    """A filled step curve, from the floor up; runs of one height are one step."""
    steps: list[tuple[int, int]] = []
    for start, _, count in bins:
        x, y = start * WIDE // span, floor - room * count // max(most, 1)
        if steps and steps[-1][0] == x:
            steps[-1] = (x, min(y, steps[-1][1]))
        elif not steps or steps[-1][1] != y:
            steps.append((x, y))
    if not steps:
        return ""
    end = bins[-1][1] * WIDE // span
    return f"M{steps[0][0]} {floor}" + "".join(f"H{x}V{y}" for x, y in steps) + f"H{end}V{floor}z"


def drawn_band(band: tuple[int, int, str], span: int) -> Band:
    """The silence as percentages; its text stands to the right of it where there is room."""
    left, right = 100 * band[0] / span, 100 * band[1] / span
    fits = right < 68
    return Band(x=f"{left:.2f}%", width=f"{max(right - left, 0.1):.2f}%", text=band[2],
                anchor="start" if fits else "end", at=f"{right + 0.6 if fits else left - 0.6:.2f}%")


def ticks(span: int) -> tuple[Tick, ...]:
    """Round times, five to ten of them."""
    step = next((one for one in TICKS if span / one <= 7), TICKS[-1])
    return tuple(Tick(x=f"{100 * at / span:.2f}%", text=seconds(at / 1e6)) for at in range(0, span, step)
                 if at + step * 0.35 < span)


def thinned(result: Any, names: Sequence[str], rows: Sequence[Row]) -> str:
    """What the drawing leaves out, in words."""
    count = len(result.requests)
    return "" if len(names) == count else (
        f"Drawn: {len(names)} of {count:,} requests, the {scene.WORST} that waited longest and an even spread of the "
        "rest. Every figure on this page counts all of them.")
