"""From logits to a token: penalties, temperature, top-k, top-p, min-p, a seed of one's own, log-probabilities.

The order is that of `transformers`: repetition penalty (arXiv 1909.05858), presence and frequency penalty (OpenAI's
definition, over what was generated), then temperature, top-k, top-p (arXiv 1904.09751), min-p (arXiv 2407.01082).
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isfinite

import torch
from torch import Tensor

from pycore.errors import InputError

MOST_LOGPROBS = 20
SEEDS = 1 << 63


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How one request is sampled. Raises InputError for a value outside its range.

    temperature          0: the most likely token (greedy); what follows then changes nothing but penalties and bans
    top_k                0: all tokens;  top_p: 1 all, 0 only the most likely;  min_p: share of the most likely one's
                         probability that a token must have
    repetition_penalty   1: none; over prompt and output
    presence_penalty, frequency_penalty   subtracted once, and once a time, for tokens of the output
    seed                 None: another one each time
    logprobs             how many most likely tokens to report beside the chosen one; None: nothing is reported
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    seed: int | None = None
    logprobs: int | None = None

    def __post_init__(self):
        _within("temperature", self.temperature, 0, 100)
        _within("top_p", self.top_p, 0, 1)
        _within("min_p", self.min_p, 0, 1)
        _within("repetition_penalty", self.repetition_penalty, 0.01, 100)
        _within("presence_penalty", self.presence_penalty, -2, 2)
        _within("frequency_penalty", self.frequency_penalty, -2, 2)
        _whole("top_k", self.top_k, 0, 1 << 31)
        if self.seed is not None:
            _whole("seed", self.seed, -SEEDS, SEEDS - 1)
        if self.logprobs is not None:
            _whole("logprobs", self.logprobs, 0, MOST_LOGPROBS)

    @property
    def penalised(self) -> bool:
        """Whether what came before changes the logits."""
        return (self.repetition_penalty, self.presence_penalty, self.frequency_penalty) != (1, 0, 0)


def _within(name: str, value: object, least: float, most: float) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
    if not number or not least <= value <= most:
        raise InputError(name, value, f"a number from {least} to {most}")


def _whole(name: str, value: object, least: int, most: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise InputError(name, value, f"a whole number from {least} to {most}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A token; where asked, its log-probability in the model's own distribution and the most likely (token, log-probability)
    pairs there."""

    token: int
    logprob: float | None = None
    top: tuple[tuple[int, float], ...] = ()


class Sampler:
    """The sampling of one request: its settings, what it has read and said, its own random stream.

    `banned` may not come before `least` tokens have.
    """

    __slots__ = ("settings", "prompt", "said", "count", "banned", "least", "generator")

    def __init__(self, settings: Sampling, prompt: Iterable[int], *, banned: Sequence[int] = (), least: int = 0):
        self.settings, self.banned, self.least = settings, tuple(banned), least
        self.prompt: frozenset[int] = frozenset(prompt) if settings.repetition_penalty != 1 else frozenset()
        self.said: Counter[int] = Counter()
        self.count = 0
        self.generator = self._generator()

    def _generator(self) -> torch.Generator | None:
        if self.settings.temperature == 0:
            return None
        generator = torch.Generator()
        if self.settings.seed is None:
            generator.seed()
        else:
            generator.manual_seed(stream(self.settings.seed))
        return generator

    def twin(self, settings: Sampling, prompt: Iterable[int]) -> "Sampler":
        """One that has said the same, with settings and a random stream of its own."""
        twin = Sampler(settings, prompt, banned=self.banned, least=self.least)
        twin.said, twin.count = Counter(self.said), self.count
        return twin

    def supposed(self) -> "Sampler":
        """It as it stands, to be told what may be said; draws from the same random stream."""
        other = Sampler.__new__(Sampler)
        for name in Sampler.__slots__:
            setattr(other, name, getattr(self, name))
        other.said = Counter(self.said)
        return other

    @property
    def plain(self) -> bool:
        """Whether the next token is the most likely one, and nothing else is asked."""
        settings = self.settings
        return (settings.temperature == 0 and settings.logprobs is None and not settings.penalised
                and (self.count >= self.least or not self.banned))

    def choose(self, logits: Tensor) -> Choice:
        """The next token by logits (vocabulary), float32 on the CPU, which stay as they are."""
        token = int(self.adjusted(logits).argmax()) if self.generator is None else self.draw(self.likely(logits))
        return self.reported(logits, token)

    def likely(self, logits: Tensor) -> Tensor:
        """Probabilities (vocabulary) of the next token; not for greedy requests."""
        return distribution(self.adjusted(logits), self.settings)

    def draw(self, likely: Tensor) -> int:
        """A token by its probabilities."""
        return int(torch.multinomial(likely, 1, generator=self.generator))

    def adjusted(self, logits: Tensor) -> Tensor:
        """Logits with penalties, and without what may not come yet."""
        settings, scores = self.settings, logits.clone()
        if settings.repetition_penalty != 1:
            seen = torch.tensor(sorted(self.prompt | self.said.keys()), dtype=torch.long)
            old = scores[seen]
            scores[seen] = torch.where(old > 0, old / settings.repetition_penalty, old * settings.repetition_penalty)
        if self.said and (settings.presence_penalty or settings.frequency_penalty):
            said = torch.tensor(list(self.said), dtype=torch.long)
            times = torch.tensor(list(self.said.values()), dtype=scores.dtype)
            scores[said] -= settings.presence_penalty + settings.frequency_penalty * times
        if self.banned and self.count < self.least:
            scores[torch.tensor(self.banned, dtype=torch.long)] = -torch.inf
        return scores

    def said_now(self, token: int) -> None:
        """Remember a token that was chosen."""
        self.count += 1
        if self.settings.penalised:
            self.said[token] += 1

    def reported(self, logits: Tensor, token: int) -> Choice:
        """A token with what is asked to be said of it."""
        if self.settings.logprobs is None:
            return Choice(token=token)
        logprobs = torch.log_softmax(logits, dim=-1)
        values, tokens = logprobs.topk(min(self.settings.logprobs, len(logprobs)))
        top = tuple(zip(tokens.tolist(), values.tolist(), strict=True))
        return Choice(token=token, logprob=float(logprobs[token]), top=top)


def stream(seed: int) -> int:
    """What torch's generator is given for a seed. On the CPU it takes 32 bits of it: a seed of so many is given as it is, so
    that it draws what torch draws by it; of others all 64 bits are mixed as SplitMix64 does (Steele, Lea and Flood 2014),
    so that seeds 2**32 apart draw differently."""
    seed %= 2 * SEEDS
    if seed < 1 << 32:
        return seed
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        seed = (seed ^ seed >> shift) * factor % (2 * SEEDS)
    return seed & 0xFFFFFFFF


def distribution(scores: Tensor, settings: Sampling) -> Tensor:
    """Probabilities (vocabulary) by scores after temperature (above 0), top-k, top-p and min-p."""
    scores = (scores - scores.max()).double() / settings.temperature  # the best is 0, so no temperature overflows it
    if 0 < settings.top_k < len(scores):
        scores = scores.masked_fill(scores < scores.topk(settings.top_k).values[-1], -torch.inf)
    if settings.top_p < 1:
        ordered, order = scores.softmax(-1).sort(descending=True)
        before = ordered.cumsum(-1) - ordered
        before[0] = -1.0  # the most likely token stays, whatever top_p is
        scores = scores.index_fill(0, order[before >= settings.top_p], -torch.inf)
    if settings.min_p:
        likely = scores.softmax(-1)
        scores = scores.masked_fill(likely < settings.min_p * likely.max(), -torch.inf)
    return scores.softmax(-1)
