"""The shape of one step, which is all that a cost model may look at, and the contract that cost models keep."""

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple, Protocol

from pycore.serving.plan import StepPlan

NANOSECONDS = 1e9


class StepWork(NamedTuple):
    """One step of one engine.

    `cached` counts the tokens that the decoding sequences attend to, all together and their newest included; `longest`
    those of the longest one. `chunks` are pieces of prompts as (tokens, tokens of that prompt already cached); `ended`
    of them are the last of their prompt, so that a token comes out.
    """

    decoding: int
    cached: int
    longest: int
    chunks: tuple[tuple[int, int], ...] = ()
    ended: int = 0

    @property
    def prompt_tokens(self) -> int:
        return sum([tokens for tokens, _ in self.chunks])

    @property
    def sequences(self) -> int:
        return self.decoding + len(self.chunks)


def work_of(plan: StepPlan) -> StepWork:
    """The shape of a planned step."""
    ended = sum([1 for part in plan.parts if part.emits and not part.decode])
    return StepWork(plan.decode_count, plan.decode_context, plan.decode_longest, plan.prefill_chunks, ended)


class StepCost(Protocol):
    """Nanoseconds of a step. The same work gives the same integer, always: a model keeps no memory of earlier steps
    but what saves computing a value again."""

    def step_ns(self, work: StepWork) -> int:
        """Nanoseconds of one step, at least 1."""
        ...

    def limits_passed(self, longest: int, sequences: int, tokens: int) -> tuple[str, ...]:
        """Where a run with sequences up to `longest` tokens, so many `sequences` together and `tokens` a step would
        leave what the model was measured on: sentences for the answer; empty where it would not."""
        ...


def whole_ns(seconds: float) -> int:
    """Seconds as whole nanoseconds, at least 1: time must go on."""
    return max(1, round(seconds * NANOSECONDS))


def decode_times(cost: StepCost, work: StepWork) -> Iterator[int]:
    """Nanoseconds of one decode step after another, without end: the same `work.decoding` sequences, each a token longer
    every step. A model that can tell them sooner than one by one has a method of this name; the integers are the same."""
    sooner = getattr(cost, "decode_times", None)
    return one_by_one(cost, work) if sooner is None else sooner(work)


def one_by_one(cost: StepCost, work: StepWork) -> Iterator[int]:
    """`decode_times` of any model."""
    decoding, cached, longest = work.decoding, work.cached, work.longest
    while True:
        yield cost.step_ns(StepWork(decoding, cached, longest))
        cached += decoding
        longest += 1


def decode_ends(cost: StepCost, work: StepWork, limit: int, start_ns: int, until_ns: int) -> list[int]:
    """When up to `limit` such steps end if the first begins at `start_ns`; none begins at or after `until_ns`."""
    ends: list[int] = []
    at = start_ns
    for length in islice(decode_times(cost, work), limit):
        if at >= until_ns:
            break
        at += length
        ends.append(at)
    return ends
