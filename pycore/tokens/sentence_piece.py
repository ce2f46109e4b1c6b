"""Gemma's tokenizer: BPE over characters, with UTF-8 bytes for characters that have no piece (SentencePiece).

The model knows a space as U+2581, here it stays a space (a U+2581 in the text means the same to the model). Pieces that
its makers defined by hand, runs of spaces, tabs and newlines and some HTML, are taken whole first, the longest. What is
left could be merged in one go; no piece but `> </` has a space after another character, so cutting before each space
changes nothing and lets words be remembered.
"""

import re
from collections.abc import Sequence
from itertools import chain

from pycore.tokens.cache import Cache
from pycore.tokens.merging import Branch, grown, merged
from pycore.tokens.vocabulary import Vocabulary

MARK = "\u2581"


class SentencePiece:
    """A SentencePiece BPE tokenizer of one vocabulary. Texts come with surrogates repaired."""

    def __init__(self, vocabulary: Vocabulary):
        self.vocabulary = vocabulary
        self.literals = {text.replace(MARK, " "): number for text, number in vocabulary.literals.items()}
        first, first_byte = vocabulary.first_id, vocabulary.first_byte_id
        self.byte_ids = range(first_byte, first_byte + 256)
        self.ranks = self.pieces(first)
        self.spaced = sorted(piece for piece in self.ranks if piece.rfind(" ") > 0 and " " in piece.lstrip(" "))
        self.pattern = re.compile(self.cuts())
        self.cache = Cache(self.piece_ids)

    def pieces(self, first: int) -> dict[str, int]:
        """What merging can make: text -> id, which is the rank too."""
        apart = {*self.vocabulary.specials.values(), *self.vocabulary.literals.values(), *self.byte_ids}
        numbers = [number for number in range(first, first + len(self.vocabulary.tokens)) if number not in apart]
        tokens = self.vocabulary.tokens
        whole = b"\0".join([tokens[number - first] for number in numbers])  # decoded at once: three times as fast
        return dict(zip(whole.decode().replace(MARK, " ").split("\0"), numbers, strict=True))

    def cuts(self) -> str:
        """The pattern of what is looked up or merged by itself: literals, longest first, else words with their space."""
        runs: dict[str, list[int]] = {}  # lengths of the literals that repeat one blank
        others = []
        for text in self.literals:
            if text.strip(" \n\t"):
                others.append(text)
            elif len(set(text)) == 1:
                runs.setdefault(text[0], []).append(len(text))
        repeated = [f"{re.escape(mark)}{{{min(lengths)},{max(lengths)}}}" for mark, lengths in runs.items()]
        literal, firsts = either(others), re.escape("".join(sorted({text[0] for text in others})))
        alone = "".join(mark for mark, lengths in runs.items() if min(lengths) == 1)
        inside = [f"[^ {alone}{firsts}]+"] + [f"(?!{literal})[{firsts}]"] * bool(others)
        for piece in self.spaced:
            before, _, after = piece.partition(" ")
            inside.append(f"(?<={re.escape(before[-1])}) (?={re.escape(after)})")
        return "|".join([*repeated, f" ?(?:{'|'.join(inside)})+", " ", literal])

    def cut(self, text: str) -> list[str]:
        """The pieces that are literals or are merged each by itself."""
        return self.pattern.findall(text.replace(MARK, " "))

    def piece_ids(self, piece: str) -> tuple[int, ...]:
        """Ids of one piece; a character without a piece of its own gives its bytes' ids. Nothing is looked up whole: a few
        pieces of Gemma's (" YYYY") are not what their own characters merge to.
        """
        if piece in self.literals:
            return (self.literals[piece],)
        ranks, found = self.ranks, []
        for symbol in merged(piece, ranks):
            if symbol in ranks:
                found.append(ranks[symbol])
            else:
                found += map(self.byte_ids.__getitem__, symbol.encode())
        return tuple(found)

    def ids(self, text: str) -> list[int]:
        """Ids of a text."""
        return list(chain.from_iterable(map(self.cache.__getitem__, self.cut(text))))

    def count(self, text: str) -> int:
        """How many ids a text has."""
        return sum(map(len, map(self.cache.__getitem__, self.cut(text))))

    def trees(self, piece: str) -> tuple[Branch, ...]:
        """The merges of one piece, a tree a symbol; a character without a piece is a branch of its bytes."""
        if piece in self.literals:
            return (Branch(piece=piece.encode()),)
        return tuple(map(encoded, grown(piece.replace(MARK, " "), self.ranks)))

    def id_of(self, symbol: bytes) -> int | None:
        """The id of a symbol that came from merging."""
        text = symbol.decode()
        return self.literals.get(text, self.ranks.get(text))


def encoded(branch: Branch) -> Branch:
    """A tree of text as one of bytes."""
    return Branch(piece=branch.piece.encode(), order=branch.order, parts=tuple(map(encoded, branch.parts)))


def either(texts: Sequence[str]) -> str:
    """A pattern of one of several texts, the longest that fits, shared beginnings written once: thousands are tried fast."""
    if not texts:
        return "(?!)"
    following: dict[str, list[str]] = {}
    for text in texts:
        following.setdefault(text[:1], []).append(text[1:])
    branches = [re.escape(first) + (either(rest) if any(rest) else "") for first, rest in following.items() if first]
    return f"(?:{'|'.join(branches)})" + "?" * ("" in following)
