"""From options to a run: the one way every sched-sim command asks.

A question is that of the page (same fields, same defaults, so an address and a command give the same figures). On top of
it a command may read what no address can hold: a trace of any size, gzipped or not, and kernel tables from a folder.
"""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pycore.cache import is_upload
from pycore.cli.options import ask
from pycore.errors import InputError, InvalidQuery, StudioError, UnknownName
from pycore.knobs import to_url
from pycore.simulation.costs.overhead import Overhead
from pycore.simulation.costs.tables import KernelTables, TableCost, largest_captured
from pycore.simulation.generate import Generated
from pycore.simulation.scene import Scene, scene
from pycore.simulation.spoken import spoken
from pycore.simulation.traces.reader import read_trace
from pycore.simulation.traces.trace import Trace
from pycore.simulation.workload import parse
from pycore.systems import sched_sim
from pycore.systems.sched_sim import Answer, Progress, Query, Run

OWN_FIELDS = {"gpu": "hardware", "sequences": "max_sequences", "cost_table": "custom_cost", "cost_tables": "custom_cost",
              "replicas": "replicas", "prefill": "prefill_share", "link": "link_gb_s"}
"""Fields as deeper layers name them -> the option that sets them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question, and what came with it from files. `speed`: how much faster a trace is replayed. `source`: the trace's
    file as a command names it, '-' for standard input, '' for a trace that the query holds; `folder`: that of the tables."""

    query: Query
    trace: Trace | None = None
    tables: KernelTables | None = None
    speed: float = 1.0
    source: str = ""
    folder: str = ""

    @property
    def from_files(self) -> bool:
        """Whether the query alone does not say it all."""
        return self.trace is not None or self.tables is not None


def read(options: Mapping[str, Any]) -> Asked:
    """The question that the options mean; --trace is read from its file. Raises StudioError."""
    options = dict(options)
    source = options.pop("trace", None)
    asked = Asked(query=ask(Query, options))
    return asked if source in (None, "") else with_trace(asked, source)


def with_trace(asked: Asked, source: str) -> Asked:
    """The question of a trace from a file, from standard input ('-'), or from the text itself. Raises TraceError."""
    query = asked.query
    if source == "-":
        found = read_trace(sys.stdin.buffer, name="standard input", limit=query.limit, seed=query.seed)
        return replace(asked, trace=found, source=source)
    if "\n" in source or source.lstrip()[:1] in ("{", "["):
        found = read_trace(source, name="trace", limit=query.limit, seed=query.seed)
        return replace(asked, trace=found, query=replace(query, trace=source))
    if "\0" in source:
        raise InputError("trace", source, "accepted: the name of a file")
    if is_upload(source):  # a command that the page shows for a file chosen there
        source = source.rpartition(":")[2]
    found = read_trace(Path(source), limit=query.limit, seed=query.seed)
    return replace(asked, trace=found, source=f"./{source}" if source.startswith("-") else source)  # an option else


@contextmanager
def own_names(**more: str) -> Iterator[None]:
    """Faults of deeper layers name the option of this program. `more`: field -> option, for one command."""
    names = OWN_FIELDS | more
    try:
        yield
    except StudioError as error:
        for fault in error.errors if isinstance(error, InvalidQuery) else (error,):
            if fault.field in names:
                fault.field = names[fault.field]
        raise


def page_address(query: Query) -> str:
    """The query string that opens the same question on the page."""
    return "?" + to_url(query)


def prepared(asked: Asked) -> Scene:
    """The machine, with the kernel tables that were given. Raises StudioError."""
    query = asked.query
    deployment = sched_sim.machine(query)
    found = scene(deployment, cost="roofline" if asked.tables else query.cost, custom=query.custom_cost,
                  overhead_us=query.overhead_us, kv_blocks=query.kv_blocks, block_size=query.block_size,
                  max_sequences=query.max_sequences, link_gb_s=query.link_gb_s)
    if asked.tables is None:
        return found
    cost = TableCost(asked.tables, largest_captured(query.max_sequences))
    if query.overhead_us:
        cost = Overhead(cost=cost, per_step_ns=round(query.overhead_us * 1000))
    return replace(found, cost=cost, cost_name=f"measured kernels: {asked.tables.source}")


def requests(asked: Asked) -> Generated:
    """The requests of the trace, else of the question. Raises StudioError."""
    if asked.trace is None:
        return sched_sim.requests(asked.query)
    workload = replace(parse("replay trace=trace"), speed=asked.speed)
    return sched_sim.drawn(asked.query, workload, {"trace": asked.trace})


def steps(asked: Asked) -> Iterator[Progress | Answer]:
    """Progress, then the Answer. Raises StudioError; InputError for a sweep of rates of what came from a file."""
    if not asked.from_files:
        yield from sched_sim.steps(asked.query)
        return
    query = asked.query
    if query.sweep != "none":
        raise InputError("sweep", query.sweep, "with a trace or kernel tables from a file a sweep is a command of its own: "
                         f"sched-sim sweep --over {query.sweep}")
    names, found, generated = sched_sim.policies(query), prepared(asked), requests(asked)
    there(query.request, generated)
    runs, total = [], max(1, len(generated.requests))
    for index, name in enumerate(names):
        for item in sched_sim.one_run(query, found, generated, name):
            if isinstance(item, Run):
                runs.append(item)
            else:
                yield Progress(stage=f"{name}: {item.left:,} of {total:,} requests",
                               fraction=(index + min(1.0, item.left / total)) / len(names))
    words = spoken(generated.workload, len(generated.requests), asked.trace.name if asked.trace else "")
    whole = Answer(query=query, scene=found, workload_text=named(asked, generated), workload_words=words, runs=tuple(runs),
                   notes=sched_sim.said(query, found, generated, runs))
    yield (yield from sched_sim.more(query, whole, generated)) if query.draws else whole


def there(name: str, generated: Generated) -> None:
    """Refuse the id of a request that is not there. Raises UnknownName."""
    if name and all(one.id != name for one in generated.requests):
        raise UnknownName("request", name, f"accepted: the id of one of {len(generated.requests):,} requests",
                          tuple(one.id for one in generated.requests[:3]))


def named(asked: Asked, generated: Generated) -> str:
    """The workload's line; for a file its name and speed, since no line gives it again."""
    if asked.trace is None:
        return generated.workload.text
    return f"replay of {asked.trace.name}" + (f" at {asked.speed:g} times its speed" if asked.speed != 1.0 else "")


def answer(asked: Asked) -> Answer:
    """The whole answer, with a progress bar where somebody watches. Raises StudioError."""
    from pycore.cli.progress import watched

    with own_names():
        return watched(steps(asked))


def alone(asked: Asked) -> Asked:
    """The same question of its own policy only."""
    return replace(asked, query=replace(asked.query, against=""))
