"""What the steps of a run were made of, and how full the KV pool was while they ran."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pycore.ledger import Term
from pycore.simulation.figures import per_step, share_of, tally
from pycore.simulation.latencies import SECOND
from pycore.simulation.records import Result, Server


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
    mixed = sum(1 for step in steps if step.prefill_sequences and step.decode_sequences)
    prefills = sum(1 for step in steps if step.prefill_sequences and not step.decode_sequences)
    decodes = sum(1 for step in steps if step.decode_sequences and not step.prefill_sequences)
    lengths = [step.end_ns - step.start_ns for step in steps]
    number, busy = tally(len(steps)).renamed("Steps"), sum(lengths) / SECOND
    whole = len(result.servers) * result.makespan_ns / SECOND
    return Composition(
        steps=number, mixed=tally(mixed).renamed("Steps with prompts and decodes"),
        prefill_only=tally(prefills).renamed("Steps with prompts alone"),
        decode_only=tally(decodes).renamed("Steps with decodes alone"),
        prefill_tokens=mean_of("Prompt tokens a step", sum(step.prefill_tokens for step in steps), number, "tokens"),
        decode_sequences=mean_of("Decodes a step", sum(step.decode_sequences for step in steps), number, "sequences"),
        seconds=mean_of("Length of a step", busy, number, "s"),
        longest=replace(tally(max(lengths, default=0) / SECOND), name="Longest step", unit="s"),
        busy=share_of(busy, whole).renamed("Time in steps"))


def mean_of(name: str, total: float, steps: Term, unit: str) -> Term:
    """A mean over steps under its own name and unit."""
    return replace(per_step(total, steps), name=name, unit=unit)


def pool_use(servers: Sequence[Server]) -> PoolUse:
    """Occupancy weighted with the length of each step; the peak is of the fullest server."""
    used = sum(sum([step.blocks_used * (step.end_ns - step.start_ns) for step in server.steps]) for server in servers)
    there = sum(server.blocks * sum([step.end_ns - step.start_ns for step in server.steps]) for server in servers)
    fullest = max(servers, key=lambda server: peak_blocks(server) / max(1, server.blocks))
    return PoolUse(blocks=tally(sum(server.blocks for server in servers)).renamed("KV blocks"),
                   mean=share_of(used, there).renamed("KV pool in use, mean"),
                   peak=share_of(peak_blocks(fullest), fullest.blocks).renamed("KV pool in use, peak"))


def peak_blocks(server: Server) -> int:
    """Most blocks in use in any step."""
    return max((step.blocks_used for step in server.steps), default=0)
