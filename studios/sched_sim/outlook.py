"""Sweeps, draws and the validated replay as the page shows them."""

from dataclasses import dataclass
from typing import Any

from studios.explain import Ledger, help_field


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """Figures over a swept quantity."""

    axis: str = help_field("title of the axis")
    log: bool = help_field("whether the axis is logarithmic")
    policies: tuple[str, ...] = help_field("names of the policies")
    points: tuple[tuple, ...] = help_field("(policy, x, p50 TTFT s, mean TPOT s, goodput /s, offered /s)")
    knees: tuple[float, ...] = help_field("where the curve turns, in units of the axis")
    say: str = help_field("what it shows, in a sentence")
    heads: tuple[str, ...] = help_field("heads of the table")
    rows: tuple[tuple[str, ...], ...] = help_field("the points as text")


@dataclass(frozen=True, slots=True, kw_only=True)
class Draws:
    """The spread over runs with step times drawn from their uncertainty."""

    points: tuple[tuple[str, float], ...] = help_field("(policy, p90 TTFT s) of every draw")
    say: str = help_field("what it shows, in a sentence")
    rows: tuple[tuple[str, ...], ...] = help_field("per policy: least, median, most, as text")


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """Real engine logs, replayed."""

    heads: tuple[str, ...] = help_field("heads of the table")
    rows: tuple[tuple[str, ...], ...] = help_field("the golden table as text")
    points: tuple[tuple, ...] = help_field("(run, real s, simulated s, error, band) of each request drawn")
    say: str = help_field("what it shows, in a sentence")


def sweep_view(answer: Any, ledger: Ledger) -> Sweep | None:
    return None


def draws_view(answer: Any, ledger: Ledger) -> Draws | None:
    return None


def replay_view(ledger: Ledger) -> Replay | None:
    return None
