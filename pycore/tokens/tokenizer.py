"""A tokenizer: text to ids and back, with what each token is of the text. Special tokens are text unless asked for.

    tokenizer = build(shelf.load("o200k_base"))
    tokenizer.encode("नमस्ते").pieces          tokenizer.count("Hello world")          tokenizer.decode([13225, 2375])
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Protocol

from pycore.errors import InputError
from pycore.tokens import catalogue, normalise, patterns, stream
from pycore.tokens.byte_pair import BytePair
from pycore.tokens.merging import Branch
from pycore.tokens.sentence_piece import SentencePiece
from pycore.tokens.stream import Counted, Joints, counted
from pycore.tokens.vocabulary import BYTE_PAIR, Vocabulary

FORMS = {"qwen2.5": "NFC", "claude-legacy": "NFKC"}
"""Normalisation, by tokenizer; the others have none."""
TREE_LIMIT = 2_000


class Engine(Protocol):
    """What cuts and merges a normalised text."""

    vocabulary: Vocabulary

    def cut(self, text: str) -> list[str]: ...
    def ids(self, text: str) -> list[int]: ...
    def count(self, text: str) -> int: ...
    def trees(self, piece: str) -> tuple[Branch, ...]: ...
    def id_of(self, symbol: bytes) -> int | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoding:
    """A text's tokens. `pieces[i]` are the bytes of `ids[i]`, spaces as spaces; `offsets[i]` the code points of the given
    text that it touches, (start, end), overlapping where tokens share a character. Joined, the pieces are the text as the
    tokenizer reads it, in UTF-8.
    """

    ids: tuple[int, ...]
    pieces: tuple[bytes, ...]
    offsets: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A token, or a part of one: its bytes, its id (None for a part that has none), the merge that made it (counted from
    1 within its piece; 0: not merged), and the two parts it was merged from.
    """

    piece: bytes
    id: int | None
    order: int
    parts: tuple["Node", ...] = ()


class Tokenizer:
    """One tokenizer. Holds its vocabulary in memory and a bounded cache of pieces; otherwise it does not change."""

    def __init__(self, *, name: str, label: str, engine: Engine, form: str | None = None, joints: Joints | None = None):
        self.name, self.label, self.engine, self.form, self.joints = name, label, engine, form, joints
        vocabulary = engine.vocabulary
        self.specials = dict(vocabulary.specials)
        self.special_ids = frozenset(self.specials.values())
        found = sorted(filter(None, self.specials), key=len, reverse=True)
        self.special_pattern = re.compile(f"({'|'.join(map(re.escape, found))})" if found else "((?!))")
        mark = b"" if vocabulary.kind == BYTE_PAIR else "\u2581".encode()
        self.mark, self.tokens, self.first = mark, vocabulary.tokens, vocabulary.first_id
        self.apart = {number: text.encode().replace(mark, b" ") if mark else text.encode()
                      for text, number in (*vocabulary.literals.items(), *vocabulary.specials.items())}

    @property
    def size(self) -> int:
        """How many ids there are."""
        return self.engine.vocabulary.size

    def normalised(self, text: str, start: bool = True) -> str:
        """The text as the tokenizer reads it. `start`: it is the beginning of the whole."""
        return normalise.normalised(text, self.form)

    def aligned(self, text: str, start: bool = True) -> tuple[str, normalise.Spans | None]:
        """(the text as the tokenizer reads it, where each of its characters came from; None: nothing moved)."""
        return normalise.aligned(text, self.form)

    def parts(self, text: str, specials: bool) -> Iterator[tuple[str, int | None]]:
        """(part of the text, its id where it is a special token)."""
        if not specials or not self.specials:
            yield text, None
            return
        for place, part in enumerate(self.special_pattern.split(text)):
            if part:
                yield part, self.specials[part] if place % 2 else None

    def ids(self, text: str, *, specials: bool = False) -> list[int]:
        """Ids alone: faster than `encode`. `specials`: special tokens written in the text are taken as such."""
        found: list[int] = []
        for place, (part, number) in enumerate(self.parts(text, specials)):
            found += self.engine.ids(self.normalised(part, not place)) if number is None else [number]
        return found

    def count(self, text: str, *, specials: bool = False) -> int:
        """How many tokens a text is: faster still."""
        return sum(self.engine.count(self.normalised(part, not place)) if number is None else 1
                   for place, (part, number) in enumerate(self.parts(text, specials)))

    def count_stream(self, chunks: Iterable[str], *, specials: bool = False) -> Iterator[Counted]:
        """Tokens of a text that comes in chunks, cut anywhere: exactly `count` of the whole, with memory bounded.

        Yields how far it is, last the whole. Raises InputError where a text has no place to cut it for too long.
        """
        return counted(lambda text: self.count(text, specials=specials), self.joints, chunks)

    def encode(self, text: str, *, specials: bool = False) -> Encoding:
        """Ids, pieces and offsets of a text. `specials`: special tokens written in the text are taken as such."""
        ids, pieces, offsets, base = [], [], [], 0
        for part, number in self.parts(text, specials):
            if number is not None:
                ids.append(number)
                pieces.append(part.encode())
                offsets.append((base, base + len(part)))
            else:
                read, spans = self.aligned(part, not base)
                found = self.engine.ids(read)
                own = list(map(self.piece, found))
                ids += found
                pieces += own
                offsets += [(base + start, base + end) for start, end in places(self.plain(read), own, spans)]
            base += len(part)
        return Encoding(ids=tuple(ids), pieces=tuple(pieces), offsets=tuple(offsets))

    def plain(self, text: str) -> str:
        """The text whose bytes the pieces are."""
        return text.replace("\u2581", " ") if self.mark else text

    def piece(self, number: int) -> bytes:
        """Bytes of an id. Raises InputError for an id that the vocabulary does not have."""
        if number in self.apart:
            return self.apart[number]
        if not self.first <= number < self.first + len(self.tokens):
            raise InputError("ids", number, f"{self.name} has ids from {self.first} to {self.first + len(self.tokens) - 1}"
                                            " and those of its special tokens")
        token = self.tokens[number - self.first]
        if not token:
            raise InputError("ids", number, f"{self.name} has no token of this id")
        return token.replace(self.mark, b" ") if self.mark else token

    def decode_bytes(self, ids: Sequence[int]) -> bytes:
        """The bytes that ids stand for, special tokens as their text. Raises InputError for an unknown id."""
        return b"".join(map(self.piece, ids))

    def decode(self, ids: Sequence[int]) -> str:
        """The text that ids stand for; bytes that are no whole character become U+FFFD. Raises InputError."""
        return self.decode_bytes(ids).decode("utf-8", "replace")

    def tree(self, text: str) -> tuple[Node, ...]:
        """How a word's tokens were merged: one root a token. Raises InputError for a text too long to draw."""
        if len(text) > TREE_LIMIT:
            raise InputError("word", text, f"a merge tree is drawn of up to {TREE_LIMIT:,} characters")
        pieces = self.engine.cut(self.normalised(text))
        return tuple(self.node(root) for piece in pieces for root in self.engine.trees(piece))

    def node(self, branch: Branch) -> Node:
        """A branch with ids."""
        return Node(piece=branch.piece, id=self.engine.id_of(branch.piece), order=branch.order,
                    parts=tuple(map(self.node, branch.parts)))


def places(text: str, pieces: list[bytes], spans: normalise.Spans | None) -> Iterator[tuple[int, int]]:
    """For each piece the code points it touches, through `spans` to the text as it was given."""
    ends = list(accumulate(map(len, pieces)))
    if text.isascii():
        starts_ends = zip([0, *ends], ends, strict=False)
    else:
        owner = [index for index, character in enumerate(text) for _ in range(width(character))]
        starts_ends = ((owner[end - len(piece)], owner[end - 1] + 1) for end, piece in zip(ends, pieces, strict=True))
    for start, end in starts_ends:
        yield (start, end) if spans is None else (spans[start][0], spans[end - 1][1])


def width(character: str) -> int:
    """Bytes of a character in UTF-8."""
    point = ord(character)
    return 1 + (point > 0x7F) + (point > 0x7FF) + (point > 0xFFFF)


def build(vocabulary: Vocabulary) -> Tokenizer:
    """The tokenizer that goes with a known vocabulary. Raises UnknownName for a name that the catalogue does not hold."""
    name = vocabulary.name
    label = catalogue.origin(name).label
    if vocabulary.kind == BYTE_PAIR:
        engine: Engine = BytePair(vocabulary, patterns.PATTERNS[name])
        joints = stream.BYTE_PAIRS
    else:
        engine, joints = SentencePiece(vocabulary), stream.GEMMA
    return Tokenizer(name=name, label=label, engine=engine, form=FORMS.get(name), joints=joints)
