"""The typed text under each tokenizer: counts, cost, tokens, ids, merge trees, and where the tokenizers differ."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from markupsafe import Markup

from pycore.atlas.encoders import encoders
from pycore.atlas.encoders import names as encoder_names
from pycore.atlas.languages import by_code, language
from pycore.units import dollars, significant
from studios.explain import Ledger, Number, help_field, plain
from studios.marks import percent
from studios.token_atlas.heat import Choice
from studios.token_atlas.names import SHORT, also, short
from studios.token_atlas.pieces import MOST_SHOWN, shown, tokens
from studios.token_atlas.trees import tree_html

MOST_IDS = 4_000
MOST_READ = 160
SAMPLES = ("eng_Latn", "hin_Deva", "arb_Arab", "zho_Hans", "mya_Mymr", "tha_Thai", "yor_Latn")
MILLION = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Under:
    """The text under one tokenizer."""

    key: str = help_field("part of element ids: 'llama3', or 'own'")
    name: str = help_field("short name")
    label: str = help_field("whole name")
    tokens: Number = help_field("how many")
    width: str = help_field("length of its bar, as a percentage of the longest")
    factor: str = help_field("'1.74 times the fewest', or ''")
    per_character: Number | None = help_field("tokens per character")
    cost: Number | None = help_field("what a million such texts cost, None without a price")
    price: str = help_field("whose price that is")
    html: Markup = help_field("the tokens, escaped")
    unseen: str = help_field("'first 1,500 of 20,000 drawn', or ''")
    ids: str = help_field("the ids, by spaces")
    ids_unseen: str = help_field("how many ids are not listed, or ''")
    round_trip: bool = help_field("whether decoding gives back what the tokenizer read")
    read: Markup = help_field("the beginning of what it read where that is not the text given, escaped; or empty")
    tree: Markup = help_field("the word's merge trees, escaped; empty where there is none")
    tree_tokens: str = help_field("'3 tokens'")


@dataclass(frozen=True, slots=True, kw_only=True)
class Typed:
    """The text under all tokenizers."""

    what: str = help_field("'Article 1 of the Universal Declaration in Hindi', or 'Your text'")
    size: str = help_field("'190 characters, 470 bytes'")
    sentence: tuple[str | Number, ...] = help_field("the counts in one line, or empty")
    under: tuple[Under, ...] = help_field("by tokenizer")
    missing: tuple[tuple[str, str], ...] = help_field("(tokenizer, why) where a vocabulary is not here")
    direction: str = help_field("'ltr', 'rtl' or 'auto'")
    language: str = help_field("BCP 47 tag of a sample, or ''")
    word: str = help_field("the word whose trees are shown, plain, or ''")
    close: str = help_field("a link that puts the trees away")
    same: str = help_field("how many tokens all have in common, or ''")
    choices: tuple[Choice, ...] = help_field("tokenizers to add or to leave out")
    specials: Choice = help_field("the switch of special tokens")
    samples: tuple[Choice, ...] = help_field("the sample in other languages")


def typed(answer: Any, ledger: Ledger, reasons: dict[str, str]) -> Typed:
    """The section. `reasons`: why a file could not be had, by its name."""
    found, query = answer.live, answer.query
    ledger.section("The text")
    places = [frozenset((piece.start, piece.end) for piece in one.pieces) for one in found]
    common = frozenset.intersection(*places) if len(places) > 1 else frozenset()
    most = max((one.tokens.value for one in found), default=0)
    least = min((one.tokens.value for one in found), default=0)
    tokenizers, special, sampled = switches(replace(query, text="", own="", word=""), not query.text)
    counts = [ledger.number(one.tokens, counted) for one in found]
    return Typed(
        what=what(answer), size=f"{len(answer.text):,} characters, {len(answer.text.encode('utf-8', 'replace')):,} bytes",
        sentence=sentence(answer, counts),
        under=tuple(under(one, answer.text, common, count, (least, most), bool(query.word), ledger)
                    for one, count in zip(found, counts, strict=True)),
        missing=tuple((one.label, reasons.get(one.name, one.says)) for one in answer.missing),
        direction=answer.sample.direction if answer.sample else "auto",
        language=answer.sample.iso639_1 if answer.sample else "", word=plain(query.word, 80), close=also(query, word=""),
        same=shared(found, common), choices=tokenizers, specials=special, samples=sampled)


def counted(value: float) -> str:
    return f"{value:,.0f} tokens"


def what(answer: Any) -> str:
    """Which text it is."""
    if answer.sample is None:
        return "Your text" if answer.text else "No text: the samples are not here"
    name = answer.sample.name
    asked = answer.story.language.name
    other = f" ({asked} has none in the package)" if asked != name else ""
    return f"Article 1 of the Universal Declaration in {name}{other}"


def sentence(answer: Any, counts: Sequence[Number]) -> tuple[str | Number, ...]:
    """The fewest and the most tokens."""
    found = answer.live
    if not found or not answer.text:
        return ()
    ranked = sorted(range(len(found)), key=lambda place: found[place].tokens.value)
    first, last = ranked[0], ranked[-1]
    pieces: tuple = (f"{what(answer)}: ", counts[first], f" under {named(found[first])}")
    if found[last].tokens.value > found[first].tokens.value > 0:
        times = significant(found[last].tokens.value / found[first].tokens.value)
        pieces += (", ", counts[last], f" under {named(found[last])}: {times} times.")
    return pieces


def named(one: Any) -> str:
    """A tokenizer, the reader's own included."""
    return short(one.name) if one.name in SHORT else plain(one.label, 60)


def under(one: Any, text: str, common: frozenset, count: Number, ends: tuple[int, int], asked: bool,
          ledger: Ledger) -> Under:
    """One tokenizer's part. `asked`: whether a word's merges are."""
    least, most = ends
    total = len(one.ids)
    return Under(
        key=one.name if one.name in SHORT else "own", name=named(one), label=plain(one.label, 120), tokens=count,
        width=percent(one.tokens.value, most),
        factor=f"{significant(one.tokens.value / least)} ×" if one.tokens.value > least > 0 else "",
        per_character=one.per_character and ledger.number(one.per_character),
        cost=one.cost and ledger.number(one.cost, million),
        price=one.price.name.removesuffix(", input") if one.price else "",
        html=tokens(one, text, common),
        unseen=f"The first {MOST_SHOWN:,} of {total:,} tokens are drawn." if total > MOST_SHOWN else "",
        ids=" ".join(map(str, one.ids[:MOST_IDS])),
        ids_unseen=f"{total - MOST_IDS:,} more ids are in the download." if total > MOST_IDS else "",
        round_trip=one.round_trip, read=Markup(shown((one.read or "")[:MOST_READ])),
        tree=tree_html(one.trees) if asked else Markup(""),
        tree_tokens=f"{len(one.trees)} token{'' if len(one.trees) == 1 else 's'}" if one.trees else "")


def million(value: float) -> str:
    """The price of one text as that of a million."""
    return dollars(MILLION * value)


def shared(found: Sequence[Any], common: frozenset) -> str:
    """How many tokens are the same under every tokenizer."""
    if len(found) < 2:
        return ""
    return f"Pale tokens, {len(common):,} of them, are cut alike by all {len(found)}; coloured ones are not."


@functools.lru_cache(maxsize=8)
def switches(query: Any, sample: bool) -> tuple[tuple[Choice, ...], Choice, tuple[Choice, ...]]:
    """(tokenizers, special tokens, samples) of a question without its text; kept while one is typed."""
    return choices(query), specials(query), samples(query, sample)


def choices(query: Any) -> tuple[Choice, ...]:
    """Every tokenizer as a switch, and all at once."""
    every = encoder_names()
    now = encoders(query.tokenizers)
    found = []
    for name in every:
        others = [one for one in every if (one in now) != (one == name)]
        text = "all" if len(others) == len(every) else ",".join(others)
        found.append(Choice(text=short(name), href=also(query, tokenizers=text), chosen=name in now))
    return (*found, Choice(text="all", href=also(query, tokenizers="all"), chosen=len(now) == len(every)))


def specials(query: Any) -> Choice:
    """The switch of special tokens."""
    return Choice(text="special tokens as such" if query.specials else "special tokens as text", chosen=query.specials,
                  href=also(query, specials=not query.specials))


def samples(query: Any, sample: bool) -> tuple[Choice, ...]:
    """The sample in some languages, far from each other; any other by the language field. `sample`: one is shown."""
    return tuple(Choice(text=by_code()[code].name, href=also(query, language=code, text=""),
                        chosen=sample and language(query.language).code == code) for code in SAMPLES)
