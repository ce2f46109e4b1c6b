"""The shape of one step, which is all that a cost model may look at, and the contract that cost models keep."""

from typing import NamedTuple, Protocol

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


def decode_run(cost: StepCost, work: StepWork, limit: int, until_ns: int) -> list[int]:
    """Nanoseconds of up to `limit` successive steps of the same `work.decoding` sequences, each a token longer every
    step; ends after the first step that reaches `until_ns` (counted from the start of the run)."""
    decoding, cached, longest = work.decoding, work.cached, work.longest
    step_ns, found, passed = cost.step_ns, [], 0
    while len(found) < limit and passed < until_ns:
        length = step_ns(StepWork(decoding, cached, longest))
        found.append(length)
        passed += length
        cached += decoding
        longest += 1
    return found
