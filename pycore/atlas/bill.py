"""A month's bill: who writes in which language, what each model asks, and how much of it is a tax on not being English.

Traffic is told in English words of content, so that every language says the same and every model is asked the same; a
model's own tokenizer turns it into tokens. The *language tax* is the bill against that of the same traffic in English.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pycore.atlas import measures
from pycore.atlas.languages import ENGLISH, Language, language
from pycore.atlas.prices import Priced, is_number, list_prices
from pycore.atlas.ranking import models_by_cost, request_cost
from pycore.atlas.table import row
from pycore.errors import InputError
from pycore.ledger import Term, fact, term, total


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A language's part of the requests, 0 to 1."""

    language: Language
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One language's part of one model's bill. `tax`: against the same requests in English, 1 is none."""

    language: Language
    requests: Term
    input_tokens: Term
    output_tokens: Term
    cost: Term
    tax: Term


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelBill:
    """A month with one model. `lines` in the order of the mix."""

    priced: Priced
    lines: tuple[Line, ...]
    cost: Term
    english_cost: Term
    tax: Term


@dataclass(frozen=True, slots=True, kw_only=True)
class Cheapest:
    """The cheapest model of a language at the traffic's shape, beside the cheapest in English.

    `flipped`: in English this model costs strictly more than that one, here strictly less.
    """

    language: Language
    model: str
    cost: Term
    english_model: str
    flipped: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """The whole answer: `models` cheapest first, `cheapest` per language of the mix."""

    mix: tuple[Share, ...]
    requests: int
    prompt_words: int
    output_words: int
    models: tuple[ModelBill, ...]
    cheapest: tuple[Cheapest, ...]


def parse_mix(text: str, field: str = "mix") -> tuple[Share, ...]:
    """'english 60, hindi 25, ta 15' as shares that add up to 1; a language without a number counts 1.

    Raises InputError or UnknownName naming the part.
    """
    weights: dict[str, float] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        words = part.replace("=", " ").replace(":", " ").split()
        amount = words.pop().removesuffix("%") if len(words) > 1 and is_number(words[-1].removesuffix("%")) else "1"
        code = language(" ".join(words), field).code
        if code in weights:
            raise InputError(field, part, f"{language(code).name} is named twice")
        if not 0 <= float(amount) <= 1e12:
            raise InputError(field, part, "a share is 0 or more: 'english 60, hindi 25, tamil 15'")
        weights[code] = float(amount)
    whole = math.fsum(weights.values())
    if not whole:
        raise InputError(field, text, "name languages with their shares: 'english 60, hindi 25, tamil 15'")
    return tuple(Share(language=language(code), share=weight / whole) for code, weight in weights.items())


@term("Requests a month", "requests")
def language_requests(requests, share):
    """requests × share"""
    return requests * share


@term("Tokens a month", "tokens")
def month_tokens(requests, tokens):
    """requests × tokens

    tokens: of one request, one direction.
    """
    return requests * tokens


@term("Cost a month", "USD")
def month_cost(requests, request_usd):
    """requests × request_usd"""
    return requests * request_usd


@term("Language tax", "")
def language_tax(cost, english_cost):
    """cost ÷ english_cost"""
    return cost / english_cost


def line(priced: Priced, share: Share, requests: int, prompt_words: int, output_words: int) -> tuple[Line, Term]:
    """A language's line under one model, and what the same requests would cost in English."""
    count = language_requests(requests=fact("Requests", requests, "requests", basis="given", source="the question"),
                              share=share.share)
    found = row(share.language.code, priced.tokenizer)
    prompt, answer = measures.tokens_for(found, prompt_words), measures.tokens_for(found, output_words)
    cost, base = (month_cost(requests=count, request_usd=request_cost(priced, code, prompt_words, output_words))
                  for code in (share.language.code, ENGLISH))
    return Line(language=share.language, requests=count, cost=cost.renamed(share.language.name),
                input_tokens=month_tokens(requests=count, tokens=prompt).renamed("Input tokens a month"),
                output_tokens=month_tokens(requests=count, tokens=answer).renamed("Output tokens a month"),
                tax=tax_of(cost, base)), base.renamed(f"{share.language.name}'s requests, in English")


def tax_of(cost: Term, base: Term) -> Term:
    """The tax; 1 where nothing is charged at all."""
    if not base.value:
        return fact("Language tax", 1.0, "", basis="definition", source="nothing is charged")
    return language_tax(cost=cost, english_cost=base)


def model_bill(priced: Priced, mix: Sequence[Share], requests: int, prompt_words: int, output_words: int) -> ModelBill:
    """A month with one model."""
    pairs = [line(priced, share, requests, prompt_words, output_words) for share in mix]
    cost = total("Bill", [one.cost for one, _ in pairs])
    base = total("The same in English", [base for _, base in pairs])
    return ModelBill(priced=priced, lines=tuple(one for one, _ in pairs), cost=cost, english_cost=base,
                     tax=tax_of(cost, base))


def bill(mix: Sequence[Share], *, requests: int, prompt_words: int, output_words: int,
         prices: Sequence[Priced] | None = None) -> Bill:
    """The month's bill under every model, cheapest first (ties by name), and who is cheapest in each language.

    `mix` from `parse_mix`; words are English words of content a request. Raises InputError where no model is priced.
    """
    prices = list_prices() if prices is None else tuple(prices)
    if not prices:
        raise InputError("prices", "", "at least one price is needed: 'gpt-4o 2.5 10'")
    found = [model_bill(priced, mix, requests, prompt_words, output_words) for priced in prices]
    found.sort(key=lambda one: (one.cost.value, one.priced.model))
    asked = {"prompt_words": prompt_words, "output_words": output_words, "prices": prices}
    best = models_by_cost(ENGLISH, **asked)[0].priced.model
    return Bill(mix=tuple(mix), requests=requests, prompt_words=prompt_words, output_words=output_words,
                models=tuple(found), cheapest=tuple(cheapest(share.language, best, **asked) for share in mix))


def cheapest(spoken: Language, english_model: str, **asked: object) -> Cheapest:
    """The cheapest model of one language."""
    first = models_by_cost(spoken.code, **asked)[0]
    return Cheapest(language=spoken, model=first.priced.model, cost=first.cost, english_model=english_model,
                    flipped=english_model in first.flips)
