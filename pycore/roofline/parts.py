"""The parts of one step as terms: weights read, cache read, compute, communication, launches. They add up to the
step."""

from pycore.ledger import Term, fact
from pycore.roofline import account, terms
from pycore.roofline.efficiency import Fit, choose, rate
from pycore.roofline.interconnect import link
from pycore.roofline.question import Question, compute_of
from pycore.roofline.step import Parts


def decode_terms(asked: Question, parts: Parts) -> tuple[Term, ...]:
    """The parts of a decoding step."""
    together, context = asked.load.together, asked.load.context
    return part_terms(asked, parts, tokens=together, cached=context,
                      flop=account.decode_flop(asked.work, together, context), prompt=False)


def part_terms(asked: Question, parts: Parts, *, tokens: int, cached: int, flop: float,
               prompt: bool) -> tuple[Term, ...]:
    """Parts of a step as terms; shares are those that the whole step reaches."""
    card, engine = asked.deployment.accelerator, asked.deployment.engine
    bandwidth = fact("Memory bandwidth", card.bandwidth_bytes_per_s, "B/s", basis="datasheet", source=card.source)
    product = choose("product", card, compute_of(asked.deployment), engine)
    keys = "kv8" if asked.deployment.keys.bits_per_weight <= 9 else "kv16"
    attention = choose("prefill" if prompt else "decode", card, keys, engine)
    read = account.weight_bytes(asked.work, tokens)
    cache = account.cache_bytes(asked.work, 1 if prompt else tokens, cached) if parts.cache else 0.0
    launches = asked.work.elementwise + sum(item.count for item in asked.work.products)
    return (terms.weights_read(weight_bytes=read, bandwidth=bandwidth,
                               share=reached(read, bandwidth.value, parts.weights), low=product.low, high=product.high),
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
    return terms.compute_beyond(flop=flop, rate=peak, share=share, hidden=flop / (peak * share) - seconds,
                                low=product.low, high=product.high)


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


def largest(parts: tuple[Term, ...]) -> str:
    """What bounds a step, in words: its largest part."""
    words = {"Weights read": "reading weights", "KV cache read": "reading the KV cache",
             "Communication": "communication", "Compute beyond reading": "compute",
             "Launches and small kernels": "launches and small kernels"}
    top = max(parts, key=lambda part: part.value)
    if top.name == "Compute beyond reading" or parts[2].value > parts[0].value:
        return "compute"
    return words[top.name]
