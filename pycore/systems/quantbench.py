"""quantbench: see the bits, measure the error, choose the format. The answer, and how the core composes it."""

import functools
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from typing import Any

from pycore import cache
from pycore.cache import Needs
from pycore.errors import InputError, InvalidQuery, NotKnown
from pycore.ledger import Term, terms_in
from pycore.pack.fields import Owner
from pycore.quality import columns, frontier, inspection, methods, places, registers, table
from pycore.quality.allocate import Plan, plan
from pycore.quality.columns import Setting, Walk
from pycore.quality.frontier import Point
from pycore.quality.inspection import Inspection
from pycore.quality.methods import Calibration, Method
from pycore.quality.prepared import Methods, Options, finite
from pycore.quality.registers import View
from pycore.quality.table import Model
from pycore.quality.weights import Weights, check, weights_of
from pycore.systems.quantbench_question import Query, options_of
from pycore.units import MB

__all__ = ["PACKAGES", "Answer", "Bench", "Progress", "Query", "answer", "completions", "steps"]

PACKAGES = ("numpy",)
TWINS = {"bitnet-2bit": "bitnet-5in8", "bitnet-5in8": "bitnet-2bit"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a long answer is."""

    stage: str
    fraction: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bench:
    """What needs numpy: the weights, what the format makes of them, and the same for every format and method.

    view     registers around the chosen weight (an index beyond the last means the last); owner: whose the chosen bit is,
             None where none is chosen
    twin     ternary weights in the other packing, with the registers around the same weight; None for other formats
    points   every format and group size on the weights
    methods, walk   () and None where a weight is no number, and as long as they are `pending`
    unused   options of the question that its format does not have: they were not used

    Each part is the very same object as long as the fields that it follows from are (render's `kept` can hold on to it).
    """

    weights: Weights
    inspection: Inspection
    view: View
    owner: Owner | None
    points: tuple[Point, ...]
    methods: tuple[Method, ...]
    walk: Walk | None
    pending: bool = False
    unused: tuple[str, ...] = ()
    twin: tuple[Inspection, View] | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Answer:
    """Everything that follows from a Query.

    model    the measured model: configurations, sensitivity, verdicts; None where the dataset is not here
    models   names of the measured models
    plan     the allocator's plan over the measured rows; None where there are none, and `no_plan` says why
    bench    None where numpy is not here yet
    """

    query: Query
    model: Model | None
    models: tuple[str, ...]
    plan: Plan | None
    no_plan: str
    bench: Bench | None

    @property
    def terms(self) -> tuple[Term, ...]:
        """Every term of the answer once: the format's, then the plan's."""
        found: dict[tuple, Term] = {}
        for part in ([self.bench.inspection] if self.bench else []) + ([self.plan] if self.plan else []):
            for one in terms_in(part):
                for each in one.walk():
                    found.setdefault((each.name, each.value, each.line), each)
        return tuple(found.values())


def steps(query: Query) -> Iterator[Needs | Progress | Answer]:
    """The Answer, fuller each time; the last is the whole.

    1. without the bench: of the default question always (so that the first is the same with numpy and without), of others
       where numpy is not here; then what it needs
    2. with the bench but without methods and walk (`pending`), where these take time
    3. the whole

    Raises InvalidQuery, InputError, SourceError.
    """
    model = table.model(query.model)
    planned, no_plan = planned_by(query, model)
    whole = Answer(query=query, model=model, models=table.names(), plan=planned, no_plan=no_plan, bench=None)
    absent = cache.absent(PACKAGES)
    if absent:
        options_of(query)
        check(values=query.values, file=query.file, tensor=query.tensor, first_row=query.first_row)
    if absent or query == Query():
        yield whole
    if absent:
        yield Needs(packages=absent)
    first = yield from bench(query)
    yield replace(whole, bench=first)
    if first.pending:
        yield replace(whole, bench=(yield from with_methods(query, first)))


def planned_by(query: Query, model: Model | None) -> tuple[Plan | None, str]:
    """The plan, or why there is none. Raises InputError for choices that are not understood."""
    if model is None:
        return None, "the measured rows are not here"
    try:
        return kept_plan(model.name, query.formats, query.choices, query.budget, query.budget_mb), ""
    except NotKnown as why:
        return None, str(why)


@functools.lru_cache(maxsize=8)
def kept_plan(name: str, formats: str, choices: str, budget: float, budget_mb: float) -> Plan:
    """The plan for a budget, kept. Raises InputError, NotKnown."""
    found = places.places(table.model(name), formats, choices)
    weights = sum(one.weights for one in found)
    return plan(found, int(budget_mb * MB) if budget_mb else int(budget * weights / 8))


def bench(query: Query) -> Iterator[Progress]:
    """Progress, then (as the generator's value) the Bench, with methods and walk where they are at hand.

    Raises InputError, SourceError.
    """
    weights = chosen_weights(query)
    options, unused = options_of(query)
    ways = prepare(query) if finite(weights) else Methods()
    found = inspection.inspect(weights, query.format, options, ways)
    twin = twin_of(weights, query, options, ways)
    compared = frontier.configurations()
    for number, one in enumerate(compared):
        yield Progress(stage="formats", fraction=0.5 * number / len(compared))
        frontier.measured(weights, one)
    ask_methods, ask_walk = asked(query, weights, options)
    at_hand = methods.comparing.holds(*ask_methods) and columns.walking.holds(*ask_walk)
    known = finite(weights)
    return Bench(
        weights=weights, inspection=found, twin=twin, unused=unused,
        view=view_of(found, min(query.weight, weights.count - 1)),
        owner=None if query.bit < 0 else owner_of(found, query.bit), points=frontier.points(weights),
        methods=methods.compared(*ask_methods) if at_hand else (), walk=columns.walk(*ask_walk) if at_hand else None,
        pending=known and not at_hand)


def twin_of(weights: Weights, query: Query, options: Options, ways: Methods) -> tuple[Inspection, View] | None:
    """Ternary weights in their other packing. Raises InputError."""
    if query.format not in TWINS:
        return None
    other = inspection.inspect(weights, TWINS[query.format], options, ways)
    return other, view_of(other, min(query.weight, weights.count - 1))


def with_methods(query: Query, first: Bench) -> Generator[Progress, None, Bench]:
    """Progress, then the Bench with methods and walk. Raises InputError."""
    ask_methods, ask_walk = asked(query, first.weights, options_of(query)[0])
    walk = yield from told(columns.walking(*ask_walk), "GPTQ column by column", 0.5)
    found = yield from told(methods.comparing(*ask_methods), "methods", 0.75)
    return replace(first, methods=found, walk=walk, pending=False)


def told(parts: Generator[str, None, Any], stage: str, start: float) -> Generator[Progress, None, Any]:
    """Progress for each part that is named; then what they come to."""
    done = 0
    while True:
        try:
            name = next(parts)
        except StopIteration as stop:
            return stop.value
        yield Progress(stage=f"{stage}: {name}", fraction=start + 0.04 * done)
        done += 1


def prepare(query: Query) -> Methods:
    """The methods that the question switches on."""
    return Methods(rotation=query.rotation, smoothing=query.smoothing, awq=query.awq, alpha=query.alpha,
                   inputs=query.inputs, samples=query.samples, seed=query.seed)


def asked(query: Query, weights: Weights, options: Options) -> tuple[tuple, tuple]:
    """What `methods.compared` and `columns.walk` are asked."""
    calibration = Calibration(act_order=query.act_order, bug=query.bug, damping=query.damping)
    setting = Setting(inputs=query.inputs, samples=query.samples, seed=query.seed, bits=query.bits, group=query.grid_group,
                      damping=query.damping)
    return ((weights, query.format, options, prepare(query), calibration),
            (weights, setting, calibration, min(query.step, columns.layer_of(weights).shape[1])))


@functools.lru_cache(maxsize=8)
def view_of(found: Inspection, index: int) -> View:
    """The registers around a weight, kept."""
    return registers.view(found.packed, index)


def owner_of(found: Inspection, bit: int) -> Owner | None:
    """Whose a bit is; None where the data is shorter (another format was chosen since)."""
    return registers.owner(found.packed, bit) if bit < 8 * len(found.packed.data) else None


def chosen_weights(query: Query) -> Weights:
    """The weights that the question means. Raises InputError, SourceError."""
    return weights_of(values=query.values, preset=query.preset, seed=query.seed, rows=query.rows, columns=query.columns,
                      edits=query.edits, file=query.file, tensor=query.tensor, first_row=query.first_row)


def answer(query: Query) -> Answer:
    """The whole answer. Raises what `steps` raises; InvalidQuery where numpy is not installed."""
    if cache.absent(PACKAGES):
        raise InvalidQuery([InputError("format", query.format, "accepted where numpy is installed: pip install numpy")])
    *_, last = steps(query)
    return last


def completions(name: str) -> tuple[str, ...]:
    """The names that complete a field whose knob has `suggestions=name`."""
    return table.names() if name == "models" else ()
