"""How others write request logs: which column is the arrival, the prompt, the output. One `Layout` each.

Column names are compared without case, spaces, hyphens and underscores.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pycore.simulation.traces.cells import clock, moment_ns, whole

SECONDS, MILLISECONDS, NANOSECONDS = clock(10**9, "seconds"), clock(10**6, "milliseconds"), clock(1, "nanoseconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A table of requests. `arrival` gives the accepted columns of time and how each is read; one must be there."""

    id: str
    name: str
    arrival: tuple[tuple[str, Callable[[object], int]], ...]
    prompt: str
    output: str
    source: str
    request_id: str = ""
    hashes: str = ""  # column of the prompt's block identifiers, for prefix caching
    hash_block_tokens: int = 0
    token_ids: str = ""
    extras: tuple[tuple[str, str, Callable[[object], int]], ...] = ()  # (column, field of Request, how it is read)
    zero_output_failed: bool = False  # an output of 0 marks a request that failed: left out and counted
    bucketed: bool = False  # arrivals may be recorded in coarse buckets: spread within them

    @property
    def required(self) -> str:
        """'TIMESTAMP, ContextTokens, GeneratedTokens'"""
        return ", ".join((" or ".join(name for name, _ in self.arrival), self.prompt, self.output))


def not_negative(value: object) -> int:
    """A whole number from 0."""
    return whole(value, 0, 1 << 40, "a number")


AZURE = Layout(
    id="azure", name="Azure LLM inference trace", arrival=(("TIMESTAMP", moment_ns),),
    prompt="ContextTokens", output="GeneratedTokens", source="Azure/AzurePublicDataset, CC-BY 4.0")
MOONCAKE = Layout(
    id="mooncake", name="Mooncake trace", arrival=(("timestamp", MILLISECONDS),), prompt="input_length",
    output="output_length", hashes="hash_ids", hash_block_tokens=512, bucketed=True,
    source="kvcache-ai/Mooncake FAST25-release, Apache-2.0")
BURSTGPT = Layout(
    id="burstgpt", name="BurstGPT", arrival=(("Timestamp", SECONDS),), prompt="Request tokens",
    output="Response tokens", zero_output_failed=True, source="HPMLL/BurstGPT, CC-BY 4.0")
VLLM_REQUESTS = Layout(
    id="vllm-requests", name="vLLM requests", arrival=(("arrival_s", SECONDS),), prompt="input_tokens",
    output="output_tokens", request_id="request_id", source="per-request CSV of a vLLM run")
LLMSERVINGSIM = Layout(
    id="llmservingsim", name="LLMServingSim workload", arrival=(("arrival_time_ns", NANOSECONDS),),
    prompt="input_toks", output="output_toks", token_ids="input_tok_ids", source="casys-kaist/LLMServingSim, MIT")
VIDUR = Layout(
    id="vidur", name="Vidur processed trace", arrival=(("arrived_at", SECONDS),), prompt="num_prefill_tokens",
    output="num_decode_tokens", source="microsoft/vidur, MIT")
OURS = Layout(
    id="plain", name="plain requests",
    arrival=(("arrival_s", SECONDS), ("arrival_ms", MILLISECONDS), ("arrival_ns", NANOSECONDS)),
    prompt="prompt_tokens", output="output_tokens", request_id="id", hashes="prefix_hashes", token_ids="token_ids",
    extras=(("priority", "priority", not_negative), ("deadline_ms", "deadline_ns", MILLISECONDS),
            ("predicted_output", "predicted_output", not_negative)),
    source="columns documented in pycore/simulation/traces/__init__.py")

LAYOUTS = (AZURE, MOONCAKE, BURSTGPT, VLLM_REQUESTS, LLMSERVINGSIM, VIDUR, OURS)


def plain(name: str) -> str:
    """A column's name as it is compared."""
    return re.sub(r"[\s_-]+", "", name).lower()


def optional() -> frozenset[str]:
    """Columns, as they are compared, that some layout reads where they are there and does without where they are not."""
    return frozenset(plain(name) for layout in LAYOUTS for name in (
        layout.request_id, layout.hashes, layout.token_ids, *(column for column, _, _ in layout.extras)) if name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Where a layout's columns lie in a table: indices into its rows, None where absent."""

    layout: Layout
    arrival: int | None
    read_time: Callable[[object], int] | None
    prompt: int
    output: int
    request_id: int | None
    hashes: int | None
    token_ids: int | None
    extras: tuple[tuple[int, str, Callable[[object], int]], ...]


def match(names: Sequence[str], *, times: bool = True) -> Columns | None:
    """The layout that a table with these columns has; None where it has none. `times` False: no arrival is needed."""
    place = {plain(name): index for index, name in reversed(list(enumerate(names)))}
    for layout in LAYOUTS:
        found = locate(layout, place, times)
        if found is not None:
            return found
    return None


def locate(layout: Layout, place: dict[str, int], times: bool) -> Columns | None:
    """This layout's columns among those by name; None where a required one is missing."""
    clocks = [(place[plain(name)], read) for name, read in layout.arrival if plain(name) in place]
    prompt, output = place.get(plain(layout.prompt)), place.get(plain(layout.output))
    if prompt is None or output is None or (times and not clocks):
        return None
    arrival, read_time = clocks[0] if clocks and times else (None, None)
    return Columns(
        layout=layout, arrival=arrival, read_time=read_time, prompt=prompt, output=output,
        request_id=place.get(plain(layout.request_id)), hashes=place.get(plain(layout.hashes)),
        token_ids=place.get(plain(layout.token_ids)),
        extras=tuple((place[plain(name)], field, read) for name, field, read in layout.extras if plain(name) in place))


def missing(names: Sequence[str]) -> str:
    """What no layout could be made of: the nearest layout and what it lacks, then every layout's columns."""
    have = {plain(name) for name in names}

    def lacking(layout: Layout) -> list[str]:
        wanted = [] if any(plain(name) in have for name, _ in layout.arrival) else [
            " or ".join(name for name, _ in layout.arrival)]
        return wanted + [name for name in (layout.prompt, layout.output) if plain(name) not in have]

    nearest = min(LAYOUTS, key=lambda layout: len(lacking(layout)))
    lacks = lacking(nearest)
    guess = f"looks like {nearest.name} but lacks {', '.join(lacks)}; " if len(lacks) < 3 else ""
    return guess + "accepted columns: " + "; ".join(f"{layout.required} ({layout.name})" for layout in LAYOUTS)
