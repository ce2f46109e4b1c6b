"""Does the plan keep its promise? Plans from the measured projections, built and measured beside the best single format.

The allocator (`pycore/quality/allocate.py`) adds up losses that were measured one projection at a time. plans.csv shows
what that sum is worth: predicted and measured KL divergence of each plan on the same tokens.
"""

from typing import TYPE_CHECKING

from pycore.quality.allocate import Choice, Place, Plan, plan
from runtime.measure.quantbench_rows import Named, cell, divergence_cells
from runtime.quantbench.evaluate import Mean, Reference
from runtime.quantbench.measure import quantised
from runtime.quantbench.schemes import Rule

if TYPE_CHECKING:
    from runtime.measure.quantbench_models import Subject

BITS = (4.5, 5.0, 6.0)  # budgets, in bits for each weight of the projections


def measure(subject: "Subject", kept: object) -> list[dict]:
    """Rows of plans.csv, measured or kept."""
    found, reference = [], None
    alone = {one.id: one for one in subject.alone()}
    rows = [row for name in alone for row in kept.get("sensitivity", f"{subject.name}/{name}", subject.identity)]
    places = places_of(rows)
    for bits in BITS:
        row = kept.get("plans", f"{subject.name}/{bits}", subject.identity)
        if row is None:
            reference = reference or Reference(subject.model, subject.short)
            row = measured(subject, plan(places, int(sum(one.weights for one in places) * bits / 8)), alone, reference)
            kept.put("plans", f"{subject.name}/{bits}", subject.identity, row)
        found.append(row)
    return found


def places_of(rows: list[dict]) -> tuple[Place, ...]:
    """The projections with what was measured of each."""
    found: dict[tuple[int, str], list[dict]] = {}
    for row in rows:
        found.setdefault((row["layer"], row["projection"]), []).append(row)
    return tuple(Place(layer=layer, projection=projection, weights=each[0]["rows"] * each[0]["columns"], choices=tuple(
        Choice(configuration=row["configuration"], bytes=row["bytes"], loss=float(row["kl_divergence"])) for row in each))
        for (layer, projection), each in found.items())


def measured(subject: "Subject", found: Plan, alone: dict[str, Named], reference: Reference) -> dict[str, object]:
    """One plan and its best single configuration, built and measured."""
    rules = [Rule(layer=one.layer, projection=one.projection, scheme=alone[one.choice.configuration].scheme)
             for one in found.assigned]
    line, _ = quantised(subject.model, reference, rules, None)
    uniform = found.uniform
    beside = quantised(subject.model, reference, (alone[uniform.configuration].rule,), None)[0] if uniform else None
    beside_of = beside.divergence if beside else Mean(value=float("nan"), low=None, high=None)
    return {"model": subject.name, "budget_bytes": found.budget_bytes, "size_bytes": line.stored_bytes,
            "bits_per_weight": cell(line.bits_per_weight), "predicted_kl": cell(float(found.loss.value)),
            **divergence_cells(line.divergence), "uniform": uniform.configuration if uniform else "",
            "uniform_size_bytes": beside.stored_bytes if beside else "", "uniform_kl": cell(beside_of.value),
            "uniform_kl_low": cell(beside_of.low), "uniform_kl_high": cell(beside_of.high),
            "tokens": subject.short.counted,
            "plan": " ".join(f"{one.layer}.{one.projection}={one.choice.configuration}" for one in found.assigned)}
