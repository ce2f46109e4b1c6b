"""Byte-level BPE: a text is cut by a pattern, each piece's UTF-8 bytes are merged by rank.

A piece that is a token as a whole is that token at once, as tiktoken and LLaMA-3's own file (`ignore_merges`) have it;
for the others it changes nothing, since each of their tokens is what its own bytes merge to (tested for every token).
"""

from itertools import chain

from pycore.tokens.cache import Cache
from pycore.tokens.merging import Branch, grown, merged
from pycore.tokens.patterns import Cutter
from pycore.tokens.vocabulary import Vocabulary


class BytePair:
    """A byte-level tokenizer of one vocabulary. Texts come normalised."""

    def __init__(self, vocabulary: Vocabulary, pattern: str):
        self.vocabulary, self.cutter = vocabulary, Cutter(pattern, by_category=True)
        ids = range(vocabulary.first_id, vocabulary.first_id + len(vocabulary.tokens))
        self.ranks = dict(zip(vocabulary.tokens, ids, strict=True))
        for text, number in vocabulary.specials.items():
            if number in ids:  # its place in the order, but no piece of text
                self.ranks.pop(text.encode(), None)
        self.cache = Cache(self.piece_ids)

    def cut(self, text: str) -> list[str]:
        """The pieces that are merged each by itself."""
        return self.cutter.cut(text)

    def piece_ids(self, piece: str) -> tuple[int, ...]:
        """Ids of one piece."""
        data, ranks = piece.encode(), self.ranks
        if data in ranks:
            return (ranks[data],)
        return tuple(map(ranks.__getitem__, merged(data, ranks)))

    def ids(self, text: str) -> list[int]:
        """Ids of a text."""
        return list(chain.from_iterable(map(self.cache.__getitem__, self.cut(text))))

    def count(self, text: str) -> int:
        """How many ids a text has."""
        return sum(map(len, map(self.cache.__getitem__, self.cut(text))))

    def trees(self, piece: str) -> tuple[Branch, ...]:
        """The merges of one piece, a tree a token; a token taken whole that no merges reach is a branch alone."""
        data = piece.encode()
        roots = grown(data, self.ranks)
        if len(roots) > 1 and data in self.ranks:
            roots = (Branch(piece=data),)
        return roots

    def id_of(self, symbol: bytes) -> int | None:
        """The id of a symbol that came from merging."""
        return self.ranks.get(symbol)
