"""`token-atlas rank`: tokenizers by fairness, or with --language models by what they cost there."""

from typing import Any

import click

from pycore.atlas.languages import by_code, language
from pycore.atlas.prices import UNDATED, own_prices
from pycore.atlas.ranking import Fairness, Placed, tokenizers_by
from pycore.atlas.table import tokenizer
from pycore.cli import output
from pycore.cli.errors import flag
from pycore.cli.options import QuestionCommand
from pycore.cli.token_atlas import asking
from pycore.ledger import terms_in
from pycore.systems.token_atlas import Query, places, priced
from pycore.units import dollars

FIELDS = ("statistic", "language", "prompt", "output", "prices", "unofficial")
EPILOG = """\b
Examples:
  token-atlas rank                                     tokenizers by their mean premium
  token-atlas rank --statistic "absolute worst"
  token-atlas rank --language tamil                    models by cost in Tamil; what flips against English
  token-atlas rank --language tamil --prices "gpt-4o 2.5 10, mine:llama3 0.2 0.4"
"""


@click.command(cls=QuestionCommand, epilog=EPILOG)
@asking.explained
@asking.options(*FIELDS)
def command(explain: str | None, **options: Any) -> None:
    """Tokenizers by fairness, or models by cost in a language, with intervals."""
    as_json, spoken = flag(options, "as_json"), options["language"]
    query = asking.read(options)
    if spoken is None:
        if explain is not None:
            raise click.UsageError("--explain goes with --language; a fairness rank is explained in the benchmark's card")
        fairness(query, as_json)
    else:
        models(query, as_json, explain)


def fairness(query: Query, as_json: bool) -> None:
    """Tokenizers, fairest first."""
    found = tokenizers_by(query.statistic)
    if as_json:
        output.write_json({"statistic": query.statistic} | asking.setting(query) | {"rows": [place(one) for one in found]})
        return
    show_fairness(query, found)


def show_fairness(query: Query, found: tuple[Fairness, ...]) -> None:
    """The table of tokenizers."""
    output.line(f"Tokenizers by {query.statistic}, over every language but English; the fairest first", style="bold")
    output.line()
    output.table(("rank", "tokenizer", "", query.statistic, "95 %", "rank 95 %", "language"), [
        (str(one.rank), one.tokenizer, tokenizer(one.tokenizer).label, f"{one.value:.2f}",
         f"{one.low:.2f} to {one.high:.2f}", span(one.rank_low, one.rank_high), worst(one))
        for one in found], right=(0, 3, 4, 5), indent=0)
    output.line("Intervals: 2,000 bootstrap draws of sentences. premium: against English under the same tokenizer. "
                "absolute: against GPT-4o's English, where being worse at English does not help.")


def place(one: Fairness) -> dict[str, Any]:
    """A rank as plain data."""
    return {"rank": one.rank, "tokenizer": one.tokenizer, "value": one.value, "low": one.low, "high": one.high,
            "rank_low": one.rank_low, "rank_high": one.rank_high, "worst_language": one.language or None}


def span(low: int, high: int) -> str:
    """'2' or '2 to 3'."""
    return str(low) if low == high else f"{low} to {high}"


def worst(one: Fairness) -> str:
    """The worst language's name, of statistics that have one."""
    return by_code()[one.language].name if one.language else ""


def models(query: Query, as_json: bool, explain: str | None) -> None:
    """Models by what one request costs in the language. Raises InputError."""
    spoken = language(query.language)
    found = places(spoken.code, query.prompt, query.output, own_prices(query.prices) or priced(query))
    if explain is not None:
        asking.explain(tuple(term for one in found for term in terms_in(one)), explain)
    elif as_json:
        output.write_json(asking.setting(query) | {"language": spoken.code, "prompt_words": query.prompt,
                                                   "output_words": query.output, "rows": [model(one) for one in found]})
    else:
        show(query, spoken.name, found)


def model(one: Placed) -> dict[str, Any]:
    """A model's place as plain data."""
    offer = one.priced
    return {"rank": one.rank, "model": offer.model, "tokenizer": offer.tokenizer, "exact": offer.exact,
            "usd_per_request": one.cost.value, "english_usd_per_request": one.english_cost.value,
            "english_rank": one.english_rank, "flips": list(one.flips), "input_usd_per_million": offer.input_usd,
            "output_usd_per_million": offer.output_usd, "provider": offer.provider, "date": offer.date,
            "source": offer.source}


def show(query: Query, name: str, found: tuple[Placed, ...]) -> None:
    """The table."""
    output.line(f"Models by cost in {name}: {query.prompt:,} English words of content in, {query.output:,} out",
                style="bold")
    output.line()
    output.table(("rank", "model", "tokenizer", "1,000 requests", "the same in English", "rank there", "$ in / out", "dated",
                  "changes places with"), [
        (str(one.rank), one.priced.model, one.priced.tokenizer, dollars(1000 * one.cost.value),
         dollars(1000 * one.english_cost.value), str(one.english_rank),
         f"{dollars(one.priced.input_usd)} / {dollars(one.priced.output_usd)}",
         one.priced.date or ("yours" if not one.priced.provider else UNDATED), flips(one)) for one in found],
        right=(0, 3, 4, 5), indent=0)
    output.line("Prices per 1M tokens are list prices of one provider each (--json names it). "
                "A flip: in English the other one is on the other side.")


def flips(one: Placed) -> str:
    """The models that change places, at most three by name."""
    names = ", ".join(one.flips[:3])
    return names + (f" and {len(one.flips) - 3} more" if len(one.flips) > 3 else "")
