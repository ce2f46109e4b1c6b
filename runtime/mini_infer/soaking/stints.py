"""What a soak's servers are told at their start, one setting after the other, and what is known to be right under each."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from pycore.errors import InputError
from pycore.systems.mini_infer_setup import N_GRAM
from runtime.mini_infer import projections
from runtime.mini_infer.kv_formats import plain_name
from runtime.mini_infer.model import Model
from runtime.mini_infer.setup import Say, Setup, prepare
from runtime.mini_infer.soaking.oracle import Known, known
from runtime.mini_infer.source import Source, open_source
from runtime.mini_infer.speculation import Speculation

SEATS = 6
MODEL = "model"  # what drafts where neither nobody does nor the text itself
FLOAT, EIGHT = "float", "8-bit weights"
KV_FORMATS = ("int8", "int4", "fp8")
KINDS = (("recompute", "", FLOAT), ("swap", N_GRAM, "int8"), ("recompute", MODEL, FLOAT), ("swap", MODEL, "int4"),
         ("recompute", N_GRAM, "fp8"), ("swap", "", EIGHT))
"""(preemption, draft, numbers): weights in 8 bits, or what keys and values are kept in. Every second round preempts the
other way."""
OTHER = {"recompute": "swap", "swap": "recompute"}
POLICIES = ("chunked", "chunked", "fcfs", "decode-first", "sjf", "cache-aware", "slo-aware", "priority")


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A model, and prompts with their answers in some numbers."""

    numbers: str
    source: Source
    prompts: Sequence[Known]

    @property
    def longest(self) -> int:
        """Tokens of the longest text that a server takes: one more than is asked for."""
        return max(len(one.prompt) + len(one.tokens) for one in self.prompts) + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Stint(Setup):
    """Choices whose draft model, where it is one, is open already."""

    numbers: str = FLOAT
    drafter: Model | None = None

    def speculation(self, model: Model, say: Say) -> Speculation | None:
        """How tokens are drafted; None where they are not."""
        if self.draft != MODEL:
            return Setup.speculation(self, model, say)
        return Speculation(tokens=self.draft_tokens, draft=self.drafter or model)

    def words(self) -> str:
        """The choices that differ from stint to stint."""
        names = ("numbers", "preemption", "draft", "policy", "block_size", "kv_blocks", "max_batched_tokens",
                 "prefix_caching")
        chosen = ((name, getattr(self, name)) for name in names)
        return ", ".join(f"{name} {value}" for name, value in chosen if value != "")


def numbers_in(number: int) -> str:
    """The numbers that a stint is to have."""
    return KINDS[number % len(KINDS)][2]


def settings(number: int, dice: Random, judged: Judged) -> Stint:
    """What the server of a stint is told at its start: room for one longest text and half as much again."""
    preemption, draft, _ = KINDS[number % len(KINDS)]
    preemption = OTHER[preemption] if number // len(KINDS) % 2 else preemption
    policy, size, numbers, longest = dice.choice(POLICIES), dice.choice((4, 8, 16)), judged.numbers, judged.longest
    blocks = -(-longest // size)
    return Stint(numbers=numbers, preemption=preemption, draft=draft, policy=policy, block_size=size,
                 kv_format=numbers if numbers in KV_FORMATS else "auto", linear="int8" if numbers == EIGHT else "auto",
                 kv_blocks=blocks + max(2, blocks // 2), host_blocks=blocks if preemption == "swap" else 0,
                 max_sequences=SEATS, max_model_length=longest,
                 max_batched_tokens=dice.choice((24, 64, longest)) if policy == "chunked" else longest,
                 prefix_caching=number % (2 * len(KINDS)) != len(KINDS))


def in_eight_bits(source: Source, say: Say) -> Source | None:
    """The model opened anew, its weights in 8 bits; None where this machine has no kernel for that."""
    if source.model.device.type != "cpu" or projections.widest_code() is None:
        return None
    again = open_source(str(source.place), dtype=plain_name(source.model.dtype), device="cpu", say=say)
    prepare(again.model, "int8", say)
    return replace(again, name=source.name) if isinstance(again.model.head, projections.Eight) else None


def texts_in(numbers: str) -> str:
    """What greedy texts in these numbers are counted as."""
    return f"greedy texts in {numbers}"


def numbers_of(stints: int) -> set[str]:
    """The numbers that so many stints are to visit; the model's own always."""
    return {FLOAT, *(numbers for *_, numbers in KINDS[:stints])}


def answered(source: Source, wanted: set[str], say: Say) -> dict[str, Judged]:
    """Prompts with their answers in these numbers. What this machine or this model cannot be judged in is said, and left
    out. Raises InputError for a model that says too little clearly even in its own numbers."""
    found = {FLOAT: Judged(numbers=FLOAT, source=source, prompts=known(source, say))}
    for numbers in sorted(wanted - {FLOAT}):
        say(f"the same with {numbers}" + " keys and values" * (numbers in KV_FORMATS))
        other = in_eight_bits(source, say) if numbers == EIGHT else source
        try:
            if other is not None:
                kv = numbers if numbers in KV_FORMATS else "auto"
                found[numbers] = Judged(numbers=numbers, source=other, prompts=known(other, say, kv))
        except InputError as error:
            say(f"left out: {error}")
    return found
