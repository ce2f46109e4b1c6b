"""The equalities that an engine owes, shown live: whatever the schedule, a model says the same.

The reference is each prompt alone: a batch of one, the whole prompt in one step, nothing cached. Every other way to the same
tokens (blocks found in the prefix cache, chunks, a preemption and what it computes again, blocks swapped to the host and
back, samples that share blocks, guesses) must give the same logits up to rounding, and has to have happened: a way that was
not taken proves nothing and counts as failed. Last, the simulator must make each of the engine's decisions again.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch

from pycore.errors import InputError
from pycore.serving.blocks import BlockPool
from pycore.serving.limits import Limits
from pycore.serving.policies.chunked import Chunked
from pycore.serving.scheduler import Scheduler
from pycore.simulation.costs.custom import LinearCost
from runtime.mini_infer.cache import Cache
from runtime.mini_infer.engine import Engine
from runtime.mini_infer.generation import Generation
from runtime.mini_infer.kv_formats import KvFormat
from runtime.mini_infer.model import Model
from runtime.mini_infer.quality import logits
from runtime.mini_infer.replay import Arrival, Virtual, play
from runtime.mini_infer.setup import Say, Setup, prepare
from runtime.mini_infer.simulated import differences
from runtime.mini_infer.source import Source
from runtime.mini_infer.speculation import Speculation
from runtime.mini_infer.witness import Comparison, Difference, Witness

EXACT, ROUNDED = 1e-4, 3e-2
CHUNK, SMALL = 7, 4
BEGINNING = ("The engine reads a prompt, keeps its keys and values in blocks, and says one token after another. "
             "In the beginning was the word. ")
TEXTS = tuple(BEGINNING + end for end in ("", "What is the capital of France?", "def step(engine):", "Once upon a time"))
"""Texts with one beginning, so that there is something to find in a cache."""
COST = LinearCost(source="made up: decisions are compared, not times", step=1000.0, token=100.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """One equality. `happened`: the engine really went that way. `largest`: the largest difference of a logit, as a share
    of the largest logit beside it (None where no logits are compared). `first`: where it fails; `words`: why, in words."""

    name: str
    law: str
    holds: bool
    happened: bool = True
    compared: int = 0
    largest: float | None = None
    ties: int = 0
    first: Difference | None = None
    words: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """A way to the same tokens: how the engine is made, what must be seen on it, and what is asked of it."""

    name: str
    law: str
    sees: tuple[str, ...]
    make: Callable[["Court"], Witness]
    rounds: int = 1
    samples: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Court:
    """What is judged: a model, how its keys and values are kept, prompts and the length of the answers.

    `tolerance`: how far two logits may be apart by rounding, as a share of the largest beside them.
    """

    model: Model
    kept: KvFormat | None
    prompts: tuple[tuple[int, ...], ...]
    tokens: int
    tolerance: float = EXACT

    @property
    def longest(self) -> int:
        """Tokens of the longest prompt with its answer."""
        return max(len(prompt) for prompt in self.prompts) + self.tokens

    def asked(self, samples: int = 1, prefix: str = "") -> list[Generation]:
        """A greedy request for each prompt, of exactly so many tokens."""
        return [Generation(id=f"{prefix}{number}", prompt=prompt, max_tokens=self.tokens, samples=samples)
                for number, prompt in enumerate(self.prompts)]

    def engine(self, *, blocks: int = 0, block_size: int = 16, batched: int = 0, sequences: int = 64, caching: bool = False,
               host: int = 0, speculation: Speculation | None = None) -> Witness:
        """A fresh engine; 0 is as much as everybody needs."""
        limits = Limits(max_sequences=sequences, max_batched_tokens=batched or 64 * self.longest,
                        max_model_length=self.longest, reserve_known=False,
                        draft_tokens=speculation.tokens if speculation else 0)
        blocks = blocks or (2 * len(self.prompts) + 2) * -(-self.longest // block_size)
        scheduler = Scheduler(Chunked(), BlockPool(blocks, block_size, prefix_caching=caching), limits,
                              preemption="swap" if host else "recompute", host_blocks=host)
        cache = Cache(self.model.configuration, blocks, block_size, host_blocks=host, dtype=self.model.dtype,
                      device=self.model.device, kept=self.kept)
        return Witness(self.model, scheduler, cache=cache, speculation=speculation)

    def tight(self, **more: object) -> Witness:
        """An engine whose pool holds the longest text and half as much again, in blocks so small that answers need more."""
        one = -(-self.longest // SMALL)
        host = {"host": 8 * one} if more.pop("swaps", False) else {}
        return self.engine(blocks=one + max(1, one // 2), block_size=SMALL, **host, **more)


def court(source: Source, setup: Setup, more: Sequence[str], tokens: int, say: Say = lambda text: None) -> Court:
    """A court for a model and its choices at start: texts of this module, and `more`. Puts the model's projections in place.

    Raises InputError for a text that has no token, and for texts that with their answers are longer than its context.
    """
    kept, prompts = setup.kept(source.model), []
    for text in (*TEXTS, *more):
        prompts.append(source.words.encode(text))
        if not prompts[-1]:
            raise InputError("prompt", text, "accepted: text of at least one token")
    exact = source.model.dtype == kept.stored == torch.float32 and "int8" not in setup.linear
    fitting = [prompt[:source.model.configuration.context] for prompt in prompts]
    before = [] if exact else [logits(source.model, prompt) for prompt in fitting]
    prepare(source.model, setup.linear, say)
    tolerance = EXACT if exact else max(ROUNDED, own_error(source.model, kept, fitting, before))
    found = Court(model=source.model, kept=kept, prompts=tuple(prompts), tokens=tokens, tolerance=tolerance)
    room = source.model.configuration.context - (found.longest - tokens)
    if room < 2:
        raise InputError("prompt", f"{found.longest - tokens} tokens", "accepted: texts that leave room for two "
                         f"tokens in the model's context, {source.model.configuration.context} tokens")
    if tokens > room:
        raise InputError("max_tokens", tokens, f"accepted: at most {room}, which the longest prompt leaves of the context")
    return found


def own_error(model: Model, kept: KvFormat, prompts: Sequence[Sequence[int]], before: Sequence[torch.Tensor]) -> float:
    """How far the numbers chosen move a logit from `before`, as a share of the largest beside it: the most over all tokens.

    A sum in another order tips a number over to the next code, and layers carry that on: two ways may be as far apart as
    the numbers are from what they stand for, and no farther.
    """
    found = [logits(model, prompt, kept) for prompt in prompts]
    return max(float(((new - old).abs().amax(1) / old.abs().amax(1)).max()) for new, old in zip(found, before, strict=True))


WAYS = (
    Way(name="together", law="a batch of all = each alone", sees=("together",), make=lambda court: court.engine()),
    Way(name="prefix hit", law="blocks found in the prefix cache = computed anew", sees=("hit",), rounds=2,
        make=lambda court: court.engine(caching=True)),
    Way(name="chunked", law=f"prompts in chunks of {CHUNK} tokens, beside decodes = in one step", sees=("chunk", "mixed"),
        make=lambda court: court.engine(batched=CHUNK)),
    Way(name="preempted", law="preempted and computed again = undisturbed", sees=("preempted",),
        make=lambda court: court.tight()),
    Way(name="swapped", law="swapped to the host and back = undisturbed", sees=("swapped_out", "swapped_in"),
        make=lambda court: court.tight(swaps=True)),
    Way(name="everything", law="hits, chunks, preemptions and evictions at once = none of them",
        sees=("hit", "chunk", "preempted", "evicted"), rounds=2,
        make=lambda court: court.tight(batched=CHUNK + 4, caching=True)),
    Way(name="samples", law="samples that share a prompt's blocks, copied when one writes = each alone", sees=("copies",),
        samples=2, make=lambda court: court.engine()),
    Way(name="blocks of 8", law="blocks of 8 tokens = blocks of 16", sees=("together",),
        make=lambda court: court.engine(block_size=8)),
    Way(name="blocks of 32", law="blocks of 32 tokens = blocks of 16", sees=("together",),
        make=lambda court: court.engine(block_size=32)),
    Way(name="speculation", law="guesses verified = tokens one by one", sees=("guess",),
        make=lambda court: court.engine(speculation=Speculation(tokens=4))),
)


def alone(court: Court) -> list[tuple[list[int], list[torch.Tensor]]]:
    """The reference: tokens and logits of each prompt in an engine of its own, one sequence, nothing cached."""
    found = []
    for asked in court.asked():
        engine = court.engine(sequences=1)
        engine.serve([asked])
        found.append((engine.tokens[asked.id], engine.logits[asked.id]))
    return found


def proofs(court: Court) -> Iterator[Proof]:
    """Every equality, one after the other. Raises what the engine raises of prompts that it cannot run."""
    reference = alone(court)
    for way in WAYS:
        yield judged(court, way, reference)
    yield decisions(court)


def judged(court: Court, way: Way, reference: Sequence[tuple[list[int], list[torch.Tensor]]]) -> Proof:
    """One way held against the reference, every sample of every round."""
    engine = way.make(court)
    comparison = Comparison(tolerance=court.tolerance)
    for turn in range(way.rounds):
        asked = court.asked(way.samples, prefix=f"{turn}-")
        engine.serve(asked)
        for number, one in enumerate(asked):
            for name in one.ids():
                comparison.take(number, reference[number], (engine.tokens.get(name, []), engine.logits.get(name, [])))
    engine.scheduler.check()
    missing = [name for name in way.sees if name not in engine.seen]
    words = "; ".join(comparison.lengths + [f"it never happened: {', '.join(missing)}"] * bool(missing))
    return Proof(name=way.name, law=way.law, holds=comparison.holds and not missing, happened=not missing,
                 compared=comparison.compared, largest=comparison.largest, ties=comparison.ties, first=comparison.first,
                 words=words)


def decisions(court: Court) -> Proof:
    """The simulator makes each of the engine's decisions again: steps, block tables, preemptions, hits."""
    engine: Engine = court.tight(batched=CHUNK + 4, caching=True)
    trace = [Arrival(at_ns=turn * 3_000_000 + number * 400_000, generation=one)
             for turn in range(2) for number, one in enumerate(court.asked(prefix=f"{turn}-"))]
    played = play(engine, trace, Virtual(COST))
    wrong = differences(engine, trace, played)
    return Proof(name="simulator", law="sched-sim's steps, block tables, preemptions and hits = the engine's",
                 holds=not wrong, compared=len(played.steps), words="; ".join(wrong[:1]))
