"""What the steps of a run were made of, and how full the KV pool was while they ran."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import mul, sub

from pycore.ledger import Term
from pycore.simulation.figures import per_step, share_of, tally
from pycore.simulation.latencies import SECOND
from pycore.simulation.records import Result, Server, StepRecord, column


@dataclass(frozen=True, slots=True, kw_only=True)
class Composition:
    """Steps by what they carried, and the mean of what one carries. Each step's own figures are in its record."""

    steps: Term
    mixed: Term  # prompts and decodes
    prefill_only: Term
    decode_only: Term
    prefill_tokens: Term  # mean a step
    decode_sequences: Term
    seconds: Term
    longest: Term
    busy: Term  # share of the makespan, mean over servers


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolUse:
    """KV blocks in use by running sequences over blocks there are, while steps ran; cached-but-free ones not counted."""

    blocks: Term
    mean: Term
    peak: Term


def composition(result: Result) -> Composition:
    """Counts the steps of all servers."""
    steps = [step for server in result.servers for step in server.steps]
    lengths = lengths_ns(steps)
    prompts, decodes = list(column(steps, "prefill_sequences")), list(column(steps, "decode_sequences"))
    mixed = sum(map(bool, map(mul, prompts, decodes)))
    number, busy = tally(len(steps)).renamed("Steps"), sum(lengths) / SECOND
    whole = len(result.servers) * result.makespan_ns / SECOND
    return Composition(
        steps=number, mixed=tally(mixed).renamed("Steps with prompts and decodes"),
        prefill_only=tally(len(steps) - prompts.count(0) - mixed).renamed("Steps with prompts alone"),
        decode_only=tally(len(steps) - decodes.count(0) - mixed).renamed("Steps with decodes alone"),
        prefill_tokens=mean_of("Prompt tokens a step", sum(column(steps, "prefill_tokens")), number, "tokens"),
        decode_sequences=mean_of("Decodes a step", sum(decodes), number, "sequences"),
        seconds=mean_of("Length of a step", busy, number, "s"),
        longest=replace(tally(max(lengths, default=0) / SECOND), name="Longest step", unit="s"),
        busy=share_of(busy, whole).renamed("Time in steps"))


def lengths_ns(steps: Sequence[StepRecord]) -> list[int]:
    """How long each step took."""
    return list(map(sub, column(steps, "end_ns"), column(steps, "start_ns")))


def mean_of(name: str, total: float, steps: Term, unit: str) -> Term:
    """A mean over steps under its own name and unit."""
    return replace(per_step(total, steps), name=name, unit=unit)


def pool_use(servers: Sequence[Server]) -> PoolUse:
    """Occupancy weighted with the length of each step; the peak is of the fullest server."""
    lengths = [lengths_ns(server.steps) for server in servers]
    used = sum(sum(map(mul, column(server.steps, "blocks_used"), of)) for server, of in zip(servers, lengths, strict=True))
    there = sum(server.blocks * sum(of) for server, of in zip(servers, lengths, strict=True))
    fullest = max(servers, key=lambda server: peak_blocks(server) / max(1, server.blocks))
    return PoolUse(blocks=tally(sum(server.blocks for server in servers)).renamed("KV blocks"),
                   mean=share_of(used, there).renamed("KV pool in use, mean"),
                   peak=share_of(peak_blocks(fullest), fullest.blocks).renamed("KV pool in use, peak"))


def peak_blocks(server: Server) -> int:
    """Most blocks in use in any step."""
    return max(column(server.steps, "blocks_used"), default=0)
