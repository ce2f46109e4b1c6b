"""What a server has said, held against what it had to say."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from runtime.mini_infer.soaking.asks import CHAT, Asked

FINISHES = ("stop", "length")
ERROR_FIELDS = {"message", "type", "param", "code"}


@dataclass(slots=True)
class Heard:
    """One text as far as it has come; `ends` counts the words on its end. `logprobs`: (log-probability, largest one beside
    it or None) of each token that said it."""

    text: str = ""
    finish: str | None = None
    ends: int = 0
    logprobs: list[tuple[float, float | None]] = field(default_factory=list)


class Hearing:
    """All that came for one request. `take` the object of a whole answer or those of a stream, then ask for `faults`."""

    def __init__(self, asked: Asked):
        self.asked = asked
        self.texts = [Heard() for _ in range(len(asked.known) * asked.samples)]
        self.usage: dict[str, Any] | None = None
        self.error: str = ""

    def take(self, said: dict[str, Any]) -> None:
        """An object that was said."""
        if "error" in said:
            self.error = str(said["error"])
            return
        self.usage = said.get("usage") or self.usage
        for choice in said["choices"]:
            heard = self.texts[choice["index"]]
            part = choice.get("message") or choice.get("delta") or {}
            heard.text += (part.get("content") or "") if self.asked.path == CHAT else choice["text"]
            heard.logprobs += _logprobs(self.asked, choice.get("logprobs") or {})
            if choice["finish_reason"] is not None:
                heard.finish, heard.ends = choice["finish_reason"], heard.ends + 1

    def line(self, line: str) -> bool:
        """A line of a stream; whether it was the last. Raises ValueError for what is none."""
        if line == "data: [DONE]":
            return True
        if line:
            if not line.startswith("data: {"):
                raise ValueError(f"no line of a stream: {line[:200]!r}")
            self.take(json.loads(line.removeprefix("data: ")))
        return False

    def begun(self) -> Iterator[str]:
        """What is wrong with an answer of which only the beginning was read."""
        for index, (heard, expected) in enumerate(zip(self.texts, self.asked.expected, strict=False)):
            whole = self._echo(index) + expected.text
            if not whole.startswith(heard.text):
                yield f"text {index} begins {heard.text!r}, alone it is {whole!r}"

    def faults(self) -> Iterator[str]:
        """What is wrong with an answer that has come to its end."""
        if self.error:
            yield f"an error in the place of an answer: {self.error}"
            return
        for index, heard in enumerate(self.texts):
            if heard.ends != 1 or heard.finish not in FINISHES:
                yield f"text {index} ends {heard.ends} times, with {heard.finish!r}"
        for index, expected in enumerate(self.asked.expected):
            heard, whole = self.texts[index], self._echo(index) + expected.text
            if (heard.text, heard.finish) != (whole, expected.finish):
                yield f"text {index} is {heard.text!r} ({heard.finish}), alone it is {whole!r} ({expected.finish})"
        yield from self._counts()
        yield from self._likelihoods()

    def _echo(self, index: int) -> str:
        one = self.asked.known[index // self.asked.samples]
        return one.words.decode(one.prompt) if self.asked.echo else ""

    def _counts(self) -> Iterator[str]:
        if self.usage is None:
            return
        asked, written = self.asked, self.usage["completion_tokens"]
        read = sum(len(one.prompt) for one in asked.known)
        if self.usage["prompt_tokens"] != read or self.usage["total_tokens"] != read + written:
            yield f"usage is {self.usage}, the prompts have {read} tokens"
        least = sum(one.tokens.start for one in asked.expected) or len(self.texts)
        most = sum(one.tokens.stop - 1 for one in asked.expected) or len(self.texts) * asked.most
        if not least <= written <= most:
            yield f"{written} tokens written, accepted: from {least} to {most}"

    def _likelihoods(self) -> Iterator[str]:
        """Log-probabilities are some, and those of greedy tokens the ones that they have alone."""
        for index, heard in enumerate(self.texts if self.asked.logprobs else ()):
            if not heard.logprobs or any(not one <= 0 for one, _ in heard.logprobs):
                yield f"text {index} has log-probabilities {heard.logprobs}"
            if not self.asked.expected:
                continue
            known = self.asked.known[index // self.asked.samples]
            rights = zip(heard.logprobs, known.logprobs, known.best, strict=False)
            for place, ((one, best), right, likeliest) in enumerate(rights):
                # Under a penalty the likeliest is another token: a completion may leave it out, asked for no others, or
                # where both are written alike.
                least = likeliest if self.asked.path == CHAT else right
                if abs(one - right) > known.slack or best is not None and not (
                        least - known.slack <= best <= likeliest + known.slack):
                    yield (f"token {place} of text {index} has log-probability {one} (the best {best}), alone {right} "
                           f"(the best {likeliest})")
                    break


def _logprobs(asked: Asked, said: dict[str, Any]) -> list[tuple[float, float | None]]:
    if asked.path == CHAT:
        return [(one["logprob"], max((top["logprob"] for top in one["top_logprobs"]), default=None))
                for one in said.get("content") or ()]
    return [(one, max(top.values(), default=None))
            for one, top in zip(said.get("token_logprobs", ()), said.get("top_logprobs", ()), strict=True)]


def refusal_fault(body: bytes) -> str:
    """What is wrong with a refusal; '' where it is an error object of words without a traceback."""
    try:
        error = json.loads(body)["error"]
        fits = set(error) == ERROR_FIELDS and isinstance(error["message"], str) and error["message"]
    except (ValueError, KeyError, TypeError):
        fits = False
    return "" if fits and b"Traceback" not in body else f"no error object: {body[:300]!r}"
