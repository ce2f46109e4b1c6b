"""A request log in memory: columns of integers, so that a million rows take some tens of megabytes."""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pycore.errors import InputError
from pycore.serving.request import Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """Requests in order of arrival, the first at 0 ns. Columns have one entry a request.

    `arrivals_ns` is empty where only lengths are known. `hash_ids` names each block of `hash_block_tokens` of a prompt
    (equal identifiers: equal content up to there; empty where a row has none); `lines` is each row's line in the file.
    `notes` say what the reader did to the rows; `skipped` counts those left out (why is in the notes).
    """

    name: str
    layout: str  # id of the layout
    layout_name: str
    arrivals_ns: array  # of int64
    prompt_tokens: array
    output_tokens: array
    lines: array
    ids: tuple[str, ...] = ()
    hash_ids: tuple[tuple[int, ...], ...] = ()
    hash_block_tokens: int = 0
    token_ids: tuple[tuple[int, ...], ...] = ()
    extras: tuple[tuple[str, array], ...] = ()  # field of Request -> its column; -1 where a cell was empty
    notes: tuple[str, ...] = ()
    skipped: int = 0

    def __len__(self) -> int:
        return len(self.prompt_tokens)

    @property
    def duration_ns(self) -> int:
        """From the first arrival to the last."""
        return self.arrivals_ns[-1] if self.arrivals_ns else 0

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """(prompt, output) tokens of every request."""
        return list(zip(self.prompt_tokens, self.output_tokens, strict=True))

    def id(self, index: int) -> str:
        """The request's own name, else its number, from 1."""
        return self.ids[index] if self.ids else str(index + 1)

    def request(self, index: int, arrival_ns: int, block_size: int = 16) -> Request:
        """One row as a request that comes at `arrival_ns`. Raises InputError where the blocks do not fit together."""
        extras = {name: column[index] for name, column in self.extras if column[index] >= 0}
        if "deadline_ns" in extras:
            extras["deadline_ns"] += arrival_ns  # the file's is counted from the arrival
        prompt = self.prompt_tokens[index]
        hashes = None
        if self.hash_ids and self.hash_ids[index]:
            hashes = blocks(self.hash_ids[index], self.hash_block_tokens or block_size, prompt, block_size)
        return Request(id=self.id(index), arrival_ns=arrival_ns, prompt_tokens=prompt,
                       output_tokens=self.output_tokens[index], prefix_hashes=hashes,
                       token_ids=(self.token_ids[index] or None) if self.token_ids else None, **extras)

    def requests(self, block_size: int = 16, speed: float = 1.0) -> tuple[Request, ...]:
        """All rows as requests; arrivals are divided by `speed`. Raises InputError where only lengths are known."""
        if not self.arrivals_ns and len(self):
            raise InputError("trace", self.name, "it holds no arrival times; accepted: a trace with them, or its lengths "
                                                 "with an arrival process (prompt=trace:NAME)")
        times = self.arrivals_ns if speed == 1.0 else [round(time / speed) for time in self.arrivals_ns]
        return tuple(self.request(index, time, block_size) for index, time in enumerate(times))


class SubBlocks(Sequence):
    """Identifiers of blocks of a trace cut into smaller ones: block k of `factor` to one is ids[k // factor] * factor +
    k % factor. Made when asked for: a replay of Mooncake at 16 tokens a block would otherwise hold nine million."""

    __slots__ = ("_ids", "_factor", "_length")

    def __init__(self, ids: tuple[int, ...], factor: int, length: int):
        self._ids, self._factor, self._length = ids, factor, length

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int | slice) -> int | tuple[int, ...]:
        if isinstance(index, slice):
            return tuple(self[place] for place in range(*index.indices(self._length)))
        if index < 0:
            index += self._length
        if not 0 <= index < self._length:
            raise IndexError(index)
        return self._ids[index // self._factor] * self._factor + index % self._factor

    def __iter__(self) -> Iterator[int]:
        factor, left = self._factor, self._length
        for identifier in self._ids:
            first = identifier * factor
            yield from range(first, first + min(factor, left))
            left -= min(factor, left)
            if not left:
                return

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and not isinstance(other, str) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))


def blocks(ids: tuple[int, ...], trace_block: int, prompt: int, block_size: int) -> Sequence[int]:
    """A prompt's blocks of `block_size` tokens from a trace's of `trace_block`: one identifier for each full block.

    Identifiers are chained (each stands for everything before it too), so a larger block takes its last part's. Raises
    InputError where neither size divides the other.
    """
    full = prompt // block_size
    if trace_block == block_size:
        return ids[:full]
    if trace_block % block_size == 0:
        factor = trace_block // block_size
        return SubBlocks(ids, factor, min(full, len(ids) * factor))
    if block_size % trace_block == 0:
        factor = block_size // trace_block
        return ids[factor - 1::factor][:full]
    raise InputError("block_size", block_size, f"accepted with this trace: a divisor or a multiple of {trace_block} tokens")
