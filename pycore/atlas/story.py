"""One cell told: a language under a tokenizer, every figure a Term."""

from collections.abc import Callable
from dataclasses import dataclass

from pycore.atlas import measures
from pycore.atlas.languages import Language
from pycore.atlas.prefill import english_prompt, prefill_work
from pycore.atlas.prices import cheapest_of
from pycore.atlas.table import PERCENTS, Row, TokenizerFacts, english, row, tokenizer
from pycore.errors import NotKnown
from pycore.ledger import Term, fact
from pycore.nouns import Model


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """A language under a tokenizer. None where a measure has no meaning (words in Thai) or is not known (of counts alone).

    `spread`: percentiles (5, 25, 50, 75, 95) over sentences of a sentence's own premium. `round_trips`: sentences that
    decode to what the tokenizer read, None of counts alone. `cost`: of the prompt; None where no price is known.
    """

    language: Language
    tokenizer: TokenizerFacts
    tokens: Term
    english_tokens: Term
    premium: Term
    absolute: Term
    fertility: Term | None
    per_character: Term
    per_byte: Term
    split: Term | None
    fallback: Term | None
    context: Term  # words, or characters where words are not spaced, that fit in the window
    content: Term  # English words whose content fits
    decode: Term
    prefill: Term
    prompt: Term  # tokens of the prompt
    cost: Term | None
    spread: tuple[tuple[int, float], ...]
    sentences: int
    round_trips: int | None


def story(language: str, name: str, *, context: int, model: Model, prompt_words: int, price: float = 0.0) -> Story:
    """The story of a FLORES code and a tokenizer's exact name; `price` in USD per 1M tokens, 0: a list price.

    Raises NotKnown where the benchmark lacks the pair.
    """
    found = row(language, name)
    usd = price_term(name, price)
    return Story(
        language=found.language, tokenizer=tokenizer(name), tokens=measures.tokens(found),
        english_tokens=measures.tokens(english(name)), premium=measures.premium(found),
        absolute=measures.absolute(found), fertility=known(measures.fertility, found),
        per_character=measures.per_character(found), per_byte=measures.per_byte(found),
        split=known(measures.split_share, found), fallback=known(measures.fallback_share, found),
        context=measures.effective_context(found, context), content=measures.effective_content(found, context),
        decode=measures.decode_time(found), prefill=prefill_work(found, model, english_prompt(found, prompt_words)),
        prompt=measures.tokens_for(found, prompt_words),
        cost=None if usd is None else measures.cost(found, prompt_words, usd),
        spread=tuple(zip(PERCENTS, found.spread, strict=True)), sentences=measures.sizes()[language].sentences,
        round_trips=found.round_trips)


def known(measure: Callable[[Row], Term], found: Row) -> Term | None:
    """A measure, or None where it has no meaning for this language or tokenizer."""
    try:
        return measure(found)
    except NotKnown:
        return None


def price_term(name: str, price: float) -> Term | None:
    """USD per 1M input tokens under a tokenizer: the one given, else the cheapest list price; None where there is none."""
    if price:
        return fact("Price", price, "USD/1M tokens", basis="given", source="the question")
    offer = cheapest_of(name)
    return None if offer is None else offer.price("input")
