"""Which price an hour of the machine costs when the question names none, and how that price says where it is from."""

from collections.abc import Iterable, Iterator

from pycore.ledger import Term, fact
from pycore.nouns import CloudPrice

UNDATED = "undated"


def on_demand(prices: Iterable[CloudPrice]) -> tuple[CloudPrice, ...]:
    """Rows with an on-demand price for at least one whole device, cheapest first (ties: newest, then by place)."""
    rows = [row for row in prices if row.usd_per_gpu_hour is not None and row.gpus >= 1]
    return tuple(sorted(rows, key=lambda row: (row.usd_per_gpu_hour, descending(row.date), row.cloud,
                                               row.region or "")))


def descending(date: str) -> tuple[int, ...]:
    """A sort key that puts later ISO dates first and a missing one last."""
    return tuple(-ord(letter) for letter in date) if date else (1,)


def choose(prices: Iterable[CloudPrice], devices: int) -> CloudPrice | None:
    """The price a question means when it names none.

    The cheapest on-demand one that carries a date; else the cheapest undated one; None where there is no price.
    Instances larger than the deployment count only where nothing smaller is sold, so that more devices never cost more
    each. A stale date is not passed over but said (`cautions`).
    """
    every = on_demand(prices)
    rows = tuple(row for row in every if row.gpus <= devices) or every
    return next((row for row in rows if row.date), next(iter(rows), None))


def newest(prices: Iterable[CloudPrice]) -> str:
    """The latest date among prices, '' where none is dated."""
    return max((row.date for row in prices), default="")


def year_before(date: str) -> str:
    """'2025-09-06' for '2026-09-06'; compared as text, so the 29th of February needs no care."""
    return f"{int(date[:4]) - 1:04d}{date[4:]}" if date else ""


def place(price: CloudPrice) -> str:
    """'aws us-east-1, g6e.xlarge, 2026-09-06': who, where, what, when ('undated' where no source says)."""
    where = f"{price.cloud} {price.region or '(region not stated)'}"
    return ", ".join(part for part in (where, price.instance, price.date or UNDATED) if part)


def price_term(usd_per_gpu_hour: float, prices: Iterable[CloudPrice], devices: int) -> Term | None:
    """What one device costs for an hour: the question's own figure when above 0, else the catalogue's choice.

    None where the catalogue holds no on-demand price (the caller says so; nothing is made up).
    """
    if usd_per_gpu_hour > 0:
        return fact("Price of one device", usd_per_gpu_hour, "USD/h", basis="given", source="the question")
    prices = tuple(prices)
    price = choose(prices, devices)
    if price is None:
        return None
    return fact("Price of one device", price.usd_per_gpu_hour, "USD/h", basis="reported",
                source=f"{place(price)}; {price.source}", note="; ".join(cautions(price, newest(prices), devices)))


def cautions(price: CloudPrice, latest: str, devices: int) -> Iterator[str]:
    """What to know before paying that price."""
    if not price.date:
        yield "undated: the source gives no date, so it may be stale"
    elif price.date < year_before(latest):
        yield f"over a year older than the newest price held for this device ({latest}), so it may be stale"
    if price.gpus > devices:
        yield f"sold {price.gpus:g} at a time: the rest is yours to use"
