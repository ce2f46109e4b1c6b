"""What a reader can take along: the trace for Perfetto, requests and steps as CSV, the drawing as SVG, the ledger."""

import json
from collections.abc import Sequence
from dataclasses import replace
from html import escape
from typing import Any

from pycore.simulation import sheets
from pycore.simulation.perfetto import trace_events
from studios.sched_sim.gantt import Gantt, Row
from studios.sched_sim.scene import drawn, idle
from studios.tables import ledger

MOST = 300_000  # pieces of work and of waiting that a trace for Perfetto holds
APART = 1000  # process numbers between two policies of one trace
INK = {"prefill": "#0072b2", "decode": "#c27b00", "swap": "#c06a98", "wait": "#6d7680", "held": "#6d7680", "lost": "#a8261b",
       "flight": "#2f8fc4", "used": "#009e73", "cached": "#9ccfe8"}
LEFT, WIDTH = 90, 1000


def downloads(page: Any) -> dict[str, tuple[str, str]]:
    """File name -> (media type, text)."""
    runs = page.answer.runs
    results = [(run.label, run.result) for run in runs]
    return {
        "perfetto.json": ("application/json", perfetto(runs)),
        "requests.csv": ("text/csv", sheets.requests_text(results)),
        "steps.csv": ("text/csv", sheets.steps_text(results)),
        "gantt.svg": ("image/svg+xml", svg(page.gantt)),
        "ledger.csv": ("text/csv", ledger(page.answer.terms)),
    }


def perfetto(runs: Sequence[Any]) -> str:
    """Every policy as processes of its own in one trace, so that they stand below each other on one time axis. Of more than
    `MOST` pieces of requests only those of the drawn requests: a browser's memory would not hold the others."""
    results, events, said = [run.result for run in runs], [], {}
    if sum(len(one.spans) + len(one.gaps) for result in results for one in result.requests) > MOST:
        names = set(drawn(results[0].requests, idle(results)))
        said = {"otherData": {"requests": f"{len(names)} of {len(results[0].requests):,}, those drawn on the page; "
                                          "sched-sim export perfetto writes all of them"}}
        results = [replace(one, requests=tuple(each for each in one.requests if each.id in names)) for one in results]
    for number, result in enumerate(results):
        events += [event | {"pid": event["pid"] + APART * number} for event in trace_events(result)]
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"} | said, separators=(",", ":"), ensure_ascii=False)


def svg(gantt: Gantt) -> str:
    """The still drawing of every policy as one file."""
    parts, top = [], 20
    for one in gantt.rows:
        parts.append(f'<text x="0" y="{top}" font-weight="600">{escape(one.label)}</text>')
        parts.append(f'<g transform="translate(0 {top + 8})">{drawing(one)}</g>')
        top += one.height + 40
    axis = "".join(f'<text x="{LEFT + WIDTH * float(tick.x[:-1]) / 100:.0f}" y="{top}">{tick.text}</text>'
                   for tick in gantt.ticks)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 10} {top + 10}" '
            f'font-family="sans-serif" font-size="11"><rect width="100%" height="100%" fill="white"/>'
            f'{"".join(parts)}{axis}</svg>')


def drawing(row: Row) -> str:
    """One policy: labels on the left, marks beside them."""
    labels = "".join(f'<text x="0" y="{one.y}">{escape(one.text)}</text>' for one in row.labels)
    marks = "".join(f'<path d="{one.d}" fill="{INK[one.style]}"/>' for one in (*row.pool, *row.paths))
    return f'{labels}<svg x="{LEFT}" width="{WIDTH}" height="{row.height}" viewBox="0 0 4000 {row.height}" ' \
           f'preserveAspectRatio="none">{marks}</svg>'
