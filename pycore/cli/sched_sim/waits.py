"""Why one request waited, under every policy that was run: text and JSON of what `pycore.simulation.why` finds.

Only for a request that was asked about (--request); the page shows those that waited longest beside it.
"""

from collections.abc import Sequence
from typing import Any

from pycore.cli.options import shortened
from pycore.cli.output import heading, line, table
from pycore.simulation import why
from pycore.simulation.why import Cause, Explanation
from pycore.systems.sched_sim import Answer, Run
from pycore.units import seconds, significant

MOST = 5  # causes shown in text; JSON has them all
HELPS = 0.5  # another policy removed a wait where it left less than this share of it, as on the page
MILLISECONDS, NANOSECONDS = 1e3, 1e9


def show(found: Answer) -> None:
    """In text; nothing where no request was asked about."""
    name = found.query.request
    if not name:
        return
    heading(f"Why request {shortened(name)} waited")
    for run in found.runs:
        one = why.why(run.result, name)
        line(f"  {run.policy}: {stay(one)}")
        if one.causes:
            table(("idle", "share", "why", "", "when", "what removes it"),
                  [row(cause, name, run, found.runs) for cause in one.causes[:MOST]], right=(0, 1), indent=4)
        if len(one.causes) > MOST:
            line(f"    and {len(one.causes) - MOST} shorter")


def stay(one: Explanation) -> str:
    """How long it was there and stood still, how large it was, what became of it."""
    request = one.request
    size = f"{request.prompt_tokens:,} prompt and {request.output_tokens:,} answer tokens"
    if request.dropped:
        size += f"; dropped: {request.dropped}"
    said = f"idle {one.idle.text} of {one.stay.text} in the system ({size})"
    shared = one.beside_prompts
    return said + (f"; {shared.text} in decode steps that carried prompts of others" if shared.value else "")


def row(cause: Cause, name: str, run: Run, runs: Sequence[Run]) -> tuple[str, ...]:
    """One cause as cells; with other policies beside it, what the same request lost for that reason under the best."""
    link = " of request " if cause.reason == "behind prefill" else ", behind request "
    times = "once" if len(cause.gaps) == 1 else f"{len(cause.gaps):,} times"
    first, last = (seconds(at / NANOSECONDS) for at in (cause.gaps[0].start_ns, cause.gaps[-1].end_ns))
    others = under(cause, name, run, runs)
    helped = others and others[0][1] < HELPS * cause.seconds.value
    better = f" ({seconds(others[0][1])} under {others[0][0]})" if helped else ""
    return (cause.seconds.text, f"{significant(100 * cause.share.value)} %",
            cause.reason + (link + shortened(cause.behind) if cause.behind else ""), cause.phase,
            f"{times}, {first} to {last}", cause.remedy.rule + better)


def under(cause: Cause, name: str, run: Run, runs: Sequence[Run]) -> tuple[tuple[str, float], ...]:
    """(policy, idle seconds of the same request for the same reason) of the other runs, least first."""
    others = [(other.policy, other.result) for other in runs if other is not run]
    return tuple((policy, lost.value) for policy, lost in why.under(others, name, cause))


def document(found: Answer) -> dict[str, Any]:
    """Key 'why', only where a request was asked about: its stay under every policy and all causes, longest first."""
    name = found.query.request
    return {"why": {"request": name, "policies": [explained(run, name, found.runs) for run in found.runs]}} if name else {}


def explained(run: Run, name: str, runs: Sequence[Run]) -> dict[str, Any]:
    """One policy's part. Times in ms; from_s and to_s since the run began."""
    one = why.why(run.result, name)
    return {
        "scheduler": run.policy, "prompt_tokens": one.request.prompt_tokens, "output_tokens": one.request.output_tokens,
        "dropped": one.request.dropped, "stay_ms": one.stay.value * MILLISECONDS,
        "working_ms": one.working.value * MILLISECONDS, "idle_ms": one.idle.value * MILLISECONDS,
        "beside_prompts_ms": one.beside_prompts.value * MILLISECONDS,
        "causes": [{
            "reason": cause.reason, "behind": cause.behind, "phase": cause.phase,
            "idle_ms": cause.seconds.value * MILLISECONDS, "share_of_stay": cause.share.value, "gaps": len(cause.gaps),
            "from_s": cause.gaps[0].start_ns / NANOSECONDS, "to_s": cause.gaps[-1].end_ns / NANOSECONDS,
            "remedy": {"field": cause.remedy.field, "value": cause.remedy.value, "rule": cause.remedy.rule},
            "idle_ms_under": {policy: lost * MILLISECONDS for policy, lost in under(cause, name, run, runs)},
        } for cause in one.causes]}
