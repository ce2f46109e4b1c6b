"""What a language's token count means: fertility, premium, context, time, work and money, each as a Term.

All compare texts of the same content (the corpus is parallel). *Premium* is against English under the same tokenizer: what
a speaker pays beside an English speaker of the same model. *Absolute* is against GPT-4o's English: a tokenizer that got
worse at English shows a lower premium and no lower absolute figure, so both belong together.
"""

import functools

from pycore.atlas.languages import Language
from pycore.atlas.table import Interval, Row, english, reference, sizes, tokenizer
from pycore.errors import NotKnown
from pycore.ledger import Range, Term, fact, term

CORPUS = "FLORES-200 dev and devtest, 2,009 sentences, each encoded alone without special tokens"
PETROV = "Petrov et al. 2023, arXiv 2305.15425"
MILLION = 1_000_000


@functools.lru_cache(maxsize=1024)
def tokens(row: Row) -> Term:
    """The tokens of the corpus in a language; measured, or of a reconstruction (then the basis is 'reported')."""
    exact = tokenizer(row.tokenizer).exact
    return fact(f"Tokens, {row.language.name}", row.tokens, "tokens", basis="measured" if exact else "reported",
                source=CORPUS, note="" if exact else tokenizer(row.tokenizer).label)


@term("Premium", "", source=PETROV)
def premium_ratio(tokens, english_tokens, low, high):
    """tokens ÷ english_tokens

    Both under the same tokenizer. low, high: ends of the bootstrap 95 % interval over sentences, drawn in pairs.
    """
    return spanned(tokens / english_tokens, low, high)


@term("Against GPT-4o's English", "")
def absolute_ratio(tokens, reference_tokens, low, high):
    """tokens ÷ reference_tokens

    reference_tokens: English under o200k_base. low, high as for the premium.
    """
    return spanned(tokens / reference_tokens, low, high)


def spanned(value: float, low: float, high: float) -> Range:
    """The value with its interval; ends are written to six digits, so they may stop short of it by rounding alone."""
    return Range(value, min(low, value), max(high, value))


def premium(row: Row) -> Term:
    """Tokens against English under the same tokenizer, with its interval."""
    return premium_ratio(tokens=tokens(row), english_tokens=tokens(english(row.tokenizer)), **ends(row.premium))


def absolute(row: Row) -> Term:
    """Tokens against GPT-4o's English, with its interval."""
    return absolute_ratio(tokens=tokens(row), reference_tokens=tokens(reference()), **ends(row.absolute))


def ends(found: Interval) -> dict[str, float]:
    return {"low": found.low, "high": found.high}


@term("Fertility", "tokens/word", source="Rust et al. 2021, arXiv 2012.15613, section 3.1")
def tokens_per_word(tokens, words):
    """tokens ÷ words"""
    return tokens / words


@term("Tokens per character", "tokens/character")
def tokens_per_character(tokens, characters):
    """tokens ÷ characters"""
    return tokens / characters


@term("Tokens per byte", "tokens/byte")
def tokens_per_byte(tokens, text_bytes):
    """tokens ÷ text_bytes"""
    return tokens / text_bytes


def fertility(row: Row) -> Term:
    """Tokens per word. Raises NotKnown where words are not separated by spaces."""
    return tokens_per_word(tokens=tokens(row), words=words(row.language))


def per_character(row: Row) -> Term:
    """Tokens per character (code point)."""
    return tokens_per_character(tokens=tokens(row), characters=sizes()[row.language.code].characters)


def per_byte(row: Row) -> Term:
    """Tokens per byte of UTF-8."""
    return tokens_per_byte(tokens=tokens(row), text_bytes=sizes()[row.language.code].bytes)


def words(language: Language) -> int:
    """Words of the corpus. Raises NotKnown where they are not separated by spaces."""
    found = sizes()[language.code].words
    if found is None:
        raise NotKnown(f"{language.name} does not separate words by spaces, so no count of words was made; "
                       "characters and bytes are known", "language")
    return found


@term("Share of tokens that split a character", "%")
def split_percent(split_tokens, tokens):
    """100 × split_tokens ÷ tokens

    Tokens whose bytes are no whole number of characters.
    """
    return 100 * split_tokens / tokens


@term("Share of tokens that are single bytes", "%")
def fallback_percent(byte_tokens, tokens):
    """100 × byte_tokens ÷ tokens

    Single bytes of characters that take several: nothing of the character was learnt.
    """
    return 100 * byte_tokens / tokens


def split_share(row: Row) -> Term:
    """Share of tokens that hold no whole number of characters. Raises NotKnown for counts alone."""
    return split_percent(split_tokens=pieces_known(row, row.split), tokens=tokens(row))


def fallback_share(row: Row) -> Term:
    """Share of tokens that are single bytes of longer characters. Raises NotKnown for counts alone."""
    return fallback_percent(byte_tokens=pieces_known(row, row.fallback), tokens=tokens(row))


def pieces_known(row: Row, count: int | None) -> int:
    if count is None:
        raise NotKnown(f"of {tokenizer(row.tokenizer).label} only counts are known, no pieces", "tokenizer")
    return count


@term("Words that fit", "words")
def words_in_context(context, words, tokens):
    """context × words ÷ tokens

    At the corpus's words per token; prose of news, guides and encyclopaedias.
    """
    return context * words / tokens


@term("Characters that fit", "characters")
def characters_in_context(context, characters, tokens):
    """context × characters ÷ tokens"""
    return context * characters / tokens


@term("English words whose content fits", "words")
def content_in_context(context, english_words, tokens):
    """context × english_words ÷ tokens

    How long the English text may be whose translation fills the window.
    """
    return context * english_words / tokens


def effective_context(row: Row, context: int) -> Term:
    """How much of the language fits in `context` tokens: words, or characters where words are not spaced."""
    found = sizes()[row.language.code]
    if found.words is None:
        return characters_in_context(context=context, characters=found.characters, tokens=tokens(row))
    return words_in_context(context=context, words=found.words, tokens=tokens(row))


def effective_content(row: Row, context: int) -> Term:
    """The same for every language: the length of the English text whose content fits."""
    return content_in_context(context=context, english_words=words(english(row.tokenizer).language), tokens=tokens(row))


@term("Decode time against English", "")
def decode_ratio(tokens, english_tokens, low, high):
    """tokens ÷ english_tokens

    One step a token: at equal step time an answer of the same content takes as many times longer as it has more tokens.
    (Steps get longer with the tokens already held; that part is left out.)
    """
    return spanned(tokens / english_tokens, low, high)


def decode_time(row: Row) -> Term:
    """Time to write an answer against English on the same model, linear in tokens."""
    return decode_ratio(tokens=tokens(row), english_tokens=tokens(english(row.tokenizer)), **ends(row.premium))


@term("Tokens for the same content", "tokens")
def content_tokens(english_words, tokens, corpus_english_words):
    """english_words × tokens ÷ corpus_english_words

    What so many English words of content come to in the language.
    """
    return english_words * tokens / corpus_english_words


@functools.lru_cache(maxsize=4096)
def tokens_for(row: Row, english_words: float) -> Term:
    """Tokens of a text whose English has so many words."""
    return content_tokens(english_words=english_words, tokens=tokens(row),
                          corpus_english_words=words(english(row.tokenizer).language))


@term("Cost of the same content", "USD")
def content_cost(tokens, usd_per_million):
    """tokens × usd_per_million ÷ 1000000"""
    return tokens * usd_per_million / MILLION


def cost(row: Row, english_words: float, usd_per_million: float | Term) -> Term:
    """What a text costs whose English has so many words, at a price per 1M tokens of one direction."""
    return content_cost(tokens=tokens_for(row, english_words), usd_per_million=usd_per_million)
