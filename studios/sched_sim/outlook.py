"""Sweeps and draws as the page shows them: what the same question answers at other loads, budgets and step times."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pycore.ledger import Term
from pycore.units import seconds, significant
from studios.explain import Ledger, Number, help_field, plain


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One policy at one point of a sweep."""

    policy: str = help_field("the policy")
    at: str = help_field("the swept quantity as text")
    ttft: Number | None = help_field("median time to first token")
    tpot: Number | None = help_field("mean time per output token")
    good: Number = help_field("requests per second within the targets")
    share: Number = help_field("share of requests within the targets")


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """Where one policy's rate sweep turns."""

    policy: str = help_field("the policy")
    figures: tuple[tuple[str, Number], ...] = help_field("(what, requests/s): knee, saturation, cliff, most goodput")
    remarks: tuple[str, ...] = help_field("what the sweep does not reach")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """Figures over a swept quantity."""

    axis: str = help_field("title of the axis")
    log: bool = help_field("whether the axis is logarithmic")
    policies: tuple[str, ...] = help_field("names of the policies")
    points: tuple[tuple, ...] = help_field("(policy, x, p50 TTFT ms, mean TPOT ms, goodput /s, offered /s)")
    knees: tuple[float, ...] = help_field("knee of every policy that has one, in units of the axis")
    turns: tuple[Turn, ...] = help_field("where each policy turns; none for a sweep of chunk budgets")
    say: str = help_field("what it shows, in a sentence")
    places: tuple[Place, ...] = help_field("the points as a table")


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """One policy over the draws."""

    policy: str = help_field("the policy")
    figures: tuple[Number, ...] = help_field("least, middle, most")


@dataclass(frozen=True, slots=True, kw_only=True)
class Draws:
    """The spread over runs with step times drawn from their uncertainty."""

    what: str = help_field("'p90 time to first token'")
    points: tuple[tuple[str, float], ...] = help_field("(policy, ms) of every draw")
    say: str = help_field("what it shows, in a sentence")
    rows: tuple[Spread, ...] = help_field("per policy")


TURNS = (("knee", "knee: most work for its delay"), ("saturation", "queue still settles"),
         ("cliff", "goodput cliff"), ("best_goodput", "most goodput"))


def sweep_view(answer: Any, ledger: Ledger) -> Sweep | None:
    """The sweep of an answer."""
    if not answer.sweep:
        return None
    names = {run.policy: run.label for run in answer.runs}
    rate = answer.query.sweep == "rate"
    turns = tuple(turn(names[policy], found, ledger) for policy, found in answer.bends)
    knees = tuple(dict.fromkeys(found.knee.value for _, found in answer.bends if found.knee))
    return Sweep(
        axis="requests/s offered" if rate else "chunk budget, tokens", log=True, knees=knees, turns=turns,
        policies=tuple(dict.fromkeys(names[one.policy] for one in answer.sweep)),
        points=tuple((names[one.policy], float(one.at), *figures(one.metrics), one.rate_per_s) for one in answer.sweep),
        say=RATE if rate else CHUNK, places=tuple(place(names[one.policy], one, rate, ledger) for one in answer.sweep))


RATE = ("The same workload at other rates, every policy on the same requests. Dashed: the knee. Beyond the goodput cliff "
        "fewer than nine in ten requests meet their targets.")
CHUNK = ("The same trace under other chunk budgets: small chunks keep tokens flowing and make prompts wait, large ones the "
         "other way round.")


def figures(metrics: Any) -> tuple[float | None, float | None, float]:
    """p50 TTFT ms, mean TPOT ms, goodput /s."""
    first, pace = metrics.latencies["ttft"].percentiles[50], metrics.latencies["tpot"].mean
    return milliseconds(first), milliseconds(pace), metrics.goodput.per_s.value


def milliseconds(figure: Any) -> float | None:
    return figure.value * 1e3 if isinstance(figure, Term) else None


def place(label: str, one: Any, rate: bool, ledger: Ledger) -> Place:
    """One row of the sweep's table."""
    first, pace = one.metrics.latencies["ttft"].percentiles[50], one.metrics.latencies["tpot"].mean
    return Place(policy=label, at=f"{significant(one.at)} /s" if rate else f"{int(one.at):,}",
                 ttft=ledger.number(first, seconds) if isinstance(first, Term) else None,
                 tpot=ledger.number(pace, seconds) if isinstance(pace, Term) else None,
                 good=ledger.number(one.metrics.goodput.per_s, per_second),
                 share=ledger.number(one.metrics.goodput.share, percent))


def turn(label: str, found: Any, ledger: Ledger) -> Turn:
    """Where one policy turns."""
    known = [(words, getattr(found, name)) for name, words in TURNS]
    return Turn(policy=label, remarks=tuple(map(plain, found.remarks)), figures=tuple(
        (words, ledger.number(term, per_second)) for words, term in known if term is not None))


def per_second(value: float) -> str:
    return f"{significant(value, 3)} /s"


def percent(value: float) -> str:
    return f"{significant(100 * value, 3)} %"


def draws_view(answer: Any, ledger: Ledger) -> Draws | None:
    """The draws of an answer: p90 of the time to first token, or its mean where samples are too few."""
    if not answer.draws:
        return None
    names = {run.policy: run.label for run in answer.runs}
    p90 = all(isinstance(one.metrics.latencies["ttft"].percentiles[90], Term) for one in answer.draws)
    terms = [(names[one.policy], first_token(one.metrics, p90)) for one in answer.draws]
    terms = [(label, term) for label, term in terms if isinstance(term, Term)]
    rows = tuple(spread(label, [term for other, term in terms if other == label], ledger)
                 for label in dict.fromkeys(label for label, _ in terms))
    low, high = min(one.factor for one in answer.draws), max(one.factor for one in answer.draws)
    return Draws(what="p90 time to first token" if p90 else "mean time to first token", rows=rows,
                 points=tuple((label, term.value * 1e3) for label, term in terms),
                 say=f"Every step took {significant(low, 3)} to {significant(high, 3)} times as long as the model says, "
                     "by the spread of measured over predicted times. Near saturation a small factor becomes a long queue.")


def first_token(metrics: Any, p90: bool) -> Any:
    found = metrics.latencies["ttft"]
    return found.percentiles[90] if p90 else found.mean


def spread(label: str, terms: Sequence[Term], ledger: Ledger) -> Spread:
    """Least, middle and most of one policy."""
    ordered = sorted(terms, key=lambda term: term.value)
    return Spread(policy=label, figures=tuple(ledger.number(ordered[place], seconds)
                                              for place in (0, len(ordered) // 2, len(ordered) - 1)))
