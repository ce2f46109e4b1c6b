"""What a model answers greedily, known beforehand: each prompt alone, in a fresh engine, the whole prompt in one step.

Only places that rounding cannot turn are asked about later: an answer is known up to the first at which the two best tokens
are as near to each other as two runs of the same arithmetic may be apart. So every greedy answer has to be exactly this one.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from pycore.errors import InputError
from runtime.mini_infer.prove import EXACT, Court, alone
from runtime.mini_infer.setup import Say
from runtime.mini_infer.source import Source
from runtime.mini_infer.words import Words

MOST_TOKENS, LEAST_TOKENS, LONGEST_PROMPT = 48, 4, 320
FEWEST = 4
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
    """A prompt (a text, or a chat's messages), its ids, the tokens that follow, and each one's log-probability."""

    said: str | tuple[tuple[str, str], ...]
    prompt: tuple[int, ...]
    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    slack: float
    words: Words

    @property
    def chat(self) -> bool:
        return not isinstance(self.said, str)

    def text(self, count: int) -> str:
        """The text of its first tokens: a chat's answer stands alone, a completion goes on from its prompt."""
        if self.chat:
            return self.words.decode(self.tokens[:count])
        return self.words.decode(self.prompt + self.tokens[:count])[len(self.words.decode(self.prompt)):]

    def expected(self, most: int, *, stops: Sequence[str] = (), include: bool = False, ends: bool = True) -> Expected:
        """What has to come of at most `most` tokens. `stops` are looked for in the whole text, by brute force; `ends`: the
        model's own ends count. Stops hold no replacement characters."""
        over = next((at for at in range(most) if ends and self.tokens[at] in self.words.end), None)
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


def known(source: Source, say: Say) -> tuple[Known, ...]:
    """Prompts with their answers: long and short ones, with beginnings in common, and chats where the model has a template.

    Raises InputError for a model that answers so few of them clearly that nothing would be judged.
    """
    found, told = [], time.monotonic()
    for said, prompt in _asked(source.words, source.model.configuration.context):
        if time.monotonic() - told > SAYS_EVERY_S:
            told = time.monotonic()
            say(f"{len(found)} prompts answered alone so far")
        one = _answered(source, said, prompt)
        if len(one.tokens) >= LEAST_TOKENS:
            found.append(one)
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


def _answered(source: Source, said: object, prompt: tuple[int, ...]) -> Known:
    """One prompt alone, cut where rounding could turn it."""
    ((tokens, rows),) = alone(Court(model=source.model, kept=None, prompts=(prompt,), tokens=MOST_TOKENS))
    logprobs, slack = [], 0.0
    for token, row in zip(tokens, rows, strict=True):
        scale = float(row.abs().max())
        best, second = row.topk(2).values.tolist()
        if best - second <= 2 * EXACT * scale:
            break
        slack = max(slack, 2 * EXACT * scale)
        logprobs.append(float(torch.log_softmax(row, dim=-1)[token]))
    return Known(said=said, prompt=prompt, tokens=tuple(tokens[:len(logprobs)]), logprobs=tuple(logprobs), slack=slack,
                 words=source.words)
