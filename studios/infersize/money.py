"""Cost, API offers and speculative decoding as a page shows them."""

from dataclasses import dataclass
from typing import Any

from pycore.ledger import Term
from pycore.units import dollars, significant
from studios.explain import Ledger, Number, help_field
from studios.infersize.speed import Figure, Tile, listed
from studios.marks import range_mark


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What API providers charge for the same model, one mix of tokens."""

    kind: str = help_field("which tokens: blended at your mix, input, output")
    low: str = help_field("cheapest, USD per 1M tokens")
    low_provider: str = help_field("who asks that")
    median: str = help_field("the middle one")
    high: str = help_field("dearest")
    high_provider: str = help_field("who asks that")
    cached: str = help_field("span with cached input, or ''")
    providers: str = help_field("how many providers")
    date: str = help_field("date of the prices, or 'undated'")


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """One place that sells the device by the hour."""

    place: str = help_field("cloud and region")
    usd: str = help_field("USD per device and hour")
    spot: str = help_field("spot price, or ''")
    date: str = help_field("date, or 'undated'")


@dataclass(frozen=True, slots=True, kw_only=True)
class CostView:
    """The cost section."""

    figures: tuple[Figure, ...] = help_field("prices and energy of the asked deployment")
    break_even: str = help_field("at which utilisation it matches the API offers, in a sentence")
    offers: tuple[Offer, ...] = help_field("what APIs charge")
    prices: tuple[Price, ...] = help_field("what the device costs where, cheapest first, at most eight")
    more_prices: str = help_field("how many more places the catalogue holds, or ''")
    not_known: tuple[str, ...] = help_field("what could not be said and why")
    utilisation: str = help_field("the share of the hour it is busy, as asked")
    curve: tuple[tuple[float, float], ...] = help_field("(utilisation, USD per 1M), for the chart")
    bands: tuple[tuple[str, float, float, float], ...] = help_field("(kind, low, median, high), for the chart")


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeculationView:
    """The speculative decoding section."""

    verdict: str = help_field("does it pay, in a sentence")
    draft: str = help_field("the draft model")
    figures: tuple[Figure, ...] = help_field("tokens a step, speed-up, lengths and limits")
    lengths: tuple[tuple[int, float], ...] = help_field("(draft length, speed-up), for the chart")
    crossover: tuple[tuple[float, int, float], ...] = help_field("(acceptance, batch, speed-up), for the chart")


def cost_tile(cost: Any, utilisation: float, ledger: Ledger) -> Tile:
    """USD per 1M tokens, compared with the span of API offers."""
    own = cost.usd_per_million_blended
    band = next((band for band in cost.offers if band.kind == "blended"), None)
    whole = 1.15 * max(0.0 if own is None else own.high or own.value, band.high if band else 0.0)
    offers = dict(
        band=range_mark(band.low, band.median, band.high, whole) if band else None,
        band_name=(f"API offers {dollars(band.low)} to {dollars(band.high)}",) if band else ())
    title = "Per 1M tokens, blended"
    if own is None:
        return Tile(title=title, number=None, mark=None, mark_name=(), **offers,
                    notes=tuple((text,) for text in cost.not_known if text.startswith("price")))
    number = ledger.number(own, dollars)
    return Tile(
        title=title, number=number, mark_name=(number.range_text,) if number.range_text else (), **offers,
        mark=range_mark(own.value if own.low is None else own.low, own.value, own.high or own.value, whole),
        notes=((ledger.number(cost.usd_per_million_input, dollars), " input, ",
                ledger.number(cost.usd_per_million_output, dollars), " output"),
               ("a device-hour at ", ledger.number(cost.usd_per_gpu_hour, dollars),
                f", busy {significant(100 * utilisation)} %")))


def cost_view(answer: Any, ledger: Ledger) -> CostView:
    """The cost section of an Answer."""
    cost = answer.cost
    several = answer.deployment.parallel.devices > 1
    rows = (("Blended, your mix", cost.usd_per_million_blended, ""), ("Input", cost.usd_per_million_input, ""),
            ("Input from the prefix cache", cost.usd_per_million_cached_input, ""),
            ("Output", cost.usd_per_million_output, ""),
            ("Blended 3 : 1", cost.usd_per_million_three_to_one, "the mix that price tables quote"),
            ("Energy, at most", cost.energy_upper_bound, "at rated power; the real draw is lower"),
            ("Machine time for prompts", cost.prompt_share, ""),
            ("One device, an hour", cost.usd_per_gpu_hour, cost.usd_per_gpu_hour and cost.usd_per_gpu_hour.source),
            ("The machine, an hour", cost.usd_per_hour if several else None, ""))
    shown = cost.prices[:8]
    return CostView(
        figures=tuple(Figure(name=name, number=money(term, ledger), note=note)
                      for name, term, note in rows if term is not None),
        break_even=cost.break_even, offers=tuple(offer(band) for band in cost.offers),
        prices=tuple(price(row) for row in shown),
        more_prices=f"{len(cost.prices) - 8} more in the catalogue" if len(cost.prices) > 8 else "",
        not_known=cost.not_known, utilisation=f"{significant(100 * answer.query.utilisation)} %", curve=cost.curve,
        bands=tuple((band.kind, band.low, band.median, band.high) for band in cost.offers))


def money(term: Term, ledger: Ledger) -> Number:
    return ledger.number(term, dollars if term.unit.startswith("USD") else None)


def offer(band: Any) -> Offer:
    """A band of API offers as a line of the table."""
    cached = "" if band.cached_low is None else f"{dollars(band.cached_low)} to {dollars(band.cached_high)}"
    names = {"blended": "Blended, your mix", "blended 3:1": "Blended 3 : 1", "input": "Input", "output": "Output"}
    return Offer(kind=names.get(band.kind, band.kind), low=dollars(band.low), low_provider=band.low_provider,
                 median=dollars(band.median), high=dollars(band.high), high_provider=band.high_provider, cached=cached,
                 providers=f"{band.providers:,}", date=band.date)


def price(row: Any) -> Price:
    return Price(place=f"{row.cloud}, {row.region}" if row.region else row.cloud, usd=dollars(row.usd_per_gpu_hour),
                 spot="" if row.spot_usd_per_gpu_hour is None else dollars(row.spot_usd_per_gpu_hour),
                 date=row.date or "undated")


def speculation_view(answer: Any, ledger: Ledger) -> SpeculationView | None:
    """The speculation section, or None where no draft model was asked."""
    found, query = answer.speculation, answer.query
    if found is None:
        return None
    proposed = f"{query.draft_length} proposed, chance {query.acceptance:g} each"
    rows = (("Tokens a step", found.expected_tokens, proposed),
            ("Speed-up at this load", found.speedup, ""), ("Time per token with the draft", found.tpot_s, ""),
            ("Best draft length", found.best_length, ""), ("Speed-up at that length", found.best_speedup, ""),
            ("Acceptance it needs to break even", found.break_even_acceptance, ""),
            ("Slower than plain from", found.slowdown_batch, "at once"), ("Draft's weights", found.draft_weights, ""),
            ("Draft's KV cache", found.draft_kv, "for the same load"))
    return SpeculationView(
        verdict=found.verdict, draft=query.draft_model, lengths=found.length_curve, crossover=found.crossover,
        figures=listed(rows, ledger))
