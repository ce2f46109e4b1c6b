"""What others charge for the same model, as bands, and how busy a machine of one's own must be to match them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pycore.ledger import Term, fact, term
from pycore.nouns import ApiOffer


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferBand:
    """The spread of one price over the providers that offer the model; USD per 1M tokens.

    kind: "blended" (the question's mix of input and output), "blended 3:1", "input", "output". In "blended" the cached
    share of the prompt is billed at a provider's cached price where it lists one, else in full. `cached_low` and
    `cached_high`: in "input" the range of cached-input prices; in "blended" the range over providers that list one;
    None where none does. `date`: the dates of the offers in words, "undated" where no source gave one.
    """

    kind: str
    low: float
    low_provider: str
    median: float
    high: float
    high_provider: str
    cached_low: float | None
    cached_high: float | None
    providers: int
    date: str


def middle(values: Sequence[float]) -> float:
    """The median."""
    ordered, half = sorted(values), len(values) // 2
    return ordered[half] if len(values) % 2 else (ordered[half - 1] + ordered[half]) / 2


def blend(offer: ApiOffer, prompt: float, output: float, cached_share: float) -> float:
    """USD per 1M tokens of an offer at this mix; cached tokens at the cached price where the provider lists one."""
    cached = offer.input_usd if offer.cached_input_usd is None else offer.cached_input_usd
    per_input = offer.input_usd * (1 - cached_share) + cached * cached_share
    return (prompt * per_input + output * offer.output_usd) / (prompt + output)


def usable(offers: Iterable[ApiOffer]) -> tuple[ApiOffer, ...]:
    """Without free offers and outliers (over 4x off the model's median: stale or placeholder prices)."""
    return tuple(offer for offer in offers if not offer.outlier and offer.input_usd + offer.output_usd > 0)


def bands(offers: Iterable[ApiOffer], prompt: int, output: int, cached_share: float) -> tuple[OfferBand, ...]:
    """The four bands, or () where nobody offers the model."""
    rows = usable(offers)
    if not rows:
        return ()
    cached = tuple(row for row in rows if row.cached_input_usd is not None)
    blended = [blend(row, prompt, output, cached_share) for row in cached] if cached_share else []
    return (
        band("blended", rows, [blend(row, prompt, output, cached_share) for row in rows], blended),
        band("blended 3:1", rows, [blend(row, 3, 1, 0) for row in rows], []),
        band("input", rows, [row.input_usd for row in rows], [row.cached_input_usd for row in cached]),
        band("output", rows, [row.output_usd for row in rows], []),
    )


def band(kind: str, rows: Sequence[ApiOffer], values: Sequence[float], cached: Sequence[float]) -> OfferBand:
    """One band; ties go to the provider that comes first in the alphabet, so the answer does not hang on row order."""
    pairs = sorted(zip(values, (row.provider for row in rows), strict=True))
    return OfferBand(
        kind=kind, low=pairs[0][0], low_provider=pairs[0][1], median=middle(values), high=pairs[-1][0],
        high_provider=pairs[-1][1], cached_low=min(cached, default=None), cached_high=max(cached, default=None),
        providers=len({row.provider for row in rows}), date=dates(rows))


def dates(rows: Sequence[ApiOffer]) -> str:
    """'undated', '2026-09-06', '2025-03-07 to 2026-09-06', with '; some undated' where only some are dated."""
    known = sorted({row.date for row in rows if row.date})
    if not known:
        return "undated"
    text = known[0] if len(known) == 1 else f"{known[0]} to {known[-1]}"
    return text + ("; some undated" if any(not row.date for row in rows) else "")


def band_term(name: str, value: float, found: OfferBand) -> Term:
    """A band's edge as a term that says who and when."""
    return fact(name, value, "USD/1M tokens", basis="reported",
                source=f"{found.providers} API provider{'' if found.providers == 1 else 's'}, {found.date}")


@term("Break-even utilisation", "%")
def break_even_utilisation(busy_usd, offer_usd):
    """100 × busy_usd ÷ offer_usd

    busy_usd is the blended price of a machine that is always busy; halving the utilisation doubles it. Above 100 the
    offer cannot be matched.
    """
    return 100 * busy_usd / offer_usd
