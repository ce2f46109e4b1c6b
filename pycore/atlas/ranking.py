"""Who is fair, and who is cheap.

Tokenizers are ranked by a statistic over the benchmark's languages other than English: the mean of the premium (or of the
absolute figure), its median, its worst. Intervals come from the benchmark: 2,000 bootstrap draws of sentences, the same
sentences for every language and tokenizer of a draw, so that two tokenizers' figures may be compared. They say how the
figures would move with other sentences, not with other languages. A rank's interval is that of the rank over the draws.

Models are ranked by what the same content costs in a language. A *flip* is a pair of models whose order there is another
than in English: the price list no longer says who is cheaper.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from pycore.atlas import measures
from pycore.atlas.languages import DATASET, ENGLISH
from pycore.atlas.prices import Priced, list_prices
from pycore.atlas.table import row
from pycore.facts import integer, table
from pycore.ledger import Term, total

STATISTICS = ("premium mean", "premium median", "premium worst",
              "absolute mean", "absolute median", "absolute worst")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fairness:
    """A tokenizer by one statistic. `rank` 1 is the fairest; low and high are ends of 95 % intervals over sentences.

    `language`: which one is the worst (FLORES code), '' for a mean.
    """

    tokenizer: str
    statistic: str
    value: float
    low: float
    high: float
    rank: int
    rank_low: int
    rank_high: int
    language: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A model's place by cost in a language. `flips`: models that stand on its other side in English."""

    priced: Priced
    cost: Term
    rank: int
    english_cost: Term
    english_rank: int
    flips: tuple[str, ...]


@functools.cache
def fairness() -> tuple[Fairness, ...]:
    """Every tokenizer by every statistic, best first within each."""
    return tuple(Fairness(tokenizer=row["tokenizer"], statistic=row["statistic"], language=row["language"],
                          **{name: float(row[name]) for name in ("value", "low", "high")},
                          **{name: integer(row[name]) for name in ("rank", "rank_low", "rank_high")})
                 for row in table("ranking", DATASET))


def tokenizers_by(statistic: str) -> tuple[Fairness, ...]:
    """Tokenizers by one of `STATISTICS`, fairest first."""
    return tuple(one for one in fairness() if one.statistic == statistic)


@functools.lru_cache(maxsize=8192)
def request_cost(priced: Priced, language: str, prompt_words: float, output_words: float) -> Term:
    """What one request costs: English words of content in the prompt and in the answer, said in the language."""
    found = row(language, priced.tokenizer)
    return total(f"{priced.model}, {found.language.name}", (
        measures.cost(found, prompt_words, priced.price("input")).renamed("Prompt"),
        measures.cost(found, output_words, priced.price("output")).renamed("Answer")))


def models_by_cost(language: str, *, prompt_words: float = 1000, output_words: float = 250,
                   prices: Sequence[Priced] | None = None) -> tuple[Placed, ...]:
    """Models by what a request costs in a language (FLORES code), cheapest first; ties by name."""
    prices = list_prices() if prices is None else tuple(prices)
    here = [request_cost(one, language, prompt_words, output_words) for one in prices]
    english = [request_cost(one, ENGLISH, prompt_words, output_words) for one in prices]
    places = dict(zip(ordered(here, prices), range(1, len(prices) + 1), strict=True))
    english_places = dict(zip(ordered(english, prices), range(1, len(prices) + 1), strict=True))
    return tuple(Placed(priced=prices[index], cost=here[index], rank=place, english_cost=english[index],
                        english_rank=english_places[index], flips=flipped(index, here, english, prices))
                 for index, place in places.items())


def ordered(costs: Sequence[Term], prices: Sequence[Priced]) -> list[int]:
    """Indices by cost, then by the model's name."""
    return sorted(range(len(costs)), key=lambda index: (costs[index].value, prices[index].model))


def flipped(index: int, here: Sequence[Term], english: Sequence[Term], prices: Sequence[Priced]) -> tuple[str, ...]:
    """Models strictly on one side of this one in the language and strictly on the other in English."""
    return tuple(prices[other].model for other in range(len(prices))
                 if (here[index].value - here[other].value) * (english[index].value - english[other].value) < 0)
