"""What a simulated run leaves behind: requests, the steps of every server, and where each request's time went.

All times are integer nanoseconds since the run began (the first arrival may come later); sizes are tokens or blocks.
A run of the Azure conversation trace emits four million tokens, so nothing is kept per token: a request's work is a few
`Span`s over consecutive steps of one server and its idle time a few `Gap`s. Token times, the slices of a step and the
lanes of a Gantt follow from these (`token_times`, `slices`).

What must hold, and `selfcheck` verifies:
- time: of a finished request, spans and gaps tile arrival to finish without overlap;
- tokens: the tokens of all spans = computed_tokens - cached_tokens + recomputed_tokens, for every request;
- a finished request has computed prompt + generated - 1 tokens (the last token's cache is never needed);
- emitted tokens add up to generated_tokens; per step, spans add up to prefill_tokens and decode_sequences;
- blocks: used + cached + free = blocks of the server, at every step;
- Little's law: `request_ns` of the run = the sum over requests of the time each spent in the system.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

from pycore.serving.plan import StepPlan

PREFILL, DECODE, SWAP_IN, SWAP_OUT = "prefill", "decode", "swap in", "swap out"
KINDS = (PREFILL, DECODE, SWAP_IN, SWAP_OUT)

REASONS = ("step under way", "token budget", "no blocks", "batch full", "behind prefill", "KV in flight", "policy",
           "preempted", "swapped out", "host")
"""Why a request stood still. step under way: it arrived while a step ran (batches form at step borders); preempted,
swapped out: it lost its place and had not asked for it again; host: time between steps that no step covers; the rest
as `serving.plan` names them."""


class Span(NamedTuple):
    """A request at work in `steps` consecutive steps of server `server`, from its step `step` on.

    `tokens`: tokens run through the model over all of these steps (swaps: tokens moved). `emitted`: tokens that came
    out, the same number in each step (0, or a multiple of `steps`), each at its step's end. A decode run of 200 steps
    is one span with tokens = emitted = 200; a chunk of a prompt is a span of one step, emitted 1 if it was the last.
    """

    kind: str
    server: int
    step: int
    steps: int
    tokens: int
    emitted: int


class Gap(NamedTuple):
    """A request idle from `start_ns` to `end_ns` for one reason of `REASONS`; `behind` is the id of the request that it
    stood behind, where there is one. Neighbouring steps with the same reason and the same `behind` are one gap."""

    start_ns: int
    end_ns: int
    reason: str
    behind: str | None = None

    @property
    def length_ns(self) -> int:
        return self.end_ns - self.start_ns


class StepRecord(NamedTuple):
    """One step of one server. Counts are those of the plan, as the step began; blocks as they stood while it ran."""

    start_ns: int
    end_ns: int
    prefill_tokens: int  # prompt tokens (and re-read ones) in this step
    prefill_sequences: int  # chunks of prompts in it
    decode_sequences: int  # one token each
    emitted: int  # tokens that came out at its end
    running: int  # requests that hold a seat, at work in this step or not
    waiting: int  # requests in the queue, swapped-out ones included
    blocks_used: int  # referenced by a running sequence
    blocks_cached: int  # free to take, content kept for a later prefix hit
    blocks_free: int
    preempted: int = 0  # sequences that lost their blocks when this step was planned
    evicted: int = 0  # cached blocks whose content was given up for it

    @property
    def length_ns(self) -> int:
        return self.end_ns - self.start_ns


def step_record(plan: StepPlan, start_ns: int, end_ns: int, *, cached: int, total: int) -> StepRecord:
    """A planned step as it is written down. `cached`: free blocks with content as it began, of `total` in the pool."""
    emitted = len(plan.decodes) + sum([1 for part in plan.parts if part.emits])
    return StepRecord(
        start_ns, end_ns, plan.prefill_tokens, len(plan.prefill_chunks), plan.decode_count, emitted, plan.running,
        plan.waiting, plan.blocks_used, cached, total - plan.blocks_used - cached, len(plan.preempted), len(plan.evicted))


def column(steps: Iterable[StepRecord], name: str) -> Iterator[int]:
    """One field of every step, without a loop in Python: runs have hundreds of thousands of steps."""
    return map(attrgetter(name), steps)


class Transfer(NamedTuple):
    """KV of one request on the link from server `source` to server `target`: asked for, begun, done."""

    request: str
    source: int
    target: int
    asked_ns: int
    start_ns: int
    end_ns: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRecord:
    """One request from arrival to end. A time is None where the thing never happened."""

    id: str
    arrival_ns: int
    prompt_tokens: int
    output_tokens: int  # asked for
    queued_ns: int | None = None  # the step border at which the engine noticed it
    first_scheduled_ns: int | None = None
    first_token_ns: int | None = None
    finished_ns: int | None = None
    dropped_ns: int | None = None
    dropped: str | None = None  # why it was refused or given up; None of one that finished or is still in the system
    generated_tokens: int = 0  # emitted
    cached_tokens: int = 0  # prompt tokens whose KV was found in the prefix cache and never computed for this request
    computed_tokens: int = 0  # tokens whose KV existed at the end
    recomputed_tokens: int = 0  # tokens computed again after preemptions
    preemptions: int = 0
    deadline_ns: int | None = None  # for the first token
    spans: tuple[Span, ...] = ()
    gaps: tuple[Gap, ...] = ()

    @property
    def finished(self) -> bool:
        return self.finished_ns is not None

    @property
    def ttft_ns(self) -> int | None:
        """First token less arrival: queueing included."""
        return None if self.first_token_ns is None else self.first_token_ns - self.arrival_ns

    @property
    def e2e_ns(self) -> int | None:
        """Last token less arrival."""
        return None if self.finished_ns is None else self.finished_ns - self.arrival_ns

    @property
    def queueing_ns(self) -> int | None:
        """First scheduled less arrival."""
        return None if self.first_scheduled_ns is None else self.first_scheduled_ns - self.arrival_ns

    @property
    def tpot_ns(self) -> float | None:
        """(last token - first token) / (tokens - 1); None of an answer of a single token, which has no pace."""
        if self.finished_ns is None or self.first_token_ns is None or self.generated_tokens < 2:
            return None
        return (self.finished_ns - self.first_token_ns) / (self.generated_tokens - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """One engine (a replica, or a pool of a disaggregated pair) and the steps it ran, in order, without overlap."""

    name: str
    role: str = "both"  # both, prefill, decode
    devices: int = 1
    blocks: int
    block_size: int = 16
    steps: tuple[StepRecord, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A whole run. `requests` in order of arrival (ties: as given)."""

    policy: str
    requests: tuple[RequestRecord, ...]
    servers: tuple[Server, ...]
    transfers: tuple[Transfer, ...] = ()
    makespan_ns: int  # end of the last step
    request_ns: int  # requests in the system x time, added up by the event loop from what the schedulers hold
    seed: int | None = None
    notes: tuple[str, ...] = ()


def token_times(result: Result, request: RequestRecord) -> list[int]:
    """When each token of `request` came out, ns, in order."""
    times: list[int] = []
    for span in request.spans:
        if span.emitted:
            at_once = span.emitted // span.steps
            for step in result.servers[span.server].steps[span.step:span.step + span.steps]:
                times += [step.end_ns] * at_once
    return times


def slices(result: Result, server: int, first: int, last: int) -> Iterator[tuple[int, RequestRecord, Span]]:
    """(step, request, span) of every piece of work in steps `first` to `last` - 1 of a server, by request.

    A window for drawing: cost grows with requests, not with tokens. Each span is yielded once per step it covers.
    """
    for request in result.requests:
        for span in request.spans:
            if span.server == server and span.step < last and span.step + span.steps > first:
                for step in range(max(first, span.step), min(last, span.step + span.steps)):
                    yield step, request, span


def span_bounds(result: Result, span: Span) -> tuple[int, int]:
    """Start and end of a span, ns: from its first step's start to its last step's end."""
    steps = result.servers[span.server].steps
    return steps[span.step].start_ns, steps[span.step + span.steps - 1].end_ns
