"""The benchmark's rows: how many tokens each tokenizer makes of the same 2,009 sentences in each language.

Counts are whole numbers and everything else is derived from them in `measures`; only what needs the sentences one by one
(intervals, spread) is read as it was written by the generator (`runtime/measure/token_atlas.py`).
"""

import functools
from dataclasses import dataclass

from pycore.atlas.languages import DATASET, ENGLISH, Language, by_code
from pycore.errors import NotKnown, UnknownName
from pycore.facts import integer, table
from pycore.matching import Names

REFERENCE = "o200k_base"  # GPT-4o's: its English is what "absolute" counts against
PERCENTS = (5, 25, 50, 75, 95)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerFacts:
    """One tokenizer of the benchmark. `exact`: its own vocabulary was run; otherwise counts of a reconstruction."""

    name: str
    label: str
    maker: str
    kind: str
    normalisation: str
    exact: bool
    package: str
    version: str
    sha256: str
    vocabulary: int | None
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """Ends of a bootstrap 95 % interval over sentences."""

    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """The text itself, dev and devtest together. `words` is None where words are not separated by spaces."""

    sentences: int
    words: int | None
    characters: int
    graphemes: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One language under one tokenizer, dev and devtest together, each sentence encoded alone without special tokens.

    `premium` and `absolute` are the intervals of what `measures` derives. `spread`: percentiles (`PERCENTS`) over sentences
    of a sentence's tokens against the same sentence in English. `fallback`: tokens that are one byte of a longer
    character, `split`: tokens that hold no whole number of characters (fallback among them), `round_trips`: sentences that
    decode to what the tokenizer read (its own normalisation applied); None where only counts are known.
    """

    language: Language
    tokenizer: str
    tokens: int
    premium: Interval
    absolute: Interval
    spread: tuple[float, ...]
    fallback: int | None
    split: int | None
    round_trips: int | None


@functools.cache
def tokenizers() -> tuple[TokenizerFacts, ...]:
    """Every tokenizer, in the order in which they are shown."""
    return tuple(TokenizerFacts(
        name=row["tokenizer"], exact=row["exact"] == "1", version=row["package_version"],
        vocabulary=integer(row["vocabulary"]) or None,
        **{key: row[key] for key in ("label", "maker", "kind", "normalisation", "package", "sha256", "note")})
        for row in table("tokenizers", DATASET))


def tokenizer(name: str, field: str = "tokenizer") -> TokenizerFacts:
    """A tokenizer by its exact or a near name. Raises UnknownName with the nearest."""
    known = {one.name: one for one in tokenizers()}
    if name in known:
        return known[name]
    spelt = Names({one.name: (one.name,) for one in tokenizers()})
    found = spelt.exact(name)
    if len(found) == 1:
        return known[found[0]]
    raise UnknownName(field, name, "accepted: " + ", ".join(known), spelt.nearest(name))


@functools.cache
def sizes() -> dict[str, Sizes]:
    """The text of every language by code: sentences, words, characters, grapheme clusters, bytes."""
    found: dict[str, list[dict[str, str]]] = {}
    for row in table("texts", DATASET):
        found.setdefault(row["language"], []).append(row)
    names = {"sentences": "sentences", "characters": "characters", "graphemes": "grapheme_clusters", "bytes": "bytes"}
    return {code: Sizes(words=sum(integer(row["words"]) for row in rows) if by_code()[code].spaced else None,
                        **{name: sum(integer(row[column]) for row in rows) for name, column in names.items()})
            for code, rows in found.items()}


@functools.cache
def rows() -> tuple[Row, ...]:
    """Every language under every tokenizer: languages in their table's order, within them tokenizers in theirs."""
    return tuple(read_row(row) for row in table("matrix", DATASET))


def read_row(row: dict[str, str]) -> Row:
    """A row of matrix.csv."""
    return Row(
        language=by_code()[row["language"]], tokenizer=row["tokenizer"], tokens=integer(row["tokens"]),
        premium=Interval(low=float(row["premium_low"]), high=float(row["premium_high"])),
        absolute=Interval(low=float(row["absolute_low"]), high=float(row["absolute_high"])),
        spread=tuple(float(row[f"sentence_premium_p{percent}"]) for percent in PERCENTS),
        fallback=known(row["byte_fallback_tokens"]), split=known(row["split_character_tokens"]),
        round_trips=known(row["round_trip_sentences"]))


def known(cell: str) -> int | None:
    """A count, or None where there is none."""
    return int(cell) if cell else None


@functools.cache
def index() -> dict[tuple[str, str], Row]:
    """Every row by (language, tokenizer)."""
    return {(one.language.code, one.tokenizer): one for one in rows()}


def row(language: str, tokenizer: str) -> Row:
    """The row of a FLORES code and a tokenizer's exact name. Raises NotKnown."""
    try:
        return index()[language, tokenizer]
    except KeyError:
        raise NotKnown(f"the benchmark has no count of {language} under {tokenizer}", "tokenizer") from None


def english(tokenizer: str) -> Row:
    """English under a tokenizer: what premiums are taken against. Raises NotKnown."""
    return row(ENGLISH, tokenizer)


def reference() -> Row:
    """GPT-4o's English: what absolute figures are taken against."""
    return row(ENGLISH, REFERENCE)
