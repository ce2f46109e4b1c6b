"""Does the plan keep its promise? Plans from the measured projections, built and measured beside the best single format.

The allocator adds up losses that were measured one projection at a time. plans.csv shows what that sum is worth: predicted
and measured KL divergence of each plan on the same tokens.
"""

from typing import TYPE_CHECKING

from pycore.quality.allocate import Plan
from runtime.measure.quantbench_rows import Named, cell, divergence_cells
from runtime.quantbench.evaluate import Mean, Reference
from runtime.quantbench.measure import quantised
from runtime.quantbench.mixed import Option, planned
from runtime.quantbench.schemes import Rule

if TYPE_CHECKING:
    from runtime.measure.quantbench_models import Subject

BITS = (4.5, 5.0, 6.0)  # budgets, in bits for each weight of the projections


def measure(subject: "Subject", kept: object) -> list[dict]:
    """Rows of plans.csv, measured or kept."""
    found, reference = [], None
    alone = {one.scheme.text: one for one in subject.alone()}
    by_id = {one.id: text for text, one in alone.items()}
    options = [Option(layer=row["layer"], projection=row["projection"], weights=row["rows"] * row["columns"],
                      scheme=by_id[row["configuration"]], bytes=row["bytes"], loss=float(row["kl_divergence"]))
               for one in alone.values() for row in kept.get("sensitivity", f"{subject.name}/{one.id}", subject.identity)]
    for bits in BITS:
        key = f"{subject.name}/{bits}/{'+'.join(by_id)}"
        row = kept.get("plans", key, subject.identity)
        if row is None:
            reference = reference or Reference(subject.model, subject.short)
            row = measured(subject, *planned(options, bits), alone, reference)
            kept.put("plans", key, subject.identity, row)
        found.append(row)
    return found


def measured(subject: "Subject", found: Plan, rules: tuple[Rule, ...], alone: dict[str, Named],
             reference: Reference) -> dict[str, object]:
    """One plan and its best single configuration, built and measured."""
    line, _ = quantised(subject.model, reference, rules, None)
    uniform = alone[found.uniform.configuration] if found.uniform else None
    beside = quantised(subject.model, reference, (uniform.rule,), None)[0] if uniform else None
    lost = beside.divergence if beside else Mean(value=float("nan"), low=None, high=None)
    return {"model": subject.name, "budget_bytes": found.budget_bytes, "size_bytes": line.stored_bytes,
            "bits_per_weight": cell(line.bits_per_weight), "predicted_kl": cell(float(found.loss.value)),
            **divergence_cells(line.divergence), "uniform": uniform.id if uniform else "",
            "uniform_size_bytes": beside.stored_bytes if beside else "", "uniform_kl": cell(lost.value),
            "uniform_kl_low": cell(lost.low), "uniform_kl_high": cell(lost.high), "tokens": subject.short.counted,
            "plan": " ".join(f"{one.layer}.{one.projection}={alone[one.choice.configuration].id}" for one in found.assigned)}
