"""What a card gives one user against what it gives all of them: the same deployments at every batch they can hold.

At one batch the two are the same number times the batch; the trade shows only when the batch is swept. Swept are the
question's own deployment and the cheapest ways of the matrix; what no point of any of them beats is the frontier.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from pycore import catalog
from pycore.errors import StudioError
from pycore.roofline.speed import curve
from pycore.systems import infersize
from pycore.units import significant
from studios.explain import help_field
from studios.infersize.links import Links

BATCHES = tuple(1 << power for power in range(11))
SWEPT = 11


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """One deployment over its batches."""

    name: str = help_field("'1 × H100 SXM5 80GB, FP8'")
    href: str = help_field("the deployment as a question")
    asked: bool = help_field("whether it is the question's own")
    points: tuple[tuple[int, float, float, bool], ...] = help_field(
        "(sequences, tokens/s of one user, tokens/s per device, whether no other point beats it)")
    alone: str = help_field("tokens/s of one user when alone")
    full: str = help_field("tokens/s per device at the most sequences swept")
    leads: str = help_field("where it is on the frontier, '8 to 64 sequences', or ''")


@dataclass(frozen=True, slots=True, kw_only=True)
class Frontier:
    """The trade between one user's speed and a card's work."""

    sweeps: tuple[Sweep, ...] = help_field("the fastest for one user alone first; numbered from 1 in chart and list")
    asked: tuple[tuple[float, float], ...] = help_field(
        "(tokens/s of one user, tokens/s per device) at the asked load, where that fits")


def frontier(answer: Any, ways: Iterable[Any], links: Links) -> Frontier | None:
    """The sweeps of the question's deployment and of matrix rows `ways` (cheapest first), or None without any."""
    own = answer.deployment
    found = [(own_name(own), "", True, points(own, answer.capacity.max_sequences.value))] if answer.fits else []
    for row in ways:
        if len(found) > SWEPT:
            break
        if row.accelerator_id == own.accelerator.id and row.count == own.parallel.devices:
            continue
        try:
            other = infersize.resolve(replace(answer.query, **row.changes))
            name = f"{row.count} × {bare(row.accelerator_name)}, {row.changes['quant']}"
            found.append((name, links.to(row.changes), False, points(other, row.max_sequences)))
        except StudioError:
            continue  # the matrix allows what the question itself refuses (a format that another engine would load)
    found = sorted((one for one in found if one[3]), key=lambda one: -one[3][0][1])
    if not found:
        return None
    best, rate = undominated([point for *_, swept in found for point in swept]), answer.speed
    return Frontier(
        sweeps=tuple(sweep(name, href, asked, swept, best) for name, href, asked, swept in found),
        asked=((rate.tokens_per_s_user.value, rate.tokens_per_s_per_gpu.value),) if answer.fits else ())


def points(deployment: Any, most: float) -> tuple[tuple[int, float, float], ...]:
    """(sequences, tokens/s of one user, tokens/s per device) up to the most that fit."""
    batches = tuple(batch for batch in BATCHES if deployment.parallel.data <= batch <= most)
    return tuple((one.sequences, one.tokens_per_s_user, one.tokens_per_s_per_gpu)
                 for one in curve(deployment, batches))


def undominated(all_points: list[tuple[int, float, float]]) -> set[tuple[float, float]]:
    """The (user, device) pairs that no other pair beats in both."""
    best, top = set(), 0.0
    for _, user, device in sorted(all_points, key=lambda point: (-point[1], -point[2])):
        if device > top:
            best.add((user, device))
            top = device
    return best


def sweep(name: str, href: str, asked: bool, swept: tuple, best: set[tuple[float, float]]) -> Sweep:
    """A sweep with its part of the frontier in words."""
    marked = tuple((*point, point[1:] in best) for point in swept)
    leading = [point for point in marked if point[3]]
    return Sweep(name=name, href=href, asked=asked, points=marked, alone=significant(swept[0][1], 3),
                 full=significant(swept[-1][2], 3), leads=batch_text(leading[0][0], leading[-1][0]) if leading else "")


def batch_text(first: int, last: int) -> str:
    return f"{first:,} to {last:,} sequences" if first != last else f"{first:,} sequence" + ("" if first == 1 else "s")


def own_name(deployment: Any) -> str:
    return f"{deployment.parallel.devices} × {bare(deployment.accelerator.name)}, {catalog.short(deployment.weights)}"


def bare(name: str) -> str:
    """An accelerator without its maker."""
    return name.removeprefix("NVIDIA ").removeprefix("AMD ").removeprefix("Intel ")
