"""A text under one tokenizer, as it is shown: pieces with their places in the text, counts, cost, the merge tree of a word."""

from dataclasses import dataclass

from pycore.ledger import Term


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One token as it is shown.

    `text`: its characters where its bytes are whole ones, else ''. `hex`: its bytes, 'e0 a4 95'. `start`, `end`: the code
    points of the text it touches. `character`: number of the extended grapheme cluster in which it starts, so that tokens
    of one character can be coloured together. `whole`: it begins and ends at the edge of a grapheme cluster.
    """

    id: int
    text: str
    hex: str
    start: int
    end: int
    character: int
    whole: bool
    special: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Twig:
    """A node of a merge tree: a token ('text' '' where its bytes are no whole characters) and the two it was merged from."""

    text: str
    hex: str
    id: int
    parts: tuple["Twig", ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """The text under one tokenizer.

    `pieces`: of the first MOST_PIECES tokens; `ids`: all of them. `round_trip`: decoding the ids gives the text that the
    tokenizer read. `read`: that text where the tokenizer normalises it to something else, None where it is the text given.
    `trees`: one root for each token of the chosen word.
    """

    name: str
    label: str
    tokens: Term
    per_character: Term | None
    per_byte: Term | None
    price: Term | None
    cost: Term | None
    pieces: tuple[Piece, ...]
    ids: tuple[int, ...]
    round_trip: bool
    read: str | None
    word: str
    trees: tuple[Twig, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """A tokenizer that was asked for and whose vocabulary is not here; `says`: what to do about it."""

    name: str
    label: str
    says: str
