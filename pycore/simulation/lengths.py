"""How long prompts and answers are: distributions of token counts, drawn or taken from a trace.

    512   fixed:512   uniform:64-1024   lognormal:1024   lognormal:1024,p90=2048   lognormal:p50=700,p90=2048   trace:NAME

A log-normal is told by two of its mean, median (p50) and 90th percentile; "1024" is its MEAN, not its median or mode,
and the drawn mean is that (tests/pycore/simulation/test_lengths.py). By its mean alone it takes the shape of the answers
of the Azure 2023 conversation trace (mean 211, median 129: Azure/AzurePublicDataset).
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from pycore.errors import InputError
from pycore.simulation.arrivals import standard_normal

LONGEST = 10_000_000  # tokens of one prompt or answer
MEDIAN_OF_MEAN = 129 / 211
Z90 = 1.2815515655446004  # the standard normal's 90th percentile
HIGHEST_SIGMA = 4.0
FORMS = "N, fixed:N, uniform:LOW-HIGH, lognormal:MEAN[,p50=N | ,p90=N], lognormal:p50=N,p90=N or trace:NAME"
TRACE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixed:
    """Always the same."""

    tokens: int

    @property
    def text(self) -> str:
        return str(self.tokens)

    def sampler(self, rng: Random) -> Callable[[], int]:
        return lambda: self.tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Uniform:
    """Every whole number from `low` to `high`, both included, equally often."""

    low: int
    high: int

    @property
    def text(self) -> str:
        return f"uniform:{self.low}-{self.high}"

    def sampler(self, rng: Random) -> Callable[[], int]:
        width = self.high - self.low + 1
        return lambda: self.low + int(rng.random() * width)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lognormal:
    """ln(tokens) is normal; told by two of mean, p50, p90 (tokens), the others None. Draws are whole and at least 1."""

    mean: float | None = None
    p50: float | None = None
    p90: float | None = None

    @property
    def text(self) -> str:
        parts = [shown(self.mean)] if self.mean is not None else []
        parts += [f"{name}={shown(value)}" for name in ("p50", "p90") if (value := getattr(self, name)) is not None]
        return "lognormal:" + ",".join(parts)

    @property
    def sigma(self) -> float:
        """Standard deviation of ln(tokens).

        From mean and median: mean / p50 = exp(sigma^2 / 2). From median and p90: p90 / p50 = exp(z sigma). From mean
        and p90: ln(p90 / mean) = z sigma - sigma^2 / 2, the smaller root.
        """
        if self.mean is None:
            return math.log(self.p90 / self.p50) / Z90
        if self.p90 is None:
            return math.sqrt(2.0 * math.log(self.mean / (self.p50 or self.mean * MEDIAN_OF_MEAN)))
        return Z90 - math.sqrt(max(0.0, Z90 * Z90 - 2.0 * math.log(self.p90 / self.mean)))

    @property
    def median(self) -> float:
        return self.p50 if self.p50 is not None else self.mean * math.exp(-0.5 * self.sigma**2)

    def sampler(self, rng: Random) -> Callable[[], int]:
        mu, sigma = math.log(self.median), self.sigma
        return lambda: max(1, round(math.exp(min(mu + sigma * standard_normal(rng), 40.0))))


@dataclass(frozen=True, slots=True, kw_only=True)
class Empirical:
    """Lengths of a trace, drawn with replacement. Prompt and output of the same trace are drawn as whole rows."""

    trace: str

    @property
    def text(self) -> str:
        return f"trace:{self.trace}"


Lengths = Fixed | Uniform | Lognormal | Empirical


def shown(value: float) -> str:
    """A number as its shortest exact text, whole numbers without a point."""
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def lengths(text: str, field: str) -> Lengths:
    """A distribution from its text; `lengths(d.text, field) == d`. Raises InputError naming what is accepted."""
    kind, colon, rest = text.strip().partition(":")
    kind = kind.strip().lower()
    if not colon:
        return Fixed(tokens=tokens(kind, field, text))
    if kind == "fixed":
        return Fixed(tokens=tokens(rest, field, text))
    if kind == "uniform" and rest.count("-") == 1:
        low, high = (tokens(part, field, text) for part in rest.split("-"))
        if low > high:
            raise InputError(field, text, "accepted: uniform:LOW-HIGH with LOW not above HIGH")
        return Uniform(low=low, high=high)
    if kind == "lognormal":
        return lognormal(rest, field, text)
    if kind == "trace" and TRACE_NAME.fullmatch(rest.strip()):
        return Empirical(trace=rest.strip())
    raise InputError(field, text, f"accepted: {FORMS}")


def tokens(text: str, field: str, whole: str) -> int:
    """A whole number of tokens, at least 1; 'k' is 1,024. Raises InputError that shows the `whole` text."""
    found = re.fullmatch(r"\s*([0-9]{1,9})([kK]?)\s*", text)
    value = int(found[1]) * (1024 if found[2] else 1) if found else 0
    if not 1 <= value <= LONGEST:
        raise InputError(field, whole, f"accepted: whole tokens from 1 to {LONGEST:,}, as {FORMS}")
    return value


def lognormal(text: str, field: str, whole: str) -> Lognormal:
    """The part after 'lognormal:'. Raises InputError, also where no log-normal has these figures."""
    given: dict[str, float] = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        name = name.strip().lower() if equals else "mean"
        if name not in ("mean", "p50", "p90") or name in given:
            raise InputError(field, whole, f"accepted: {FORMS}")
        given[name] = positive(value if equals else part, field, whole)
    if len(given) > 2 or set(given) in ({"p50"}, {"p90"}):
        raise InputError(field, whole, "a log-normal has two free figures; accepted: its mean, or two of mean, p50, p90")
    possible(given, field, whole)
    return Lognormal(**given)


def positive(text: str, field: str, whole: str) -> float:
    """A number of tokens above 0, decimals allowed; 'k' is 1,024."""
    found = re.fullmatch(r"\s*([0-9]{1,9}(?:\.[0-9]{1,24})?)([kK]?)\s*", text)
    value = float(found[1]) * (1024 if found[2] else 1) if found else 0.0
    if not 1.0 <= value <= LONGEST:
        raise InputError(field, whole, f"accepted: tokens from 1 to {LONGEST:,}, as {FORMS}")
    return value


def possible(given: Mapping[str, float], field: str, whole: str) -> None:
    """Refuse figures that no log-normal has: its mean lies at or above its median, its p90 cannot be far above it."""
    mean, p50, p90 = (given.get(name) for name in ("mean", "p50", "p90"))
    most = math.exp(0.5 * Z90 * Z90)
    if mean and p90 and not mean <= p90 <= mean * most:
        raise InputError(field, whole, f"accepted: a p90 from {shown(mean)} to {mean * most:.0f}, as no log-normal "
                                       f"of mean {shown(mean)} has another; a longer tail: lognormal:p50=N,p90=N")
    if mean and p50 and p50 > mean:
        raise InputError(field, whole, "accepted: a median (p50) not above the mean")
    if p50 and p90 and p50 > p90:
        raise InputError(field, whole, "accepted: a median (p50) not above the p90")
    if Lognormal(**given).sigma > HIGHEST_SIGMA:
        raise InputError(field, whole, f"spread too far (sigma above {HIGHEST_SIGMA:g}); accepted: figures closer together")


def rows_sampler(rows: Sequence[tuple[int, int]], rng: Random) -> Callable[[], tuple[int, int]]:
    """Whole rows (prompt, output) of a trace, drawn with replacement: what belongs together stays together."""
    return lambda: rows[int(rng.random() * len(rows))]
