"""What the charts over time and the distributions draw: at most `POINTS` of each policy, the worst of each stretch kept."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from studios.explain import help_field

POINTS = 120  # of a chart and policy
SHARES = 80  # steps of a distribution

Rows = tuple[tuple[str, float, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """Rows of (policy, x, y); x of the first three in seconds, times else in ms."""

    gaps: Rows = help_field("the longest token gap of each stretch of the run")
    ttft: Rows = help_field("time to first token by arrival")
    tpot: Rows = help_field("time per output token by arrival")
    ttft_share: Rows = help_field("share of requests with at most this time to first token")
    gap_share: Rows = help_field("share of tokens that came at most so long after the one before")


def lines(answer: Any, silences: Sequence[Sequence[tuple[int, int]]]) -> Lines:
    """Every series of an answer. `silences`: per run (end ns, length ns) of the longest token gap of each stretch."""
    gaps, ttft, tpot, ttft_share, gap_share = [], [], [], [], []
    for run, longest in zip(answer.runs, silences, strict=True):
        label, result = run.label, run.result
        gaps += [(label, at / 1e9, length / 1e6) for at, length in longest]
        first = [(one.arrival_ns / 1e9, one.ttft_ns / 1e6) for one in result.requests if one.ttft_ns is not None]
        pace = [(one.arrival_ns / 1e9, one.tpot_ns / 1e6) for one in result.requests if one.tpot_ns is not None]
        ttft += labelled(label, thinned(first))
        tpot += labelled(label, thinned(pace))
        ttft_share += labelled(label, shares(run.metrics.latencies["ttft"]))
        gap_share += labelled(label, shares(run.metrics.latencies["itl"]))
    return Lines(gaps=tuple(gaps), ttft=tuple(ttft), tpot=tuple(tpot), ttft_share=tuple(ttft_share),
                 gap_share=tuple(gap_share))


def labelled(label: str, points: Iterable[tuple[float, float]]) -> list[tuple[str, float, float]]:
    return [(label, x, y) for x, y in points]


def thinned(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """At most `POINTS`: of each equal stretch of the list the highest one."""
    if len(points) <= POINTS:
        return list(points)
    cuts = [index * len(points) // POINTS for index in range(POINTS + 1)]
    return [max(points[start:end], key=lambda point: point[1]) for start, end in zip(cuts, cuts[1:], strict=False)]


def shares(distribution: Any) -> list[tuple[float, float]]:
    """(ms, share of the samples at most that)."""
    return [(value * 1e3, share) for value, share in distribution.cdf(SHARES)]
