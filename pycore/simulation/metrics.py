"""What a run amounts to: latencies with intervals, rates, goodput, the KV pool, batches, an upper bound of energy.

    metrics = measure(result, Slo(ttft_s=2.0, tpot_s=0.1))
    metrics.latencies["ttft"].percentiles[99]      # a Term in seconds, or TooFew

Nothing is left out of a figure in silence: percentiles are of requests that got that far and say how many did not,
goodput and counts are of all that were sent.
"""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pycore.ledger import Term, term
from pycore.simulation.composition import Composition, PoolUse, composition, pool_use
from pycore.simulation.figures import SIMULATED, Distribution, distribution, rate, share_of, tally
from pycore.simulation.goodput import Goodput, Slo, goodput
from pycore.simulation.latencies import LATENCIES, SECOND, series, token_gaps
from pycore.simulation.records import RequestRecord, Result
from pycore.stats.batches import SMALLEST
from pycore.stats.bootstrap import moving_block
from pycore.stats.describe import PERCENTS, describe
from pycore.stats.weighted import describe_weighted

TAIL = 0.1
"""Share of requests, the last to arrive, that intervals leave out: arrivals have ended and they run undisturbed."""


@term("Makespan", "s", source=SIMULATED)
def makespan(end_of_last_step_s):
    """the end of the last step, from the beginning of the run"""
    return end_of_last_step_s


@term("Energy, at most", "J", source="a card's sustained draw is at most its TDP")
def energy_bound(tdp_w, devices, makespan_s):
    """tdp_w × devices × makespan_s"""
    return tdp_w * devices * makespan_s


@term("Energy per output token, at most", "J/token", source=SIMULATED)
def energy_per_token(energy_j, output_tokens):
    """energy_j / output_tokens"""
    return energy_j / output_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """All figures of one run. Counts are of requests sent; `lost_to` maps each reason of a drop to how many."""

    policy: str
    sent: Term
    completed: Term
    dropped: Term
    unfinished: Term
    lost_to: dict[str, int]
    makespan: Term
    latencies: dict[str, Distribution]  # ttft, tpot, itl, e2e, queueing
    output_tokens_per_s: Term
    requests_per_s: Term
    goodput: Goodput
    hit_ratio: Term  # prompt tokens found in the prefix cache over prompt tokens of requests admitted
    preemptions: Term
    recomputed_tokens: Term
    pool: PoolUse
    batches: Composition
    energy: Term | None = None
    energy_per_token: Term | None = None


def measure(result: Result, slo: Slo | None = None, *, tdp_w: Term | float | None = None,
            percents: Sequence[float] = PERCENTS, seed: int = 1) -> Metrics:
    """The metrics of a run. `tdp_w`: thermal design power of one device, watts; without it no energy is bounded.
    `seed`: of the bootstrap behind the hit ratio's interval."""
    requests, seconds = result.requests, makespan(result.makespan_ns / SECOND)
    finished = sum(request.finished for request in requests)
    reasons = Counter(request.dropped for request in requests if request.dropped is not None)
    tokens = tally(sum(request.generated_tokens for request in requests)).renamed("Output tokens")
    completed = tally(finished).renamed("Requests finished")
    devices = sum(server.devices for server in result.servers)
    energy = None if tdp_w is None else energy_bound(tdp_w, devices, seconds)
    return Metrics(
        policy=result.policy, sent=tally(len(requests)).renamed("Requests sent"), completed=completed,
        dropped=tally(sum(reasons.values())).renamed("Requests dropped"), lost_to=dict(sorted(reasons.items())),
        unfinished=tally(len(requests) - finished - sum(reasons.values())).renamed("Requests unfinished"),
        makespan=seconds, latencies=latencies(result, percents),
        output_tokens_per_s=replace(rate(tokens, seconds), name="Output tokens", unit="tokens/s"),
        requests_per_s=replace(rate(completed, seconds), name="Requests finished", unit="requests/s"),
        goodput=goodput(result, slo or Slo()), hit_ratio=hit_ratio(requests, random.Random(seed)),
        preemptions=tally(sum(request.preemptions for request in requests)).renamed("Preemptions"),
        recomputed_tokens=tally(sum(request.recomputed_tokens for request in requests)).renamed("Tokens computed twice"),
        pool=pool_use(result.servers), batches=composition(result), energy=energy,
        energy_per_token=None if energy is None or not tokens.value else energy_per_token(energy, tokens))


def latencies(result: Result, percents: Sequence[float] = PERCENTS) -> dict[str, Distribution]:
    """TTFT, TPOT, gaps between tokens, end to end and queueing of a run."""
    found = {}
    for name, (title, _) in LATENCIES.items():
        values = series(result, name)
        lost = len(result.requests) - len(values) - (single_tokens(result) if name == "tpot" else 0)
        found[name] = distribution(name, title, describe(values, percents, tail=TAIL), ((value, 1) for value in values),
                                   lost)
    gaps = token_gaps(result)
    found["itl"] = distribution("itl", "Between tokens", describe_weighted(gaps, percents, tail=TAIL), gaps, 0)
    return {name: found[name] for name in ("ttft", "tpot", "itl", "e2e", "queueing")}


def single_tokens(result: Result) -> int:
    """Requests that finished with one token: nothing was lost, they have no pace."""
    return sum(request.finished and request.generated_tokens < 2 for request in result.requests)


def hit_ratio(requests: Sequence[RequestRecord], generator: random.Random) -> Term:
    """Share of prompt tokens that the prefix cache held, over requests that were admitted; its range is the interval of
    the long-run ratio by moving-block bootstrap over requests, from 64 of them on."""
    admitted = [request for request in requests if request.first_scheduled_ns is not None]
    hits, prompts = [0], [0]
    for request in admitted:
        hits.append(hits[-1] + request.cached_tokens)
        prompts.append(prompts[-1] + request.prompt_tokens)
    figure = share_of(tally(hits[-1]).renamed("Prompt tokens found cached"),
                      tally(prompts[-1]).renamed("Prompt tokens admitted")).renamed("Prefix hit ratio")
    if len(admitted) < SMALLEST or not hits[-1]:
        return figure

    def ratio(ranges: Sequence[tuple[int, int]]) -> float:
        return (sum(hits[stop] - hits[start] for start, stop in ranges)
                / sum(prompts[stop] - prompts[start] for start, stop in ranges))

    low, high = moving_block(len(admitted), ratio, generator)
    return replace(figure, low=max(0.0, low), high=min(1.0, high), note=f"n = {len(admitted):,} requests")
