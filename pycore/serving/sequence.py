"""A request on its way through a scheduler: what has been computed of it, which blocks it holds, when things happened.

While a sequence decodes it stands in the scheduler's decode set (decodes.py) and is not touched step by step: its counts
are read from its slot and the set's tick. `known` counts prompt and generated tokens including one still in flight;
`computed` counts tokens whose keys and values exist once the scheduled steps have run; `generated` counts tokens that
have come out.
"""

from typing import TYPE_CHECKING, Literal

from pycore.serving.prefix import Key, chain
from pycore.serving.request import Request

if TYPE_CHECKING:
    from pycore.serving.decodes import DecodeSet, Slot

Status = Literal["waiting", "running", "swapped", "handing over", "finished", "refused", "aborted"]


class Sequence:
    """The state of one request. Only its scheduler changes it; a driver reads it, also after it has finished.

    target          tokens it will produce at most (the output cut to the model's length)
    cached_tokens   prompt tokens found in the prefix cache when it was first admitted
    resumed_tokens  tokens found again after preemptions, which recomputing spared
    recomputed_tokens  tokens computed a second time after preemptions
    drafted         guesses after its last token that the step in flight computes; they count as computed when accepted
    """

    __slots__ = ("request", "serial", "status", "target", "block_table", "host_table", "tokens", "keys", "registered",
                 "cached_tokens", "resumed_tokens", "recomputed_tokens", "peak_computed", "preemptions", "admission",
                 "first_scheduled_ns", "first_token_ns", "finished_ns", "reason", "slot", "emissions", "decodes",
                 "issued_tokens", "computed_tokens", "generated_tokens", "drafted")

    def __init__(self, request: Request, serial: int, decodes: "DecodeSet", target: int):
        self.request, self.serial, self.decodes, self.target = request, serial, decodes, target
        self.status: Status = "waiting"
        self.block_table: list[int] = []
        self.host_table: list[int] = []
        self.tokens: list[int] = []
        self.keys: list[Key] = []
        self.registered = 0
        self.cached_tokens = self.resumed_tokens = self.recomputed_tokens = self.peak_computed = 0
        self.preemptions = 0
        self.admission = -1
        self.first_scheduled_ns: int | None = None
        self.first_token_ns: int | None = None
        self.finished_ns: int | None = None
        self.reason = ""
        self.slot: Slot | None = None
        self.emissions: list[int | tuple[int, int]] = []
        self.issued_tokens = self.computed_tokens = self.generated_tokens = 0
        self.drafted = 0

    @property
    def id(self) -> str:
        return self.request.id

    @property
    def prompt_tokens(self) -> int:
        return self.request.prompt_tokens

    @property
    def computed(self) -> int:
        """Tokens whose keys and values exist once all scheduled steps have run."""
        return self.computed_tokens if self.slot is None else self.slot.offset + self.decodes.tick

    @property
    def issued(self) -> int:
        """Tokens generated or promised by a step in flight."""
        return self.issued_tokens if self.slot is None else self.computed + 1 - self.request.prompt_tokens

    @property
    def known(self) -> int:
        """Prompt and issued tokens: what must be computed before the next token can be."""
        return self.request.prompt_tokens + self.issued

    @property
    def generated(self) -> int:
        """Tokens that have come out."""
        if self.slot is None:
            return self.generated_tokens
        return self.generated_tokens + max(0, self.decodes.done_tick - self.slot.first_tick)

    def advance(self, count: int) -> None:
        """Compute `count` more tokens, outside the decode set; those computed before a preemption are counted again."""
        start, reached = self.computed_tokens, self.computed_tokens + count
        if start < self.peak_computed:
            self.recomputed_tokens += min(reached, self.peak_computed) - start
        self.computed_tokens = reached

    @property
    def over(self) -> bool:
        return self.status in ("finished", "refused", "aborted")

    @property
    def shareable(self) -> bool:
        """Whether other requests can hit what this one computes."""
        return self.request.token_ids is not None or self.request.prefix_hashes is not None

    def token_times_ns(self) -> list[int]:
        """When each token came out, oldest first."""
        times: list[int] = []
        ends = self.decodes.tick_ends_ns
        for emission in self.emissions:
            if isinstance(emission, int):
                times.append(emission)
            else:
                times.extend(ends[emission[0]:emission[1]])
        if self.slot is not None:
            times.extend(ends[self.slot.first_tick:])
        return times

    def emit_at(self, now_ns: int) -> None:
        """A token came out of a prompt's last chunk; decodes it has left since, still in flight, come after it."""
        last = self.emissions[-1] if self.emissions else now_ns
        after = isinstance(last, tuple) and last[0] >= self.decodes.done_tick
        self.emissions.insert(len(self.emissions) - after, now_ns)

    def drop_emissions_in_flight(self) -> None:
        """Forget tokens of steps that have not completed: it has ended before they came out."""
        if self.emissions and isinstance(self.emissions[-1], tuple):
            first, last = self.emissions[-1]
            self.emissions[-1] = (first, max(first, min(last, self.decodes.done_tick)))

    def registrable(self, tokens: int, block_size: int, *, private: bool) -> int:
        """How many leading blocks of the first `tokens` computed ones may enter the prefix cache.

        `private` also counts blocks that only this sequence can find again, worth it when it is preempted.
        """
        request, blocks = self.request, tokens // block_size
        if request.token_ids is not None and self.tokens:  # never past the tokens that have come out
            return min(blocks, (request.prompt_tokens + len(self.tokens)) // block_size)
        if private:
            return blocks
        if request.token_ids is not None:
            return min(blocks, request.prompt_tokens // block_size)
        return min(blocks, len(request.prefix_hashes or ()))

    def key(self, index: int, block_size: int) -> Key:
        """Chained key of its block `index`: the given hash, the hash of its tokens, or one that only it can find."""
        keys, request = self.keys, self.request
        while len(keys) <= index:
            at = len(keys)
            if request.prefix_hashes is not None and at < len(request.prefix_hashes):
                keys.append(request.prefix_hashes[at])
            elif request.token_ids is not None and request.prompt_tokens + len(self.tokens) >= (at + 1) * block_size:
                keys.append(chain(keys[-1] if keys else None, self.block_tokens(at, block_size)))
            else:
                keys.append((self.serial, at))
        return keys[index]

    def block_tokens(self, index: int, block_size: int) -> tuple[int, ...]:
        """Token ids of its block `index`."""
        ids, start, prompt = self.request.token_ids, index * block_size, self.request.prompt_tokens
        if start + block_size <= prompt:
            return tuple(ids[start:start + block_size])
        generated = self.tokens[max(0, start - prompt):start + block_size - prompt]
        return tuple(ids[start:]) + tuple(generated)
