"""What an engine allows in one step, under the names engines use."""

from dataclasses import dataclass

from pycore.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of one scheduler. All are counts of tokens or sequences.

    max_sequences       seats: sequences that hold blocks and run at the same time
    max_batched_tokens  tokens one step may compute, prompt tokens and decodes together
    max_model_length    prompt + output; a longer prompt is refused, a longer output is cut (as engines do)
    chunk_budget        tokens of one step under chunked prefill (Sarathi); None: max_batched_tokens
    reserve_known       admit a sequence only when the blocks of everything known of it (prompt + generated) fit, not
                        only those of its first chunk. vLLM's `scheduler_reserve_full_isl`, on by default there
    steps_in_flight     1: a step is scheduled when the one before has completed. 2: asynchronous scheduling, step N+1
                        is scheduled while N runs; a finished sequence then keeps its seat one step longer
    draft_tokens        guesses that a step may verify for each decoding sequence (ahead.py); 0: no speculation. How many
                        were right is known only when a step has completed, so only one may be in flight

    Raises InputError for a limit below one, for fewer than 0 guesses, and for guesses with two steps in flight.
    """

    max_sequences: int = 256
    max_batched_tokens: int = 8192
    max_model_length: int = 131_072
    chunk_budget: int | None = None
    reserve_known: bool = True
    steps_in_flight: int = 1
    draft_tokens: int = 0

    def __post_init__(self) -> None:
        for name in ("max_sequences", "max_batched_tokens", "max_model_length", "chunk_budget"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(name, value, "at least 1")
        if self.steps_in_flight not in (1, 2):
            raise InputError("steps_in_flight", self.steps_in_flight, "1 (synchronous) or 2 (asynchronous scheduling)")
        if self.draft_tokens < 0 or (self.draft_tokens and self.steps_in_flight > 1):
            raise InputError("draft_tokens", self.draft_tokens, "at least 0, and above it one step in flight")

    @property
    def step_tokens(self) -> int:
        """Tokens of one step under chunked prefill."""
        return min(self.chunk_budget or self.max_batched_tokens, self.max_batched_tokens)
