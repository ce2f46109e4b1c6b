"""From a step's seconds to what users of a busy server see: waiting, first token, pace.

The load is closed: `sequences` requests are in flight on a replica, each finished one is replaced at once, their ages
are spread evenly. While one request goes through, each of the others starts once, and its prompt rides along in
decoding steps (vLLM, llama.cpp: chunked) or holds them up (SGLang: in steps of its own). What is read while a request
itself still waits for its first token does not slow its pace: that part is taken off.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

from pycore.roofline.step import Step, step_seconds

STYLES = {"vllm": "mixed", "vllm-0.20": "mixed", "trtllm": "mixed", "llama.cpp": "mixed", "sglang": "apart",
          "transformers": "static"}
"""How prompts and decoding share steps. mixed: chunks of prompts ride in decoding steps; apart: prompts have steps of
their own, first; static: all prompts of a batch are read, then all decode (no continuous batching)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requests:
    """The load of one replica: requests in flight, tokens in and out of each, and most tokens a step may carry."""

    sequences: int
    prompt: int
    output: int
    budget: int
    style: str = "mixed"
    batches: int = 1  # micro-batches that pipeline stages work on at the same time
    cached: int = 0  # tokens of the prompt that a prefix cache answers; they are attended to, not computed

    @property
    def context(self) -> int:
        """Mean tokens a decoding sequence holds: the prompt and half of its answer."""
        return self.prompt + self.output // 2

    @property
    def together(self) -> int:
        """Sequences in one micro-batch."""
        return -(-self.sequences // self.batches)

    @property
    def fresh(self) -> int:
        """Tokens of the prompt that are computed."""
        return self.prompt - self.cached

    @property
    def chunks(self) -> int:
        """Steps that one prompt needs."""
        return -(-self.fresh // self.budget)

    @property
    def chunk(self) -> int:
        """Tokens of a prompt in one of them, evenly divided."""
        return -(-self.fresh // self.chunks)

    @property
    def before(self) -> int:
        """Tokens in front of the mean chunk."""
        return self.cached + (self.fresh - self.chunk) // 2


class Pace(NamedTuple):
    """Seconds. `decode`: a step that only decodes; `mixed`: one that carries prompt tokens as well (apart: reading
    them); `carrying`: share of steps that do (apart: prompts per output token); `alone`: one prompt on an idle server.
    Where the step cannot time prompts, those figures are None and the pace is that of decoding alone."""

    decode: float
    mixed: float
    carrying: float
    tpot: float
    alone: float | None
    ttft: float | None
    ttft_burst: float | None
    requests_per_s: float


def prompt_seconds(step: Step, load: Requests) -> float:
    """Seconds to read one prompt on an idle replica, chunk by chunk; every chunk re-reads what is cached before it, so
    the mean chunk stands for all of them (attention grows linearly with what came before)."""
    return load.chunks * step_seconds(step, 0, 0, ((load.chunk, load.before, 1),), 1)


def pace(step: Step, load: Requests) -> Pace:
    """What a steady load of that shape sees."""
    if not step.timed_prompts:
        decode = step_seconds(step, load.together, load.together * load.context)
        return Pace(decode, decode, 0.0, decode, None, None, None, load.sequences / (load.output * decode))
    return {"mixed": riding, "apart": apart, "static": static}[load.style](step, load)


def riding(step: Step, load: Requests) -> Pace:
    """Chunked prefill in the decoding steps (Agrawal et al. 2024, arXiv 2403.02310).

    A step has to carry `due` prompt tokens beside one token of each decoding sequence. When both together exceed the
    budget, prompts queue, and only as many sequences decode as the budget can feed; the others wait (Little's law).
    Where answers are so short that it feeds less than one, one decodes in some of the steps only.
    """
    together, prompt, output, chunks = load.together, load.fresh, load.output, load.chunks
    decoding = min(together, max(1, load.budget * output // (prompt + output)))
    fed = min(decoding, load.budget * output / (prompt + output))
    room = max(1, load.budget - decoding)
    due = min(decoding * prompt / output, room)
    chunk = load.chunk
    alike = max(1.0, due / chunk)  # prompts, or pieces of them, read side by side, on average
    cached = decoding * load.context
    decode = step_seconds(step, decoding, cached)
    mixed = step_seconds(step, decoding, cached, ((chunk, load.before, alike),), alike)
    alone, own = prompt_seconds(step, load), chunks * mixed
    burst, others = burst_seconds(own, alone, load.sequences), (load.sequences - 1) / load.sequences
    service = own * min(1.0, prompt / room) * others  # short prompts share a step's room
    if decoding < together:
        tpot = token_seconds(decode, mixed, 1.0)
        ttft = max(queued(load.sequences / (fed * load.batches), output * tpot, own, service), own)
        return Pace(decode, mixed, 1.0, tpot, alone, ttft, max(ttft, burst), load.sequences / (ttft + output * tpot))
    carrying = min(1.0, due / (chunk * alike))
    first = decode / 2 + queued(due / room, output * token_seconds(decode, mixed, carrying), own, service)
    ttft = min(first, max(burst, own))
    carrying = max(0.0, carrying - ttft / mixed / output)
    tpot = token_seconds(decode, mixed, carrying)
    return Pace(decode, mixed, carrying, tpot, alone, ttft, max(burst, ttft), load.sequences / (ttft + output * tpot))


def queued(busy: float, answer: float, own: float, service: float) -> float:
    """the ttft at which ttft − own = b / (2 × (1 − b)) × service, with b = busy × answer / (answer + ttft)

    A closed queue: the wait of M/D/1 (Pollaczek-Khinchine) at the rate that is left when those who wait ask for nothing
    (Little's law). Lightly loaded it is the open queue's; overloaded (busy > 1) it tends to (busy − 1) × answer.
    """
    over = (busy - 1.0) * answer - own
    root = math.sqrt(over * over + 2.0 * busy * answer * service)
    rest = busy * answer * service / (root + over) if over > 0 else (root - over) / 2.0
    return (busy - 1.0) * answer + rest


def apart(step: Step, load: Requests) -> Pace:
    """Prompts first, in steps of their own: every prompt that others start holds a decoding sequence up."""
    decode = step_seconds(step, load.together, load.together * load.context)
    alone = prompt_seconds(step, load)
    busy = load.together * alone / (load.together * alone + load.output * decode)
    burst = burst_seconds(alone, alone, load.sequences)
    ttft = min(decode / 2 + waiting(busy, alone, load.sequences) + alone, max(burst, alone))
    carrying = max(0.0, load.together - ttft / alone) / load.output
    tpot = decode + carrying * alone
    rate = load.sequences / (ttft + load.output * tpot)
    return Pace(decode, alone, carrying, tpot, alone, ttft, max(burst, ttft), rate)


def static(step: Step, load: Requests) -> Pace:
    """One batch from prompt to last token; nothing joins it and no prefix is kept (transformers' generate)."""
    decode = step_seconds(step, load.together, load.together * load.context)
    alone = step_seconds(step, 0, 0, ((load.prompt, 0, 1),), 1)
    first = step_seconds(step, 0, 0, ((load.prompt, 0, load.sequences),), load.sequences)
    rate = load.sequences / (first + (load.output - 1) * decode) if load.output > 1 else load.sequences / first
    return Pace(decode, first, 0.0, decode, alone, first, first, rate)


def wave(step: Step, load: Requests) -> Pace:
    """The same closed load of equal requests that all start together, where prompts are read apart: all answers begin
    when the last prompt is read and end together, so the requests stay in step. On average half of the other prompts
    fall into a request's own answer. (Where prompts ride along, requests end as staggered as they began, and the load
    is steady.)
    """
    decode = step_seconds(step, load.together, load.together * load.context)
    alone = prompt_seconds(step, load)
    ttft = burst_seconds(alone, alone, load.sequences)
    carrying = (load.together - 1) / 2 / load.output
    tpot = decode + carrying * alone
    return Pace(decode, alone, carrying, tpot, alone, ttft, ttft, load.sequences / (ttft + load.output * tpot))


def token_seconds(decode: float, mixed: float, carrying: float) -> float:
    """decode + carrying × (mixed − decode)"""
    return decode + carrying * (mixed - decode)


def waiting(busy: float, service: float, sequences: int) -> float:
    """busy / (2 × (1 − busy)) × service × (sequences − 1) / sequences

    Mean wait before a server of constant service time that is `busy` (M/D/1, Pollaczek-Khinchine), less the request's
    own share of a closed population; never more than everyone else's service, half of it on average.
    """
    others = (sequences - 1) / sequences
    if busy >= 1.0:
        return service * (sequences - 1) / 2
    return min(busy / (2 * (1 - busy)) * service * others, service * (sequences - 1) / 2)


def burst_seconds(first: float, each: float, sequences: int) -> float:
    """first + each × (sequences − 1) / 2"""
    return first + each * (sequences - 1) / 2
