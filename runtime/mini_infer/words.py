"""A model's words: its tokenizer and its chat template, out of a folder as `transformers` writes it or a GGUF file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Backend

Message = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Words:
    """Text to ids and back. `end`: every id that ends a text or a turn."""

    name: str
    backend: "Backend"
    end: tuple[int, ...] = ()

    def encode(self, text: str, *, specials: bool = False) -> tuple[int, ...]:
        """Ids of a text; special tokens written in it count as such. `specials`: with what the tokenizer puts before a text
        (its beginning-of-text token, where it has one), as a raw prompt wants it and a rendered chat does not."""
        raise NotImplementedError

    def decode(self, ids: Sequence[int], *, specials: bool = False) -> str:
        """The text of ids, without special tokens unless `specials`."""
        raise NotImplementedError

    def chat(self, messages: Sequence[Message], *, add_generation_prompt: bool = True) -> tuple[int, ...]:
        """Ids of a conversation by the model's own template. Raises InputError for messages that it refuses, NotKnown where
        the model has no template."""
        raise NotImplementedError

    def token_bytes(self, token: int) -> bytes:
        """What one token stands for; half a character, perhaps."""
        raise NotImplementedError
