"""A vocabulary: which pieces of bytes a tokenizer knows, in the order in which it merges them.

It says nothing of how a text is cut before the merging (`patterns`) nor how the merging is done (`byte_pair`,
`sentence_piece`); it does not hold merges, since the order of the pieces gives them back exactly.
"""

from dataclasses import dataclass, field

BYTE_PAIR, SENTENCE_PIECE = "byte pair", "sentence piece"
KINDS = (BYTE_PAIR, SENTENCE_PIECE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """`tokens[i]` are the bytes of id `first_id + i`; a lower id merges sooner.

    Of the kind "byte pair" the tokens hold each of the 256 single bytes. Of the kind "sentence piece" they are UTF-8
    with spaces as U+2581, as the model has them; the 256 ids from `first_byte_id` are the byte fallback, each of them
    a single byte here (written <0x00> to <0xFF> in the model's own file).

    `specials` are control texts: plain text, unless the reader asks for them to be recognised. `literals` are texts that
    are always taken whole, longest first, before any merging (SentencePiece's user-defined pieces, spaces as U+2581).
    The ids of both may lie inside or outside the range of the tokens; those inside have their text as bytes there and
    take no part in merging.
    """

    name: str
    kind: str
    tokens: tuple[bytes, ...] = field(repr=False)
    first_id: int = 0
    first_byte_id: int | None = None
    specials: dict[str, int] = field(default_factory=dict, repr=False)
    literals: dict[str, int] = field(default_factory=dict, repr=False)

    @property
    def size(self) -> int:
        """How many ids there are, specials included."""
        own = range(self.first_id, self.first_id + len(self.tokens))
        return len(own) + len({number for number in (*self.specials.values(), *self.literals.values()) if number not in own})
