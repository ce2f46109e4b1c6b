"""A workload in words, for who reads the page: what arrives, how long it is, what it shares. Nothing of it is computed."""

from pycore.simulation.lengths import Empirical, Fixed, Lengths, Lognormal, Uniform
from pycore.simulation.workload import Workload
from pycore.units import seconds, significant

TENS = {1: "st", 2: "nd", 3: "rd"}


def spoken(workload: Workload, count: int, trace: str = "") -> str:
    """'24 requests, one every 250 ms; prompts of 128 tokens (the 9th of 16,384), answers of 200'.

    `count`: requests in all. `trace`: what a replayed trace is called, where it has no name of its own.
    """
    said = f"{count:,} request{'' if count == 1 else 's'}{arriving(workload, trace)}"
    if workload.arrivals == "replay":
        return said + shared(workload)
    return f"{said}; prompts of {prompts(workload)}, answers of {lengths(workload.output)}{shared(workload)}"


def arriving(workload: Workload, trace: str = "") -> str:
    """How requests come, to stand behind their number."""
    rate = significant(workload.rate, 3)
    if workload.arrivals == "replay":
        speed = "" if workload.speed == 1 else f", {significant(workload.speed, 3)} times as fast"
        return f" of {trace or workload.trace}, as they arrived{speed}"
    if workload.arrivals == "closed":
        pause = f" {seconds(workload.think)} after" if workload.think else " at"
        return f" of {workload.users:,} user{'' if workload.users == 1 else 's'}, each sending its next{pause} the answer"
    return {
        "batch": ", all at once",
        "deterministic": f", one every {seconds(1 / workload.rate)}",
        "poisson": f", {rate} a second at random",
        "gamma": f", {rate} a second in bursts (gaps vary by {significant(workload.cv, 3)} times their mean)",
        "onoff": f", {rate} a second for {seconds(workload.on)} and none for {seconds(workload.off)}, in turns",
    }[workload.arrivals]


def prompts(workload: Workload) -> str:
    """Prompt lengths and the ones set by hand."""
    said = lengths(workload.prompt, " tokens")
    long = ", ".join(f"the {ordinal(place)} of {size:,}" for size, place in workload.long_sent)
    return f"{said} ({long})" if long else said


def lengths(drawn: Lengths, unit: str = "") -> str:
    """A distribution of tokens, its first figure with the unit behind it."""
    if isinstance(drawn, Fixed):
        return f"{drawn.tokens:,}{unit}"
    if isinstance(drawn, Uniform):
        return f"{drawn.low:,} to {drawn.high:,}{unit}"
    if isinstance(drawn, Empirical):
        return f"lengths as in {drawn.trace}"
    return lognormal(drawn, unit)


def lognormal(drawn: Lognormal, unit: str = "") -> str:
    """By the figures that it was told by."""
    names = (("about", drawn.mean), ("median", drawn.p50), ("one in ten above", drawn.p90))
    first, *others = [f"{name} {round(value):,}" for name, value in names if value is not None]
    return first + unit + (f" ({', '.join(others)})" if others else "")


def shared(workload: Workload) -> str:
    """Prefixes, conversations, urgency: what is set of them."""
    said = []
    if workload.prefix:
        texts = f"one of {workload.prefix.texts:,} shared texts" if workload.prefix.texts > 1 else "one shared text"
        said.append(f"{share(workload.prefix.share)} begin with {texts} of {workload.prefix.tokens:,} tokens")
    if workload.turns > 1:
        said.append(f"conversations of {workload.turns} turns")
    if workload.urgent:
        said.append(f"{share(workload.urgent)} are urgent")
    if workload.predict != "exact":
        said.append("nobody predicts how long answers get" if workload.predict == "none" else
                    f"lengths predicted with a log-normal error of sigma {workload.predict.partition(':')[2]}")
    return "".join(f"; {one}" for one in said)


def share(value: float) -> str:
    """'30 %', 'all'."""
    return "all" if value == 1 else f"{significant(100 * value, 3)} %"


def ordinal(number: int) -> str:
    """'9th', '21st', '112th'."""
    return f"{number:,}{'th' if number % 100 in (11, 12, 13) else TENS.get(number % 10, 'th')}"
