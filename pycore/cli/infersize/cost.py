"""`infersize cost`: dollars per million tokens beside API offers, and the break-even curve in text."""

from typing import Any

import click

from pycore.cli import output
from pycore.cli.errors import flag
from pycore.cli.infersize import asking, report
from pycore.cli.infersize.document import data, document
from pycore.cli.options import QuestionCommand, question
from pycore.cost import Cost
from pycore.cost.prices import place
from pycore.ledger import Term
from pycore.systems.infersize import Answer, Query
from pycore.units import dollars, significant

EPILOG = """\b
Examples:
  infersize cost --model qwen2.5-7b --gpu l40s --utilisation 0.3
  infersize cost --model llama-3.3-70b --gpu h100 --count 4 --usd-per-gpu-hour 2.5 --cached-share 0.6
  infersize cost --model deepseek-v3 --gpu h200 --count 8 --json

\b
Prices are list prices as the sources gave them, with place and date, or "undated". Check before you buy.
"""
PRICES_SHOWN = 8


@click.command(cls=QuestionCommand, epilog=EPILOG)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@question(Query)
def command(**options: Any) -> None:
    """Dollars per million tokens, and how busy a machine must be to beat API offers."""
    as_json = flag(options, "as_json")
    answer = asking.answer(asking.read_query(options))
    found = answer.cost
    if as_json:
        whole = document(answer)
        terms = ("usd_per_gpu_hour", "usd_per_million_blended", "usd_per_million_input", "usd_per_million_output")
        output.write_json({key: whole[key] for key in ("model", "accelerator", "query", "url", "fits", "cost")} | {
            "curve": data(found.curve), "staircase": data(found.staircase), "offers": data(found.offers),
            "prices": data(found.prices),
            "terms": [term.as_dict() for name in terms if isinstance(term := getattr(found, name), Term)]})
    else:
        show(answer, found)
    asking.exit_unless(answer.fits)


def show(answer: Answer, found: Cost) -> None:
    """The report in text."""
    report.verdict(answer)
    report.money(answer)
    shares(found)
    break_even(found)
    staircase(found)
    offers(found)
    prices(found)


def shares(found: Cost) -> None:
    """How input and output come to share the cost."""
    output.heading("How the cost is shared")
    output.line(f"  {output.with_range(found.prompt_share)} of the machine's time goes to prompts, which input tokens "
                "pay; the rest to answers, which output tokens pay.")
    output.line(f"  A busy machine serves {output.with_range(found.requests_per_s)}.")
    if found.usd_per_million_three_to_one is not None:
        output.line(f"  Blended 3 input : 1 output, as API tables quote: {found.usd_per_million_three_to_one.text}.")


def break_even(found: Cost) -> None:
    """Utilisation against price, with how each compares with the API offers."""
    if not found.curve:
        return
    output.heading("Break-even: utilisation against $ per 1M tokens, blended")
    top = found.curve[0][1]
    band = found.offers[0] if found.offers else None
    output.table(("utilisation", "$ per 1M", "", "against API offers"), [
        (f"{share * 100:g} %", dollars(usd), output.bar(usd / top), "" if band is None else against(usd, band))
        for share, usd in found.curve[1::2]], right=(0, 1))


def against(usd: float, band: Any) -> str:
    """Where a price lies among the offers, in words."""
    if usd <= band.low:
        return "below the cheapest"
    if usd <= band.median:
        return "below the median"
    return "below the dearest" if usd <= band.high else "above all"


def staircase(found: Cost) -> None:
    """Machines are bought whole: what each level of demand costs."""
    if not found.staircase:
        return
    output.heading("Whole machines: demand against price")
    output.table(("tokens/s asked", "GPUs", "$ per 1M"), [
        (significant(demand), devices, dollars(usd)) for demand, devices, usd in found.staircase[1::2]],
        right=(0, 1, 2))


def offers(found: Cost) -> None:
    """What API providers charge."""
    if not found.offers:
        return
    output.heading(f"API offers for this model ({found.offers[0].providers} providers, {found.offers[0].date})")
    output.table(("$ per 1M tokens", "cheapest", "median", "dearest", "cached input billed apart"), [
        (band.kind, f"{dollars(band.low)} {band.low_provider}", dollars(band.median),
         f"{dollars(band.high)} {band.high_provider}",
         "" if band.cached_low is None else f"{dollars(band.cached_low)} to {dollars(band.cached_high)}")
        for band in found.offers], right=(2,))


def prices(found: Cost) -> None:
    """On-demand prices of the device, cheapest first."""
    if not found.prices:
        return
    output.heading("On-demand prices of this device, per GPU and hour")
    output.table(("", "on demand", "spot", "sold"), [
        (place(row), dollars(row.usd_per_gpu_hour),
         "" if row.spot_usd_per_gpu_hour is None else dollars(row.spot_usd_per_gpu_hour), f"{row.gpus:g} at a time")
        for row in found.prices[:PRICES_SHOWN]], right=(1, 2))
    if len(found.prices) > PRICES_SHOWN:
        output.line(f"  and {len(found.prices) - PRICES_SHOWN} more (--json lists all)")
