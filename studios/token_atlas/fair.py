"""Tokenizers ranked by how fair they are, intervals drawn, and who only looks fair."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pycore.atlas.grid import median
from pycore.atlas.languages import ENGLISH, by_code, languages
from pycore.atlas.ranking import Fairness, fairness
from pycore.atlas.table import english, reference, row, tokenizer
from pycore.units import significant
from studios.explain import help_field
from studios.marks import RangeMark, range_mark
from studios.token_atlas.names import short, standing

LOOKS = 2  # places between two rankings from which a tokenizer is said to look fairer than it is


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """One tokenizer."""

    rank: str = help_field("'1', or '2 to 3' where chance decides")
    name: str = help_field("short name")
    standing: str = help_field("'unofficial, counts only', 'official, retired', or ''")
    value: str = help_field("the statistic asked for")
    interval: str = help_field("its 95 % interval in words")
    mark: RangeMark = help_field("the same drawn, from zero")
    others: tuple[tuple[str, str], ...] = help_field("(value, rank) by every statistic, in the order of the columns")
    worst: str = help_field("its worst language and the premium there")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fair:
    """The ranking."""

    statistic: str = help_field("what ranks them")
    statistics: tuple[str, ...] = help_field("the columns")
    ranks: tuple[Rank, ...] = help_field("fairest first")
    looks: tuple[str, ...] = help_field("sentences on tokenizers that look fairer than they are")
    dots: tuple[tuple[str, str, float], ...] = help_field("(tokenizer, language, premium) for the chart")
    medians: tuple[tuple[str, float], ...] = help_field("(tokenizer, median premium) for the chart")
    asked: str = help_field("the story's language, drawn apart")


def fair(answer: Any) -> Fair:
    """The section. Its figures are the benchmark's, as the generator wrote them."""
    every = fairness()
    statistics = tuple(dict.fromkeys(one.statistic for one in every))
    known = {(one.statistic, one.tokenizer): one for one in every}
    whole = 1.04 * max(one.high for one in answer.ranking)
    dots = tuple((short(one.tokenizer), spoken.name, row(spoken.code, one.tokenizer).tokens / english(one.tokenizer).tokens)
                 for one in answer.ranking for spoken in languages() if spoken.code != ENGLISH)
    return Fair(
        statistic=answer.query.statistic, statistics=statistics,
        looks=looks(known, [one.tokenizer for one in answer.ranking]),
        ranks=tuple(rank(one, known, statistics, whole) for one in answer.ranking), dots=dots,
        medians=tuple((name, median(value for key, _, value in dots if key == name))
                      for name in dict.fromkeys(name for name, _, _ in dots)), asked=answer.story.language.name)


def rank(one: Fairness, known: dict, statistics: Sequence[str], whole: float) -> Rank:
    """One line."""
    worst = known["premium worst", one.tokenizer]
    return Rank(
        rank=span(one), name=short(one.tokenizer), standing=standing(tokenizer(one.tokenizer)), value=f"{one.value:.2f}",
        interval=f"{significant(one.low)} to {significant(one.high)}",
        mark=range_mark(one.low, one.value, one.high, whole),
        others=tuple((f"{found.value:.2f}", str(found.rank)) for name in statistics
                     for found in (known[name, one.tokenizer],)),
        worst=f"{by_code()[worst.language].name} {worst.value:.2f}")


def span(one: Fairness) -> str:
    """The rank, or the ranks that other sentences might give."""
    return str(one.rank) if one.rank_low == one.rank_high else f"{one.rank_low} to {one.rank_high}"


def looks(known: dict, names: Sequence[str]) -> tuple[str, ...]:
    """Who ranks better by its premium than by its tokens, and why: its own English is dearer."""
    found = []
    for name in names:
        places = known["premium mean", name].rank, known["absolute mean", name].rank
        if places[1] - places[0] >= LOOKS:
            dearer = 100 * (english(name).tokens / reference().tokens - 1)
            found.append(f"{short(name)} is number {places[0]} by premium and number {places[1]} by tokens: its English "
                         f"takes {dearer:.0f} % more tokens than GPT-4o's, and other languages look cheap beside it.")
    return tuple(found)
