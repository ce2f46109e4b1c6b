"""Runs to measure: real ones of the simulator with a cost made up for the test, and a small one written out by hand."""

import random
from dataclasses import dataclass

from pycore.serving.limits import Limits
from pycore.serving.policies.chunked import Chunked
from pycore.serving.policies.fcfs import Fcfs
from pycore.serving.request import Request
from pycore.simulation.arrivals import OpenLoop
from pycore.simulation.costs.work import StepWork
from pycore.simulation.records import DECODE, PREFILL, Gap, RequestRecord, Result, Server, Span, StepRecord
from pycore.simulation.run import Setup, run
from pycore.simulation.server import Engine

MS = 1_000_000


@dataclass(frozen=True, slots=True)
class Linear:
    """A step costs a millisecond, 10 microseconds a prompt token and 20 a decode."""

    step: int = MS
    prompt: int = 10_000
    decode: int = 20_000

    def step_ns(self, work: StepWork) -> int:
        return max(1, self.step + self.prompt * work.prompt_tokens + self.decode * work.decoding)

    def limits_passed(self, longest: int, sequences: int, tokens: int) -> tuple[str, ...]:
        return ()


def requests(count: int, rate: float, seed: int, prompt: int = 400, output: int = 60) -> list[Request]:
    """Poisson arrivals, exponential lengths (prompts up to 8, outputs up to 10 times the mean)."""
    generator, now, made = random.Random(seed), 0.0, []
    for index in range(count):
        now += generator.expovariate(rate)
        made.append(Request(id=f"r{index}", arrival_ns=round(now * 1e9),
                            prompt_tokens=min(8 * prompt, 1 + int(generator.expovariate(1 / prompt))),
                            output_tokens=min(10 * output, 1 + int(generator.expovariate(1 / output)))))
    return made


def engine(policy=None, blocks: int = 2000, cost=None, **changes) -> Engine:
    limits = {"max_sequences": 64, "max_batched_tokens": 2048, "max_model_length": 20_000} | changes.pop("limits", {})
    return Engine(policy=policy or Fcfs(), limits=Limits(**limits), cost=cost or Linear(), blocks=blocks, **changes)


def simulated(count: int = 300, rate: float = 20.0, seed: int = 1, policy=None, **options) -> Result:
    """A run of `count` requests on one server."""
    return run(Setup(engines=(engine(policy or Chunked(), **options),), seed=seed),
               OpenLoop(requests(count, rate, seed)))


def by_hand() -> Result:
    """Two requests and one that is refused on a server of 10 blocks; every figure can be counted on the fingers.

    step 0   0 to 10 ms   prompt of a (20 tokens), first token of a
    step 1  10 to 12 ms   a decodes
    step 2  12 to 32 ms   prompt of b (30 tokens, 16 of them cached), first token of b; a held back behind it
    step 3  32 to 35 ms   a and b decode
    """
    steps = (StepRecord(0, 10 * MS, 20, 1, 0, 1, 1, 0, 2, 0, 8), StepRecord(10 * MS, 12 * MS, 0, 0, 1, 1, 1, 0, 2, 0, 8),
             StepRecord(12 * MS, 32 * MS, 14, 1, 0, 1, 2, 0, 4, 0, 6), StepRecord(32 * MS, 35 * MS, 0, 0, 2, 2, 2, 0, 4, 0, 6))
    a = RequestRecord(id="a", arrival_ns=0, prompt_tokens=20, output_tokens=3, queued_ns=0, first_scheduled_ns=0,
                      first_token_ns=10 * MS, finished_ns=35 * MS, generated_tokens=3, computed_tokens=22,
                      spans=(Span(PREFILL, 0, 0, 1, 20, 1), Span(DECODE, 0, 1, 1, 1, 1), Span(DECODE, 0, 3, 1, 1, 1)),
                      gaps=(Gap(12 * MS, 32 * MS, "behind prefill", "b"),))
    b = RequestRecord(id="b", arrival_ns=5 * MS, prompt_tokens=30, output_tokens=2, queued_ns=10 * MS,
                      first_scheduled_ns=12 * MS, first_token_ns=32 * MS, finished_ns=35 * MS, generated_tokens=2,
                      cached_tokens=16, computed_tokens=31,
                      spans=(Span(PREFILL, 0, 2, 1, 14, 1), Span(DECODE, 0, 3, 1, 1, 1)),
                      gaps=(Gap(5 * MS, 10 * MS, "step under way"), Gap(10 * MS, 12 * MS, "no blocks")))
    c = RequestRecord(id="c", arrival_ns=6 * MS, prompt_tokens=9999, output_tokens=5, dropped_ns=6 * MS,
                      dropped="the prompt is longer than the pool")
    return Result(policy="by hand", requests=(a, b, c), makespan_ns=35 * MS, request_ns=35 * MS + 30 * MS, seed=None,
                  servers=(Server(name="one", blocks=10, devices=2, steps=steps),))
