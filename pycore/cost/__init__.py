"""What tokens cost: dollars per million on one's own machine, beside what API providers charge, and energy."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pycore.cost import offers as market
from pycore.cost import tokens
from pycore.cost.offers import OfferBand
from pycore.cost.prices import on_demand, price_term
from pycore.errors import InputError
from pycore.ledger import Term, add, fact
from pycore.nouns import ApiOffer, CloudPrice, Deployment
from pycore.units import dollars, significant

CURVE = tuple(step / 20 for step in range(1, 21))
STAIRCASE = tuple(step / 4 for step in range(1, 17))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Prices in USD per 1M tokens at the asked utilisation. A None is a thing not known; `not_known` says why.

    `curve`: (utilisation, blended USD per 1M tokens). `staircase`: (demand in tokens/s, devices, blended USD per 1M
    tokens), since machines are bought whole. `offers`: the bands of what APIs charge. `prices`: every on-demand price
    the catalogue holds for the device, cheapest first.
    """

    usd_per_gpu_hour: Term | None
    usd_per_hour: Term | None
    usd_per_million_input: Term | None
    usd_per_million_cached_input: Term | None
    usd_per_million_output: Term | None
    usd_per_million_blended: Term | None
    usd_per_million_three_to_one: Term | None
    prompt_share: Term
    requests_per_s: Term
    energy_upper_bound: Term | None
    break_even_utilisation: Term | None
    break_even_cheapest: Term | None
    break_even_dearest: Term | None
    break_even: str
    curve: tuple[tuple[float, float], ...]
    staircase: tuple[tuple[float, int, float], ...]
    offers: tuple[OfferBand, ...]
    prices: tuple[CloudPrice, ...]
    not_known: tuple[str, ...]

    @property
    def terms(self) -> tuple[Term, ...]:
        """The terms that have a value."""
        named = (self.usd_per_gpu_hour, self.usd_per_hour, self.usd_per_million_input,
                 self.usd_per_million_cached_input, self.usd_per_million_output, self.usd_per_million_blended,
                 self.usd_per_million_three_to_one, self.prompt_share, self.requests_per_s, self.energy_upper_bound,
                 self.break_even_utilisation, self.break_even_cheapest, self.break_even_dearest)
        return tuple(one for one in named if one is not None)


def cost(deployment: Deployment, speed: Any, *, utilisation: float, usd_per_gpu_hour: float = 0.0,
         prices: Iterable[CloudPrice] = (), offers: Iterable[ApiOffer] = ()) -> Cost:
    """What the deployment's tokens cost.

    Of `speed` two things are read: `requests_per_s`, a term for the whole deployment under the asked load, and
    `decode_parts`, terms that add up to one decode-only step. `usd_per_gpu_hour` 0 takes the catalogue's `prices`.
    Raises InputError for a utilisation outside 0..1 (0 excluded) or a cached share outside 0..1.
    """
    validate(utilisation, deployment.cached_share)
    devices, prices = deployment.parallel.devices, tuple(prices)
    load = Load(deployment, speed, fact("Utilisation", utilisation, "", basis="given", source="the question"))
    hourly = price_term(usd_per_gpu_hour, prices, devices)
    found = market.bands(offers, load.prompt, load.output, deployment.cached_share)
    tdp = deployment.accelerator.tdp_w
    money = priced(hourly, devices, load) if hourly else UNPRICED
    busy = load.blended(tokens.busy_second(money["usd_per_hour"], 1)) if hourly else None
    return Cost(
        usd_per_gpu_hour=hourly, **money, **matched(busy, found), prompt_share=load.prompt_share,
        requests_per_s=tokens.request_rate(load.request_s),
        energy_upper_bound=None if tdp is None else tokens.energy_bound(
            rated_power(deployment, tdp), devices, load.request_s, load.prompt, load.output, load.utilisation),
        curve=() if busy is None else tuple((point, busy.value / point) for point in CURVE),
        staircase=() if busy is None else staircase(money["usd_per_hour"].value, devices,
                                                    (load.prompt + load.output) / load.request_s.value),
        offers=found, prices=on_demand(prices), not_known=tuple(missing(deployment, hourly, tdp, found)))


class Load:
    """Machine time of one request, as terms."""

    def __init__(self, deployment: Deployment, speed: Any, utilisation: Term) -> None:
        self.prompt, self.output, self.utilisation = deployment.prompt, deployment.output, utilisation
        rate = speed.requests_per_s
        step = fact("Decode-only step", add(part.value for part in speed.decode_parts), "s", basis="derived",
                    source="the speed's decode parts")
        together = deployment.sequences_per_replica * deployment.parallel.data
        decode_s = tokens.decode_seconds(self.output, step, together)
        self.prompt_share = tokens.prompt_share(decode_s, rate.value)  # a ratio: the range of both cancels
        self.prompt_s = tokens.prompt_seconds(self.prompt_share, rate)
        self.answer_s = tokens.answer_seconds(self.prompt_share, rate)
        self.request_s = tokens.request_seconds(self.prompt_s, self.answer_s)
        self.computed = deployment.prompt - deployment.cached_tokens

    def blended(self, usd_per_s: Term) -> Term:
        """USD per 1M tokens of the question's own mix, at this price of a busy second."""
        return tokens.blended_price(usd_per_s, self.request_s, self.prompt, self.output)


UNPRICED = dict.fromkeys(("usd_per_hour", "usd_per_million_input", "usd_per_million_cached_input",
                          "usd_per_million_output", "usd_per_million_blended", "usd_per_million_three_to_one"))


def priced(price: Term, devices: int, load: Load) -> dict[str, Term]:
    """The fields of Cost that need a price."""
    hourly = tokens.machine_hour(price, devices)
    second = tokens.busy_second(hourly, load.utilisation)
    per_input = tokens.input_price(second, load.prompt_s, load.computed)
    per_output = tokens.output_price(second, load.answer_s, load.output)
    return dict(
        usd_per_hour=hourly, usd_per_million_input=per_input,
        usd_per_million_cached_input=tokens.cached_input_price(second), usd_per_million_output=per_output,
        usd_per_million_blended=load.blended(second),
        usd_per_million_three_to_one=tokens.three_to_one_price(per_input, per_output))


def matched(busy: Term | None, found: tuple[OfferBand, ...]) -> dict[str, Term | str | None]:
    """The break-even fields of Cost: utilisation that matches the median, the cheapest and the dearest API offer."""
    edges = dict(break_even_utilisation="median", break_even_cheapest="low", break_even_dearest="high")
    if busy is None or not found:
        return dict.fromkeys(edges) | {"break_even": "No break-even: " + (
            "no price for the device." if busy is None else "no API offer for this model in the catalogue.")}
    blended = found[0]
    offered = {field: market.band_term(f"API offers, {edge}", getattr(blended, edge), blended)
               for field, edge in edges.items()}
    shares = {field: market.break_even_utilisation(busy, offer) for field, offer in offered.items()}
    reached = {field: share if share.value <= 100 else None for field, share in shares.items()}
    return reached | {"break_even": sentence(busy, blended, shares)}


def sentence(busy: Term, blended: OfferBand, shares: dict[str, Term]) -> str:
    """The break-even in words."""
    if shares["break_even_dearest"].value > 100:
        return (f"Cheaper by API at any utilisation: an always busy machine costs {dollars(busy.value)} per 1M tokens, "
                f"offers {dollars(blended.low)} to {dollars(blended.high)}.")
    if shares["break_even_utilisation"].value > 100:
        return (f"Matches only the dearer API offers: from {significant(shares['break_even_dearest'].value)} % "
                f"utilisation the dearest ({dollars(blended.high)}), never the median ({dollars(blended.median)}).")
    return (f"Cheaper than the median API offer ({dollars(blended.median)} per 1M tokens) above "
            f"{significant(shares['break_even_utilisation'].value)} % utilisation.")


def staircase(usd_per_hour: float, devices: int, tokens_per_s: float) -> tuple[tuple[float, int, float], ...]:
    """(demand in tokens/s, devices, USD per 1M tokens) up to four machines: each step buys one more whole machine."""
    points = []
    for load in STAIRCASE:
        machines = math.ceil(load)
        usd = machines * usd_per_hour / 3600 / (load * tokens_per_s) * tokens.MILLION
        points.append((load * tokens_per_s, machines * devices, usd))
    return tuple(points)


def rated_power(deployment: Deployment, tdp: float) -> Term:
    """The device's rated power as a term."""
    return fact("Rated power of one device", tdp, "W", basis="datasheet", source=deployment.accelerator.source)


def validate(utilisation: float, cached_share: float) -> None:
    """Raises InputError for a share outside its range (nan included)."""
    if not 0 < utilisation <= 1:
        raise InputError("utilisation", utilisation, "accepted: a number above 0, up to 1")
    if not 0 <= cached_share <= 1:
        raise InputError("cached_share", cached_share, "accepted: a number from 0 to 1")


def missing(deployment: Deployment, price: Term | None, tdp: float | None,
            found: tuple[OfferBand, ...]) -> Iterable[str]:
    """What the catalogue lacks for this answer, in words."""
    name = deployment.accelerator.name
    if price is None:
        yield f"price: the catalogue holds no on-demand price of {name}; give one in USD per GPU-hour"
    if tdp is None:
        yield f"energy: no source gives the rated power of {name}"
    if not found:
        yield f"API offers: the catalogue holds none for {deployment.model.name}"
