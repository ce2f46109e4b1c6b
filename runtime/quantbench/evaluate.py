"""A model on a text: perplexity, and how far its answers are from those of the unquantised model.

Perplexity of long texts needs windows, and the stride says how much context a token has: windows of `length` tokens
start every `stride` tokens, and each counts only the tokens that no window before it counted. stride = length is the
cheapest and gives the highest figure (tokens at a window's start have little context). The first token is never counted.

KL divergence is sum p ln(p / q) over the vocabulary, p the unquantised model's, in nats, averaged over tokens; top-1
agreement is the share of tokens on which both would write the same next. Intervals are from batch means over tokens in
their order (`pycore.stats.batches`), since neighbouring tokens are alike.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from pycore.errors import InputError
from pycore.stats.batches import SMALLEST, batch_means


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """A text's ids cut into windows: `rows` of (ids, how many of the last targets count)."""

    rows: tuple[tuple[Tensor, int], ...]
    length: int
    stride: int

    @property
    def tokens(self) -> int:
        """Tokens of the text, those counted and the others."""
        return sum(len(window) for window, _ in self.rows) if self.stride == self.length else self.counted + 1

    @property
    def counted(self) -> int:
        """Tokens that are predicted and counted."""
        return sum(count for _, count in self.rows)


def windows(ids: Sequence[int], length: int = 512, stride: int = 0, most: int = 0) -> Windows:
    """Windows over the first `most` ids (0: all). `stride` 0 means the length. Raises InputError."""
    stride = stride or length
    if length < 2 or not 0 < stride <= length:
        raise InputError("stride", f"{stride} for windows of {length}", "use 1 to the length, and a length of at least 2")
    ids = torch.as_tensor(ids[:most] if most else ids)
    if len(ids) < 2:
        raise InputError("text", f"{len(ids)} tokens", "give a text of at least two tokens")
    rows, done = [], 1  # ids before `done` were counted already
    for start in range(0, len(ids), stride):
        window = ids[start:start + length]
        count = start + len(window) - done
        if count <= 0 or len(window) < 2:
            break
        count = min(count, len(window) - 1)
        rows.append((window, count))
        done = start + len(window)
    return Windows(rows=tuple(rows), length=length, stride=stride)


def logits_of(model: nn.Module, window: Tensor) -> Tensor:
    """(tokens, vocabulary) float32 of one window; a model of `transformers` wraps them."""
    found = model(window[None])
    return getattr(found, "logits", found)[0].float()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scores:
    """Per counted token, in order: negative log-likelihood (nats); and against a reference its KL divergence and whether
    both would write the same next (None without one)."""

    losses: Tensor
    divergences: Tensor | None = None
    agreements: Tensor | None = None

    @property
    def perplexity(self) -> float:
        """exp of the mean loss."""
        return math.exp(float(self.losses.mean()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean:
    """A mean over tokens with its 95 % interval; low and high are None for fewer than 64 tokens."""

    value: float
    low: float | None
    high: float | None


def mean(values: Tensor) -> Mean:
    """The mean of a run of tokens."""
    numbers = values.tolist()
    value = math.fsum(numbers) / len(numbers)
    if len(numbers) < SMALLEST:
        return Mean(value=value, low=None, high=None)
    low, high = batch_means(numbers).offsets()
    return Mean(value=value, low=value + low, high=value + high)


def counted_log_probabilities(model: nn.Module, text: Windows) -> Iterator[tuple[Tensor, Tensor]]:
    """(log probabilities (count, vocabulary), targets (count)) of each window's counted tokens."""
    for window, count in text.rows:
        with torch.no_grad():  # not around the yield: two of these that take turns would leave gradients off for good
            found = functional.log_softmax(logits_of(model, window)[:-1][-count:], dim=-1)
        yield found, window[1:][-count:]


class Reference:
    """What the unquantised model says at every counted token: tokens x vocabulary x 4 bytes of memory."""

    def __init__(self, model: nn.Module, text: Windows):
        self.text, parts, losses = text, [], []
        for found, targets in counted_log_probabilities(model, text):
            parts.append(found)
            losses.append(-found.gather(1, targets[:, None])[:, 0])
        self.log_probabilities, self.losses = parts, torch.cat(losses)

    @property
    def scores(self) -> Scores:
        """Its own: nothing diverges from itself."""
        return Scores(losses=self.losses, divergences=torch.zeros_like(self.losses),
                      agreements=torch.ones_like(self.losses))

    def scores_of(self, model: nn.Module) -> Scores:
        """A model's, on the same tokens."""
        return self.compared(counted_log_probabilities(model, self.text))

    def compared(self, found: Iterator[tuple[Tensor, Tensor]]) -> Scores:
        """Scores from log probabilities and targets window by window, in the order of the text."""
        return compared(self.log_probabilities, found)


def compared(expected: Iterable[Tensor], found: Iterable[tuple[Tensor, Tensor]]) -> Scores:
    """Scores of log probabilities and targets, window by window, beside the reference's log probabilities `expected`."""
    losses, divergences, agreements = [], [], []
    for before, (given, targets) in zip(expected, found, strict=True):
        losses.append(-given.gather(1, targets[:, None])[:, 0])
        divergences.append(divergence(before, given))
        agreements.append((before.argmax(-1) == given.argmax(-1)).float())
    return Scores(losses=torch.cat(losses), divergences=torch.cat(divergences), agreements=torch.cat(agreements))


def side_by_side(reference: nn.Module, model: nn.Module, text: Windows) -> tuple[Scores, Scores]:
    """(the reference's, the model's) scores; both run window by window: a longer text takes no more memory."""
    losses: list[Tensor] = []

    def expected() -> Iterator[Tensor]:
        for found, targets in counted_log_probabilities(reference, text):
            losses.append(-found.gather(1, targets[:, None])[:, 0])
            yield found

    scores = compared(expected(), counted_log_probabilities(model, text))
    return Scores(losses=torch.cat(losses)), scores


def divergence(expected: Tensor, given: Tensor) -> Tensor:
    """sum p ln(p / q) of each row of log probabilities, in nats; rounding may leave it a hair below 0."""
    return (expected.exp() * (expected - given)).sum(-1)
