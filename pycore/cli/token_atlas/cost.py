"""`token-atlas cost`: a month's bill for a mix of languages, by model, and each language's tax."""

from typing import Any

import click

from pycore.atlas.bill import Bill, ModelBill, bill, parse_mix
from pycore.atlas.prices import UNDATED, own_prices
from pycore.cli import output
from pycore.cli.errors import flag
from pycore.cli.options import QuestionCommand
from pycore.cli.token_atlas import asking
from pycore.ledger import terms_in
from pycore.systems.token_atlas import priced
from pycore.units import dollars, significant

FIELDS = ("mix", "requests", "prompt", "output", "prices", "unofficial")
EPILOG = """\b
Examples:
  token-atlas cost
  token-atlas cost --mix "english 60, hindi 25, tamil 15" --requests 1000000 --prompt 1000 --output 250
  token-atlas cost --mix thai --prices "gpt-4o 2.5 10, gemma3 0.1 0.2"
  token-atlas cost --explain "language tax"

\b
Traffic is counted in English words of content: every language says the same, every model is asked the same.
"""


@click.command(cls=QuestionCommand, epilog=EPILOG)
@asking.explained
@asking.options(*FIELDS)
def command(explain: str | None, **options: Any) -> None:
    """What a mix of languages costs a month by model, and the tax of each language against English."""
    as_json = flag(options, "as_json")
    query = asking.read(options)
    found = bill(parse_mix(query.mix), requests=query.requests, prompt_words=query.prompt, output_words=query.output,
                 prices=own_prices(query.prices) or priced(query))
    if explain is not None:
        asking.explain(tuple(term for model in found.models for part in (model, *model.lines) for term in terms_in(part)),
                       explain)
    elif as_json:
        output.write_json(asking.setting(query) | document(found))
    else:
        show(found)


def document(found: Bill) -> dict[str, Any]:
    """The bill as plain data."""
    return {
        "requests": found.requests, "prompt_words": found.prompt_words, "output_words": found.output_words,
        "mix": [{"language": one.language.code, "share": one.share} for one in found.mix],
        "models": [model(one) for one in found.models],
        "cheapest": [{"language": one.language.code, "model": one.model, "usd_per_request": one.cost.value,
                      "english_model": one.english_model, "flipped": one.flipped} for one in found.cheapest],
    }


def model(found: ModelBill) -> dict[str, Any]:
    """One model's month."""
    offer = found.priced
    return {
        "model": offer.model, "tokenizer": offer.tokenizer, "exact": offer.exact, "usd_per_month": found.cost.value,
        "english_usd_per_month": found.english_cost.value, "language_tax": found.tax.value,
        "input_usd_per_million": offer.input_usd, "output_usd_per_million": offer.output_usd, "provider": offer.provider,
        "date": offer.date, "source": offer.source,
        "languages": [{"language": line.language.code, "requests": line.requests.value,
                       "input_tokens": line.input_tokens.value, "output_tokens": line.output_tokens.value,
                       "usd": line.cost.value, "language_tax": line.tax.value} for line in found.lines],
    }


def show(found: Bill) -> None:
    """The verdict, the table of models, the cheapest by language."""
    best = found.models[0]
    output.line(f"Cheapest: {best.priced.model}, {best.cost.text} a month; {significant(best.tax.value)} times what the "
                "same traffic costs in English", style="bold")
    mix = ", ".join(f"{one.language.name} {significant(100 * one.share)} %" for one in found.mix)
    output.line(f"{found.requests:,} requests a month: {mix}; {found.prompt_words:,} English words of content in, "
                f"{found.output_words:,} out")
    output.line()
    output.table(("model", "tokenizer", "a month", "in English", "tax", *(f"{one.language.name} tax" for one in found.mix),
                  "$ in / out", "dated"), [
        (one.priced.model, one.priced.tokenizer, dollars(one.cost.value), dollars(one.english_cost.value),
         times(one.tax.value), *(times(line.tax.value) for line in one.lines),
         f"{dollars(one.priced.input_usd)} / {dollars(one.priced.output_usd)}",
         one.priced.date or ("yours" if not one.priced.provider else UNDATED)) for one in found.models],
        right=range(2, 5 + len(found.mix)), indent=0)
    for one in found.cheapest:
        flipped = f"; in English it would be {one.english_model}" if one.flipped else ""
        output.line(f"Cheapest in {one.language.name}: {one.model}, {dollars(1000 * one.cost.value)} per 1,000 requests"
                    f"{flipped}")
    output.line("Prices per 1M tokens are list prices of one provider each (--json names it); your own: --prices.")


def times(value: float) -> str:
    """'2.31×'"""
    return f"{value:.2f}×"
