"""Answers as OpenAI's clients read them: whole or in chunks, of chats and of completions.

https://platform.openai.com/docs/api-reference/chat/object and .../completions/object. `stop_reason` is vLLM's addition.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from runtime.mini_infer.answers import Answer, Piece
from runtime.mini_infer.sampling import Choice
from runtime.mini_infer.words import Words

Json = dict[str, object]


@dataclass(slots=True, kw_only=True)
class Text:
    """One text as far as it has come."""

    parts: list[str] = field(default_factory=list)
    choices: list[Choice] = field(default_factory=list)
    finish: str | None = None
    stop: str | int | None = None


class Shape:
    """What both kinds have in common; one of them for each request. `take` every piece before it is shown."""

    object = chunk_object = ""

    def __init__(self, name: str, model: str, words: Words, answer: Answer, *, logprobs: bool, include_usage: bool):
        self.name, self.model, self.words, self.answer = name, model, words, answer
        self.logprobs, self.include_usage = logprobs, include_usage
        self.created = int(time.time())
        self.texts = [Text() for _ in range(answer.count)]

    def take(self, piece: Piece) -> None:
        """Remember a piece."""
        text = self.texts[piece.index]
        if piece.text:
            text.parts.append(piece.text)
        if piece.choice is not None:
            text.choices.append(piece.choice)
        text.finish, text.stop = piece.finish, piece.stop

    def usage(self) -> Json:
        """Tokens read, found and written so far."""
        prompt = sum(len(ask.prompt) for ask in self.answer.asks)
        written = sum(len(text.choices) for text in self.texts)
        return {"prompt_tokens": prompt, "completion_tokens": written, "total_tokens": prompt + written,
                "prompt_tokens_details": {"cached_tokens": sum(self.answer.cached)}}

    def whole(self) -> Json:
        """The answer in one."""
        choices = [self.choice(index, text) for index, text in enumerate(self.texts)]
        return self._head(self.object) | {"choices": choices, "usage": self.usage()}

    def chunks(self, piece: Piece) -> Iterator[Json]:
        """What a stream says of a piece: its text or its log-probabilities, and in a chunk of its own its end."""
        if piece.text or self.logprobs and piece.choice is not None:
            yield self._chunk(self.delta(piece))
        if piece.finish is not None:
            yield self._chunk(self.last(piece.index) | {"finish_reason": piece.finish, "stop_reason": piece.stop})

    def closing(self) -> Iterator[Json]:
        """What comes after the last piece."""
        if self.include_usage:
            yield self._head(self.chunk_object) | {"choices": [], "usage": self.usage()}

    def _head(self, kind: str) -> Json:
        return {"id": self.name, "object": kind, "created": self.created, "model": self.model}

    def _chunk(self, choice: Json) -> Json:
        return self._head(self.chunk_object) | {"choices": [choice]} | ({"usage": None} if self.include_usage else {})


class ChatShape(Shape):
    """`/v1/chat/completions`."""

    object, chunk_object = "chat.completion", "chat.completion.chunk"

    def opening(self) -> Iterator[Json]:
        """Whose words these are, for each text."""
        for index in range(len(self.texts)):
            yield self._chunk(self._delta(index, {"role": "assistant", "content": ""}))

    def delta(self, piece: Piece) -> Json:
        """A piece as a chunk's choice."""
        return self._delta(piece.index, {"content": piece.text}, [piece.choice] if piece.choice else [])

    def last(self, index: int) -> Json:
        """A chunk's choice that says nothing."""
        return self._delta(index, {})

    def _delta(self, index: int, delta: Json, choices: list[Choice] | None = None) -> Json:
        return {"index": index, "delta": delta, "logprobs": self._logprobs(choices) if choices else None,
                "finish_reason": None}

    def choice(self, index: int, text: Text) -> Json:
        """A text that is over."""
        message = {"role": "assistant", "content": "".join(text.parts), "refusal": None}
        return {"index": index, "message": message, "logprobs": self._logprobs(text.choices),
                "finish_reason": text.finish, "stop_reason": text.stop}

    def _logprobs(self, choices: list[Choice]) -> Json | None:
        if not self.logprobs:
            return None
        return {"content": [self._one(choice.token, choice.logprob) | {
            "top_logprobs": [self._one(token, logprob) for token, logprob in choice.top]} for choice in choices],
            "refusal": None}

    def _one(self, token: int, logprob: float) -> Json:
        raw = self.words.token_bytes(token)
        return {"token": raw.decode("utf-8", "replace"), "logprob": logprob, "bytes": list(raw) or None}


class CompletionShape(Shape):
    """`/v1/completions`. `echo`: each text begins with its prompt."""

    object = chunk_object = "text_completion"

    def __init__(self, *arguments: object, echo: bool, **settings: object):
        super().__init__(*arguments, **settings)
        self.prompts = [self.words.decode(ask.prompt) if echo else "" for ask in self.answer.asks
                        for _ in range(ask.samples)]
        self.ends = [len(prompt) for prompt in self.prompts]  # where the next token's text begins

    def opening(self) -> Iterator[Json]:
        """The prompts, where they are wanted."""
        for index, prompt in enumerate(self.prompts):
            if prompt:
                yield self._chunk(self._part(index, prompt, []))

    def delta(self, piece: Piece) -> Json:
        """A piece as a chunk's choice."""
        return self._part(piece.index, piece.text, [piece.choice] if piece.choice else [])

    def last(self, index: int) -> Json:
        """A chunk's choice that says nothing."""
        return self._part(index, "", [])

    def choice(self, index: int, text: Text) -> Json:
        """A text that is over."""
        said = self.prompts[index] + "".join(text.parts)
        return self._part(index, said, text.choices) | {"finish_reason": text.finish, "stop_reason": text.stop}

    def _part(self, index: int, text: str, choices: list[Choice]) -> Json:
        return {"index": index, "text": text, "logprobs": self._logprobs(index, choices), "finish_reason": None}

    def _logprobs(self, index: int, choices: list[Choice]) -> Json | None:
        if not self.logprobs or not choices:
            return None
        tokens, offsets = [self._name(choice.token) for choice in choices], []
        for choice in choices:
            offsets.append(self.ends[index])
            self.ends[index] += self._begun(choice.token)
        top = [{self._name(token): logprob for token, logprob in reversed(choice.top)} | {name: choice.logprob}
               for name, choice in zip(tokens, choices, strict=True)]
        return {"tokens": tokens, "token_logprobs": [choice.logprob for choice in choices], "top_logprobs": top,
                "text_offset": offsets}

    def _name(self, token: int) -> str:
        """The text of a token; of one that is no whole character its bytes, as OpenAI writes them: 'bytes:\\xe2'. One that
        the tokenizer does not have is called by its number, as vLLM writes it: all of them would have the same name."""
        raw = self.words.token_bytes(token)
        if not raw:
            return f"token_id:{token}"
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError:
            return "bytes:" + "".join(f"\\x{one:02x}" for one in raw)

    def _begun(self, token: int) -> int:
        """How many characters of the text begin in a token: bytes that continue none, and none of a special token."""
        return 0 if token in self.words.special else sum(one & 0xC0 != 0x80 for one in self.words.token_bytes(token))
