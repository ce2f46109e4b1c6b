"""The measures that a cell of the matrix can show, as plain numbers: 52 languages x tokenizers at once.

The arithmetic is that of `measures` (the same functions, without the ledger around them); a cell's own story has the Terms.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass

from pycore import catalog
from pycore.atlas import measures, prefill
from pycore.atlas.languages import ENGLISH
from pycore.atlas.table import Interval, Row, english, reference, sizes
from pycore.units import dollars, significant


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What some measures need besides the counts. `usd_per_million`: input price by tokenizer, those known."""

    context: int
    model: str
    prompt_words: int
    usd_per_million: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One measure. `value` gives None where it has no meaning or is not known; `interval` where one is known."""

    name: str
    label: str
    says: str
    value: Callable[[Row, Setting], float | None]
    text: Callable[[float], str]
    interval: Callable[[Row], Interval] | None = None
    more_is_worse: bool = True
    logarithmic: bool = True


def two_decimals(value: float) -> str:
    return f"{value:.2f}"


def whole(value: float) -> str:
    return f"{value:,.0f}"


def three_digits(value: float) -> str:
    return significant(value, 3)


def percent(value: float) -> str:
    return f"{value:.1f} %"


def premium(row: Row, setting: Setting) -> float:
    """Against English under the same tokenizer."""
    return row.tokens / english(row.tokenizer).tokens


def absolute(row: Row, setting: Setting) -> float:
    """Against GPT-4o's English."""
    return row.tokens / reference().tokens


def fertility(row: Row, setting: Setting) -> float | None:
    """Tokens a word; None where words are not spaced."""
    words = sizes()[row.language.code].words
    return None if words is None else measures.tokens_per_word.plain(row.tokens, words)


def split(row: Row, setting: Setting) -> float | None:
    """Percent of tokens that hold no whole number of characters; None of counts alone."""
    return None if row.split is None else measures.split_percent.plain(row.split, row.tokens)


def fallback(row: Row, setting: Setting) -> float | None:
    """Percent of tokens that are single bytes of longer characters; None of counts alone."""
    return None if row.fallback is None else measures.fallback_percent.plain(row.fallback, row.tokens)


def content(row: Row, setting: Setting) -> float:
    """English words whose content fits in the window."""
    return measures.content_in_context.plain(setting.context, sizes()[ENGLISH].words, row.tokens)


def same_content(row: Row, words: int) -> float:
    """Tokens of what takes `words` words in English."""
    return measures.content_tokens.plain(words, row.tokens, sizes()[ENGLISH].words)


@functools.lru_cache(maxsize=4096)
def flop(model: str, tokens: int) -> float:
    """Work of a prompt on a catalogued model."""
    return prefill.prefill_flop(catalog.model(model), tokens).value


def prefill_work(row: Row, setting: Setting) -> float:
    """Work of the prompt against the English one, of the very tokens that `prefill.prefill_work` takes."""
    theirs = prefill.english_prompt(row, setting.prompt_words)
    return flop(setting.model, prefill.longer(row, theirs)) / flop(setting.model, theirs)


def cost(row: Row, setting: Setting) -> float | None:
    """USD of a million English words' content as input; None where no price is known."""
    price = dict(setting.usd_per_million).get(row.tokenizer)
    return None if price is None else measures.content_cost.plain(same_content(row, measures.MILLION), price)


def premium_interval(row: Row) -> Interval:
    return row.premium


def absolute_interval(row: Row) -> Interval:
    return row.absolute


KINDS = {kind.name: kind for kind in (
    Kind(name="premium", label="Premium", value=premium, text=two_decimals, interval=premium_interval,
         says="Tokens against English under the same tokenizer, for the same sentences. 1 is fair; more is dearer."),
    Kind(name="absolute", label="Against GPT-4o's English", value=absolute, text=two_decimals, interval=absolute_interval,
         says="Tokens against English under o200k_base, for the same sentences: a tokenizer cannot look fair here by being "
              "worse at English."),
    Kind(name="tokens", label="Tokens", value=lambda row, setting: row.tokens, text=whole,
         says="Tokens of the whole corpus: 2,009 sentences of the same content in every language."),
    Kind(name="fertility", label="Tokens per word", value=fertility, text=two_decimals,
         says="Tokens for each word, where words are separated by spaces. Languages differ in how much a word says."),
    Kind(name="per-character", label="Tokens per character", value=lambda row, setting: measures.tokens_per_character.plain(
        row.tokens, sizes()[row.language.code].characters), text=three_digits,
         says="Tokens for each character (code point). A Chinese character says about three times what a Latin letter says, "
              "so this does not compare languages; it compares tokenizers."),
    Kind(name="per-byte", label="Tokens per byte", value=lambda row, setting: measures.tokens_per_byte.plain(
        row.tokens, sizes()[row.language.code].bytes), text=three_digits,
         says="Tokens for each byte of UTF-8. 1 means that nothing of the language was learnt."),
    Kind(name="split", label="Split characters", value=split, text=percent, logarithmic=False,
         says="Share of tokens that hold no whole number of characters."),
    Kind(name="fallback", label="Single bytes", value=fallback, text=percent, logarithmic=False,
         says="Share of tokens that are one byte of a longer character."),
    Kind(name="context", label="Context in English words", value=content, text=whole, more_is_worse=False,
         says="English words whose content fits in the context window when written in the language."),
    Kind(name="decode", label="Decode time", value=premium, text=two_decimals, interval=premium_interval,
         says="Time to write the same answer against English on the same model: one step a token."),
    Kind(name="prefill", label="Prefill work", value=prefill_work, text=two_decimals,
         says="Arithmetic to read the same prompt, against English. Products grow with the tokens, attention with "
              "their square."),
    Kind(name="cost", label="Cost", value=cost, text=dollars,
         says="USD of input that says what a million English words say, at the price given or a dated list price."),
)}
