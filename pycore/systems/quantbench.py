"""quantbench: see the bits, measure the error, choose the format. The answer, and how the core composes it."""

from collections.abc import Iterator
from dataclasses import dataclass

from pycore.cache import Needs
from pycore.quality.allocate import Plan
from pycore.quality.columns import Walk
from pycore.quality.frontier import Point
from pycore.quality.inspection import Inspection
from pycore.quality.methods import Method
from pycore.quality.table import Model
from pycore.quality.weights import Weights
from pycore.systems.quantbench_question import Query

__all__ = ["Answer", "Bench", "Progress", "Query", "answer", "steps"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a long answer is."""

    stage: str
    fraction: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bench:
    """What needs numpy: the weights, what the format makes of them, and the same for every format and method.

    Each part is the very same object as long as the fields that it follows from are (render's `kept` can hold on to it).
    """

    weights: Weights
    inspection: Inspection
    points: tuple[Point, ...]
    methods: tuple[Method, ...]
    walk: Walk | None  # None where the weights are not finite
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Answer:
    """Everything that follows from a Query.

    model   the measured model: configurations, sensitivity, verdicts; None where the dataset is not here
    models  names of the measured models
    plan    the allocator's plan over the measured rows; None where the dataset is not here
    bench   None where numpy is not here yet
    """

    query: Query
    model: Model | None
    models: tuple[str, ...]
    plan: Plan | None
    bench: Bench | None


def steps(query: Query) -> Iterator[Needs | Progress | Answer]:
    """Without numpy: first an Answer without the bench, then what it needs; then (in any case) the whole Answer.

    Raises InvalidQuery, InputError, SourceError.
    """
    yield Answer(query=query, model=None, models=(), plan=None, bench=None)


def answer(query: Query) -> Answer:
    """The whole answer."""
    *_, last = steps(query)
    return last


def completions(table: str) -> tuple[str, ...]:
    """The names that complete a field whose knob has `suggestions=table`."""
    return ()
