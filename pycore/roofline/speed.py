"""How fast a deployment is: first token, pace, throughput, what bounds it. Every figure is a term with its range."""

import math
from dataclasses import dataclass, replace

from pycore.ledger import Term, add, fact, source_line
from pycore.nouns import Deployment
from pycore.roofline import account, terms
from pycore.roofline.efficiency import arithmetic, choose, measured_generations, rate, streamed
from pycore.roofline.evidence import Evidence, ends, spread
from pycore.roofline.load import Pace, pace
from pycore.roofline.parts import decode_terms, largest, part_terms
from pycore.roofline.prepare import prepare
from pycore.roofline.question import Question, compute_of, question
from pycore.roofline.step import step_parts, sum_parts

LIMIT_SEQUENCES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """The answer. Terms carry ranges; prompt figures are None where the card has no published dense rate (`unknown`
    says so). Parts are seconds of one step and add up to it."""

    prefill_s: Term | None
    ttft_s: Term | None
    tpot_s: Term
    tokens_per_s_user: Term
    tokens_per_s_total: Term
    tokens_per_s_per_gpu: Term
    requests_per_s: Term
    mfu_prefill: Term | None
    mbu_decode: Term
    compute_bound_batch: Term | None
    prefill_parts: tuple[Term, ...]
    decode_parts: tuple[Term, ...]
    bound_prefill: str
    bound_decode: str
    calibration: str
    calibrated: bool
    assumptions: tuple[str, ...]
    unknown: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedPoint:
    """One batch size of the curve; plain numbers."""

    sequences: int
    tpot_s: float
    tokens_per_s_user: float
    tokens_per_s_per_gpu: float


def speed(deployment: Deployment) -> Speed:
    """Speed of a deployment at its load. Raises NotKnown where devices cannot be joined or no kernel was ever
    measured."""
    asked = question(deployment)
    found = pace(asked.step, asked.load)
    evidence = spread("tpot", deployment.engine, deployment.accelerator, asked.step.calibrated)
    low, high = ends("tpot", deployment.engine, deployment.accelerator, asked.step.calibrated)
    if not asked.step.calibrated:
        slowest = generations(asked, found)
        low, high = min(low, slowest[0]), max(high, slowest[1])
    pacing = tpot_term(asked, found, low, high)
    rates = throughput(asked, found, pacing)
    prompts = prompt_terms(asked, found)
    parts = step_parts(asked.step, asked.load.together, asked.load.together * asked.load.context)
    decoded = decode_terms(asked, parts)
    return Speed(**prompts, tpot_s=pacing, **rates, decode_parts=decoded, bound_decode=largest(decoded),
                 mbu_decode=bandwidth_term(asked, sum_parts(parts)), compute_bound_batch=compute_bound(asked),
                 calibration=calibration(asked, evidence), calibrated=asked.step.calibrated,
                 assumptions=assumptions(asked, found))


def generations(asked: Question, found: Pace) -> tuple[float, float]:
    """(lowest, highest) pace, as factors, that the fits of every measured generation give on this card: what is not
    known about a card that none of them describes."""
    deployment, factors = asked.deployment, [1.0]
    if streamed(deployment.accelerator, deployment.engine):
        return 1.0, 1.0
    for name in measured_generations():
        card = replace(deployment.accelerator, architecture=name, compute_capability=None)
        step = prepare(deployment.model, deployment.weights, deployment.keys, deployment.values, asked.parallel, card,
                       deployment.engine)
        factors.append(pace(step, asked.load).tpot / found.tpot)
    return min(factors), max(factors)


def tpot_term(asked: Question, found: Pace, low: float, high: float) -> Term:
    """Time per output token under the load, ranged by whole-engine runs."""
    if asked.load.style == "apart":
        return terms.tpot_apart(decode_step=found.decode, prompt=found.alone or 0.0, started=found.carrying, low=low,
                                high=high)
    return terms.tpot(decode_step=found.decode, mixed_step=found.mixed, carrying=found.carrying, low=low, high=high)


def throughput(asked: Question, found: Pace, pacing: Term) -> dict[str, Term]:
    """Rates of all replicas together; `decoding` counts the sequences that get tokens at a time, on average."""
    deployment, load = asked.deployment, asked.load
    decoding = found.requests_per_s * load.output * found.tpot / load.sequences * deployment.sequences
    requests = terms.requests(decoding=decoding, output=load.output, tpot=pacing)
    total = terms.output_rate(requests_per_s=requests, output=load.output)
    return {"tokens_per_s_user": terms.per_user(tpot=pacing), "requests_per_s": requests, "tokens_per_s_total": total,
            "tokens_per_s_per_gpu": terms.per_device(tokens_per_s=total, devices=deployment.parallel.devices)}


def prompt_terms(asked: Question, found: Pace) -> dict[str, object]:
    """What concerns prompts; all of it None where the card's dense rate is not known."""
    deployment, load = asked.deployment, asked.load
    if found.alone is None:
        why = (f"no source gives {deployment.accelerator.name} a dense rate, so reading prompts cannot be timed and the"
               " pace is that of decoding alone")
        return {"prefill_s": None, "ttft_s": None, "mfu_prefill": None, "prefill_parts": (),
                "bound_prefill": "not known", "unknown": (why,)}
    before = load.before
    chunk = step_parts(asked.step, 0, 0, ((load.chunk, before, 1),), 1)
    parts = part_terms(asked, chunk, tokens=load.chunk, cached=before,
                       flop=account.prompt_flop(asked.work, load.chunk, before), prompt=True)
    low, high = prompt_range(asked, parts, sum_parts(chunk))
    alone = terms.prefill(chunk_step=sum_parts(chunk), chunks=load.chunks, low=low, high=high)
    own = min(found.ttft, load.chunks * found.mixed if load.style == "mixed" else found.mixed)
    first = terms.ttft(waited=max(0.0, found.ttft - own), own=own, low=alone.low, high=found.ttft_burst * high)
    peak = fact("Dense rate", rate(deployment.accelerator, compute_of(deployment), deployment.engine), "FLOP/s",
                basis="datasheet", source=deployment.accelerator.source)
    flop = account.prompt_flop(asked.work, load.fresh, load.cached) / asked.parallel.pipeline
    return {"prefill_s": alone, "ttft_s": first, "prefill_parts": parts, "bound_prefill": largest(parts), "unknown": (),
            "mfu_prefill": terms.utilised_flop(prompt_flop=flop, rate=peak, prefill_s=alone)}


def prompt_range(asked: Question, parts: tuple[Term, ...], seconds: float) -> tuple[float, float]:
    """(low, high) as factors: quantiles of reported prompt speeds for llama.cpp, of the kernels' residuals
    elsewhere."""
    card, engine = asked.deployment.accelerator, asked.deployment.engine
    if streamed(card, engine):
        return ends("prompt", engine, card, asked.step.calibrated)
    sides = [(part.value if part.low is None else part.low, part.value if part.high is None else part.high)
            for part in parts]
    low, high = (add(end[side] for end in sides) / seconds for side in (0, 1))
    if asked.step.calibrated:
        return low, high
    fastest, slowest = ends("tpot", engine, card, False)
    return low * fastest, high * slowest


def bandwidth_term(asked: Question, seconds: float) -> Term:
    """Memory bandwidth utilisation of a decoding step."""
    together = asked.load.together
    moved = account.weight_bytes(asked.work, together) + account.cache_bytes(asked.work, together, asked.load.context)
    moved *= asked.load.batches / asked.parallel.pipeline
    return terms.utilised_bandwidth(step_bytes=moved, bandwidth=asked.deployment.accelerator.bandwidth_bytes_per_s,
                                    decode_step=seconds)


def compute_bound(asked: Question) -> Term | None:
    """Fewest sequences at which a decoding step's products take longer to compute than their weights take to read."""
    step = asked.step

    def bound(count: int) -> bool:
        read = math.fsum(item.read_fixed for item in step.products) + step.head.read_fixed
        done = math.fsum(item.work_token - item.read_token for item in step.products) + step.head.work_token
        if step.experts:
            read += step.experts.read_all * (1.0 - account.power(step.experts.missed, count * step.experts.gathered))
            done += step.experts.work_token - step.experts.read_token
        return done * count >= read

    low, high = 1, LIMIT_SEQUENCES
    if not bound(high):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if bound(middle) else (middle + 1, high)
    return fact("Batch where decoding turns compute-bound", low * asked.load.batches, "sequences", basis="fitted",
                source="data/catalog/efficiency.csv", line=source_line(compute_bound),
                note="fewest sequences on a replica whose products compute longer than their weights are read")


def calibration(asked: Question, evidence: Evidence) -> str:
    """What the efficiencies rest on, in words."""
    card, engine = asked.deployment.accelerator, asked.deployment.engine
    fit = choose("product", card, compute_of(asked.deployment), engine)
    what = "llama.cpp reports" if streamed(card, engine) else "kernels"
    return (f"{borrowings(asked)}products fitted on {fit.rows} {what} ({fit.compute}, {fit.engine}, {fit.generation};"
            f" median error {fit.median_error_pct:g} %, 90 % within {fit.p90_error_pct:g} %);"
            f" range from {evidence.text}")


def borrowings(asked: Question) -> str:
    """Which operations borrow another generation's fits: "uncalibrated: ...; ", or nothing."""
    if asked.step.calibrated:
        return ""
    card, keys = asked.deployment.accelerator, "kv8" if asked.deployment.keys.bits_per_weight <= 9 else "kv16"
    wanted = {"product": compute_of(asked.deployment), "decode": keys, "prefill": keys}
    if asked.work.experts:
        wanted["experts"] = arithmetic(asked.deployment.weights, card, "experts")
    words = {"product": "products", "decode": "decoding attention", "prefill": "prompt attention", "experts": "experts"}
    found = {operation: choose(operation, card, compute, asked.deployment.engine)
             for operation, compute in wanted.items()}
    borrowed = [f"{words[name]} from {fit.generation}" for name, fit in found.items() if not fit.calibrated]
    return f"uncalibrated ({card.name}'s own generation was not measured): {', '.join(borrowed)}; "


def assumptions(asked: Question, found: Pace) -> tuple[str, ...]:
    """What the load is taken to be."""
    load = asked.load
    held = f"{load.sequences} requests in flight on a replica, each replaced at once, ages evenly spread"
    ways = {"mixed": f"prompts advance in the decoding steps, {load.budget:,} tokens a step at most, so"
                     f" {100 * found.carrying:.3g} % of steps carry prompt tokens",
            "apart": "prompts are read in steps of their own, before decoding goes on",
            "static": "all prompts of the batch are read first, then all decode; nothing joins"}
    cached = (f"a prefix cache answers {load.cached:,} of {load.prompt:,} prompt tokens",) if load.cached else ()
    return held, ways[load.style], *cached, f"mean context while decoding {load.context:,} tokens"


def curve(deployment: Deployment, batches: tuple[int, ...]) -> tuple[SpeedPoint, ...]:
    """Pace against sequences, everything else as asked; plain numbers."""
    points = []
    for sequences in batches:
        asked = question(deployment, sequences)
        found = pace(asked.step, asked.load)
        total = found.requests_per_s * asked.load.output * deployment.parallel.data
        points.append(SpeedPoint(sequences=sequences, tpot_s=found.tpot, tokens_per_s_user=1.0 / found.tpot,
                                 tokens_per_s_per_gpu=total / deployment.parallel.devices))
    return tuple(points)
