"""How fast a deployment is: first token, pace, throughput, what bounds it. Every figure is a term with its range."""

from dataclasses import dataclass, replace

from pycore.ledger import Term, add, fact
from pycore.nouns import Deployment, Parallel
from pycore.roofline import account, terms
from pycore.roofline.efficiency import Fit, arithmetic, choose, measured_generations, rate, streamed
from pycore.roofline.evidence import Evidence, spread
from pycore.roofline.interconnect import link
from pycore.roofline.load import STYLES, Pace, Requests, pace
from pycore.roofline.prepare import prepare
from pycore.roofline.step import Parts, Step, step_parts, sum_parts
from pycore.roofline.work import Work, work
from pycore.units import MIB
from pycore.vram import engines

LIMIT_SEQUENCES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """The answer. Terms carry ranges; prompt figures are None where the card has no published dense rate (`unknown` says
    so). Parts are seconds of one step and add up to it."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A deployment looked at as a step and a load."""

    deployment: Deployment
    step: Step
    work: Work
    load: Requests
    parallel: Parallel


def question(deployment: Deployment, sequences: int = 0, ideal: bool = False) -> Question:
    """The step and the load of one replica. Engines that split by layers use all devices of a replica as stages, one
    micro-batch after the other (llama.cpp, transformers); the others keep every pipeline stage busy."""
    profile = engines.engine(deployment.engine)
    tensor, stages = engines.spread(profile, deployment.parallel)
    parallel = Parallel(tensor=tensor, pipeline=stages, data=deployment.parallel.data, expert=deployment.parallel.expert)
    step = prepare(deployment.model, deployment.weights, deployment.keys, deployment.values, parallel,
                   deployment.accelerator, deployment.engine, ideal)
    share = -(-sequences // deployment.parallel.data) if sequences else deployment.sequences_per_replica
    load = Requests(sequences=share, prompt=deployment.prompt, output=deployment.output, budget=tokens_a_step(deployment),
                    style=STYLES[deployment.engine],
                    batches=min(share, stages) if profile.split == "tensor" else 1)
    return Question(deployment=deployment, step=step, load=load, parallel=parallel,
                    work=work(deployment.model, deployment.weights, deployment.keys, deployment.values, parallel))


def tokens_a_step(deployment: Deployment) -> int:
    """Most tokens in one forward pass: asked, or the engine's default for the card; transformers takes whole prompts."""
    card = deployment.accelerator
    visible = card.memory_usable_mib * MIB if card.memory_usable_mib else card.memory_box_gib * 1024 * MIB
    found = engines.tokens_a_step(engines.engine(deployment.engine), visible, card.id, deployment.max_batched_tokens)
    return found or deployment.prompt


def speed(deployment: Deployment) -> Speed:
    """Speed of a deployment at its load. Raises NotKnown where devices cannot be joined or no kernel was ever measured."""
    asked = question(deployment)
    found = pace(asked.step, asked.load)
    evidence = spread("tpot", deployment.engine, deployment.accelerator, asked.step.calibrated)
    low, high = evidence.low, evidence.high
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
    """(lowest, highest) pace, as factors, that the fits of every measured generation give on this card: what is not known
    about a card that none of them describes."""
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
    requests = terms.requests(decoding=round(decoding, 3), output=load.output, tpot=pacing)
    total = terms.output_rate(requests_per_s=requests, output=load.output)
    return {"tokens_per_s_user": terms.per_user(tpot=pacing), "requests_per_s": requests, "tokens_per_s_total": total,
            "tokens_per_s_per_gpu": terms.per_device(tokens_per_s=total, devices=deployment.parallel.devices)}


def prompt_terms(asked: Question, found: Pace) -> dict[str, object]:
    """What concerns prompts; all of it None where the card's dense rate is not known."""
    deployment, load = asked.deployment, asked.load
    if found.alone is None:
        return {"prefill_s": None, "ttft_s": None, "mfu_prefill": None, "prefill_parts": (), "bound_prefill": "not known",
                "unknown": (f"no source gives {deployment.accelerator.name} a dense rate, so reading prompts cannot be timed"
                            " and the pace is that of decoding alone",)}
    before = (load.prompt - load.chunk) // 2
    chunk = step_parts(asked.step, 0, 0, ((load.chunk, before, 1),), 1)
    parts = part_terms(asked, chunk, tokens=load.chunk, cached=before,
                       flop=account.prompt_flop(asked.work, load.chunk, before), prompt=True)
    low, high = prompt_range(asked, parts, sum_parts(chunk))
    alone = terms.prefill(chunk_step=sum_parts(chunk), chunks=load.chunks, low=low, high=high)
    own = min(found.ttft, load.chunks * found.mixed if load.style == "mixed" else found.mixed)
    first = terms.ttft(waited=max(0.0, found.ttft - own), own=own, low=alone.low, high=found.ttft_burst * high)
    peak = fact("Dense rate", rate(deployment.accelerator, compute_of(deployment), deployment.engine), "FLOP/s",
                basis="datasheet", source=deployment.accelerator.source)
    flop = account.prompt_flop(asked.work, load.prompt) / asked.parallel.pipeline
    return {"prefill_s": alone, "ttft_s": first, "prefill_parts": parts, "bound_prefill": largest(parts), "unknown": (),
            "mfu_prefill": terms.utilised_flop(prompt_flop=flop, rate=peak, prefill_s=alone)}


def prompt_range(asked: Question, parts: tuple[Term, ...], seconds: float) -> tuple[float, float]:
    """(low, high) as factors: quantiles of reported prompt speeds for llama.cpp, of the kernels' residuals elsewhere."""
    card, engine = asked.deployment.accelerator, asked.deployment.engine
    if streamed(card, engine):
        evidence = spread("prompt", engine, card, asked.step.calibrated)
        return evidence.low, evidence.high
    ends = [(part.value if part.low is None else part.low, part.value if part.high is None else part.high) for part in parts]
    low, high = (add(end[side] for end in ends) / seconds for side in (0, 1))
    if asked.step.calibrated:
        return low, high
    borrowed = spread("tpot", engine, card, False)
    return low * borrowed.low, high * borrowed.high


def compute_of(deployment: Deployment) -> str:
    """The arithmetic of the linear layers."""
    return arithmetic(deployment.weights, deployment.accelerator)


def decode_terms(asked: Question, parts: Parts) -> tuple[Term, ...]:
    """The parts of a decoding step."""
    together, context = asked.load.together, asked.load.context
    return part_terms(asked, parts, tokens=together, cached=context,
                      flop=account.decode_flop(asked.work, together, context), prompt=False)


def part_terms(asked: Question, parts: Parts, *, tokens: int, cached: int, flop: float, prompt: bool) -> tuple[Term, ...]:
    """Parts of a step as terms; shares are those that the whole step reaches."""
    card, engine = asked.deployment.accelerator, asked.deployment.engine
    bandwidth = fact("Memory bandwidth", card.bandwidth_bytes_per_s, "B/s", basis="datasheet", source=card.source)
    product = choose("product", card, compute_of(asked.deployment), engine)
    keys = "kv8" if asked.deployment.keys.bits_per_weight <= 9 else "kv16"
    attention = choose("prefill" if prompt else "decode", card, keys, engine)
    read = account.weight_bytes(asked.work, tokens)
    cache = account.cache_bytes(asked.work, 1 if prompt else tokens, cached) if parts.cache else 0.0
    launches = asked.work.elementwise + sum(item.count for item in asked.work.products)
    return (terms.weights_read(weight_bytes=read, bandwidth=bandwidth, share=reached(read, bandwidth.value, parts.weights),
                               low=product.low, high=product.high),
            terms.cache_read(cache_bytes=cache, bandwidth=bandwidth, share=reached(cache, bandwidth.value, parts.cache),
                             low=attention.low, high=attention.high),
            compute_term(asked, product, flop, parts.compute),
            communication_term(asked, parts.communication),
            terms.launched(kernels=launches, seconds_each=parts.overhead / launches))


def compute_term(asked: Question, product: Fit, flop: float, seconds: float) -> Term:
    """Compute that reading does not hide; nothing where the card's rate is not known."""
    card, engine = asked.deployment.accelerator, asked.deployment.engine
    if not asked.step.timed_prompts or not seconds:
        return terms.compute_beyond(flop=0.0, rate=1.0, share=1.0, hidden=0.0, low=1.0, high=1.0)
    peak = rate(card, compute_of(asked.deployment), engine)
    share = min(product.compute_share, flop / peak / seconds)
    return terms.compute_beyond(flop=flop, rate=peak, share=share, hidden=flop / (peak * share) - seconds, low=product.low,
                                high=product.high)


def communication_term(asked: Question, seconds: float) -> Term:
    """Communication of one step."""
    messages = asked.step.messages + asked.step.exchange[0] + asked.step.passes[0]
    fit = link_fit(asked)
    return terms.communicated(messages=messages, message_seconds=seconds / messages if messages else 0.0,
                              low=fit.low if fit else 1.0, high=fit.high if fit else 1.0)


def link_fit(asked: Question) -> Fit | None:
    """The all-reduce fit in use, if devices talk at all."""
    devices = asked.parallel.tensor if asked.parallel.tensor > 1 else min(2, asked.parallel.pipeline)
    return link(asked.deployment.accelerator, devices).fit if devices > 1 else None


def reached(moved: float, bandwidth: float, seconds: float) -> float:
    """Share of the bandwidth that moving so many bytes in so many seconds is."""
    return moved / (bandwidth * seconds) if seconds else 1.0


def bandwidth_term(asked: Question, seconds: float) -> Term:
    """Memory bandwidth utilisation of a decoding step."""
    together = asked.load.together
    moved = account.weight_bytes(asked.work, together) + account.cache_bytes(asked.work, together, asked.load.context)
    moved *= asked.load.batches / asked.parallel.pipeline
    return terms.utilised_bandwidth(step_bytes=moved, bandwidth=asked.deployment.accelerator.bandwidth_bytes_per_s,
                                    decode_step=seconds)


def largest(parts: tuple[Term, ...]) -> str:
    """What bounds a step, in words: its largest part."""
    words = {"Weights read": "reading weights", "KV cache read": "reading the KV cache", "Communication": "communication",
             "Compute beyond reading": "compute", "Launches and small kernels": "launches and small kernels"}
    top = max(parts, key=lambda part: part.value)
    if top.name == "Compute beyond reading" or parts[2].value > parts[0].value:
        return "compute"
    return words[top.name]


def compute_bound(asked: Question) -> Term | None:
    """Fewest sequences at which a decoding step's products take longer to compute than their weights take to read."""
    step = asked.step

    def bound(count: int) -> bool:
        read = sum(item.read_fixed for item in step.products) + step.head.read_fixed
        done = sum(item.work_token - item.read_token for item in step.products) + step.head.work_token
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
                source="data/catalog/efficiency.csv", line="pycore/roofline/speed.py",
                note="fewest sequences on a replica whose products compute longer than their weights are read")


def calibration(asked: Question, evidence: Evidence) -> str:
    """What the efficiencies rest on, in words."""
    card, engine = asked.deployment.accelerator, asked.deployment.engine
    fit = choose("product", card, compute_of(asked.deployment), engine)
    what = "llama.cpp reports" if streamed(card, engine) else "kernels"
    return (f"{borrowings(asked)}products fitted on {fit.rows} {what} ({fit.compute}, {fit.engine}, {fit.generation}; median"
            f" error {fit.median_error_pct:g} %, 90 % within {fit.p90_error_pct:g} %); range from {evidence.text}")


def borrowings(asked: Question) -> str:
    """Which operations borrow another generation's fits: "uncalibrated: ...; ", or nothing."""
    if asked.step.calibrated:
        return ""
    card, keys = asked.deployment.accelerator, "kv8" if asked.deployment.keys.bits_per_weight <= 9 else "kv16"
    wanted = {"product": compute_of(asked.deployment), "decode": keys, "prefill": keys}
    if asked.work.experts:
        wanted["experts"] = arithmetic(asked.deployment.weights, card, "experts")
    words = {"product": "products", "decode": "decoding attention", "prefill": "prompt attention", "experts": "experts"}
    found = {operation: choose(operation, card, compute, asked.deployment.engine) for operation, compute in wanted.items()}
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
    return held, ways[load.style], f"mean context while decoding {load.context:,} tokens"


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
