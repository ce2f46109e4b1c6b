"""How well this works: real start-up logs predicted by the very formulas of the plan, errors shown, nothing left out.

The rows are `data/catalog/memory_evidence.csv`: logs that state the card's visible memory, the fraction and the load.
The predictions are computed when asked, so the table cannot drift from the code. The constants of `overheads` were
read off the profile runs (`fitted`, ids p01 to p43); the other logs (v...) were not used, but for v020 and v040, from
which the allocations of unlinked devices come.
"""

import functools
import statistics
from dataclasses import dataclass

from pycore import catalog
from pycore.facts import table
from pycore.ledger import Term
from pycore.nouns import Accelerator, Deployment, Parallel
from pycore.units import GIB
from pycore.vram.engines import SORTING, Engine, engine
from pycore.vram.plan import MemoryPlan, stage_plan
from pycore.vram.reservation import capacity_tokens
from pycore.vram.stages import split

QUANTITIES = ("KV pool", "KV tokens", "Weights", "Activations")
EXACT = 0.01  # a figure without a range counts as right within 1 %
REPORTED = {"KV pool": "pool_gib", "KV tokens": "kv_tokens", "Weights": "weights_gib", "Activations": "activation_gib"}


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceRow:
    """One figure of one log against the plan. Sizes in bytes, "KV tokens" in tokens."""

    id: str
    quantity: str
    engine: str
    version: str
    model: str
    card: str
    setup: str
    predicted: float
    low: float
    high: float
    reported: float
    error_percent: float
    inside: bool  # the report lies in the range shown
    fitted: bool
    note: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Errors of one quantity."""

    quantity: str
    rows: int
    median_absolute_percent: float
    worst_percent: float
    inside: int


@functools.cache
def evidence() -> tuple[EvidenceRow, ...]:
    """Every figure of every log, in the table's order."""
    return tuple(row for cells in table("memory_evidence") for row in compared(cells))


def summaries(rows: tuple[EvidenceRow, ...] | None = None, *, fitted: bool | None = None) -> tuple[Summary, ...]:
    """One line a quantity; `fitted` True or False keeps only the rows that were, or were not, fitted on."""
    kept = [row for row in (evidence() if rows is None else rows) if fitted is None or row.fitted == fitted]
    found = []
    for quantity in QUANTITIES:
        own = [row for row in kept if row.quantity == quantity]
        if own:
            worst = max(own, key=lambda row: abs(row.error_percent))
            found.append(Summary(quantity=quantity, rows=len(own), worst_percent=worst.error_percent,
                                 median_absolute_percent=statistics.median(abs(row.error_percent) for row in own),
                                 inside=sum(row.inside for row in own)))
    return tuple(found)


def compared(cells: dict[str, str]) -> list[EvidenceRow]:
    """The figures of one log."""
    plan, profile, deployment = predicted(cells)
    rows = []
    for quantity, (value, low, high) in figures(plan, profile, deployment).items():
        cell = cells[REPORTED[quantity]]
        if cell:
            reported = float(cell) * (1 if quantity == "KV tokens" else GIB)
            slack = 0.005 * GIB if quantity != "KV tokens" else 0.005 * GIB / plan.kv_bytes_per_token.value
            rows.append(EvidenceRow(
                id=cells["id"], quantity=quantity, engine=profile.name, version=cells["version"],
                model=deployment.model.name,
                card=cells["card"], setup=setup(cells), predicted=value, low=low, high=high, reported=reported,
                error_percent=100.0 * (value / reported - 1.0), inside=low - slack <= reported <= high + slack or (
                    low == high and abs(value / reported - 1.0) <= EXACT),
                fitted=cells["id"].startswith("p"), note=cells["note"], source=cells["source"]))
    return rows


def setup(cells: dict[str, str]) -> str:
    """'fp8-channel, tp 2, 0.95 of 79.19 GiB, 8,192 tokens': the log's question in a line."""
    split_text = "".join(f", {name} {cells[name]}" for name in ("tp", "pp") if cells[name] != "1")
    cache = f", KV {cells['keys']}" if cells["keys"] != "auto" else ""
    return (f"{cells['weights']}{cache}{split_text}, {cells['fraction']} of {cells['visible_gib']} GiB, "
            f"{int(cells['context']):,} tokens")


def predicted(cells: dict[str, str]) -> tuple[MemoryPlan, Engine, Deployment]:
    """The plan of a log's deployment: the card's visible memory is the log's own, so nothing is taken off it."""
    profile = SORTING if cells["engine"] == SORTING.id else engine(cells["engine"])
    parallel = Parallel(tensor=int(cells["tp"]), pipeline=int(cells["pp"]))
    cache = catalog.kv_format(cells["keys"])
    deployment = Deployment(
        model=catalog.model(cells["model"]), weights=catalog.weight_format(cells["weights"]), keys=cache, values=cache,
        accelerator=stated_card(cells), parallel=parallel, engine=cells["engine"], context=int(cells["context"]),
        sequences=int(cells["sequences"]), prompt=1, output=1, memory_fraction=float(cells["fraction"]),
        max_batched_tokens=int(cells["batch_tokens"]))
    stages = split(deployment.model, profile, parallel.pipeline)
    return stage_plan(deployment, profile, len(stages) - 1), profile, deployment


def stated_card(cells: dict[str, str]) -> Accelerator:
    """A card of exactly the memory that the log says CUDA sees."""
    return Accelerator(
        id=cells["card"], name=cells["card"], vendor="as logged", segment="", architecture="", year=None,
        memory_box_gib=float(cells["visible_gib"]), memory_usable_mib=float(cells["visible_gib"]) * 1024,
        memory_usable_basis="as logged", bandwidth_bytes_per_s=0.0, bf16_flops=None, fp16_flops=None, fp8_flops=None,
        int8_ops=None, fp4_flops=None, fp32_flops=None, tdp_w=None, link_kind="NVLink" if cells["linked"] else "none",
        link_bytes_per_s_one_way=None, pcie_bytes_per_s_one_way=None, source=cells["source"])


def figures(plan: MemoryPlan, profile: Engine, deployment: Deployment) -> dict[str, tuple[float, float, float]]:
    """Quantity -> (value, low, high) of the plan."""
    def tokens(pool: float) -> int:
        return capacity_tokens(plan.reservation, profile, int(pool), deployment.context, deployment.sequences)

    pool = plan.pool
    _, low, high = spread_of(pool)
    return {"KV pool": (pool.value, low, high), "KV tokens": (tokens(pool.value), tokens(low), tokens(high)),
            "Weights": spread_of(plan.weights), "Activations": spread_of(plan.activations)}


def spread_of(found: Term) -> tuple[float, float, float]:
    """(value, low, high) of a term; the ends are the value where it is exact."""
    return (found.value, found.value, found.value) if found.low is None else (found.value, found.low, found.high)
