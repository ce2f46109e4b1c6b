"""A text under one tokenizer, as it is shown: pieces with their places in the text, counts, cost, a word's merge tree."""

import functools
from dataclasses import dataclass
from typing import NamedTuple

from pycore.ledger import Term, fact, source_line, term
from pycore.tokens.graphemes import clusters
from pycore.tokens.tokenizer import TREE_LIMIT, Encoding, Node, Tokenizer

MOST_PIECES = 4_000
LONGEST_WORD = 40
KEPT_CHARACTERS = 20_000
MILLION = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """How many tokens a text is under one tokenizer, and what follows; None where there is no text or no price."""

    name: str
    label: str
    tokens: Term
    per_character: Term | None
    per_byte: Term | None
    price: Term | None
    cost: Term | None


class Piece(NamedTuple):
    """One token as it is shown; a tuple, for a text has thousands and is shown anew at every key.

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
class Live(Figures):
    """The text under one tokenizer, piece by piece.

    `pieces`: of the first MOST_PIECES tokens; `ids`: all of them. `round_trip`: decoding the ids gives the text that the
    tokenizer read. `read`: that text where the tokenizer changes it (normalisation), None where it is the text given.
    `trees`: one root for each token of `word`; () where the word is too long to draw.
    """

    pieces: tuple[Piece, ...]
    ids: tuple[int, ...]
    round_trip: bool
    read: str | None
    word: str
    trees: tuple[Node, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """A tokenizer that was asked for and whose vocabulary is not here; `says`: what to do about it."""

    name: str
    label: str
    says: str


@term("Tokens per character", "tokens/character")
def tokens_per_character(tokens, characters):
    """tokens ÷ characters"""
    return tokens / characters


@term("Tokens per byte", "tokens/byte")
def tokens_per_byte(tokens, text_bytes):
    """tokens ÷ text_bytes"""
    return tokens / text_bytes


@term("Cost of the text", "USD")
def text_cost(tokens, usd_per_million):
    """tokens × usd_per_million ÷ 1000000"""
    return tokens * usd_per_million / MILLION


def figures(tokenizer: Tokenizer, tokens: int, characters: int, text_bytes: int, price: Term | None) -> Figures:
    """What follows from a count. `price`: USD per 1M input tokens."""
    count = fact("Tokens of the text", tokens, "tokens", basis="derived", source=f"{tokenizer.label}, its own vocabulary",
                 line=source_line(Tokenizer.count))
    return Figures(
        name=tokenizer.name, label=tokenizer.label, tokens=count, price=price,
        per_character=tokens_per_character(tokens=count, characters=characters) if characters else None,
        per_byte=tokens_per_byte(tokens=count, text_bytes=text_bytes) if text_bytes else None,
        cost=None if price is None else text_cost(tokens=count, usd_per_million=price))


def live(tokenizer: Tokenizer, text: str, *, word: str = "", specials: bool = False, price: Term | None = None) -> Live:
    """A text under one tokenizer. `word`: whose merges are drawn, '' for the longest of the text."""
    found = tokenizer.encode(text, specials=specials)
    read = "".join(part if number is not None else tokenizer.normalised(part, not place)
                   for place, (part, number) in enumerate(tokenizer.parts(text, specials)))
    chosen = word or longest_word(text)
    counted = figures(tokenizer, len(found.ids), len(text), len(text.encode("utf-8", "replace")), price)
    return Live(
        **{name: getattr(counted, name) for name in Figures.__slots__},
        pieces=pieces(found, text, tokenizer.special_ids), ids=found.ids,
        round_trip=b"".join(found.pieces) == tokenizer.plain(read).encode(),  # an id's piece is what it decodes to
        read=None if read == text else read, word=chosen,
        trees=trees(tokenizer, in_place(chosen, text)) if 0 < len(chosen) < TREE_LIMIT else ())


@functools.lru_cache(maxsize=32)
def trees(tokenizer: Tokenizer, word: str) -> tuple[Node, ...]:
    """The merges of a word, kept while others are typed."""
    return tokenizer.tree(word)


def longest_word(text: str) -> str:
    """The longest word of a text's beginning, the first of equals; long ones are cut, so that a tree can be drawn."""
    return max(text[:10 * LONGEST_WORD].split(), key=len, default="")[:LONGEST_WORD]


def in_place(word: str, text: str) -> str:
    """A word with the space before it, where it has one in the text: a tokenizer sees both together."""
    at = text.find(word)
    return f" {word}" if at > 0 and text[at - 1] == " " else word


def pieces(found: Encoding, text: str, special_ids: frozenset[int]) -> tuple[Piece, ...]:
    """The first tokens as they are shown."""
    shown = list(zip(found.ids[:MOST_PIECES], found.pieces, found.offsets, strict=False))
    reach = max((end for _, _, (_, end) in shown), default=0)
    numbers = numbered(text if len(text) <= KEPT_CHARACTERS else text[:reach + LONGEST_WORD])
    made = []
    for number, data, (start, end) in shown:
        written, hexadecimal = as_text(data)
        character = numbers[start + 1]
        made.append(Piece(
            number, written, hexadecimal, start, end, character,
            written != "" and numbers[start] != character and numbers[end] != numbers[end + 1], number in special_ids))
    return tuple(made)


@functools.lru_cache(maxsize=2)
def numbered(text: str) -> list[int]:
    """The number of the grapheme cluster of each code point, with one before the first and one after the last."""
    found = clusters(text)
    return [-1, *(number for number, cluster in enumerate(found) for _ in cluster), len(found)]


@functools.lru_cache(maxsize=1 << 14)
def as_text(data: bytes) -> tuple[str, str]:
    """(characters where the bytes are whole ones, else ''; the bytes in hex)."""
    try:
        return data.decode(), data.hex(" ")
    except UnicodeDecodeError:
        return "", data.hex(" ")
