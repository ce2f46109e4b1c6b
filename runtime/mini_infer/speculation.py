"""Speculation: guess tokens ahead, verify them in one pass, keep exactly what the model itself would have said."""

from dataclasses import dataclass

from pycore.errors import InputError
from pycore.serving.scheduler import Scheduler
from runtime.mini_infer.cache import Cache
from runtime.mini_infer.drafts import Drafter, DraftModel, Lookup
from runtime.mini_infer.model import Model

MOST_TOKENS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Speculation:
    """How an engine guesses. Raises InputError for counts out of range.

    tokens    guesses for each decoding sequence in a step, at most
    draft     the model that guesses; None: what followed the last time that the text's last tokens came (prompt lookup)
    longest   of those last tokens so many are looked up, then fewer
    """

    tokens: int = 4
    draft: Model | None = None
    longest: int = 3

    def __post_init__(self):
        for name, most in (("tokens", MOST_TOKENS), ("longest", 16)):
            value = getattr(self, name)
            if type(value) is not int or not 1 <= value <= most:
                raise InputError(name, value, f"a whole number from 1 to {most}")

    def drafter(self, model: Model, scheduler: Scheduler, cache: Cache | None = None) -> Drafter:
        """Who guesses for a model. `cache`: keys and values of the draft model, as many blocks as the scheduler's; made
        here where none is given. Raises InputError for a scheduler or a draft model that does not go with it."""
        if scheduler.limits.draft_tokens != self.tokens:
            raise InputError("draft_tokens", scheduler.limits.draft_tokens, f"the {self.tokens} of the speculation")
        if self.draft is None:
            return Lookup(self.tokens, self.longest)
        theirs, ours = self.draft.configuration, model.configuration
        if theirs.vocabulary != ours.vocabulary:
            raise InputError("draft", f"{theirs.vocabulary} tokens", f"a model with the same {ours.vocabulary} tokens")
        if theirs.context < scheduler.limits.max_model_length:
            raise InputError("draft", f"a context of {theirs.context}", f"at least {scheduler.limits.max_model_length}")
        return DraftModel(self.draft, cache or self.cache(scheduler))

    def cache(self, scheduler: Scheduler) -> Cache:
        """Memory for the draft model's keys and values in a scheduler's blocks. Raises InputError where there is none."""
        host = scheduler.memory.host
        return Cache(self.draft.configuration, len(scheduler.pool.references), scheduler.pool.block_size,
                     host_blocks=len(host.references) if host else 0, dtype=self.draft.dtype, device=self.draft.device)
