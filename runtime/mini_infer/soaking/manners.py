"""Ways of asking under which greedy text is another one: penalties, and ends that may not come yet.

What they make of logits is computed here from their definitions, token by token, and not by the engine's own code.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from runtime.mini_infer.sampling import Sampling

PENALTIES = ("repetition_penalty", "presence_penalty", "frequency_penalty")


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """Penalties as a request says them; `ends`: tokens that end a text beside the model's own; `least`: tokens before which
    nothing ends it."""

    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    ends: tuple[int, ...] = ()
    least: int = 0

    @property
    def sampling(self) -> Sampling:
        """Greedy with these penalties, for an engine."""
        return Sampling(temperature=0.0, **{name: getattr(self, name) for name in PENALTIES})

    @property
    def label(self) -> str:
        """As what its texts are counted; '' for the plain way."""
        return "texts with min_tokens" if self.least else "penalised texts" if self != PLAIN else ""

    @property
    def widens(self) -> float:
        """By how much it may multiply the difference of two logits."""
        return max(1.0, self.repetition_penalty, 1 / self.repetition_penalty)

    def fields(self, most: int) -> dict[str, Any]:
        """It in a request for `most` tokens."""
        found = {name: getattr(self, name) for name in PENALTIES if getattr(self, name) != getattr(PLAIN, name)}
        return found | ({"stop_token_ids": list(self.ends), "min_tokens": min(self.least, most)} if self.least else {})

    def scores(self, row: Tensor, prompt: Sequence[int], said: Sequence[int], ends: Sequence[int]) -> Tensor:
        """What the next token is the largest of, by logits (vocabulary). arXiv 1909.05858 for the first penalty, over prompt
        and text; OpenAI's definitions for the others, over the text alone. `ends`: the model's own."""
        found = row.double()
        for token in {*prompt, *said} if self.repetition_penalty != 1 else ():
            found[token] *= 1 / self.repetition_penalty if found[token] > 0 else self.repetition_penalty
        for token in said:
            found[token] -= self.frequency_penalty
        for token in set(said):
            found[token] -= self.presence_penalty
        if len(said) < self.least:
            found[[*ends, *self.ends]] = -torch.inf
        return found

    def held_back(self, tokens: Sequence[int]) -> "Manner":
        """It for a prompt that plainly goes on with these tokens: one of them is an end that may not come yet."""
        return replace(self, ends=(tokens[min(self.least // 2, len(tokens) - 1)],)) if self.least else self


PLAIN = Manner()
MANNERS = (Manner(repetition_penalty=1.3), Manner(presence_penalty=1.5), Manner(least=7), Manner(frequency_penalty=0.7),
           Manner(repetition_penalty=0.8, presence_penalty=0.4, frequency_penalty=-0.3),
           Manner(repetition_penalty=1.1, frequency_penalty=0.5, least=4))
