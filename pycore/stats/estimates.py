"""What a statistic answers with: a figure and its interval, a figure whose interval is refused, or "n too small"."""

from dataclasses import dataclass

from pycore.units import significant


@dataclass(frozen=True, slots=True, kw_only=True)
class TooFew:
    """In place of a number that `n` samples cannot give; `needed` would."""

    n: int
    needed: int

    @property
    def text(self) -> str:
        return f"n too small ({self.n:,}; needs {self.needed:,})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A figure over all `n` samples of a run, and what it says of the process behind the run.

    `low` to `high` holds the long-run value with probability `level`; both are None where that is refused, and
    `refused` says why. `settled` is the figure over the settled samples, `left_out` (warm-up, and the end) not among
    them: the interval stands around it. `high` is infinite where the samples set no upper bound. `effective_n`: how
    many independent samples would tell as much.
    """

    value: float
    n: int
    low: float | None = None
    high: float | None = None
    settled: float | None = None
    effective_n: float | None = None
    left_out: int = 0
    level: float = 0.95
    method: str = ""
    refused: str = ""

    @property
    def has_interval(self) -> bool:
        return self.low is not None

    @property
    def evidence(self) -> str:
        """'n = 5,000, 500 of them left out of the interval, worth 53 independent samples', or why there is none."""
        parts = [f"n = {self.n:,}"]
        if self.left_out and not self.refused:
            parts.append(f"{self.left_out:,} of them left out of the interval")
        if self.effective_n is not None:
            parts.append(f"worth {significant(float(round(self.effective_n)), 3)} independent samples")
        if self.refused:
            parts.append(f"no interval: {self.refused}")
        return ", ".join(parts)
