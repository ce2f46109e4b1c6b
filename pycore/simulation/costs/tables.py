"""Step times added up from measured kernels of one model on one card: layers × (matrices + attention) + head.

Between measured shapes the time is linear on each axis; below the smallest it is that of the smallest (kernels have a
floor); beyond the largest the last two points go on as a line, and `limits_passed` says so. Two things are not in a
table of kernels and are put in here:

- a batch up to `captured_up_to` tokens runs as a CUDA graph of the next captured size, and costs what that size costs;
- sequences of uneven length: tables are measured with all alike. The kernel is taken part of the way from the mean to
  the longest, by the share that the card's own shots of two-valued batches give (`unevenness`, least squares).

Layers, formula and names: vLLM's model runner; kernels as LLMServingSim profiles them (casys-kaist/LLMServingSim, MIT).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from pycore.errors import InputError
from pycore.ledger import term
from pycore.simulation.costs.interpolate import Grid, Line
from pycore.simulation.costs.work import StepWork, whole_ns
from pycore.units import significant

MICRO = 1e-6
FLOOR_SHARE = 0.3
"""Least share of a chunk's attention that a step of several short chunks is charged: the shortest measured chunk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelTables:
    """Kernels of one model on one card, microseconds. `block`, `attention` are one layer's, `once` and `head` the
    model's; `unevenness` 0 means that no shots of uneven batches were made."""

    id: str
    accelerator: str  # id in the catalogue; '' of a table of one's own
    model: str
    engine: str
    layers: int
    block: Line  # over tokens of the step
    once: Line  # over tokens: embedding and last norm
    head: Line  # over sequences: logits and sampling
    attention: Grid
    unevenness: float
    source: str


def captured(tokens: int, up_to: int) -> int:
    """The CUDA-graph size that a batch is padded to: 1, 2, 4, then by 8 to 256, by 16 beyond; the batch's own size
    where it exceeds the largest captured one (vLLM 0.19's default `cudagraph_capture_sizes`)."""
    if tokens > up_to:
        return tokens
    if tokens <= 4:
        return 4 if tokens == 3 else tokens
    return -(-tokens // 8) * 8 if tokens <= 256 else -(-tokens // 16) * 16


def largest_captured(max_sequences: int) -> int:
    """min(2 × max_sequences, 512): vLLM's default largest CUDA graph."""
    return min(2 * max_sequences, 512)


@term("Attention over uneven contexts", "µs", source="LLMServingSim's skewed shots, least squares through the origin")
def uneven(mean, longest, share):
    "mean + share × (longest − mean)"
    return mean + share * max(0.0, longest - mean)


@term("Cached tokens of one chunk with the same work", "tokens", source="definition of causal attention")
def equal_work(pairs, tokens):
    "pairs / tokens − tokens / 2"
    return pairs / tokens - tokens / 2


class TableCost:
    """`step_ns` by kernel tables. `captured_up_to` 0: no CUDA graphs (`--enforce-eager`)."""

    __slots__ = ("tables", "captured_up_to", "_matrices", "_attention")

    def __init__(self, tables: KernelTables, captured_up_to: int = 512):
        self.tables, self.captured_up_to = tables, captured_up_to
        self._matrices: dict[tuple[int, int], float] = {}
        self._attention: dict[int, Line] = {}

    def matrices_us(self, tokens: int, sequences: int) -> float:
        """Everything but attention: all layers' matrices, embedding, logits, sampling."""
        found = self._matrices.get((tokens, sequences))
        if found is None:
            tables, padded = self.tables, captured(tokens, self.captured_up_to)
            found = tables.layers * tables.block(padded) + tables.once(padded) + tables.head(sequences)
            self._matrices[tokens, sequences] = found
        return found

    def decode_line(self, decoding: int) -> Line:
        """One layer's attention of `decoding` sequences alone, over their context."""
        found = self._attention.get(decoding)
        if found is None:
            grid = self.tables.attention
            near = {shape: cells for shape, cells in grid.lines.items() if shape[0] == 0}
            places = tuple(sorted({place for cells in near.values() for place in cells.at}))
            found = Line(places, tuple(grid(0, 0, decoding, place) for place in places))
            self._attention[decoding] = found
        return found

    def attention_us(self, work: StepWork) -> float:
        """One layer's attention. Several chunks count as one of the same tokens and the same causal work."""
        decoding, share = work.decoding, self.tables.unevenness
        mean = work.cached / decoding if decoding else 0.0
        if not work.chunks:
            alone = self.decode_line(decoding)
            return uneven.plain(alone(mean), alone(work.longest), share) if share else alone(mean)
        tokens = work.prompt_tokens
        before = equal_work.plain(sum([size * (cached + size / 2) for size, cached in work.chunks]), tokens)
        even = self.mixed_us(tokens, max(before, 0.0), decoding, mean)
        found = even if before >= 0 else self.short_chunks_us(tokens, before, decoding, mean, even)
        if share and decoding > 1:
            found += uneven.plain(even, self.mixed_us(tokens, max(before, 0.0), decoding, work.longest), share) - even
        return found

    def mixed_us(self, tokens: int, before: float, decoding: int, context: float) -> float:
        """The table's own value."""
        return self.tables.attention(tokens, before, decoding, context)

    def short_chunks_us(self, tokens: int, before: float, decoding: int, mean: float, even: float) -> float:
        """Several short prompts together do less work than one chunk as long as they: as much less than a chunk with
        nothing cached as that is less than one with |before| cached; never less than the decoding sequences alone."""
        least = max(self.decode_line(decoding)(mean) if decoding else 0.0, FLOOR_SHARE * even)
        return max(2 * even - self.mixed_us(tokens, -before, decoding, mean), least)

    def step_ns(self, work: StepWork) -> int:
        tokens = work.decoding + work.prompt_tokens
        micro = self.matrices_us(tokens, work.sequences) + self.tables.layers * self.attention_us(work)
        return whole_ns(micro * MICRO)

    def decode_times(self, work: StepWork) -> Iterator[int]:
        """See `work.decode_times`; the sums of `step_ns` in their order."""
        decoding, cached, longest, *_ = work
        layers, share, alone = self.tables.layers, self.tables.unevenness, self.decode_line(decoding)
        matrices = self.matrices_us(decoding, decoding)
        while True:
            attention = alone(cached / decoding)
            if share:
                attention = uneven.plain(attention, alone(longest), share)
            yield whole_ns((matrices + layers * attention) * MICRO)
            cached += decoding
            longest += 1

    def limits_passed(self, longest: int, sequences: int, tokens: int) -> tuple[str, ...]:
        """What lies beyond the largest measured shape, in words."""
        grid = self.tables.attention
        ends = (("context", longest, max(cells.at[-1] for cells in grid.lines.values())),
                ("sequences together", sequences, max(max(counts) for counts in grid.sequences.values())),
                ("tokens a step", tokens, self.tables.block.at[-1]))
        return tuple(f"{name} {asked:,} is beyond the largest measured, {significant(end)}: the last two points go on "
                     "as a line" for name, asked, end in ends if asked > end)


def tables_for(found: tuple[KernelTables, ...], accelerator: str, model: str) -> KernelTables:
    """The tables of a card and model (catalogue ids). Raises InputError naming what there is."""
    for tables in found:
        if (tables.accelerator, tables.model) == (accelerator, model):
            return tables
    there = ", ".join(f"{tables.model} on {tables.accelerator}" for tables in found)
    raise InputError("cost", f"measured kernels of {model} on {accelerator}", f"measured are: {there}")
