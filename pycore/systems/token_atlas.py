"""token-atlas: what a text costs in 52 languages under today's tokenizers. The question, the answer, the way between."""

from collections.abc import Iterator
from dataclasses import dataclass

from pycore.knobs import knob
from pycore.ledger import Term, terms_in

TOKENIZERS = ("o200k_base", "llama3", "qwen2.5", "deepseek-v3", "gemma3", "claude-legacy", "cl100k_base")
"""Those that encode. The matrix has columns of counts besides (claude3-ctok, claude4.7-ctok)."""
MEASURES = ("premium", "absolute", "tokens", "fertility", "per-character", "per-byte", "split", "fallback", "context",
            "decode", "prefill", "cost")
SORTS = ("measure", "name", "family", "script", "code")
REFERENCE = ("o200k_base", "eng_Latn")
"""What 'absolute' is measured against: GPT-4o's English."""

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
    measure: str = knob("premium", "Measure", choices=MEASURES, group=MATRIX,
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
class Column:
    """One tokenizer of the matrix. `counts_only`: no pieces are known, only how many (an unofficial reconstruction)."""

    name: str
    label: str
    counts_only: bool
    english_tokens: int
    median: float  # of the shown measure over the shown languages
    worst: float
    worst_language: str  # FLORES code


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One language under one tokenizer. `value` is None where the measure has no meaning (words in Thai).

    `low`, `high`: bootstrap 95 % interval of `value` over sentences, None where the measure has none.
    `shade`: 0 (best) to 1 (worst) on a scale of all cells of this measure, logarithmic for ratios.
    """

    language: str
    tokenizer: str
    value: float | None
    text: str
    low: float | None
    high: float | None
    shade: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixRow:
    """One language. `cells` in the order of the matrix's columns."""

    code: str
    name: str
    script: str
    family: str
    cells: tuple[Cell, ...]
    median: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A script's or a family's languages summed up: median of the measure by column."""

    name: str
    languages: int
    medians: tuple[float | None, ...]
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """The heat map: what is shown, in which order, and its summary."""

    measure: str
    label: str  # 'Tokens against English, same tokenizer'
    says: str  # one sentence: what a cell means and which way is worse
    columns: tuple[Column, ...]
    rows: tuple[MatrixRow, ...]
    scripts: tuple[Group, ...]
    families: tuple[Group, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One token as it is shown.

    `text`: its characters where it holds whole ones, else ''. `hex`: its bytes, 'e0 a4 95'. `start`, `end`: code points of
    the given text that it touches. `character`: number of the extended grapheme cluster its first byte lies in, so that
    tokens of one character are coloured together. `whole`: False where it begins or ends inside a character.
    """

    id: int
    text: str
    hex: str
    start: int
    end: int
    character: int
    whole: bool
    special: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Twig:
    """A node of a merge tree: a token's text (or bytes in hex) and what it was merged from; `order` of the merge."""

    text: str
    hex: str
    id: int | None
    parts: tuple["Twig", ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """The text under one tokenizer."""

    name: str
    label: str
    tokens: Term
    per_character: Term | None
    cost: Term | None
    pieces: tuple[Piece, ...]
    ids: tuple[int, ...]
    round_trip: bool  # decoding gives the text again (the normalised one where the tokenizer normalises)
    normalised: str | None  # the text as the tokenizer reads it where that differs from the one given
    tree: tuple[Twig, ...]  # of the chosen word, one root a token
    word: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """A tokenizer that was asked for and whose vocabulary is not here, with what to do about it."""

    name: str
    label: str
    says: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """One cell told: a language under a tokenizer, every figure a Term; None where the measure has no meaning."""

    language: str
    name: str
    tokenizer: str
    label: str
    tokens: Term
    premium: Term  # with its interval
    absolute: Term
    fertility: Term | None
    per_character: Term
    per_byte: Term
    split: Term | None  # share of tokens that hold a piece of a character
    fallback: Term | None  # share of tokens that are single bytes
    context: Term  # words (or characters where words are not spaced) in the window
    decode: Term
    prefill: Term
    cost: Term | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Everything that follows from a Query. `bill` and `ranking` are of pycore.atlas."""

    query: Query
    matrix: Matrix
    story: Story
    text: str  # what was tokenised: the question's, or the sample
    sample: bool
    live: tuple[Live, ...]
    missing: tuple[Missing, ...]
    bill: object
    ranking: object
    notes: tuple[str, ...]

    @property
    def terms(self) -> tuple[Term, ...]:
        """Every term of the answer once: the story, the text under each tokenizer, the bill."""
        found: dict[tuple, Term] = {}
        for part in (self.story, *self.live):
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
