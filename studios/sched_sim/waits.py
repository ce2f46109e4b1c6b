"""Why did request 17 wait? The idle time of the requests that stood still longest, by reason, and what would have helped."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pycore.simulation.records import Gap, RequestRecord
from pycore.units import seconds
from studios.explain import help_field, plain
from studios.marks import percent, share_text

MOST = 8
MEANING = {
    "step under way": "it arrived while a step ran; batches form at step borders",
    "token budget": "the tokens of each step were spent on others",
    "no blocks": "the KV pool had no blocks for it",
    "batch full": "every seat of the batch was taken",
    "behind prefill": "another request's prompt took the whole step",
    "KV in flight": "its KV was on the link between the pools",
    "policy": "the policy chose others",
    "preempted": "it lost its blocks and had to start again",
    "swapped out": "its blocks lay in host memory",
    "host": "no step ran",
    "output in flight": "its last token was computed but not yet out",
}
HELPS = 0.5
"""Another policy removed a wait where it left less than this share of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """Idle time of one request for one reason."""

    reason: str = help_field("'behind prefill of long'")
    meaning: str = help_field("the reason in a sentence")
    time: str = help_field("how long in all")
    width: str = help_field("its share of the longest row, a percentage")
    count: str = help_field("'3 times, longest 0.9 s'")
    when: str = help_field("from when to when")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """One request's answer."""

    id: str = help_field("the request")
    policy: str = help_field("under which policy")
    size: str = help_field("its prompt and answer in tokens")
    time: str = help_field("idle time in all")
    share: str = help_field("of its time in the system")
    causes: tuple[Cause, ...] = help_field("longest first")
    helped: str = help_field("which policy on this page would have removed the wait, in a sentence")


def waits(answer: Any) -> tuple[Wait, ...]:
    """The requests that stood still longest under any policy, each once, under the policy where it was worst."""
    worst: dict[str, tuple[int, int, RequestRecord]] = {}
    for number, run in enumerate(answer.runs):
        for one in run.result.requests:
            idle = idle_ns(one)
            if idle and idle > worst.get(one.id, (0,))[0]:
                worst[one.id] = (idle, number, one)
    ranked = sorted(worst.values(), key=lambda item: (-item[0], item[2].arrival_ns, item[2].id))[:MOST]
    wanted = {one.id for *_, one in ranked}
    others = [{one.id: one for one in run.result.requests if one.id in wanted} for run in answer.runs]
    return tuple(wait(idle, number, one, answer.runs, others) for idle, number, one in ranked)


def idle_ns(record: RequestRecord) -> int:
    return sum(gap.length_ns for gap in record.gaps)


def wait(idle: int, number: int, record: RequestRecord, runs: Sequence[Any], others: Sequence[dict]) -> Wait:
    """One request."""
    whole = max(record.e2e_ns or idle, 1)
    return Wait(id=plain(record.id, 40), policy=runs[number].label, time=seconds(idle / 1e9),
                share=share_text(idle, whole), causes=causes(record.gaps),
                size=f"{record.prompt_tokens:,} prompt and {record.output_tokens:,} answer tokens",
                helped=helped(record, number, runs, others))


def causes(gaps: Sequence[Gap]) -> tuple[Cause, ...]:
    """Gaps by reason and by whom they stood behind."""
    found: dict[tuple[str, str | None], list[Gap]] = {}
    for gap in gaps:
        found.setdefault((gap.reason, gap.behind), []).append(gap)
    ranked = sorted(found.items(), key=lambda item: -sum(gap.length_ns for gap in item[1]))
    most = max((sum(gap.length_ns for gap in group) for group in found.values()), default=1)
    return tuple(cause(*key, group, most) for key, group in ranked[:5])


def cause(reason: str, behind: str | None, group: Sequence[Gap], most: int) -> Cause:
    """One reason."""
    time = sum(gap.length_ns for gap in group)
    longest = max(gap.length_ns for gap in group)
    link = " of request " if reason == "behind prefill" else ", behind request "
    return Cause(
        reason=reason + (f"{link}{plain(behind, 40)}" if behind else ""), meaning=MEANING.get(reason, reason),
        time=seconds(time / 1e9), width=percent(time, most),
        count="once" if len(group) == 1 else f"{len(group):,} times, longest {seconds(longest / 1e9)}",
        when=f"{seconds(group[0].start_ns / 1e9)} to {seconds(group[-1].end_ns / 1e9)}")


def helped(record: RequestRecord, number: int, runs: Sequence[Any], others: Sequence[dict]) -> str:
    """What the same request stood still under the other policies of the page: they ran the same trace."""
    idle = idle_ns(record)
    rest = [(idle_ns(others[index][record.id]), run.label) for index, run in enumerate(runs)
            if index != number and record.id in others[index] and others[index][record.id].finished]
    if not rest:
        return ""
    best, label = min(rest, key=lambda item: item[0])
    if best < HELPS * idle:
        return f"{label} removes most of it: the same request stands still for {seconds(best / 1e9)} there."
    return f"No policy on this page removes it: at best {seconds(best / 1e9)} remain, under {label}."
