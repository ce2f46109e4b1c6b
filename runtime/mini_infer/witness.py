"""An engine that keeps the logits that each of its tokens was chosen by, and how two of its runs compare."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from runtime.mini_infer.acceptance import NO_GUESS, Guess
from runtime.mini_infer.engine import Engine
from runtime.mini_infer.generation import Generation, Output
from runtime.mini_infer.sampling import Choice

MOVES = ("copies", "evicted", "preempted", "swapped_out", "swapped_in")


class Witness(Engine):
    """`logits`: id of a sample to a row (vocabulary), float32 on the CPU, for each token that came out for it. `seen`: what
    kinds of step there were ("chunk", "mixed", "copies", "preempted", ...)."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.logits: dict[str, list[Tensor]] = {}
        self.tokens: dict[str, list[int]] = {}
        self.seen: set[str] = set()
        self._rows: dict[str, Tensor] = {}

    def _chosen(self, names: tuple[str, ...], logits: Tensor, guesses: Mapping[str, Guess]) -> dict[str, tuple[Choice, ...]]:
        at = 0
        for name in names:
            count = 1 + len(guesses.get(name, NO_GUESS).tokens)
            self._rows[name] = logits[at:at + count].float().cpu().clone()
            at += count
        return super()._chosen(names, logits, guesses)

    def step(self) -> tuple[Output, ...]:
        before, self._rows = self.last_plan, {}
        outputs = super().step()
        if self.last_plan is not before:
            self._note()
        places: Counter[str] = Counter()
        for one in outputs:
            if one.choice is not None:
                rows = self._rows[one.id] if one.id in self._rows else self._rows[one.request]
                self.tokens.setdefault(one.id, []).append(one.choice.token)
                self.logits.setdefault(one.id, []).append(rows[places[one.id]])
                places[one.id] += 1
        return outputs

    def _note(self) -> None:
        plan = self.last_plan
        self.seen |= {name for name in MOVES if getattr(plan, name)}
        self.seen |= {"mixed"} if plan.decode_count and plan.prefill_tokens else set()
        self.seen |= {"chunk"} if any(not part.emits for part in plan.parts) else set()
        self.seen |= {"together"} if plan.decode_count > 1 else set()
        self.seen |= {"hit"} if self.scheduler.hit_tokens else set()
        self.seen |= {"guess"} if plan.draft_tokens else set()

    def serve(self, asked: Iterable[Generation]) -> None:
        """Let these in and run until all have ended."""
        for one in asked:
            self.add(one)
        while not self.idle:
            self.step()


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Where two runs part: the prompt (from 0), the place in its answer (from 0), the token id whose logit differs most
    there, and that logit in the reference and in the other run; the tokens that each said."""

    prompt: int
    place: int
    token: int
    reference: float
    other: float
    said: tuple[int, int]


@dataclass(slots=True, kw_only=True)
class Comparison:
    """Logits of two runs held against each other. `largest`: the largest difference of two logits, as a share of the
    largest logit beside it. `ties`: answers that part where the two best tokens were nearer to each other than rounding;
    what follows is then another text, and is not compared."""

    tolerance: float
    compared: int = 0
    largest: float = 0.0
    ties: int = 0
    first: Difference | None = None
    lengths: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        return self.first is None and not self.lengths and self.compared > 0

    def take(self, prompt: int, reference: tuple[Sequence[int], Sequence[Tensor]],
             other: tuple[Sequence[int], Sequence[Tensor]]) -> None:
        """One answer: (tokens, rows of logits) of both runs."""
        for place, (right, said, row, seen) in enumerate(zip(reference[0], other[0], reference[1], other[1], strict=False)):
            self.compared += 1
            scale = float(row.abs().max()) or 1.0
            apart = (row - seen).abs()
            share = float(apart.max()) / scale
            self.largest = max(self.largest, share) if share == share else float("inf")
            tie = right != said and float(row[right] - row[said]) <= 2 * self.tolerance * scale
            if not share <= self.tolerance or (right != said and not tie):
                token = int(torch.nan_to_num(apart, nan=torch.inf).argmax())
                self.first = self.first or Difference(prompt=prompt, place=place, token=token, reference=float(row[token]),
                                                      other=float(seen[token]), said=(right, said))
                return
            if tie:
                self.ties += 1
                return
        if len(reference[0]) != len(other[0]):
            self.lengths.append(f"answer {prompt} has {len(other[0])} tokens, the reference {len(reference[0])}")
