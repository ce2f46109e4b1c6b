"""token-atlas: what a text costs in 52 languages under today's tokenizers. The question, the answer, the way between."""

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from pycore import cache, catalog
from pycore.atlas.bill import Bill as MonthlyBill
from pycore.atlas.bill import Share, bill, parse_mix
from pycore.atlas.encoders import built, encoders, from_bytes
from pycore.atlas.encoders import names as encoder_names
from pycore.atlas.grid import SORTS, Grid, grid
from pycore.atlas.kinds import KINDS, Setting
from pycore.atlas.languages import ENGLISH, Language, families, language, scripts
from pycore.atlas.languages import names as language_names
from pycore.atlas.live import Live, Missing, live
from pycore.atlas.prices import Priced, list_prices, own_prices
from pycore.atlas.ranking import STATISTICS, Fairness, Placed, models_by_cost, tokenizers_by
from pycore.atlas.story import Story, price_term, story
from pycore.atlas.table import tokenizer, tokenizers
from pycore.cache import Needs
from pycore.errors import InputError, InvalidQuery, SourceError
from pycore.knobs import knob
from pycore.ledger import Term, terms_in
from pycore.nouns import Model
from pycore.tokens import samples
from pycore.tokens.catalogue import file
from pycore.tokens.tokenizer import Tokenizer

LIVE, LANGUAGE, MATRIX, BILL = "Text", "Language", "Matrix", "Bill"


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """The question, every field with its meaning, unit and range."""

    text: str = knob("", "Text", long=True, group=LIVE, zero="Article 1 of the Universal Declaration in the language below",
                     help="What is to be tokenised. Empty: Article 1 of the Universal Declaration of Human Rights in the "
                          "language chosen.")
    tokenizers: str = knob("o200k_base,llama3", "Tokenizers", suggestions="tokenizers", group=LIVE,
                           help="Side by side on the text, separated by commas; all = every one.")
    own: str = knob("", "Your own tokenizer", group=LIVE, zero="none",
                    help="A file of your own beside them: tokenizer.json or .tiktoken (byte-pair kinds).")
    specials: bool = knob(False, "Special tokens", group=LIVE,
                          help="Read <|endoftext|> and its like as special tokens. Off: as the text it is.")
    word: str = knob("", "Word", group=LIVE, zero="the longest word of the text",
                     help="A word of the text: its merge tree is shown under each tokenizer.")
    price: float = knob(0.0, "Price", unit="USD per 1M tokens", low=0.0, high=1e6, group=LIVE,
                        zero="a dated list price of a model that uses the tokenizer",
                        help="What a million input tokens cost.")
    language: str = knob("hin_Deva", "Language", suggestions="languages", group=LANGUAGE,
                         help="A name (hindi), a code (hi, hin) or FLORES's own (hin_Deva).")
    tokenizer: str = knob("o200k_base", "Tokenizer", suggestions="columns", group=LANGUAGE,
                          help="Whose figures the language's story tells.")
    context: int = knob(131072, "Context", unit="tokens", low=1, high=1 << 24, group=LANGUAGE,
                        help="A context window, told in words of the language.")
    model: str = knob("llama-3.1-8b", "Model", suggestions="models", group=LANGUAGE,
                      help="Whose shape gives the work of prefill (attention grows with the square of the tokens).")
    prompt: int = knob(1000, "Prompt", unit="words", low=1, high=1 << 20, group=BILL,
                       help="English words in a typical prompt; the same is said in each language.")
    output: int = knob(250, "Answer", unit="words", low=0, high=1 << 20, group=BILL,
                       help="English words in a typical answer.")
    requests: int = knob(1_000_000, "Requests", unit="a month", low=1, high=10**12, group=BILL, help="Of all languages.")
    mix: str = knob("english 60, hindi 25, tamil 15", "Languages", group=BILL,
                    help="Shares of the requests by language, in any scale: 'english 60, hindi 25, tamil 15'.")
    prices: str = knob("", "Own prices", group=BILL, zero="dated list prices of the catalogue",
                       help="USD per 1M input and output tokens, instead of the list prices: 'gpt-4o 2.5 10, "
                            "my-llama:llama3 0.2 0.2' (a model, a tokenizer, or a name of your own with a tokenizer).")
    unofficial: bool = knob(False, "Unofficial tokenizers", group=BILL,
                            help="Bill also models whose tokenizer is only known from a reconstruction of its counts.")
    statistic: str = knob("premium mean", "Rank by", choices=STATISTICS, group=MATRIX,
                          help="What ranks the tokenizers, over all languages but English.")
    measure: str = knob("premium", "Measure", choices=tuple(KINDS), group=MATRIX,
                        help="What the cells show. premium: tokens against English under the same tokenizer; absolute: "
                             "against GPT-4o's English.")
    sort: str = knob("measure", "Sort", choices=SORTS, group=MATRIX, help="The rows' order.")
    by: str = knob("", "Sort column", suggestions="columns", group=MATRIX, zero="the median over the columns",
                   help="Whose measure orders the rows.")
    reverse: bool = knob(False, "Turn round", group=MATRIX, help="The other way round: the best or the last first.")
    columns: str = knob("all", "Columns", suggestions="columns", group=MATRIX,
                        help="Tokenizers of the matrix, separated by commas; all = every one.")
    scripts: str = knob("", "Scripts", suggestions="scripts", group=MATRIX, zero="every script",
                        help="Only languages in these scripts, separated by commas.")
    families: str = knob("", "Families", suggestions="families", group=MATRIX, zero="every family",
                         help="Only languages of these families, separated by commas.")
    find: str = knob("", "Find", group=MATRIX, zero="every language", help="Only languages whose name or code holds this.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a long answer is: the stage's name and the share done."""

    stage: str
    fraction: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Everything that follows from a Query.

    `text`: what was tokenised: the question's own, or (`sample` is its language) Article 1 of the Universal Declaration,
    in English where there is none in the language; '' where the samples are not here. `live`: it under each tokenizer
    whose vocabulary is here; `missing`: the others. `ranking`: tokenizers, fairest first; `placed`: models by what the
    content of the bill's request costs in the story's language, cheapest first.
    """

    query: Query
    matrix: Grid
    story: Story
    text: str
    sample: Language | None
    live: tuple[Live, ...]
    missing: tuple[Missing, ...]
    bill: MonthlyBill
    ranking: tuple[Fairness, ...]
    placed: tuple[Placed, ...]

    @property
    def terms(self) -> tuple[Term, ...]:
        """Every term of the answer once: the story, the text under each tokenizer, the bill, the models' places."""
        found: dict[tuple, Term] = {}
        models = [part for model in self.bill.models for part in (model, *model.lines)]
        for part in (self.story, *self.live, *models, *self.placed):
            for one in terms_in(part):
                for each in one.walk():
                    found.setdefault((each.name, each.value, each.unit, each.line), each)
        return tuple(found.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The question with its names looked up."""

    language: Language
    tokenizer: str
    model: Model
    mix: tuple[Share, ...]
    prices: tuple[Priced, ...]
    encoders: tuple[str, ...]
    own: Tokenizer | None


def resolve(query: Query) -> Asked:
    """Look every name up. Raises InvalidQuery with every fault of the question at once."""
    faults: list[InputError] = []

    def found(look_up: Callable, *arguments: Any) -> Any:
        try:
            return look_up(*arguments)
        except InputError as fault:
            faults.append(fault)
        return None

    parts = dict(
        language=found(language, query.language), tokenizer=found(tokenizer, query.tokenizer),
        model=found(catalog.model, query.model), mix=found(parse_mix, query.mix),
        encoders=found(encoders, query.tokenizers), own=found(the_own, query.own))
    own, _ = found(own_prices, query.prices), found(matrix, query)
    if faults:
        raise InvalidQuery(faults)
    return Asked(**parts | {"tokenizer": parts["tokenizer"].name, "prices": own or priced(query)})


def priced(query: Query) -> tuple[Priced, ...]:
    """The list prices that the question asks for."""
    return list_prices(query.unofficial)


@functools.lru_cache(maxsize=2)
def the_own(reference: str) -> Tokenizer | None:
    """The reader's own tokenizer from a kept file, None where there is none. Raises InputError."""
    if not reference.strip():
        return None
    name, data = cache.upload("own", reference)
    try:
        return from_bytes(data, name)
    except InputError as error:
        raise InputError("own", error.value, error.accepted) from None


def matrix(query: Query) -> Grid:
    """The matrix as the question looks at it; equal questions give the very same object. Raises InputError."""
    needs_model = query.measure == "prefill"
    needs_price = query.measure == "cost"
    setting = Setting(
        context=query.context if query.measure == "context" else 0, prompt_words=query.prompt if needs_model else 0,
        model=catalog.model(query.model).id if needs_model else "",
        usd_per_million=input_prices(query.price) if needs_price else ())
    return grid(measure=query.measure, columns=query.columns, sort=query.sort, by=query.by, reverse=query.reverse,
                scripts=query.scripts, families=query.families, find=query.find, setting=setting)


def input_prices(price: float) -> tuple[tuple[str, float], ...]:
    """USD per 1M input tokens by tokenizer: the one given, else the cheapest list price of a model that uses it."""
    known = ((facts.name, price_term(facts.name, price)) for facts in tokenizers())
    return tuple((name, usd.value) for name, usd in known if usd is not None)


@functools.lru_cache(maxsize=8)
def story_of(code: str, name: str, context: int, model: str, prompt: int, price: float) -> Story:
    """The story, kept: typing a text does not change it."""
    return story(code, name, context=context, model=catalog.model(model), prompt_words=prompt, price=price)


@functools.lru_cache(maxsize=8)
def bill_of(mix: tuple[Share, ...], requests: int, prompt: int, output: int, prices: tuple[Priced, ...]) -> MonthlyBill:
    """The bill, kept."""
    return bill(mix, requests=requests, prompt_words=prompt, output_words=output, prices=prices)


@functools.lru_cache(maxsize=8)
def places(code: str, prompt: int, output: int, prices: tuple[Priced, ...]) -> tuple[Placed, ...]:
    """Models by cost in a language, kept."""
    return models_by_cost(code, prompt_words=prompt, output_words=output, prices=prices)


def completions(table: str) -> tuple[str, ...]:
    """The names that complete a field whose knob has `suggestions=table`."""
    tables = {"tokenizers": encoder_names, "columns": column_names, "languages": language_names, "scripts": scripts,
              "families": families}
    return tables[table]() if table in tables else catalog.names(table)


def column_names() -> tuple[str, ...]:
    """Every column of the matrix."""
    return tuple(facts.name for facts in tokenizers())


def steps(query: Query) -> Iterator[Needs | Progress | Answer]:
    """The Answer. Where files are missing, first an Answer without the text, then what it needs, then the whole.

    Raises InvalidQuery.
    """
    asked = resolve(query)
    whole = Answer(
        query=query, matrix=matrix(query), text=query.text, sample=None, live=(), missing=(),
        story=story_of(asked.language.code, asked.tokenizer, query.context, asked.model.id, query.prompt, query.price),
        bill=bill_of(asked.mix, query.requests, query.prompt, query.output, asked.prices),
        ranking=tokenizers_by(query.statistic),
        placed=places(asked.language.code, query.prompt, query.output, asked.prices))
    needed = cache.missing((*map(file, asked.encoders), *([] if query.text else [samples.ARTICLE])))
    if needed:
        yield whole
        yield Needs(files=needed)
    yield (yield from with_text(whole, asked))


def with_text(whole: Answer, asked: Asked) -> Iterator[Progress]:
    """Progress, then (as the generator's value) the Answer with the text under each tokenizer."""
    query, sample = whole.query, None
    if not query.text:
        try:
            sample, text = sample_of(asked.language)
        except SourceError:
            return whole
        whole = replace(whole, text=text, sample=sample)
    found: list[Live] = []
    absent: list[Missing] = []
    for index, name in enumerate(asked.encoders):
        if index:
            yield Progress(stage=f"tokenizer {index + 1} of {len(asked.encoders)}", fraction=index / len(asked.encoders))
        try:
            found.append(live(built(name), whole.text, word=query.word, specials=query.specials,
                              price=price_term(name, query.price)))
        except SourceError as error:
            absent.append(Missing(name=name, label=tokenizer(name).label, says=str(error)))
    if asked.own is not None:
        found.append(live(asked.own, whole.text, word=query.word, specials=query.specials,
                          price=price_term("", query.price)))
    return replace(whole, live=tuple(found), missing=tuple(absent))


def sample_of(spoken: Language) -> tuple[Language, str]:
    """Article 1 in a language, else in English, and which it is. Raises SourceError where the texts are not here."""
    text = samples.article(spoken.code)
    return (spoken, text) if text else (language(ENGLISH), samples.article(ENGLISH) or "")


def answer(query: Query) -> Answer:
    """The whole answer."""
    *_, last = steps(query)
    return last
