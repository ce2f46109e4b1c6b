"""A tokenizer that a tokenizer.json describes: the same answers as `Tokenizer`, with the file's own steps and merges."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

from pycore.errors import InputError
from pycore.tokens import normalise
from pycore.tokens.cache import Cache
from pycore.tokens.merging import Branch
from pycore.tokens.pairs import Pairs, grown, merged
from pycore.tokens.pipeline import ALWAYS, FIRST, MARK, Prefix, Step, prepending
from pycore.tokens.splitting import Cut
from pycore.tokens.tokenizer import Tokenizer
from pycore.tokens.vocabulary import BYTE_PAIR, Vocabulary


@dataclass(frozen=True, slots=True, kw_only=True)
class Pieces:
    """Pieces as the file writes them -> (id, bytes); each single byte's id; single characters' ids (byte fallback)."""

    known: Mapping[str, tuple[int, bytes]]
    byte_ids: tuple[int, ...]
    characters: Mapping[str, int]


class Uploaded:
    """What cuts and merges under an uploaded file."""

    def __init__(self, vocabulary: Vocabulary, *, pieces: Pieces, pairs: Pairs, cuts: Cut | None, whole: bool):
        self.vocabulary, self.pieces, self.pairs, self.cuts = vocabulary, pieces, pairs, cuts
        self.byte_level = vocabulary.kind == BYTE_PAIR
        self.bytes_of = dict(pieces.known.values())
        self.by_bytes = {data: number for number, data in pieces.known.values()}
        self.whole = {self.spelled(piece, data): number for piece, (number, data) in pieces.known.items()} if whole else {}
        self.cache = Cache(self.piece_ids)

    def spelled(self, piece: str, data: bytes) -> str | bytes:
        """A piece as `first_ids` sees it."""
        return data if self.byte_level else piece

    def cut(self, text: str) -> list[str]:
        """The pieces that are merged each by itself."""
        return ([text] if text else []) if self.cuts is None else self.cuts(text)

    def first_ids(self, piece: str) -> list[int]:
        """The ids that merging begins with: bytes, or characters with their bytes where they have no piece."""
        if self.byte_level:
            return [self.pieces.byte_ids[byte] for byte in piece.encode()]
        found: list[int] = []
        for character in piece:
            number = self.pieces.characters.get(character)
            found += [number] if number is not None else map(self.pieces.byte_ids.__getitem__, character.encode())
        return found

    def piece_ids(self, piece: str) -> tuple[int, ...]:
        """Ids of one piece."""
        known = self.whole.get(piece.encode() if self.byte_level else piece) if self.whole else None
        return (known,) if known is not None else tuple(merged(self.first_ids(piece), self.pairs))

    def ids(self, text: str) -> list[int]:
        """Ids of a text."""
        return list(chain.from_iterable(map(self.cache.__getitem__, self.cut(text))))

    def count(self, text: str) -> int:
        """How many ids a text has."""
        return sum(map(len, map(self.cache.__getitem__, self.cut(text))))

    def trees(self, piece: str) -> tuple[Branch, ...]:
        """The merges of one piece, a tree a token."""
        roots = grown(self.first_ids(piece), self.pairs, self.bytes_of.__getitem__)
        ids = self.piece_ids(piece)
        return roots if len(ids) == len(roots) else tuple(Branch(piece=self.bytes_of[number]) for number in ids)

    def id_of(self, symbol: bytes) -> int | None:
        """The id of a symbol that came from merging."""
        return self.by_bytes.get(symbol)


class UploadedTokenizer(Tokenizer):
    """A tokenizer with the file's own normaliser, prefix and added tokens; those not special are always taken whole."""

    def __init__(self, *, name: str, label: str, engine: Uploaded, steps: tuple[Step, ...], prefix: Prefix | None,
                 greedy: tuple[str, ...]):
        super().__init__(name=name, label=label, engine=engine)
        self.steps, self.prefix, self.greedy = steps, prefix, greedy
        self.always = dict(engine.vocabulary.literals)
        taken = [text for text in greedy if text in self.always]
        if taken:
            raise InputError("tokenizers", name, f"its added token {taken[0]!r} takes spaces around it along or whole words "
                                                 "only (lstrip, rstrip, single_word); that is not understood")

    def parts(self, text: str, specials: bool) -> Iterator[tuple[str, int | None]]:
        """(part of the text, its id where it is an added token). Raises InputError where specials cannot be told apart."""
        wanted = self.always | (self.specials if specials else {})
        taken = [one for one in self.greedy if one in wanted and one in text]
        if taken:
            raise InputError("specials", taken[0], "this special token takes the spaces around it along, which is not "
                                                   "understood here; turn special tokens off")
        if not wanted:
            yield text, None
            return
        for place, part in enumerate(added_pattern(tuple(wanted)).split(text)):
            if part:
                yield part, wanted[part] if place % 2 else None

    def normalised(self, text: str, start: bool = True) -> str:
        """The text as the tokenizer reads it."""
        return self.aligned(text, start)[0]

    def aligned(self, text: str, start: bool = True) -> tuple[str, normalise.Spans | None]:
        """(the text after every step, where each character came from)."""
        read, spans = normalise.aligned(text, None)
        for step in self.all_steps(start):
            read, own = step(read)
            if own is not None:
                spans = own if spans is None else [through(spans, span) for span in own]
        return read, spans

    def all_steps(self, start: bool) -> Iterator[Step]:
        """The normaliser, then what the pre-tokeniser puts before the text."""
        yield from self.steps
        if not self.prefix:
            return
        if self.prefix.mark == MARK:
            yield lambda read: (read.replace(" ", MARK), None)
        if self.prefix.scheme == ALWAYS or self.prefix.scheme == FIRST and start:
            mark = self.prefix.mark
            yield lambda read: (read, None) if read.startswith(mark) else prepending(mark)(read)

    def plain(self, text: str) -> str:
        """The text whose bytes the pieces are."""
        return text.replace(MARK, " ") if self.mark else text


def through(spans: normalise.Spans, span: tuple[int, int]) -> tuple[int, int]:
    """A span of a text in a middle stage, as one of the first text."""
    start, end = span
    if start == end:
        return (0, 0) if not start else (spans[start - 1][1],) * 2
    return spans[start][0], spans[end - 1][1]


def added_pattern(texts: tuple[str, ...]) -> re.Pattern[str]:
    """Added tokens, the longest first."""
    return re.compile("(" + "|".join(map(re.escape, sorted(texts, key=len, reverse=True))) + ")")
