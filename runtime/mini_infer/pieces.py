"""How a tokenizer's tokens become text, read from its own description, so that it can be done as they come.

Run are byte-level tokenizers (GPT-2, Llama 3, Qwen: a token is bytes, each written as one character), those out of
SentencePiece (Llama 2, Mistral, Gemma: "▁" is a space, <0xE2> a byte that no token has), and Metaspace. What `tokenizers`
does with all tokens at once is its `decode_chain`; here each part of it is a function of what came so far.
"""

import codecs
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pycore.errors import SourceError
from pycore.tokens.originals import byte_letters

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Backend

BROKEN = "\ufffd"
RUN = re.compile("(Replace ?)*(ByteFallback ?)?(Fuse( Strip)?)?")
BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


CHARACTERS = byte_letters()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pieces:
    """The way of one tokenizer. `byte_level`: all else is empty. `replaced`: (what, by what) in every token; `fallback`:
    <0xE2> is a byte; `stripped`: (character, how many at most) taken from the text's beginning; `metaspace`: the character
    that is a space, and nothing in the first token where `first_bare`."""

    byte_level: bool = False
    replaced: tuple[tuple[str, str], ...] = ()
    fallback: bool = False
    stripped: tuple[str, int] = ("", 0)
    first_bare: bool = False

    def piece_bytes(self, token: str) -> bytes:
        """What a token stands for where it is neither first nor broken."""
        if self.byte_level:
            found = [CHARACTERS.get(character) for character in token]
            return token.encode() if None in found else bytes(found)
        text = self.plain(token)
        match = BYTE.fullmatch(text) if self.fallback else None
        return bytes([int(match[1], 16)]) if match else text.encode()

    def plain(self, token: str) -> str:
        """A token with its replacements made."""
        for old, new in self.replaced:
            token = token.replace(old, new)
        return token

    def stream(self, *, begun: bool) -> "ByteStream | PieceStream":
        """For one text; `begun`: other text stands before it."""
        return ByteStream(self) if self.byte_level else PieceStream(self, begun)


class ByteStream:
    """Tokens that are bytes. An incomplete character waits."""

    def __init__(self, way: Pieces):
        self.way, self.decoder = way, codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token: str) -> str:
        """The characters that are whole now."""
        return self.decoder.decode(self.way.piece_bytes(token))

    def flush(self) -> str:
        """What is left, U+FFFD."""
        return self.decoder.decode(b"", final=True)


class PieceStream:
    """Tokens that are text, with bytes between. A run of bytes waits for its end: if it is no UTF-8, all of it is broken."""

    def __init__(self, way: Pieces, begun: bool):
        self.way, self.run, self.first = way, bytearray(), not begun
        self.character, self.to_strip = way.stripped if not begun else ("", 0)

    def push(self, token: str) -> str:
        """The text that is sure now."""
        if self.first and self.way.first_bare:
            token = token.translate({ord(old): "" for old, _ in self.way.replaced})
        self.first = False
        text = self.way.plain(token)
        match = BYTE.fullmatch(text) if self.way.fallback else None
        if match:
            self.run.append(int(match[1], 16))
            return ""
        return self._bare(self._ended() + text)

    def flush(self) -> str:
        """The run of bytes at the end."""
        return self._bare(self._ended())

    def _ended(self) -> str:
        run, self.run = bytes(self.run), bytearray()
        try:
            return run.decode()
        except UnicodeDecodeError:
            return BROKEN * len(run)

    def _bare(self, text: str) -> str:
        """Without what is taken from the text's beginning, which may lie in several tokens."""
        while text and self.to_strip:
            if text[0] != self.character:
                self.to_strip = 0
            else:
                text, self.to_strip = text[1:], self.to_strip - 1
        return text


def of(backend: "Backend", source: str) -> Pieces:
    """The way of a tokenizer. Raises SourceError for one that is not run here."""
    data = json.loads(backend.to_str())["decoder"]
    steps = data["decoders"] if data and data["type"] == "Sequence" else [data] if data else []
    kinds = [step["type"] for step in steps]
    if kinds == ["ByteLevel"]:
        return Pieces(byte_level=True)
    if kinds == ["Metaspace"]:
        return Pieces(replaced=((steps[0]["replacement"], " "),), first_bare=steps[0].get("prepend_scheme") != "never")
    if kinds and RUN.fullmatch(" ".join(kinds)):
        replaced = [step for step in steps if step["type"] == "Replace"]
        strip = steps[-1] if kinds[-1] == "Strip" else {"content": "", "start": 0, "stop": 0}
        if not strip["stop"] and all("String" in step["pattern"] for step in replaced):
            return Pieces(replaced=tuple((step["pattern"]["String"], step["content"]) for step in replaced),
                          fallback="ByteFallback" in kinds, stripped=(strip["content"], strip["start"]))
    raise SourceError(source, f"puts its tokens together by {', '.join(kinds) or 'nothing'}, which is not run here; run are "
                              "ByteLevel, Metaspace, and Replace with ByteFallback, Fuse and Strip")
