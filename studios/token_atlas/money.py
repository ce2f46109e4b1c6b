"""The bill of a month: every model, the tax of not being English, who is cheapest where, and what turns round."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pycore.units import dollars, significant
from studios.explain import Ledger, Number, help_field
from studios.token_atlas.names import short

EXPLAINED = 5
"""Models whose bill is explained to the last price; the others are the same formula."""
MOST_DRAWN = 14


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A month with one model."""

    name: str = help_field("the model")
    tokenizer: str = help_field("its tokenizer, short")
    official: bool = help_field("whether its own tokenizer was run")
    number: Number | None = help_field("the bill, explained; None where it is only written")
    cost: str = help_field("the bill as text")
    value: str = help_field("the same for sorting")
    english: str = help_field("the same traffic in English")
    english_value: str = help_field("for sorting")
    tax: str = help_field("'1.29'")
    lines: tuple[tuple[str, str], ...] = help_field("(cost as text, for sorting) by language of the mix")
    price: str = help_field("'$0.03 in, $0.14 out, openrouter 2026-09-06'")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A model's place in one language against its place in English."""

    name: str = help_field("the model")
    tokenizer: str = help_field("its tokenizer, short")
    cost: str = help_field("of a thousand requests")
    rank: int = help_field("in the language")
    english_rank: int = help_field("in English")
    moved: int = help_field("places won (positive) or lost")
    passes: str = help_field("models it is cheaper than here and dearer than in English, by commas, or ''")


@dataclass(frozen=True, slots=True, kw_only=True)
class Money:
    """The whole section."""

    sentence: tuple[str | Number, ...] = help_field("the cheapest model and its tax")
    traffic: str = help_field("the mix in words")
    languages: tuple[str, ...] = help_field("languages of the mix")
    models: tuple[Model, ...] = help_field("cheapest first")
    cheapest: tuple[tuple[str, str, str, str], ...] = help_field(
        "(language, cheapest model, a thousand requests, what it turns round or '')")
    places: tuple[Place, ...] = help_field("models in the story's language, those that turn round first named")
    language: str = help_field("the story's language")
    turned: str = help_field("'7 pairs of models change places', in words")
    bars: tuple[tuple[str, str, float], ...] = help_field("(model, language or 'the same in English', USD) for the chart")


def money(answer: Any, ledger: Ledger) -> Money:
    """The section."""
    found, name = answer.bill, answer.story.language.name
    ledger.section("The bill")
    numbers = [ledger.number(one.cost) for one in found.models[:EXPLAINED]]
    best = found.models[0]
    tax = ledger.number(best.tax, times)
    places = tuple(map(place, answer.placed))
    flips = sum(len(one.flips) for one in answer.placed) // 2
    return Money(
        sentence=(f"{best.priced.model} is cheapest for this traffic: ", numbers[0], " a month, ", tax,
                  " what the same traffic costs in English."),
        traffic=traffic(found), languages=tuple(one.language.name for one in found.mix),
        models=tuple(model(one, numbers[index] if index < EXPLAINED else None)
                     for index, one in enumerate(found.models)),
        cheapest=tuple((one.language.name, one.model, dollars(1000 * one.cost.value),
                        f"in English {one.english_model} is cheaper" if one.flipped else "") for one in found.cheapest),
        places=places, language=name, bars=bars(found.models[:MOST_DRAWN]), turned=turned(flips, name))


def times(value: float) -> str:
    return f"{significant(value)} times"


def turned(flips: int, name: str) -> str:
    """How many pairs change places."""
    if not flips:
        return f"No two models change places between English and {name}."
    pairs = "1 pair of models changes" if flips == 1 else f"{flips} pairs of models change"
    return f"{pairs} places between English and {name}: the price list alone does not say who is cheaper."


def traffic(found: Any) -> str:
    """The traffic in words."""
    mix = ", ".join(f"{one.language.name} {significant(100 * one.share)} %" for one in found.mix)
    return (f"{found.requests:,} requests a month of {found.prompt_words:,} English words in and "
            f"{found.output_words:,} out, said in: {mix}.")


def model(one: Any, number: Number | None) -> Model:
    """One row."""
    priced = one.priced
    source = " ".join(part for part in (priced.provider, priced.date) if part) or "your price"
    return Model(
        name=priced.model, tokenizer=short(priced.tokenizer), official=priced.exact, number=number,
        cost=dollars(one.cost.value), value=f"{one.cost.value:.6g}", english=dollars(one.english_cost.value),
        english_value=f"{one.english_cost.value:.6g}", tax=f"{one.tax.value:.2f}",
        lines=tuple((dollars(line.cost.value), f"{line.cost.value:.6g}") for line in one.lines),
        price=f"{dollars(priced.input_usd)} in, {dollars(priced.output_usd)} out, {source}")


def place(one: Any) -> Place:
    """A model's place, and whom it passes."""
    moved = one.english_rank - one.rank
    return Place(name=one.priced.model, tokenizer=short(one.priced.tokenizer), cost=dollars(1000 * one.cost.value),
                 rank=one.rank, english_rank=one.english_rank, moved=moved, passes=", ".join(one.flips) if moved > 0 else "")


def bars(models: Sequence[Any]) -> tuple[tuple[str, str, float], ...]:
    """What the chart draws: each language's part, and the English total as a mark."""
    parts = [(one.priced.model, line.language.name, line.cost.value) for one in models for line in one.lines]
    return (*parts, *((one.priced.model, "", one.english_cost.value) for one in models))
