"""Why did request 17 wait? The requests that stood still longest, every idle stretch attributed, and what removes it."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pycore.knobs import to_url
from pycore.simulation import why
from pycore.systems.sched_sim import Progress
from pycore.units import seconds
from studios.explain import Ledger, Number, help_field, plain
from studios.marks import percent

MOST, CAUSES = 8, 5
HELPS = 0.5
"""Another policy removed a wait where it left less than this share of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """Idle time of one request for one reason."""

    reason: str = help_field("'behind prefill of request r3'")
    phase: str = help_field("'before its first token' or 'between its tokens'")
    time: Number = help_field("how long in all")
    width: str = help_field("its share of the longest row, a percentage")
    when: str = help_field("'once, 907 ms to 1.86 s'")
    rule: str = help_field("what removes such a wait, in words")
    href: str = help_field("the question that asks for it, or ''")
    really: str = help_field("what the same request saw under the best other policy of the page, or ''")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """One request's answer."""

    id: str = help_field("the request")
    policy: str = help_field("under which policy")
    size: str = help_field("its prompt and answer in tokens")
    idle: Number = help_field("idle time in all")
    stay: Number = help_field("time in the system")
    beside: Number | None = help_field("of its work: time in decode steps that carried prompts of others; None where none")
    causes: tuple[Cause, ...] = help_field("longest first")
    more: str = help_field("'and 3 more', or ''")


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """One reason over all requests, under every policy."""

    reason: str = help_field("why")
    phase: str = help_field("before or after the first token")
    cells: tuple[Number | None, ...] = help_field("idle time by policy; None where there was none")


def losses(answer: Any, ledger: Ledger) -> Generator[Progress, None, tuple[Loss, ...]]:
    """Progress, then (as the generator's value) where the runs lose time: reasons by the most they cost under any policy."""
    found: dict[tuple[str, str], dict[int, Any]] = {}
    for number, run in enumerate(answer.runs):
        yield Progress(stage="adding up why requests waited", fraction=1.0)
        for total in why.totals(run.result):
            found.setdefault((total.reason, total.phase), {})[number] = total.seconds
    ranked = sorted(found.items(), key=lambda item: (-max(one.value for one in item[1].values()), item[0]))
    return tuple(Loss(reason=reason, phase=phase, cells=tuple(
        ledger.number(cells[number], seconds) if number in cells else None for number in range(len(answer.runs))))
        for (reason, phase), cells in ranked[:8])


def waits(answer: Any, ledger: Ledger, worst: dict[str, tuple[int, int]]) -> tuple[Wait, ...]:
    """The request that was asked about, then those that stood still longest under any policy, each once, under the policy
    where it was worst (`worst`: see `scene.idle`)."""
    first = answer.query.request
    ranked = sorted(worst, key=lambda name: (name != first, -worst[name][0], name))[:MOST]
    found = [(name, answer.runs[worst[name][1]]) for name in ranked]
    if first and first not in worst:  # it never waited: say so under the question's own policy
        found = [(first, answer.runs[0]), *found[:MOST - 1]]
    return tuple(wait(name, run, answer, ledger) for name, run in found)


def wait(name: str, run: Any, answer: Any, ledger: Ledger) -> Wait:
    """One request under one policy."""
    found = why.why(run.result, name)
    most = max((one.seconds.value for one in found.causes), default=1.0)
    rest = len(found.causes) - CAUSES
    return Wait(
        id=plain(name, 40), policy=run.label, idle=ledger.number(found.idle, seconds),
        stay=ledger.number(found.stay, seconds),
        size=f"{found.request.prompt_tokens:,} prompt and {found.request.output_tokens:,} answer tokens",
        beside=ledger.number(found.beside_prompts, seconds) if found.beside_prompts.value else None,
        more=f"and {rest} shorter {'one' if rest == 1 else 'ones'}" if rest > 0 else "",
        causes=tuple(cause(one, most, name, run, answer, ledger) for one in found.causes[:CAUSES]))


def cause(one: Any, most: float, name: str, run: Any, answer: Any, ledger: Ledger) -> Cause:
    """One reason of one request."""
    link = " of request " if one.reason == "behind prefill" else ", behind request "
    count = "once" if len(one.gaps) == 1 else f"{len(one.gaps):,} times"
    return Cause(
        reason=one.reason + (f"{link}{plain(one.behind, 40)}" if one.behind else ""), phase=one.phase,
        time=ledger.number(one.seconds, seconds), width=percent(one.seconds.value, most),
        when=f"{count}, {seconds(one.gaps[0].start_ns / 1e9)} to {seconds(one.gaps[-1].end_ns / 1e9)}",
        rule=f"{one.remedy.rule[:1].upper()}{one.remedy.rule[1:]}", href=asked(answer.query, one.remedy),
        really=really(one, name, run, answer.runs))


def asked(query: Any, remedy: Any) -> str:
    """The question that a remedy asks for; '' where it names no value."""
    if not remedy.field or not remedy.value or len(query.trace) > 2000:
        return ""
    return f"?{to_url(replace(query, **{remedy.field: remedy.value}))}"


def really(one: Any, name: str, run: Any, runs: Sequence[Any]) -> str:
    """What the same request lost for the same reason under the best other policy of the page: they ran the same trace."""
    others = [(other.label, other.result) for other in runs if other is not run]
    if not others:
        return ""
    label, least = why.under(others, name, one)[0]
    if least.value >= HELPS * one.seconds.value:
        return ""
    return f"Gone under {label}" if not least.value else f"{seconds(least.value)} under {label}"
