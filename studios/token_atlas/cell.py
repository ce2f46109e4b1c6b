"""The story of one cell: what a language means under a tokenizer, in tiles and in a list of figures."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pycore.ledger import Term
from pycore.units import dollars, significant
from studios.explain import Ledger, Number, help_field
from studios.marks import percent
from studios.token_atlas.names import RETIRED, possessive, short, standing


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A line of the list."""

    name: str = help_field("what it is")
    note: str = help_field("in which unit or against what, or ''")
    number: Number = help_field("the figure")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """One of three figures that stand out."""

    title: str = help_field("what it is about")
    number: Number | None = help_field("the figure, None where it is not known")
    notes: tuple[tuple[str | Number, ...], ...] = help_field("what it means")


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """A sentence's own premium over the sentences, drawn between the lowest and the highest percentile shown."""

    low: str = help_field("left end of the 5 to 95 % span, as a percentage of the width")
    width: str = help_field("its width")
    box: str = help_field("left end of the middle half")
    box_width: str = help_field("its width")
    middle: str = help_field("the median")
    english: str = help_field("where 1 is")
    say: str = help_field("the same in words")


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """A cell, told."""

    title: str = help_field("'Hindi under GPT-4o'")
    remark: str = help_field("how the counts are known where that matters, or ''")
    tiles: tuple[Tile, ...] = help_field("context, time, money")
    figures: tuple[Figure, ...] = help_field("all that is known of it")
    spread: Spread | None = help_field("over sentences, None for English itself")
    round_trips: str = help_field("whether its sentences decode to what was read, in words, or ''")


def story(answer: Any, ledger: Ledger) -> Story:
    """The cell that the question asks about."""
    found, query = answer.story, answer.query
    name = found.language.name
    facts = found.tokenizer
    remark = standing(facts)
    return Story(
        title=f"{name} under {short(facts.name)}", tiles=tiles(found, query, ledger),
        remark=f"{facts.label}: {remark}." if remark else "", figures=figures(found, answer, ledger),
        spread=spread(found), round_trips=round_trips(found))


def tiles(found: Any, query: Any, ledger: Ledger) -> tuple[Tile, ...]:
    """What the premium does to a window, to an answer's time, and to a prompt's price."""
    unit = found.context.unit
    window = f"{query.context:,} tokens"
    context = Tile(title=f"A context of {window}", number=ledger.number(found.context, counted(unit)), notes=(
        ("what ", ledger.number(found.content, counted("English words")), " say"),))
    time = Tile(title="An answer takes", number=ledger.number(found.decode, times), notes=(
        ("as long as in English, at one step a token",),
        ("reading the prompt: ", ledger.number(found.prefill, times), f" the arithmetic, on {query.model}")))
    cost = Tile(
        title=f"A prompt of {query.prompt:,} English words", number=ledger.number(found.prompt, counted("tokens")),
        notes=(("no list price of a model that uses it is known",) if found.cost is None else
               (ledger.number(found.cost, thousand), " for a thousand such prompts, at the cheapest list price"
                if not query.price else " for a thousand such prompts"),))
    return context, time, cost


def counted(unit: str) -> Callable[[float], str]:
    """Writes a count in whole numbers with its unit."""
    return lambda value: f"{value:,.0f} {unit}"


def times(value: float) -> str:
    return f"{significant(value)} times"


def thousand(value: float) -> str:
    """A price of one as that of a thousand."""
    return dollars(1000 * value)


def figures(found: Any, answer: Any, ledger: Ledger) -> tuple[Figure, ...]:
    """Every measure of the cell that has a meaning."""
    rows: tuple[tuple[str, str, Term | None, Callable[[float], str] | None], ...] = (
        ("Premium", "against English, same tokenizer", found.premium, None),
        ("Absolute", "against GPT-4o's English", found.absolute, None),
        ("Tokens", f"of {found.sentences:,} sentences", found.tokens, None),
        ("In English", "the same sentences", found.english_tokens, None),
        ("Fertility", "", found.fertility, None),
        ("By character", "", found.per_character, None),
        ("By byte", "", found.per_byte, None),
        ("Split characters", "share of tokens", found.split, None),
        ("Single bytes", "share of tokens", found.fallback, None),
    )
    return tuple(Figure(name=name, note=note, number=ledger.number(term, write)) for name, note, term, write in rows
                 if term is not None)


def spread(found: Any) -> Spread | None:
    """The drawing of the spread."""
    low, lower, middle, upper, high = (value for _, value in found.spread)
    if low == high:
        return None
    whole = 1.06 * max(high, 1.0)
    return Spread(
        low=percent(low, whole), width=percent(high - low, whole), box=percent(lower, whole),
        box_width=percent(upper - lower, whole), middle=percent(middle, whole), english=percent(1.0, whole),
        say=f"Half of the sentences cost {significant(lower)} to {significant(upper)} times their English, "
            f"nine in ten {significant(low)} to {significant(high)}.")


def round_trips(found: Any) -> str:
    """Whether sentences come back."""
    if found.round_trips is None:
        return ""
    kept = "all" if found.round_trips == found.sentences else f"{found.round_trips:,} of"
    form = found.tokenizer.normalisation
    read = f"what it reads ({form})" if form not in ("none", "") else "the text"
    return f"Decoding gives {read} back for {kept} {found.sentences:,} sentences."


def verdict(answer: Any, ledger: Ledger, premiums: dict[str, Term]) -> tuple[str | Number, ...]:
    """The cell in one line, beside the fairest and the dearest official tokenizer. `premiums`: by official tokenizer."""
    found = answer.story
    name, own = found.language.name, found.tokenizer.name
    if found.language.code == "eng_Latn":
        return (f"English takes {'' if own == 'o200k_base' else possessive(own) + ' '}", ledger.number(found.tokens),
                *([f" under {possessive(own)} tokenizer: what the others are measured against"] if own == "o200k_base" else
                  [", ", ledger.number(found.absolute, times), " GPT-4o's"]))
    others = {key: term for key, term in premiums.items() if key != own and key not in RETIRED}
    ends = (min(others, key=lambda key: others[key].value), max(others, key=lambda key: others[key].value))
    pieces: list[str | Number] = [f"{name} costs ", ledger.number(found.premium, times),
                                  f" English under {possessive(own)} tokenizer"]
    for key in dict.fromkeys(ends):
        pieces += [", ", ledger.number(others[key], plain_times), f" under {possessive(key)}"]
    return tuple(pieces)


def plain_times(value: float) -> str:
    return significant(value)
