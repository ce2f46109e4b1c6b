"""What a model answers greedily, known beforehand: each prompt alone, in a fresh engine, the whole prompt in one step.

Only places that rounding cannot turn are asked about later: an answer is known up to the first at which the two best tokens
are as near to each other as two runs of the same arithmetic may be apart. So every greedy answer has to be exactly this one.
Where keys and values or weights are in few bits, how far apart that is is measured (`shaking`).
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pycore.errors import InputError
from runtime.mini_infer.generation import Generation
from runtime.mini_infer.kv_formats import KvFormat, kv_format, plain_name
from runtime.mini_infer.prove import EXACT, Court
from runtime.mini_infer.setup import Say
from runtime.mini_infer.soaking.manners import MANNERS, PLAIN, Manner
from runtime.mini_infer.soaking.shaking import moved
from runtime.mini_infer.source import Source
from runtime.mini_infer.words import Words

MOST_TOKENS, FEWER_TOKENS, LEAST_TOKENS, LONGEST_PROMPT = 48, 24, 4, 320
FEWEST = 4
EVERY = 3  # in few bits, one prompt of so many is asked
SAYS_EVERY_S = 5.0
BROKEN = "\ufffd"
LONG = ("The engine reads a prompt, keeps its keys and values in blocks, and says one token after another. "
        "In the beginning was the word, and the word was cut into tokens. ")
SHORT = "Once upon a time "
ENDS = ("", "there was a queue", "there was a pool of blocks.", "1, 2, 3, 1, 2, 3, 1, 2,", "é ü 日本 🦜",
        "def step(engine):\n    ", "??", "a a a a a a a a a a a a")
ALONE = ("a", "\n", "Why?", "0123456789 0123456789 0123456789")
SYSTEM = "You are an engine. " * 4
QUESTIONS = ("What is the capital of France?", "Say it again.", "日本?", "x", "Count: one two three one two three one two")


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What has to come: the text, why it ends, and how many tokens it takes (between two numbers, where a stop may be seen
    only when half a character is complete)."""

    text: str
    finish: str
    tokens: range


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A prompt (a text, or a chat's messages), its ids, the tokens that follow when it is asked in a manner, each one's
    log-probability and the largest one beside it; `slack`: how far rounding may move those."""

    said: str | tuple[tuple[str, str], ...]
    prompt: tuple[int, ...]
    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    best: tuple[float, ...] = ()
    slack: float
    words: Words
    manner: Manner = PLAIN

    @property
    def chat(self) -> bool:
        return not isinstance(self.said, str)

    def text(self, count: int) -> str:
        """The text of its first tokens: a chat's answer stands alone, a completion goes on from its prompt."""
        if self.chat:
            return self.words.decode(self.tokens[:count])
        return self.words.decode(self.prompt + self.tokens[:count])[len(self.words.decode(self.prompt)):]

    def expected(self, most: int, *, stops: Sequence[str] = (), include: bool = False, ends: bool = True,
                 also: Sequence[int] = ()) -> Expected:
        """What has to come of at most `most` tokens. `stops` are looked for in the whole text, by brute force; `ends`: the
        model's own ends count; `also`: further tokens that end it. Stops hold no replacement characters."""
        last = {*(self.words.end if ends else ()), *self.manner.ends, *also}
        over = next((at for at in range(most) if self.tokens[at] in last), None)
        count = most if over is None else over
        text = self.text(count)
        found = min(((text.find(stop) + len(stop), text.find(stop)) for stop in stops if stop in text), default=None)
        if found is not None:
            end, start = found
            first = next(one for one in range(1, count + 1) if any(stop in self.text(one) for stop in stops))
            return Expected(text=text[:end if include else start], finish="stop",
                            tokens=range(first, count + 1 + (over is not None)))
        return Expected(text=text, finish="length" if over is None else "stop",
                        tokens=range(most, most + 1) if over is None else range(over + 1, over + 2))


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """A prompt alone: tokens, the logits that each was chosen by (tokens, vocabulary), what they are the largest of, and how
    far rounding may move each row, as a share of its largest."""

    said: object
    prompt: tuple[int, ...]
    manner: Manner
    tokens: tuple[int, ...]
    rows: Tensor
    scores: Tensor
    moved: Tensor


def known(source: Source, say: Say, kv: str = "auto") -> tuple[Known, ...]:
    """Prompts with their answers: long and short ones, with beginnings in common, and chats where the model has a template.

    Raises InputError for a model that answers so few of them clearly that nothing would be judged.
    """
    exact = kv == "auto" and source.model.head.weight is not None
    kept = kv_format(plain_name(source.model.dtype) if kv == "auto" else kv, source.model.configuration.head_width)
    asked = list(_asked(source.words, source.model.configuration.context))[::1 if exact else EVERY]
    heard, told = [], time.monotonic()
    for number, (said, prompt) in enumerate(asked):
        if time.monotonic() - told > SAYS_EVERY_S:
            told = time.monotonic()
            say(f"{len(heard)} prompts answered alone so far")
        plain = _heard(source, kept, said, prompt, PLAIN, MOST_TOKENS if exact else FEWER_TOKENS, exact)
        other = MANNERS[number % len(MANNERS)].held_back(plain.tokens)
        heard.append(plain)
        if exact or number % 2:
            heard.append(_heard(source, kept, said, prompt, other, FEWER_TOKENS, exact))
    most = max((float(one.moved.max()) for one in heard), default=0.0)
    found = [one for one in (_cut(one, source.words, most) for one in heard) if len(one.tokens) >= LEAST_TOKENS]
    if len(found) < FEWEST:
        raise InputError("model", source.name, f"accepted: a model that answers at least {FEWEST} of this command's prompts "
                         f"with {LEAST_TOKENS} tokens each of which is clearly the best; this one does so for {len(found)}")
    say(f"{len(found)} prompts answered alone, {sum(len(one.tokens) for one in found)} tokens")
    return tuple(found)


def _asked(words: Words, context: int) -> Iterator[tuple[str | tuple[tuple[str, str], ...], tuple[int, ...]]]:
    texts = [beginning + end for beginning in (LONG, SHORT) for end in ENDS]
    for text in (*texts, *ALONE):
        yield from _fitting(text, words.encode(text, specials=True), context)
    for question in QUESTIONS if words.template else ():
        for system in ((), (("system", SYSTEM),)):
            said = (*system, ("user", question))
            try:
                prompt = words.chat([{"role": role, "content": content} for role, content in said])
            except InputError:  # a template may refuse a system message
                continue
            yield from _fitting(said, prompt, context)


def _fitting(said: object, prompt: tuple[int, ...], context: int) -> Iterator[tuple]:
    if prompt and len(prompt) <= min(LONGEST_PROMPT, context - MOST_TOKENS - 1):
        yield said, prompt


def _heard(source: Source, kept: KvFormat, said: object, prompt: tuple[int, ...], manner: Manner, most: int,
           exact: bool) -> Heard:
    """One prompt alone, in a fresh engine, up to where the engine does not say what the logits demand: that token is the one
    that was to come."""
    court = Court(model=source.model, kept=kept, prompts=(prompt,), tokens=most)
    engine = court.engine(sequences=1)
    ends = source.words.end if manner.least else ()
    engine.serve([Generation(id="alone", prompt=prompt, max_tokens=most, sampling=manner.sampling, min_tokens=manner.least,
                             end=(*ends, *manner.ends))])
    rows, tokens, scores = engine.logits["alone"], [], []
    for token, row in zip(engine.tokens["alone"], rows, strict=True):
        scores.append(manner.scores(row, prompt, tokens, ends))
        tokens.append(int(scores[-1].argmax()))
        if tokens[-1] != token:
            break
    rows = torch.stack(rows[:len(tokens)])
    apart = torch.zeros(len(tokens)) if exact else moved(source.model, kept, prompt, tokens, rows)
    return Heard(said=said, prompt=prompt, manner=manner, tokens=tuple(tokens), rows=rows, scores=torch.stack(scores),
                 moved=apart)


def _cut(one: Heard, words: Words, most: float) -> Known:
    """An answer up to where rounding could turn it. What was shaken and did not move is moved by no engine; what moved may
    move twice as far as anything, `most`, did."""
    logprobs, largest, slack = [], [], 0.0
    for token, row, scores, share in zip(one.tokens, one.rows, one.scores, one.moved.tolist(), strict=True):
        apart = 2 * (EXACT if share <= EXACT else 2 * most) * float(row.abs().max())
        best, second = scores.topk(2).values.tolist()
        if best - second <= apart * one.manner.widens:
            break
        slack = max(slack, apart)
        likely = torch.log_softmax(row, dim=-1)
        logprobs.append(float(likely[token]))
        largest.append(float(likely.max()))
    return Known(said=one.said, prompt=one.prompt, tokens=one.tokens[:len(logprobs)], logprobs=tuple(logprobs),
                 best=tuple(largest), slack=slack, words=words, manner=one.manner)
