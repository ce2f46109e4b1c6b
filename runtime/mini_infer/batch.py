"""Prompts in, texts out as they come, in one process without a server: what `generate` and `chat` run.

All prompts run as one continuous batch; a text is handed on token by token, with the times that its reader saw.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from pycore.errors import InputError
from runtime.mini_infer.engine import Engine
from runtime.mini_infer.generation import GREEDY, Finish, Generation, Output
from runtime.mini_infer.sampling import Choice, Sampling
from runtime.mini_infer.stream import TextStream
from runtime.mini_infer.usage import Usage
from runtime.mini_infer.words import Message, Words

DEFAULT_TOKENS = 256
Heard = Callable[["Text", str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One prompt: a raw text, or the messages of a conversation with variables of the chat template. `max_tokens` None:
    DEFAULT_TOKENS, or what still fits."""

    prompt: str = ""
    messages: tuple[Message, ...] = ()
    variables: Mapping[str, object] = field(default_factory=dict)
    max_tokens: int | None = None
    min_tokens: int = 0
    samples: int = 1
    ignore_end: bool = False
    stops: tuple[str, ...] = ()
    include_stop: bool = False
    sampling: Sampling = GREEDY

    def ids(self, words: Words) -> tuple[int, ...]:
        """Its tokens. Raises InputError where there is none."""
        if self.messages:
            return words.chat(self.messages, **self.variables)
        found = words.encode(self.prompt, specials=True)
        if not found:
            raise InputError("prompt", self.prompt, "accepted: text of at least one token")
        return found

    def most(self, left: int) -> int:
        """Tokens that it may come to, where `left` still fit."""
        return self.max_tokens if self.max_tokens is not None else max(1, self.min_tokens, min(DEFAULT_TOKENS, left))


@dataclass(slots=True, kw_only=True, eq=False)
class Text:
    """One text under way: prompt `index`, continuation `sample` of it. Times in nanoseconds of the engine's clock."""

    id: str
    index: int
    sample: int
    asked: Asked
    stream: TextStream
    asked_ns: int
    choices: list[Choice] = field(default_factory=list)
    text: str = ""
    first_ns: int | None = None
    last_ns: int | None = None
    finish: Finish | None = None
    reason: str = ""
    usage: Usage | None = None

    @property
    def tokens(self) -> tuple[int, ...]:
        """Those that came, the one that ended it among them."""
        return tuple(choice.token for choice in self.choices)

    @property
    def stop(self) -> str | None:
        """The stop string that ended it."""
        return self.stream.stopped

    @property
    def first_token_s(self) -> float | None:
        """Seconds from asking to the first token."""
        return None if self.first_ns is None else (self.first_ns - self.asked_ns) / 1e9

    @property
    def token_s(self) -> float | None:
        """Mean seconds from one token to the next; None before the second."""
        return (self.last_ns - self.first_ns) / 1e9 / (len(self.tokens) - 1) if len(self.tokens) > 1 else None


class Batch:
    """Texts that run together on one engine. `prompts`: the tokens of each prompt."""

    def __init__(self, engine: Engine, words: Words):
        self.engine, self.words = engine, words
        self.texts: dict[str, Text] = {}
        self.prompts: list[tuple[int, ...]] = []
        self.steps = 0

    def add(self, asked: Asked) -> tuple[Text, ...]:
        """Ask for a prompt's continuations. Raises InputError for what can never run."""
        ids, index = asked.ids(self.words), len(self.prompts)
        texts = tuple(Text(
            id=f"{index}/{sample}" if sample else str(index), index=index, sample=sample, asked=asked,
            asked_ns=self.engine.clock(), stream=TextStream(
                self.words, stops=asked.stops, end=() if asked.ignore_end else self.words.end,
                include_stop=asked.include_stop, min_tokens=asked.min_tokens, begun=not asked.messages))
            for sample in range(asked.samples))
        hears = tuple(text.stream.hear for text in texts)
        self.engine.add(Generation(
            id=str(index), prompt=ids, max_tokens=asked.most(self.engine.scheduler.reach - len(ids)),
            min_tokens=asked.min_tokens, end=self.words.end, ignore_end=asked.ignore_end, sampling=asked.sampling,
            samples=asked.samples, stop_when=hears if len(hears) > 1 else hears[0]))
        self.prompts.append(ids)
        self.texts |= {text.id: text for text in texts}
        return texts

    def run(self, heard: Heard, *, given_up: Callable[[], bool] = lambda: False) -> None:
        """Step until all texts are over; `heard` is told of every part of one and, with its end, of the rest.

        Once `given_up` says so, what is under way ends as "aborted".
        """
        while not self.engine.idle:
            if given_up():
                self._abort(heard)
                return
            outputs = self.engine.step()
            self.steps += 1
            for output in outputs:
                self._take(output, heard)

    def _take(self, output: Output, heard: Heard) -> None:
        text, now, part = self.texts[output.id], self.engine.clock(), ""
        if output.choice is not None:
            part = text.stream.take()
            text.choices.append(output.choice)
            text.first_ns, text.last_ns = now if text.first_ns is None else text.first_ns, now
        text.finish, text.reason, text.usage = output.finish, output.reason, output.usage
        self._say(text, part, heard)

    def _say(self, text: Text, part: str, heard: Heard) -> None:
        if text.finish is not None:
            part += text.stream.flush()
        if text.finish == "length" and text.stop is not None:  # found in what was held back to the last
            text.finish = "stop"
        text.text += part
        if part or text.finish:
            heard(text, part)

    def _abort(self, heard: Heard) -> None:
        left = [one for one in self.texts.values() if one.finish is None]
        for text in left:  # all of them first: the id of a request's first text is the request's, and ends the others too
            if text.id in self.engine.live:
                text.usage = self.engine.usage(text.id)
        for text in left:
            self.engine.abort(text.id)
            text.finish = "aborted"
            self._say(text, "", heard)


def figures(texts: Iterable[Text], seconds: float) -> dict[str, object]:
    """What a run of so many seconds comes to, over all texts."""
    texts = list(texts)
    used = [text.usage for text in texts if text.usage is not None]
    output, drafted = sum(len(text.tokens) for text in texts), sum(one.drafted for one in used)
    firsts = sorted(text.first_token_s for text in texts if text.first_token_s is not None)
    gaps = sum(len(text.tokens) - 1 for text in texts if text.token_s is not None)
    between = sum(text.token_s * (len(text.tokens) - 1) for text in texts if text.token_s is not None)
    alone = [text for text in texts if text.sample == 0 and text.usage is not None]
    return {
        "texts": len(texts), "seconds": seconds, "prompt_tokens": sum(text.usage.prompt_tokens for text in alone),
        "cached_tokens": sum(text.usage.cached_tokens for text in alone), "output_tokens": output,
        "output_tokens_per_s": output / seconds if seconds else None,
        "mean_first_token_s": sum(firsts) / len(firsts) if firsts else None,
        "mean_token_s": between / gaps if gaps else None, "preemptions": sum(one.preemptions for one in used),
        "drafted_tokens": drafted, "accepted_tokens": sum(one.accepted for one in used),
    }
