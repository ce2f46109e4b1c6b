"""Writes a run down while it happens: spans of work and gaps of waiting, at the cost of changes, not of tokens.

Decoding sequences are followed by who joins and who leaves the decode set; those who wait share one log of reasons (the
scheduler holds the whole queue back for one reason a step) and read their gaps off it when they leave. Equal spans and
gaps are one object, so that a step that stalls sixty sequences costs one gap.
"""

from operator import attrgetter
from typing import NamedTuple

from pycore.serving.decodes import Slot
from pycore.serving.plan import StepPlan
from pycore.serving.request import Request
from pycore.serving.sequence import Sequence
from pycore.simulation.records import DECODE, PREFILL, SWAP_IN, SWAP_OUT, Gap, RequestRecord, Span
from pycore.simulation.wait_ledger import Ledger, Why

SERIAL = attrgetter("serial")
AT_WORK = 1 << 62
"""Stands for 'idle since' of a sequence in the decode set: later than any step."""
UNDER_WAY, HOST, PREEMPTED, SWAPPED = (("step under way", None), ("host", None), ("preempted", None),
                                       ("swapped out", None))
NAMES_BLOCKER = ("behind prefill",)
"""Reasons whose blocker is at work and worth naming; of the others the blocker is the head of the queue."""
TOLD_ELSEWHERE = ("output in flight", "KV in flight")
"""Reasons of holds that are not taken from a plan: the last token's step is still in the request's span, and so is a
swap; the event loop follows KV between pools."""



class Entry:
    """One request being followed. `why` None: it stands in the queue of `waits_at` and reads that server's log."""

    __slots__ = ("request", "queued_ns", "spans", "gaps", "idle_since", "why", "waits_at", "sequence", "dropped",
                 "dropped_ns", "worked_until")

    def __init__(self, request: Request):
        self.request = request
        self.queued_ns: int | None = None
        self.spans: list[Span] = []
        self.gaps: list[Gap] = []
        self.idle_since = request.arrival_ns
        self.worked_until = 0
        self.why: Why | None = UNDER_WAY
        self.waits_at: Ledger | None = None
        self.sequence: Sequence | None = None
        self.dropped: str | None = None
        self.dropped_ns: int | None = None

    def settle(self, until_ns: int) -> None:
        """Write down the idle time up to `until_ns`."""
        since = self.idle_since
        if since >= until_ns:
            return
        if self.why is not None:
            self.add_gap(Gap(since, until_ns, *self.why))
        elif self.waits_at is not None:
            for gap in self.waits_at.between(since, until_ns):
                self.add_gap(gap)
        self.idle_since = until_ns

    def give_up(self, at_ns: int, reason: str) -> int:
        """It is dropped; when it is gone: at once, or at the end of a step in flight that still works on it. With two
        steps in flight it may be dropped before a step that was planned without it begins."""
        at_ns = max(at_ns, self.worked_until)
        self.settle(at_ns)
        while self.gaps and self.gaps[-1].start_ns >= at_ns:
            self.gaps.pop()
        if self.gaps and self.gaps[-1].end_ns > at_ns:
            last = self.gaps[-1]
            self.gaps[-1] = Gap(last.start_ns, at_ns, last.reason, last.behind)
        self.dropped, self.dropped_ns, self.waits_at = reason, at_ns, None
        return at_ns

    def add_gap(self, gap: Gap) -> None:
        """One more gap, joined with the one before where both have one reason."""
        last = self.gaps[-1] if self.gaps else None
        if last is not None and last.end_ns == gap.start_ns and last[2:] == gap[2:]:
            self.gaps[-1] = Gap(last.start_ns, gap.end_ns, gap.reason, gap.behind)
        else:
            self.gaps.append(gap)

    def hold(self, at_ns: int, why: Why) -> None:
        """It stands still from `at_ns` on for a reason of its own, unless it is at work until later."""
        if self.idle_since > at_ns or self.why == why:
            return
        self.settle(at_ns)
        self.why = why

    def work(self, start_ns: int, end_ns: int) -> None:
        """It is at work from `start_ns` to `end_ns` (AT_WORK: until further notice)."""
        self.settle(start_ns)
        self.idle_since, self.why, self.waits_at = end_ns, HOST, None
        if end_ns < AT_WORK:
            self.worked_until = end_ns


class Timed(NamedTuple):
    """A plan in time: the step's number on its server, its start and its end."""

    number: int
    start_ns: int
    end_ns: int


class Recorder:
    """Follows the sequences of one server."""

    __slots__ = ("server", "entries", "ledger", "members", "opened", "fresh", "last_end", "last")

    def __init__(self, server: int, entries: dict[str, Entry]):
        self.server, self.entries = server, entries
        self.ledger = Ledger()
        self.members: tuple = ()  # the decode set's snapshot that is open
        self.opened: dict[int, tuple[Entry, int]] = {}  # by serial number: (entry, step at which its decode span began)
        self.fresh: list[Entry] = []  # in the queue since the last plan
        self.last_end = self.last = 0

    def arrived(self, entry: Entry) -> None:
        """It entered this server's queue; the next plan is the first to know."""
        entry.waits_at = self.ledger
        self.fresh.append(entry)

    def planned(self, plan: StepPlan, step: Timed) -> None:
        """Take a plan down when it is made. Plans come in the order of their steps."""
        number, start, end = step
        if plan.decodes is not self.members or start != self.last_end:
            self.decoding(plan.decodes, number, start)
        self.last, self.last_end = number, end
        for part in plan.parts:
            entry = self.entries[part.sequence.request.id]
            entry.work(start, end)
            entry.spans.append(Span(DECODE if part.decode else PREFILL, self.server, number, 1, part.count,
                                    1 if part.emits else 0))
        for kind, swaps in ((SWAP_OUT, plan.swapped_out), (SWAP_IN, plan.swapped_in)):
            for swap in swaps:
                self.swapped(kind, self.entries[swap.sequence_id], len(swap.device_blocks) * plan.block_size, step)
        self.held(plan, start)

    def decoding(self, members: tuple[Slot, ...], number: int, start_ns: int) -> None:
        """Close the spans of those who left the decode set and open those of who joined."""
        opened = self.opened
        serials = dict(zip(map(SERIAL, members), members, strict=True))
        spans: dict[int, Span] = {}
        for serial in sorted(opened if start_ns != self.last_end else opened.keys() - serials.keys()):
            entry, first = opened.pop(serial)
            if first not in spans:
                count = self.last + 1 - first
                spans[first] = Span(DECODE, self.server, first, count, count, count)
            entry.spans.append(spans[first])
            entry.idle_since = entry.worked_until = self.last_end
            entry.why = HOST
        for serial in sorted(serials.keys() - opened.keys()):
            entry = self.entries[serials[serial].id]
            entry.work(start_ns, AT_WORK)
            opened[serial] = (entry, number)
        self.members = members

    def quiet(self, members: tuple[Slot, ...], step: Timed, count: int) -> None:
        """So many steps of these members and nobody else; `step`: number and start of the first, end of the last."""
        number, start, end = step
        if members is not self.members or start != self.last_end:
            self.decoding(members, number, start)
        self.last, self.last_end = number + count - 1, end

    def swapped(self, kind: str, entry: Entry, tokens: int, step: Timed) -> None:
        """KV of a sequence moves to or from the host during the step (or there and back: then it is one span)."""
        entry.work(step.start_ns, step.end_ns)
        last = entry.spans[-1] if entry.spans else None
        if last is not None and (last.server, last.step, last.kind) == (self.server, step.number, SWAP_OUT):
            entry.spans.pop()
            kind, tokens = SWAP_OUT, tokens + last.tokens
        entry.spans.append(Span(kind, self.server, step.number, 1, tokens, 0))

    def held(self, plan: StepPlan, start_ns: int) -> None:
        """Note why those stand still who do."""
        pending, self.fresh = self.fresh, []
        for hold in plan.holds:
            why = (hold.reason, hold.blocker if hold.reason in NAMES_BLOCKER else None)
            if hold is plan.holds[0] and plan.waiting:
                self.ledger.note(start_ns, why)
            elif hold.reason not in TOLD_ELSEWHERE:
                for held in hold.sequences:
                    sequence = held.sequence if isinstance(held, Slot) else held
                    self.entries[sequence.request.id].hold(start_ns, why)
        for entry in pending:  # those who were not taken wait by the ledger from here on
            if entry.waits_at is self.ledger and entry.idle_since < start_ns:
                entry.settle(start_ns)
            if entry.waits_at is self.ledger:
                entry.why = None
        for sequence_id in plan.preempted:
            self.lost_its_place(self.entries[sequence_id], start_ns)

    def lost_its_place(self, entry: Entry, start_ns: int) -> None:
        """Preempted in this plan: until the next one that is the reason, then the queue's."""
        swapped = bool(entry.spans) and entry.spans[-1].kind == SWAP_OUT and entry.spans[-1].step == self.last
        entry.settle(start_ns)
        entry.why, entry.waits_at = SWAPPED if swapped else PREEMPTED, self.ledger
        self.fresh.append(entry)

    def close(self) -> None:
        """The server runs no further step: close what is open."""
        self.decoding((), self.last + 1, self.last_end)


def record(entry: Entry, *, ended_ns: int) -> RequestRecord:
    """What is known of a request at the end of the run. Times of an unfinished one are settled up to `ended_ns`."""
    request, sequence = entry.request, entry.sequence
    finished = sequence.finished_ns if sequence.status == "finished" else None
    if finished is None and entry.dropped is None:
        entry.settle(ended_ns)
    return RequestRecord(
        id=request.id, arrival_ns=request.arrival_ns, prompt_tokens=request.prompt_tokens,
        output_tokens=request.output_tokens, queued_ns=entry.queued_ns,
        first_scheduled_ns=sequence.first_scheduled_ns, first_token_ns=sequence.first_token_ns, finished_ns=finished,
        dropped_ns=entry.dropped_ns, dropped=entry.dropped, generated_tokens=sequence.generated,
        cached_tokens=sequence.cached_tokens, computed_tokens=sequence.computed,
        recomputed_tokens=sequence.recomputed_tokens, preemptions=sequence.preemptions,
        deadline_ns=request.deadline_ns, spans=tuple(entry.spans), gaps=tuple(entry.gaps))
