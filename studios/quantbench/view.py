"""quantbench on a page: its answer as a `Page`, whose fields are the context of `panel.html.j2`.

Parts that a moved slider does not change (the measured rows, the plan) are made once and kept, here and in the template.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pycore.pack.formats import format_of
from pycore.systems import quantbench
from studios.explain import Group, Ledger, Number, help_field, plain
from studios.quantbench import charts as drawings
from studios.quantbench import files
from studios.quantbench.bits import Bits, bits
from studios.quantbench.error import ErrorView, bits_text, decibels, error_view
from studios.quantbench.frontier import FrontierView, frontier
from studios.quantbench.measured import MeasuredView, asked, measured
from studios.quantbench.names import Held, figure, rest_of
from studios.quantbench.plan import PlanView, plan_view
from studios.quantbench.walk import WalkView, walk_view

TITLE = "quantbench"
SENTENCE = "See the bits, measure the error, choose the format"
Query = quantbench.Query
FRONT = ("format", "group", "preset", "budget", "edits")
COMMAND = "quantbench ask"
MODULE = "pycore.systems.quantbench"
PACKAGES = ("numpy",)
DATA = ("quantbench-pareto",)

Sentence = tuple[str | Number, ...]
completions = quantbench.completions
charts, downloads = drawings.charts, files.downloads
_held = Held()


@dataclass(frozen=True, slots=True, kw_only=True)
class Still:
    """What stays while weights change."""

    measured: MeasuredView | None = help_field("whole models and projections as they were measured")
    plan: PlanView | None = help_field("the allocator")
    no_plan: str = help_field("why there is none")
    ledger: tuple[Group, ...] = help_field("its numbers, explained")


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The context of `panel.html.j2`; `answer` is for downloads and the Python drawer."""

    answer: Any = help_field("the Answer itself")
    waiting: bool = help_field("whether numpy is still on its way")
    pending: bool = help_field("whether methods and GPTQ are still being computed")
    verdict: Sentence = help_field("the answer in one line: texts and Numbers")
    trade: str = help_field("what that means beside the other formats")
    lead: str = help_field("what was asked")
    bits: Bits | None = help_field("weights and registers")
    error: ErrorView | None = help_field("bits and error")
    frontier: FrontierView | None = help_field("every format on these weights")
    walk: WalkView | None = help_field("GPTQ step by step")
    no_walk: str = help_field("why there is none, or ''")
    still: Still = help_field("what stays while weights change")
    tensors: tuple[tuple[str, str, bool], ...] = help_field("(name and shape, link, chosen) of the tensors of a file")
    ledger: tuple[Group, ...] = help_field("the numbers of the weights, explained")

    @property
    def measured(self) -> MeasuredView | None:
        """For the charts."""
        return self.still.measured


def steps(query: quantbench.Query) -> Iterator[Any]:
    """Needs and progress, and Pages, each fuller. Raises StudioError."""
    for item in quantbench.steps(query):
        yield page(item) if isinstance(item, quantbench.Answer) else item


def page(answer: quantbench.Answer) -> Page:
    """An Answer as the page shows it."""
    query, bench = answer.query, answer.bench
    still = _held.get("still", (answer.model, answer.plan, answer.no_plan, rest_of(query)), lambda: still_of(answer))
    if bench is None:
        return Page(answer=answer, waiting=True, pending=True, verdict=early(answer), trade="", lead=lead(answer), bits=None,
                    error=None, frontier=None, walk=None, no_walk="", still=still, tensors=(), ledger=())
    ledger = Ledger("w-")
    error = error_view(query, bench, ledger)
    found = frontier(query, bench, answer.model)
    walk = bench.walk and _held.get("walk", (bench.walk, rest_of(query)), lambda: walk_view(query, bench.walk))
    return Page(
        answer=answer, waiting=False, pending=bench.pending, verdict=verdict(answer, error, ledger), trade=found.says,
        lead=lead(answer), bits=bits(query, bench), error=error, frontier=found, walk=walk, still=still,
        no_walk="" if walk or bench.pending else "A weight is NaN or infinite: methods and GPTQ need numbers.",
        tensors=tensors(query, bench.weights), ledger=ledger.groups())


def still_of(answer: quantbench.Answer) -> Still:
    """The measured rows and the plan."""
    ledger = Ledger("p-")
    return Still(measured=answer.model and measured(answer.model, answer.query), no_plan=plain(answer.no_plan),
                 plan=answer.plan and plan_view(answer.query, answer.plan, answer.model, ledger), ledger=ledger.groups())


def verdict(answer: quantbench.Answer, error: ErrorView, ledger: Ledger) -> Sentence:
    """What the format stores and loses, here and where it was measured."""
    found = answer.bench.inspection
    start: Sentence = (f"{found.label}: ", ledger.number(found.bits_per_weight, bits_text), " per weight")
    if found.sqnr is None:
        return (*start, ", no error to measure" if found.non_finite else ", nothing to measure an error against")
    level = ledger.number(found.sqnr, decibels)
    start = (*start, ", " if found.lossless else ", SQNR ", level, " on these weights")
    known = measured_of(answer)
    return start if known is None else (*start, f"; {known}")


def measured_of(answer: quantbench.Answer) -> str | None:
    """What the same format cost a whole model, where it was measured with these options."""
    if answer.model is None:
        return None
    for one in answer.model.configurations:
        if asked(one, answer.query) and one.kl_divergence and not one.lossless and not one.trained:
            return f"measured on {plain(answer.model.label, 60)}: KL {figure(one.kl_divergence.value, 3)} nats"
    return None


def early(answer: quantbench.Answer) -> Sentence:
    """The verdict before numpy is here: the plan over measured rows, or what is coming."""
    label = format_of(answer.query.format).label
    if answer.plan is None or answer.model is None:
        return (f"{label}: the weights are packed as soon as numpy has arrived",)
    loss = figure(answer.plan.loss.value, 3)
    return (f"{plain(answer.model.label, 60)} at {figure(answer.plan.bits_per_weight.value, 3)} bits per weight: a "
            f"predicted loss of {loss} nats",)


def lead(answer: quantbench.Answer) -> str:
    """What was asked."""
    if answer.bench is None:
        return "What was measured stands; the parts about single weights follow when numpy has arrived."
    weights = answer.bench.weights
    size = f"{weights.rows:,} × {weights.columns:,}" if weights.rows > 1 else f"{weights.count:,}"
    methods = ", ".join(text for text, on in (("rotated", answer.query.rotation), ("smoothed", answer.query.smoothing),
                                              ("scaled by AWQ", answer.query.awq)) if on)
    edits = answer.query.edits.count("=") + answer.query.edits.count(":")
    return plain(f"{size} weights ({weights.label}{f', {edits} changed by hand' if edits else ''}"
                 f"{f', {methods}' if methods else ''}); scales, zero points, metadata and padding count as bits.")


def tensors(query: quantbench.Query, weights: Any) -> tuple[tuple[str, str, bool], ...]:
    """The tensors of a file as choices."""
    here = weights.tensor.name if weights.tensor else ""
    return tuple((f"{plain(one.name, 90)}  {' × '.join(map(str, one.shape))}  {one.dtype}", one.name, one.name == here)
                 for one in weights.tensors)


def headline(page: Page) -> str:
    """The verdict as plain text."""
    return "".join(piece.text if isinstance(piece, Number) else piece for piece in page.verdict)

