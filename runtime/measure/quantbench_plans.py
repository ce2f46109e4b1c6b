"""Does the plan keep its promise? Plans from the measured projections, built and measured beside the best single format.

The allocator adds up losses that were measured one projection at a time. plans.csv shows what that sum is worth: predicted
and measured KL divergence of each plan on the same tokens, and, since a plan is made for those, what it loses elsewhere.
"""

from typing import TYPE_CHECKING

from pycore.quality.allocate import Plan
from runtime.measure.kept import Kept
from runtime.measure.quantbench_rows import Named, cell, divergence_cells, with_interval
from runtime.quantbench.evaluate import Mean, Reference
from runtime.quantbench.measure import quantised
from runtime.quantbench.mixed import Option, planned
from runtime.quantbench.schemes import Rule

if TYPE_CHECKING:
    from runtime.measure.quantbench_models import Subject

BITS = (4.5, 5.0, 6.0)  # budgets, in bits for each weight of the projections


def measure(subject: "Subject", kept: Kept) -> list[dict]:
    """Rows of plans.csv, measured or kept."""
    found, references = [], ()
    alone = {one.scheme.text: one for one in subject.alone()}
    by_id = {one.id: text for text, one in alone.items()}
    options = [Option(layer=row["layer"], projection=row["projection"], weights=row["rows"] * row["columns"],
                      scheme=by_id[row["configuration"]], bytes=row["bytes"], loss=float(row["kl_divergence"]))
               for one in alone.values() for row in kept.get(f"sensitivity {subject.name}/{one.id}")]
    for bits in BITS:
        key = f"plans {subject.name}/{bits}/{'+'.join(by_id)}/elsewhere"
        row = kept.get(key)
        if row is None:
            references = references or tuple(Reference(subject.model, text) for text in (subject.short, subject.elsewhere))
            row = measured(subject, *planned(options, bits), alone, references)
            kept.put(key, row)
        found.append(row)
    return found


def measured(subject: "Subject", found: Plan, rules: tuple[Rule, ...], alone: dict[str, Named],
             references: tuple[Reference, Reference]) -> dict[str, object]:
    """One plan and its best single configuration, built and measured where it was planned and elsewhere."""
    uniform = alone[found.uniform.configuration] if found.uniform else None
    here, there = (quantised(subject.model, one, rules, None)[0] for one in references)
    beside, apart = (quantised(subject.model, one, (uniform.rule,), None)[0] if uniform else None for one in references)
    none = Mean(value=float("nan"), low=None, high=None)
    lost, lost_there = (one.divergence if one else none for one in (beside, apart))
    return {"model": subject.name, "budget_bytes": found.budget_bytes, "size_bytes": here.stored_bytes,
            "bits_per_weight": cell(here.bits_per_weight), "predicted_kl": cell(float(found.loss.value)),
            **divergence_cells(here.divergence), "tokens": subject.short.counted, "uniform": uniform.id if uniform else "",
            "uniform_size_bytes": beside.stored_bytes if beside else "", **with_interval("uniform_kl", "uniform_kl", lost),
            **with_interval("elsewhere_kl", "elsewhere_kl", there.divergence),
            "elsewhere_uniform_kl": cell(lost_there.value), "elsewhere_tokens": subject.elsewhere.counted,
            "plan": " ".join(f"{one.layer}.{one.projection}={alone[one.choice.configuration].id}" for one in found.assigned)}
