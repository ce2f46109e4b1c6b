"""token-atlas: what a text costs in 52 languages under today's tokenizers. The question, the answer, the way between."""

from collections.abc import Iterator
from dataclasses import dataclass

from pycore.atlas.bill import Bill as MonthlyBill
from pycore.atlas.grid import SORTS, Grid
from pycore.atlas.kinds import KINDS
from pycore.atlas.live import Live, Missing
from pycore.atlas.ranking import STATISTICS, Fairness, Placed
from pycore.atlas.story import Story
from pycore.knobs import knob
from pycore.ledger import Term, terms_in

TOKENIZERS = ("o200k_base", "llama3", "qwen2.5", "deepseek-v3", "gemma3", "claude-legacy", "cl100k_base")
"""Those that encode. The matrix has columns of counts besides (claude3-ctok, claude4.7-ctok)."""
LIVE, LANGUAGE, MATRIX, BILL = "Text", "Language", "Matrix", "Bill"


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """The question, every field with its meaning, unit and range."""

    text: str = knob("", "Text", long=True, group=LIVE, zero="Article 1 of the Universal Declaration in the language below",
                     help="What is to be tokenised. Empty: Article 1 of the Universal Declaration of Human Rights in the "
                          "language chosen.")
    tokenizers: str = knob("o200k_base,llama3", "Tokenizers", suggestions="tokenizers", group=LIVE,
                           help="Side by side on the text, separated by commas; all = every one. A file of your own "
                                "(tokenizer.json, .tiktoken) by its path.")
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
                       help="USD per 1M input and output tokens by tokenizer or model, replacing the list prices: "
                            "'gpt-4o 2.5 10, my-llama:llama3 0.2 0.2'.")
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

    `text`: what was tokenised, the question's or (`sample`) the Universal Declaration's. `live`: it under each tokenizer
    whose vocabulary is here; `missing`: the others. `ranking`: tokenizers, fairest first; `placed`: models by what the
    content of the bill's request costs in the story's language, cheapest first.
    """

    query: Query
    matrix: Grid
    story: Story
    text: str
    sample: bool
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


def steps(query: Query) -> Iterator[Progress | Answer]:
    """Progress while vocabularies are unpacked, then the Answer. Raises InvalidQuery."""
    yield Progress(stage="tokenizers", fraction=0.0)
    raise NotImplementedError


def answer(query: Query) -> Answer:
    """The whole answer."""
    *_, last = steps(query)
    return last
