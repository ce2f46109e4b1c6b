"""How fast an engine reads and writes: some requests at once, the time of every token, and what follows from those.

The same arithmetic serves our engine and others: all that is needed is when each token of each request came.
"""

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from pycore.errors import NotKnown
from runtime.mini_infer.engine import Engine, Generation
from runtime.mini_infer.model import Model
from runtime.mini_infer.projections import NAMES, Eight
from runtime.mini_infer.room import token_bytes

FIGURES = ("prefill_tokens_per_s", "decode_tokens_per_s", "ttft_s", "overall_tokens_per_s")

BANDWIDTH_BYTES = 1 << 28  # read through in float32, more than the caches of a CPU hold
BANDWIDTH_ROUNDS = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Speeds:
    """One batch of requests that arrived together. Tokens a second over all of them; seconds.

    prefill   prompt tokens until every request's first token had come
    decode    tokens after that moment, over the time after it
    ttft      mean time to a request's first token
    overall   tokens written over the whole time
    """

    prefill_tokens_per_s: float
    decode_tokens_per_s: float
    ttft_s: float
    overall_tokens_per_s: float
    seconds: float


def speeds(times: Sequence[Sequence[float]], prompt_tokens: int) -> Speeds:
    """From the seconds since the start at which each token of each request came. Raises NotKnown where nothing was written
    after the last prompt was read, which leaves no speed of writing."""
    first = max(one[0] for one in times)
    end = max(one[-1] for one in times)
    later = sum(at > first for one in times for at in one)
    if not later:
        raise NotKnown("no token came after the last prompt was read: ask for longer outputs")
    return Speeds(prefill_tokens_per_s=prompt_tokens / first, decode_tokens_per_s=later / (end - first),
                  ttft_s=math.fsum(one[0] for one in times) / len(times),
                  overall_tokens_per_s=sum(map(len, times)) / end, seconds=end)


def run_batch(engine: Engine, prompts: Sequence[Sequence[int]], output_tokens: int,
              clock: Callable[[], float] = time.perf_counter) -> list[list[float]]:
    """Let requests in together and run to their end: for each the seconds at which its tokens came. Raises InputError for
    what the engine refuses, NotKnown where a request failed."""
    start, times = clock(), {f"speed-{index}": [] for index in range(len(prompts))}
    for name, prompt in zip(times, prompts, strict=True):
        engine.add(Generation(id=name, prompt=tuple(prompt), max_tokens=output_tokens, ignore_end=True))
    while not engine.idle:
        outputs = engine.step()
        now = clock() - start
        for output in outputs:
            if output.finish in ("error", "refused"):
                raise NotKnown(f"a request failed: {output.reason}")
            times[output.id].append(now)
    return list(times.values())


def prompts(count: int, length: int, vocabulary: int, seed: int) -> list[list[int]]:
    """Prompts of random tokens, none the beginning of another, the same for the same seed."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(vocabulary, (count, length), generator=generator).tolist()


def median_and_best(found: Sequence[Speeds], name: str) -> tuple[float, float]:
    """Of one figure over some rounds; the best is the least time and the highest rate."""
    values = [getattr(one, name) for one in found]
    return statistics.median(values), (min if name in ("ttft_s", "seconds") else max)(values)


def bandwidth_bytes_per_s(clock: Callable[[], float] = time.perf_counter) -> float:
    """What this CPU reads from memory in a second with the threads of torch: the best of some sums over a large block."""
    block = torch.ones(BANDWIDTH_BYTES // 4)
    best = float("inf")
    for _ in range(BANDWIDTH_ROUNDS):
        start = clock()
        block.sum()
        best = min(best, clock() - start)
    return BANDWIDTH_BYTES / best


def weight_bytes(model: Model) -> int:
    """Bytes of weights that a step reads, whatever its batch: every projection and the head, as they are kept."""
    all_of_them = [getattr(layer, name) for layer in model.layers for name in NAMES] + [model.head]
    return sum(one.nbytes if isinstance(one, Eight) else one.weight.nbytes for one in all_of_them)


def bandwidth_share(engine: Engine, sequences: int, context: int, tokens_per_s: float,
                    bandwidth: float | None) -> float | None:
    """What decodes read in a second, as a share of what this machine was measured to read; None where it was not."""
    return step_bytes(engine, sequences, context) * tokens_per_s / sequences / bandwidth if bandwidth else None


def step_bytes(engine: Engine, sequences: int, context: int) -> int:
    """Bytes that a step of decodes reads: weights once, keys and values of each sequence."""
    one = engine.model.configuration
    return weight_bytes(engine.model) + sequences * context * token_bytes(one, engine.cache.kept)
