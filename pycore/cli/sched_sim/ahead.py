"""Which policy is ahead in each figure, and whether that is more than chance: compared request by request."""

import math
from collections.abc import Sequence

from pycore.ledger import Term
from pycore.simulation.compare import Comparison, Lead, leads
from pycore.simulation.latencies import LATENCIES
from pycore.stats.estimates import TooFew
from pycore.systems.sched_sim import Answer, Run

PERCENTS = (50, 90, 99)
NAMES = ("mean", *(f"p{percent}" for percent in PERCENTS))
MILLISECONDS = 1000.0

Row = tuple[list[Term | TooFew], Lead | None]  # a figure of every policy, and who leads


def ahead(runs: Sequence[Run], name: str) -> list[Row]:
    """Mean and percentiles of a latency; no leads in what is no figure of a request (token gaps)."""
    found = [run.metrics.latencies[name] for run in runs]
    lines = [[one.mean for one in found], *([one.percentiles[percent] for one in found] for percent in PERCENTS)]
    if name not in LATENCIES:
        return [(line, None) for line in lines]
    values = [[one.value if isinstance(one, Term) else None for one in line] for line in lines]
    return list(zip(lines, leads([run.result for run in runs], name, (None, *PERCENTS), values), strict=True))


def document(found: Answer) -> list[dict[str, object]]:
    """Of each latency and figure who is ahead, by how much of the nearest, how sure."""
    return [{"latency": name, "figure": figure, "ahead": found.runs[lead.place].policy, "certain": lead.certain}
            | nearest(lead.nearest)
            for name in (LATENCIES if len(found.runs) > 1 else ())
            for figure, (_, lead) in zip(NAMES, ahead(found.runs, name), strict=True) if lead is not None]


def nearest(one: Comparison) -> dict[str, object]:
    """The rival that is least behind, in ms."""
    value, low, high = (getattr(one.difference, key, None) for key in ("value", "low", "high"))
    return {"of": one.first, "by_ms": milliseconds(value), "low_ms": milliseconds(low), "high_ms": milliseconds(high),
            "reason": one.reason}


def milliseconds(value: float | None) -> float | None:
    """None for what is not known or without end."""
    return None if value is None or not math.isfinite(value) else MILLISECONDS * value
