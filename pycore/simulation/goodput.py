"""Requests that met their targets, out of all that were sent: one that was dropped or never finished met none."""

from dataclasses import dataclass, replace

from pycore.ledger import Term
from pycore.simulation.figures import rate, share_of, tally
from pycore.simulation.latencies import SECOND
from pycore.simulation.records import RequestRecord, Result
from pycore.stats.batches import BATCHES, batch_means
from pycore.stats.bounds import effective_samples
from pycore.stats.describe import HEAD
from pycore.stats.distributions import normal_quantile, student_quantile
from pycore.stats.estimates import Estimate
from pycore.stats.shares import wilson
from pycore.stats.stationarity import stationarity


@dataclass(frozen=True, slots=True, kw_only=True)
class Slo:
    """Targets in seconds; None: no such target. An answer of a single token has no pace and meets any TPOT."""

    ttft_s: float | None = None
    tpot_s: float | None = None
    e2e_s: float | None = None

    @property
    def text(self) -> str:
        """'TTFT <= 2 s and TPOT <= 0.1 s', or 'finished' without targets."""
        named = (("TTFT", self.ttft_s), ("TPOT", self.tpot_s), ("end to end", self.e2e_s))
        return " and ".join(f"{name} ≤ {target:g} s" for name, target in named if target is not None) or "finished"

    def met_by(self, request: RequestRecord) -> bool:
        """Whether a request finished within every target."""
        if not request.finished or request.dropped is not None:
            return False
        pairs = ((request.ttft_ns, self.ttft_s), (request.tpot_ns, self.tpot_s), (request.e2e_ns, self.e2e_s))
        return all(target is None or taken is None or taken <= target * SECOND for taken, target in pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Goodput:
    """`share` of all requests sent (its range: the interval of the long-run share), `per_s` over the makespan."""

    slo: Slo
    good: Term
    share: Term
    per_s: Term
    of_served: Term  # of those that finished alone: what hides drops, kept to be shown beside


def goodput(result: Result, slo: Slo) -> Goodput:
    """Counts every request of the run."""
    met = [slo.met_by(request) for request in result.requests]
    good, served = sum(met), sum(request.finished for request in result.requests)
    counted = tally(good).renamed("Requests within targets")
    share = share_of(counted, tally(len(met)).renamed("Requests sent"))
    estimate = share_estimate([float(hit) for hit in met])
    share = replace(share, name="Goodput", low=estimate.low, high=estimate.high, note=estimate.evidence)
    makespan = result.makespan_ns / SECOND
    return Goodput(slo=slo, good=counted, share=share, per_s=rate(counted, makespan).renamed("Goodput"),
                   of_served=share_of(counted, tally(served).renamed("Requests finished")).renamed("Of those finished"))


def share_estimate(hits: list[float]) -> Estimate:
    """Interval of the long-run share of ones among `hits` in order of time: Wilson's at the effective number."""
    if not hits:
        return Estimate(value=0.0, n=0, refused="no requests")
    value, kept = sum(hits) / len(hits), hits[int(len(hits) * HEAD):]
    refused, out = stationarity(kept).refused, len(hits) - len(kept)
    if refused:
        return Estimate(value=value, n=len(hits), refused=refused, left_out=out)
    means = batch_means(kept)
    effective = effective_samples(means.mean, means.error, len(kept))
    trusted = effective * (normal_quantile(0.975) / student_quantile(0.975, BATCHES - 1)) ** 2
    low, high = wilson(min(1.0, means.mean) * trusted, trusted)
    return Estimate(value=value, n=len(hits), low=low, high=high, settled=means.mean, effective_n=effective, left_out=out,
                    method="Wilson's interval at the effective number of samples")
