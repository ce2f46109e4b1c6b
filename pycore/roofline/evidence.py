"""How well the speed model does on runs of whole engines that it was not fitted on: data/catalog/speed_evidence.csv.

`python -m runtime.measure.speed_evidence` makes the table from data/validation/silicon.csv and single_stream.csv.
"""

import functools
from dataclasses import dataclass

from pycore import facts
from pycore.nouns import Accelerator
from pycore.roofline.efficiency import generation, stream_class, streamed


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One group of measured runs against predictions.

    `quantity`: tpot, ttft, decode (one stream) or prompt (reading one). `low`, `high`: 10 % and 90 % quantile of
    measured / predicted; the ranges on screen are the prediction times these. Errors are absolute, in percent;
    `roofline` is that of shares 1 and no overheads.
    """

    quantity: str
    engine: str
    generation: str
    rows: int
    median_error_pct: float
    p90_error_pct: float
    roofline_error_pct: float | None
    low: float
    high: float
    cards: str
    source: str

    @property
    def text(self) -> str:
        """One line for people."""
        return (f"{self.quantity} of {self.rows} measured {self.engine} runs on {self.cards}: median error"
                f" {self.median_error_pct:g} %, 90 % within {self.p90_error_pct:g} %")


@functools.cache
def evidence() -> tuple[Evidence, ...]:
    """Every group, in the table's order."""
    found = []
    for row in facts.table("speed_evidence"):
        numbers = {name: float(row[name]) for name in ("median_error_pct", "p90_error_pct", "low", "high")}
        found.append(Evidence(quantity=row["quantity"], engine=row["engine"], generation=row["generation"],
                              rows=int(row["rows"]), roofline_error_pct=facts.number(row["roofline_error_pct"]),
                              cards=row["cards"], source=row["source"], **numbers))
    return tuple(found)


FAMILY = {"vllm-0.20": "vllm"}


@functools.lru_cache(maxsize=1024)
def spread(quantity: str, engine: str, accelerator: Accelerator, calibrated: bool) -> Evidence:
    """The evidence whose quantiles make the range of a quantity: of this engine on this generation, else of this
    engine on all of them; for an uncalibrated card, of predictions made with another generation's fits."""
    name = "llama.cpp" if streamed(accelerator, engine) else FAMILY.get(engine, engine)
    pool = "all" if calibrated else "borrowed"
    own = stream_class(accelerator) if name == "llama.cpp" else generation(accelerator)
    own = own if calibrated else pool
    table = {(row.quantity, row.engine, row.generation): row for row in evidence()}
    for key in ((quantity, name, own), (quantity, name, pool), (quantity, "all", own), (quantity, "all", pool)):
        if key in table:
            return table[key]
    raise LookupError(f"speed_evidence.csv lacks a row for {quantity}")


def ends(quantity: str, engine: str, accelerator: Accelerator, calibrated: bool) -> tuple[float, float]:
    """(low, high) factors of a quantity's range. What is not known of a card that was not measured comes on top of what
    is not known of those that were: never narrower than theirs."""
    own, measured = spread(quantity, engine, accelerator, calibrated), spread(quantity, engine, accelerator, True)
    return min(own.low, measured.low), max(own.high, measured.high)
