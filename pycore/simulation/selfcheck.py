"""Every run checks itself: laws that hold for any scheduler and any cost, compared as whole numbers.

The two sides of each law come from different places (the event loop's count, the schedulers' plans as the steps record
them, the spans and gaps of the requests), so a request lost between them, a token counted twice or a block leaked shows.

    for check in selfcheck(result): print(check.name, check.holds, check.says)
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, chain, islice, pairwise
from operator import le

from pycore.simulation.latencies import SECOND
from pycore.simulation.records import DECODE, PREFILL, RequestRecord, Result, column, span_bounds
from pycore.units import significant


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One law and its two sides in the run. `fault` names the first place where it does not hold, '' where it does."""

    name: str
    law: str
    left: int
    right: int
    says: str
    fault: str = ""

    @property
    def holds(self) -> bool:
        return self.left == self.right and not self.fault


def selfcheck(result: Result) -> tuple[Check, ...]:
    """All laws over one run, in the order in which a page shows them."""
    return (requests_kept(result), littles_law(result), time_attributed(result), tokens_emitted(result),
            tokens_computed(result), steps_add_up(result), blocks_kept(result), order_of_events(result))


def left_ns(result: Result, request: RequestRecord) -> int:
    """When a request left the system: finished, was dropped, or the run ended around it."""
    for end in (request.finished_ns, request.dropped_ns):
        if end is not None:
            return end
    return max(result.makespan_ns, request.arrival_ns)


def requests_kept(result: Result) -> Check:
    """Everyone who came is accounted for once."""
    finished = sum(request.finished for request in result.requests)
    dropped = sum(request.dropped is not None for request in result.requests)
    inside = sum(not request.finished and request.dropped is None for request in result.requests)
    ids = len({request.id for request in result.requests})
    return Check(name="Requests", law="sent = finished + dropped + unfinished", left=ids, right=finished + dropped + inside,
                 says=f"{ids:,} = {finished:,} + {dropped:,} + {inside:,}")


def littles_law(result: Result) -> Check:
    """L = lambda W, as an identity over the whole run (Little 1961; Kim and Whitt 2013, Oper. Res. 61(4)): the event
    loop's count of requests in the system times time, against the sum of each one's time in the system."""
    spent = sum(left_ns(result, request) - request.arrival_ns for request in result.requests)
    number, seconds = len(result.requests), result.makespan_ns / SECOND
    says = "nothing ran"
    if seconds and number:
        inside, rate = result.request_ns / SECOND / seconds, number / seconds
        says = (f"L = {significant(inside, 4)} in the system = λ {significant(rate, 4)}/s × "
                f"W {significant(spent / SECOND / number, 4)} s")
    return Check(name="Little's law", law="requests in the system × time = sum of times in the system",
                 left=result.request_ns, right=spent, says=says)


def time_attributed(result: Result) -> Check:
    """Spans and gaps of every request tile its stay without hole or overlap."""
    covered = stay = 0
    fault = ""
    for request in result.requests:
        pieces = sorted([span_bounds(result, span) for span in request.spans] + [gap[:2] for gap in request.gaps])
        at = request.arrival_ns
        for start, end in pieces:
            if start != at and not fault:
                fault = f"{request.id}: {'nothing is known' if start > at else 'two things happen'} from {min(at, start)} ns"
            covered, at = covered + end - start, end
        leaves = left_ns(result, request)
        stay += leaves - request.arrival_ns
        if at != leaves and not fault:
            fault = f"{request.id}: known until {at} ns, left at {leaves} ns"
    return Check(name="Time", law="work + reasons to wait = time in the system, request by request", left=covered,
                 right=stay, fault=fault, says=f"{significant(stay / SECOND, 4)} request-seconds, all attributed")


def tokens_emitted(result: Result) -> Check:
    """Steps, spans and requests agree on how many tokens came out; a finished request has all it asked for."""
    fault = ""
    for request in result.requests:
        emitted = sum(span.emitted for span in request.spans)
        if emitted != request.generated_tokens or request.generated_tokens > request.output_tokens:
            fault = f"{request.id}: {emitted} came out, {request.generated_tokens} counted, {request.output_tokens} asked"
            break
    out = sum(sum(column(server.steps, "emitted")) for server in result.servers)
    generated = sum(request.generated_tokens for request in result.requests)
    return Check(name="Tokens out", law="emitted by steps = counted by requests", left=out, right=generated, fault=fault,
                 says=f"{out:,} tokens")


def tokens_computed(result: Result) -> Check:
    """What went through the model: what is cached at the end, less found in the prefix cache, plus computed again. Work
    on requests that were preempted and never came back is counted as given up."""
    done = due = given_up = 0
    fault = ""
    for request in result.requests:
        worked = sum(span.tokens for span in request.spans if span.kind in (PREFILL, DECODE))
        if request.preemptions and not request.finished:
            given_up += worked
            continue
        owed = request.computed_tokens - request.cached_tokens + request.recomputed_tokens
        ended = request.prompt_tokens + request.generated_tokens - 1
        if not fault and (worked != owed or request.finished and request.computed_tokens != ended):
            fault = f"{request.id}: {worked} computed, {owed} owed, {request.computed_tokens} of {ended} cached at the end"
        done, due = done + worked, due + owed
    kept = [request for request in result.requests if request.finished or not request.preemptions]
    cached = sum(request.cached_tokens for request in kept)
    again = sum(request.recomputed_tokens for request in kept)
    lost = f"; {given_up:,} more given up" if given_up else ""
    return Check(name="Tokens computed", law="computed = held at the end − found cached + computed again", left=done,
                 right=due, fault=fault, says=f"{done:,} = {done + cached - again:,} − {cached:,} + {again:,}{lost}")


def steps_add_up(result: Result) -> Check:
    """At every step, the spans of requests add up to what the plan said it carried."""
    fault, spans_tokens, steps_tokens = "", 0, 0
    for number, server in enumerate(result.servers):
        spans = per_step(result, number, PREFILL), per_step(result, number, DECODE)
        plans = list(column(server.steps, "prefill_tokens")), list(column(server.steps, "decode_sequences"))
        if spans != plans and not fault:
            index = next(at for at, (held, said) in enumerate(zip(zip(*spans, strict=True), zip(*plans, strict=True),
                                                                  strict=True)) if held != said)
            fault = (f"{server.name}, step {index}: spans hold {spans[0][index]} + {spans[1][index]}, "
                     f"the plan {plans[0][index]} + {plans[1][index]}")
        spans_tokens += sum(map(sum, spans))
        steps_tokens += sum(map(sum, plans))
    return Check(name="Steps", law="work of requests = work of plans, step by step", left=spans_tokens, right=steps_tokens,
                 fault=fault, says=f"{sum(len(server.steps) for server in result.servers):,} steps, {steps_tokens:,} tokens")


def per_step(result: Result, server: int, kind: str) -> list[int]:
    """Tokens of one kind of span in each step of a server."""
    changes = [0] * (len(result.servers[server].steps) + 1)
    for request in result.requests:
        for span in request.spans:
            if span.server == server and span.kind == kind:
                changes[span.step] += span.tokens // span.steps
                changes[span.step + span.steps] -= span.tokens // span.steps
    return list(accumulate(changes[:-1]))


def blocks_kept(result: Result) -> Check:
    """Every block of every pool is used, cached or free, at every step."""
    there = found = peak = 0
    fault = ""
    for server in result.servers:
        kinds = [list(column(server.steps, name)) for name in ("blocks_used", "blocks_cached", "blocks_free")]
        totals, least = list(map(sum, zip(*kinds, strict=True))), list(map(min, zip(*kinds, strict=True)))
        if not fault and (totals.count(server.blocks) != len(totals) or min(least, default=0) < 0):
            index = next(at for at, total in enumerate(totals) if total != server.blocks or least[at] < 0)
            used, cached, free = (kind[index] for kind in kinds)
            fault = f"{server.name}, step {index}: {used} used + {cached} cached + {free} free of {server.blocks}"
        there, found, peak = there + server.blocks * len(totals), found + sum(totals), max([peak, *kinds[0]])
    return Check(name="Blocks", law="used + cached + free = the pool, at every step", left=found, right=there, fault=fault,
                 says=f"most in use: {peak:,} of {max((server.blocks for server in result.servers), default=0):,}")


def order_of_events(result: Result) -> Check:
    """Nothing happens before its cause: stamps of a request never go back, steps of a server never overlap."""
    fault, pairs, kept = "", 0, 0
    for name, times in stamps(result):
        pairs += len(times) - 1
        in_order = sum(map(le, times, islice(times, 1, None)))
        if in_order < len(times) - 1 and not fault:
            before, after = next((a, b) for a, b in pairwise(times) if a > b)
            fault = f"{name}: {before} ns after {after} ns"
        kept += in_order
    return Check(name="Order", law="stamps never go back, steps never overlap", left=kept, right=pairs, fault=fault,
                 says=f"{pairs:,} pairs in order")


def stamps(result: Result) -> Iterator[tuple[str, list[int]]]:
    """(what, its times): every one must be at or after the one before it."""
    for request in result.requests:
        yield request.id, [time for time in (request.arrival_ns, request.queued_ns, request.first_scheduled_ns,
                                             request.first_token_ns, request.finished_ns, request.dropped_ns)
                           if time is not None]
    for server in result.servers:
        starts, ends = column(server.steps, "start_ns"), column(server.steps, "end_ns")
        yield server.name, [0, *chain.from_iterable(zip(starts, ends, strict=True))]
