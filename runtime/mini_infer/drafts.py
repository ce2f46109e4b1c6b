"""Where guesses come from: a small model with keys and values of its own, or what the text has said before.

An engine asks a drafter before a step how many guesses it has (`counts`), after the step was planned for the guesses
(`guess`), and tells it how many tokens came (`settle`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import torch
from torch import Tensor

from pycore.serving.plan import Scheduled, StepPlan
from runtime.mini_infer.acceptance import Guess, finite
from runtime.mini_infer.cache import Cache
from runtime.mini_infer.model import Model
from runtime.mini_infer.sampling import Sampler
from runtime.mini_infer.step import batch, forward

Texts = Mapping[str, Sequence[int]]


class Drafter(Protocol):
    """What an engine asks of whoever guesses. `texts`: tokens so far by id.

    `silent`: ids for whom nothing finite can be guessed any more; what they leave in free blocks is to be blanked.
    """

    silent: set[str]

    def counts(self, texts: Texts) -> Mapping[str, int] | None:
        """How many guesses there are for each of these, at most; None: as many as anybody wants."""

    def guess(self, plan: StepPlan, texts: Texts, samplers: Mapping[str, Sampler]) -> dict[str, Guess]:
        """Guesses for those whom the plan gives some, by id."""

    def settle(self, plan: StepPlan, texts: Texts, came: Mapping[str, int]) -> None:
        """So many tokens came for each; `texts` are as they were before."""

    def blank(self, blocks: list[int]) -> None:
        """Forget what these blocks hold."""


class Index:
    """Where each run of 1 to `longest` tokens of a text first went on, kept up as the text grows."""

    __slots__ = ("longest", "read", "places")

    def __init__(self, longest: int):
        self.longest, self.read = longest, 0
        self.places: dict[tuple[int, ...], int] = {}

    def next_place(self, text: Sequence[int]) -> int | None:
        """Where what followed the text's last tokens before begins: of the longest run that has been there, its first."""
        for end in range(self.read + 1, len(text)):
            for length in range(1, min(self.longest, end) + 1):
                self.places.setdefault(tuple(text[end - length:end]), end)
        self.read = max(self.read, len(text) - 1)
        for length in range(min(self.longest, len(text) - 1), 0, -1):
            place = self.places.get(tuple(text[len(text) - length:]))
            if place is not None:
                return place
        return None


class Lookup:
    """Prompt lookup: after the same last tokens, what came the first time (github.com/apoorvumang/prompt-lookup-decoding;
    `transformers` has the same rule). Costs no pass of any model."""

    def __init__(self, tokens: int, longest: int):
        self.tokens, self.longest = tokens, longest
        self.indices: dict[str, Index] = {}
        self.found: dict[str, tuple[int, ...]] = {}
        self.silent: set[str] = set()

    def counts(self, texts: Texts) -> dict[str, int]:
        self.indices = {name: self.indices.get(name) or Index(self.longest) for name in texts}
        self.found = {}
        for name, text in texts.items():
            place = self.indices[name].next_place(text)
            self.found[name] = () if place is None else tuple(text[place:place + self.tokens])
        return {name: len(tokens) for name, tokens in self.found.items()}

    def guess(self, plan: StepPlan, texts: Texts, samplers: Mapping[str, Sampler]) -> dict[str, Guess]:
        found = {part.sequence_id: self.found[part.sequence_id][:part.drafts] for part in plan.parts if part.drafts}
        return {name: Guess(tokens=tokens, drawn_from=(None,) * len(tokens)) for name, tokens in found.items()}

    def settle(self, plan: StepPlan, texts: Texts, came: Mapping[str, int]) -> None:
        """A look-up keeps nothing of what was guessed."""

    def blank(self, blocks: list[int]) -> None:
        """It holds no blocks."""


class DraftModel:
    """A model that reads everything that the other one reads, into blocks of its own under the same numbers.

    What the scheduler says of blocks (tables, copies, moves, prefix hits) so holds for both, because after every step
    both have written the same positions. `forwards` counts its passes.
    """

    def __init__(self, model: Model, cache: Cache):
        self.model, self.cache, self.forwards = model, cache, 0
        self.guesses: dict[str, Guess] = {}
        self.silent: set[str] = set()

    def counts(self, texts: Texts) -> dict[str, int] | None:
        self.silent &= texts.keys()
        return {name: 0 if name in self.silent else 1 << 30 for name in texts} if self.silent else None

    def guess(self, plan: StepPlan, texts: Texts, samplers: Mapping[str, Sampler]) -> dict[str, Guess]:
        with torch.inference_mode():
            self.cache.move(plan)
            items = plan.items
            going = {item.sequence_id: item for item in items if item.drafts}
            ahead = {name: samplers[name].supposed() for name in going}
            self.guesses = guesses = {name: Guess() for name in going}
            if not items:  # a step that only moves blocks
                return guesses
            logits = self._run([self._part(item, item.start, item.count - item.drafts) for item in items], texts, guesses)
            place = 0
            while going:
                place += 1
                self._choose(list(going), ahead, guesses, logits)
                going = {name: item for name, item in going.items()
                         if item.drafts > place and len(guesses[name].tokens) == place}
                if going:
                    parts = [self._part(item, item.start + place, 1) for item in going.values()]
                    logits = self._run(parts, texts, guesses)
        return guesses

    def _part(self, item: Scheduled, start: int, count: int) -> Scheduled:
        blocks = -(-(start + count) // self.cache.block_size)
        return replace(item, start=start, count=count, drafts=0, emits=item.drafts > 0,
                       block_table=item.block_table[:blocks])

    def _run(self, items: Sequence[Scheduled], texts: Texts, guesses: Mapping[str, Guess]) -> Tensor:
        self.forwards += 1
        tokens = {name: guess.tokens for name, guess in guesses.items()}
        return forward(self.model, self.cache, batch(items, texts, self.cache.block_size, self.model.device, tokens))

    def _choose(self, names: list[str], ahead: Mapping[str, Sampler], guesses: dict[str, Guess], logits: Tensor) -> None:
        """The next guess of each, by its row of logits."""
        sound, best = finite(logits), logits.argmax(dim=-1).tolist()
        rows = None if all(ahead[name].plain for name in names) else logits.float().cpu()
        for row, name in enumerate(names):
            if not sound[row]:
                self.silent.add(name)
                continue
            sampler, q, token = ahead[name], None, best[row]
            if not sampler.plain:
                q = None if sampler.generator is None else sampler.likely(rows[row])
                token = sampler.choose(rows[row]).token if q is None else sampler.draw(q)
            sampler.said_now(token)
            old = guesses[name]
            guesses[name] = Guess(tokens=(*old.tokens, token), drawn_from=(*old.drawn_from, q))

    def settle(self, plan: StepPlan, texts: Texts, came: Mapping[str, int]) -> None:
        """Where all guesses were kept, the last of them was never read here: read it, so that no block has a hole."""
        behind = [item for item in plan.items if item.drafts and came.get(item.sequence_id) == 1 + item.drafts]
        if behind:
            with torch.inference_mode():
                parts = [replace(self._part(item, item.start + item.drafts, 1), emits=False) for item in behind]
                self._run(parts, texts, self.guesses)

    def blank(self, blocks: list[int]) -> None:
        with torch.inference_mode():
            self.cache.blank(blocks)
