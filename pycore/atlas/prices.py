"""List prices of the models whose tokenizer the benchmark has, and of nothing else.

Which model uses which tokenizer stands in the benchmark's models.csv with the evidence; prices are the catalogue's
(`data/catalog/api_offers.csv`). Of a model's offers, free ones and outliers left out, dated ones go before undated, and of
those the one whose 3:1 blend is the median is taken (of an even number the cheaper of the middle two): a price that some
provider really asks. Models whose tokenizer is a reconstruction are left out unless asked for, and say so.
"""

import functools
from dataclasses import dataclass

from pycore import catalog
from pycore.atlas.languages import DATASET
from pycore.atlas.table import tokenizer
from pycore.cost.offers import blend, usable
from pycore.errors import InputError, UnknownName
from pycore.facts import table
from pycore.ledger import Term, fact
from pycore.matching import Names
from pycore.nouns import ApiOffer

UNDATED = "no date recorded"
HIGHEST_USD = 1e6  # per 1M tokens: a dollar a token


@dataclass(frozen=True, slots=True, kw_only=True)
class Priced:
    """A model, its tokenizer and what it costs; USD per 1M tokens of input and of output.

    `date` is the offer's own, '' where its source recorded none. `exact`: the tokenizer is the model's own.
    """

    model: str
    tokenizer: str
    input_usd: float
    output_usd: float
    provider: str
    date: str
    source: str
    exact: bool = True
    evidence: str = ""

    def price(self, direction: str) -> Term:
        """The price of 'input' or 'output' as a term that says who asks it, and when."""
        value = {"input": self.input_usd, "output": self.output_usd}[direction]
        own = self.provider == ""
        return fact(f"{self.model}, {direction}", value, "USD/1M tokens", basis="given" if own else "reported",
                    source="the question" if own else f"{self.provider}, {self.date or UNDATED}; {self.source}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """Which tokenizer a model uses, and how that is known. `offers`: its name in the catalogue of prices."""

    name: str
    tokenizer: str
    offers: str
    evidence: str


@functools.cache
def models() -> tuple[ModelFacts, ...]:
    """Every model whose tokenizer the benchmark has."""
    return tuple(ModelFacts(name=row["model"], tokenizer=row["tokenizer"], offers=row["offers"], evidence=row["evidence"])
                 for row in table("models", DATASET))


def offers_of(model: ModelFacts) -> tuple[ApiOffer, ...]:
    """The catalogue's usable offers for a model, dated ones alone where there are any."""
    if model.offers.startswith("closed:"):
        name = model.offers.removeprefix("closed:")
        found = usable(offer for offer in catalog.closed_offers() if offer.model == name)
    else:
        found = usable(catalog.api_offers(model.offers))
    return tuple(offer for offer in found if offer.date) or found


@functools.cache
def list_prices(reconstructed: bool = False) -> tuple[Priced, ...]:
    """The list price of every model that somebody offers; `reconstructed`: also of models whose tokens are estimates."""
    found = []
    for model in models():
        exact = tokenizer(model.tokenizer).exact
        offers = sorted(offers_of(model), key=lambda offer: (blend(offer, 3, 1, 0.0), offer.provider))
        if offers and (exact or reconstructed):
            chosen = offers[(len(offers) - 1) // 2]
            found.append(Priced(model=model.name, tokenizer=model.tokenizer, input_usd=chosen.input_usd,
                                output_usd=chosen.output_usd, provider=chosen.provider, date=chosen.date,
                                source=chosen.source, exact=exact, evidence=model.evidence))
    return tuple(found)


def list_price(name: str, field: str = "price") -> Priced:
    """A model's list price by a forgiving name; reconstructed tokenizers among them. Raises UnknownName."""
    known = {one.model: one for one in list_prices(True)}
    spelt = Names({name: (name,) for name in known})
    found = spelt.exact(name) or spelt.candidates(name)
    if len(found) == 1:
        return known[found[0]]
    if found:
        raise UnknownName(field, name, f"it fits {len(found)} models", found[:6])
    raise UnknownName(field, name, f"accepted: one of {len(known)} models with a known tokenizer and price",
                      spelt.nearest(name))


def cheapest_of(tokenizer_name: str) -> Priced | None:
    """The cheapest list price (3:1) among a tokenizer's models, or None where nobody offers one."""
    found = [one for one in list_prices(True) if one.tokenizer == tokenizer_name]
    return min(found, key=lambda one: (3 * one.input_usd + one.output_usd, one.model), default=None)


def own_prices(text: str, field: str = "prices") -> tuple[Priced, ...]:
    """Prices as a user writes them: 'gpt-4o 2.5 10, my-model:llama3 0.2 0.4' (USD per 1M tokens in and out).

    A name is a model of the benchmark, a tokenizer, or a name of one's own with ':' and a tokenizer. One price stands for
    both directions. Raises InputError or UnknownName.
    """
    return tuple(own_price(part.strip(), field) for part in text.split(",") if part.strip())


def own_price(text: str, field: str) -> Priced:
    """One of them."""
    words = text.split()
    name, amounts = " ".join(words[:-2]), words[-2:]
    if len(words) == 2 or len(words) > 2 and not is_number(words[-2]):
        name, amounts = " ".join(words[:-1]), [words[-1]] * 2
    if not name or not all(is_number(amount) and 0 <= float(amount) <= HIGHEST_USD for amount in amounts):
        raise InputError(field, text, "write a model or my-name:tokenizer, then USD per 1M input tokens and per 1M output "
                                      f"tokens (0 to {HIGHEST_USD:,.0f}): 'gpt-4o 2.5 10, mine:llama3 0.2 0.4'")
    label, known = named(name, field)
    return Priced(model=label, tokenizer=known, input_usd=float(amounts[0]), output_usd=float(amounts[1]), provider="",
                  date="", source="the question", exact=tokenizer(known).exact)


def named(name: str, field: str) -> tuple[str, str]:
    """(name to show, tokenizer) of a model, a tokenizer, or 'own name:tokenizer'."""
    own, colon, rest = name.rpartition(":")
    if colon:
        return own.strip() or rest.strip(), tokenizer(rest.strip(), field).name
    try:
        found = tokenizer(name, field).name
        return found, found
    except UnknownName:
        priced = list_price(name, field)
        return priced.model, priced.tokenizer


def is_number(text: str) -> bool:
    """Whether the text is a plain finite number."""
    try:
        return abs(float(text)) < float("inf")
    except ValueError:
        return False
