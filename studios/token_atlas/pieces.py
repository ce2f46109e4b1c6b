"""Tokens as HTML, safe for any text: one joined string, since a text has thousands and is shown anew at every key.

What a reader calls one character (a grapheme cluster) is never torn: tokens that share one stand in one group, the whole
characters above and each token's part below them, as bytes where it is no whole letter. Spaces are made visible; controls,
marks of direction and other invisible characters are named by their code points instead of being obeyed. Nothing stands
between tokens, so that letters of Arabic still join.
"""

import functools
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote

from markupsafe import Markup, escape

from pycore.atlas.live import KEPT_CHARACTERS, LONGEST_WORD, numbered
from pycore.tokens.ranges import shipped, spelled
from studios.token_atlas.names import written

COLOURS = 4
MOST_SHOWN = 1_500
"""Tokens drawn of each tokenizer; a browser lays out no more at every key."""
PHRASE = 4  # tokens that are asked for together where words are not spaced
VISIBLE = {" ": "·", "\n": "⏎", "\r": "␍", "\t": "⇥", "\u00a0": "⍽", "\u3000": "□"}
_WORD = re.compile("[^ \t\r\n\u00a0\u3000]+")


def tokens(live: Any, text: str, common: frozenset[tuple[int, int]]) -> Markup:
    """The first tokens of a text. `common`: places of tokens that every tokenizer shown has: they recede."""
    words, begins = words_of(text)
    found = list(groups(live.pieces[:MOST_SHOWN], text))
    out, colour, open_word, until, closing = [], 0, -1, 0, ""
    for place, group in enumerate(found):
        start, end = group[0].start, group[-1].end
        word = bisect_right(begins, start) - 1
        drawable = word >= 0 and len(words[word]) <= LONGEST_WORD
        if word != open_word or not drawable and place == until:
            until = min(place + PHRASE, len(found))
            phrase = words[word] if drawable else text[start:found[until - 1][-1].end]
            out += [closing, link(phrase)]
            open_word, closing = word, "</a>"
        colour = colour % COLOURS + 1
        out.append(group_html(group, text[start:end], colour, len(group) == 1 and (start, end) in common))
    return Markup("".join(out) + closing)


def groups(pieces: Sequence[Any], text: str) -> Iterator[Sequence[Any]]:
    """Runs of tokens that end where a grapheme cluster ends."""
    if not pieces:
        return
    reach = max(piece.end for piece in pieces)
    numbers = numbered(text if len(text) <= KEPT_CHARACTERS else text[:reach + LONGEST_WORD])
    first, reached = 0, 0
    for place, piece in enumerate(pieces):
        if place > first and piece.start >= reached and numbers[piece.start] != numbers[piece.start + 1]:
            yield pieces[first:place]
            first = place
        reached = max(reached, piece.end)
    yield pieces[first:]


@functools.lru_cache(maxsize=4)
def words_of(text: str) -> tuple[list[str], list[int]]:
    """The words of a text, and where each begins, with the space before it."""
    found = list(_WORD.finditer(text))
    return [match[0] for match in found], [max(match.start() - 1, 0) for match in found]


@functools.lru_cache(maxsize=1 << 12)
def link(word: str) -> str:
    """The opening tag that asks for a word's merge tree; one without an address for what cannot be drawn."""
    word = word.strip()
    if not 0 < len(word) <= LONGEST_WORD:
        return "<a>"
    asked = invisible().sub(lambda found: quote(found[0]), written(word))
    return f'<a href="?word={escape(asked)}" data-also tabindex="-1">'


def group_html(group: Sequence[Any], text: str, colour: int, same: bool) -> str:
    """A token, or several that share a character."""
    if len(group) == 1 and group[0].text:
        piece = group[0]
        return one(piece.text, piece.id, colour, same, piece.special)
    parts = "".join([part(piece.text, piece.hex, piece.id) for piece in group])
    return f'<b class="k{colour}">{shown(text)}<s>{parts}</s></b>'


@functools.lru_cache(maxsize=1 << 14)
def one(text: str, number: int, colour: int, same: bool, special: bool) -> str:
    """A token of whole characters."""
    return f'<i class="{"z" if special else "y" if same else "k"}{colour}" title="{number}">{shown(text)}</i>'


@functools.lru_cache(maxsize=1 << 14)
def part(text: str, hexadecimal: str, number: int) -> str:
    """A token that is part of a character: its letters where it has whole ones, else its bytes."""
    return f'<i title="{number}">{alone(text) or hexadecimal}</i>'


def alone(text: str) -> str:
    """A text that stands by itself: joiners are named, and a mark has the circle that stands for its letter."""
    if text in ("\u200c", "\u200d"):
        return code_point(text)
    return ("\u25cc" if text and marks().match(text) else "") + shown(text).replace("<wbr>", "").replace("<br>", "")


def code_point(letter: str) -> str:
    return f"U+{ord(letter):04X}"


@functools.lru_cache(maxsize=1 << 14)
def shown(text: str) -> str:
    """A text made visible and safe: HTML escaped, spaces marked, invisible characters named."""
    return text if text.isalnum() else "".join([letter_shown(letter) for letter in text])


@functools.lru_cache(maxsize=1 << 12)
def letter_shown(letter: str) -> str:
    """One code point."""
    if letter in VISIBLE:
        return f"<wbr><u>{VISIBLE[letter]}</u>" + ("<br>" if letter == "\n" else "")
    if invisible().match(letter) or "\ud800" <= letter <= "\udfff":
        return f"<em>{code_point(letter)}</em>"
    return str(escape(letter))


@functools.cache
def invisible() -> re.Pattern[str]:
    """Controls, marks of direction, separators of lines, lone surrogates: by shipped ranges, alike in every Python."""
    return re.compile(spelled(shipped()["break:Control"]))


@functools.cache
def marks() -> re.Pattern[str]:
    """What needs a letter before it to be seen."""
    return re.compile(f'{spelled(shipped()["break:Extend"])}|{spelled(shipped()["break:SpacingMark"])}')
