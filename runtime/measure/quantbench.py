"""data/quantbench-pareto/: real models in few bits, measured: SmolLM2-135M on WikiText-2, and the tiny Qwen2.

    python -m runtime.measure.quantbench --facts FOLDER [--model NAME] [--check]

What is measured is kept, row by row, in the cache folder, so that a run that was stopped goes on; a change of the model,
the text or torch begins anew. The tables are written from what is kept. --check measures little again: every size from the
shapes alone, every hash, and one configuration's perplexity and KL divergence of each model that is here.
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

import torch

from pycore.errors import StudioError
from pycore.quality.table import models as read_models
from runtime.measure import quantbench_check, quantbench_plans
from runtime.measure.kept import Kept
from runtime.measure.quantbench_models import Subject, subjects
from runtime.measure.quantbench_rows import COLUMNS, FOLDER, Named, configuration_row, model_row, sensitivity_row
from runtime.measure.tables import csv_text, settle
from runtime.quantbench.evaluate import Reference
from runtime.quantbench.measure import quantised, unquantised
from runtime.quantbench.sensitivity import sensitivities

KEPT = "measurements/quantbench-pareto.json"


def measure(subject: Subject, kept: Kept) -> dict[str, list[dict]]:
    """Every row of one model, measured or kept."""
    first, reference, rows = model_row(subject, kept), None, []
    for named in subject.named():
        row = kept.get(f"configurations {subject.name}/{named.id}")
        if row is None:
            reference = reference or Reference(subject.model, subject.text)
            row = measured_row(subject, named, reference)
            kept.put(f"configurations {subject.name}/{named.id}", row)
            print(f"{subject.name} {named.id}: perplexity {row['perplexity']}, KL {row['kl_divergence']}", file=sys.stderr)
        rows.append(row)
    reference = None  # a gigabyte that is no longer needed
    return {"models": [first], "configurations": rows,
            "sensitivity": measure_sensitivity(subject, kept), "plans": quantbench_plans.measure(subject, kept)}


def measured_row(subject: Subject, named: Named, reference: Reference) -> dict[str, object]:
    """One configuration, measured now."""
    if named.scheme is None:
        return configuration_row(subject, named, unquantised(subject.model, reference))
    model = subject.trained() if named.trained else subject.model
    line, _ = quantised(model, reference, (named.rule,), subject.calibration)
    if named.trained:
        control = reference.scores_of(subject.further.model).perplexity
        named = replace(named, remark="learnt longer than the reference, which after as many more steps in full "
                                      f"precision has perplexity {control:.6g}")
    return configuration_row(subject, named, line)


def measure_sensitivity(subject: Subject, kept: Kept) -> list[dict]:
    """Every projection alone in every scheme of the subject, measured or kept as a whole a scheme."""
    rows: list[dict] = []
    for named in subject.alone():
        found = kept.get(f"sensitivity {subject.name}/{named.id}")
        if found is None:
            found = []
            for one in sensitivities(subject.model, [named.scheme], subject.short):
                found.append(sensitivity_row(subject, named, one))
                if one.projection == "down":
                    print(f"{subject.name} {named.id} layer {one.layer}", file=sys.stderr)
            kept.put(f"sensitivity {subject.name}/{named.id}", found)
        rows += found
    return rows


def main() -> int:
    """Measure and write, or check. Exit status."""
    parser = argparse.ArgumentParser(prog="python -m runtime.measure.quantbench", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--facts", type=Path, required=True, help="the folder of public facts; corpora/ lies beside it")
    parser.add_argument("--model", help="measure only this one now (the tables are written when all are)")
    parser.add_argument("--threads", type=int, default=1, help="of torch; more than one is slow on a busy machine")
    parser.add_argument("--check", action="store_true", help="check what is committed, write nothing")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    try:
        if options.check:
            return quantbench_check.check(options.facts)
        tables = {name: [] for name in COLUMNS}
        for subject in subjects(options.facts, options.model):
            for name, rows in measure(subject, Kept(KEPT, subject.identity)).items():
                tables[name] += rows
    except StudioError as error:
        print(error, file=sys.stderr)
        return 1
    if options.model:
        return 0
    status = settle({f"{FOLDER}/{name}.csv": csv_text(COLUMNS[name], rows) for name, rows in tables.items()}, check=False)
    read_models.cache_clear()
    return status if read_models() else 1


if __name__ == "__main__":
    raise SystemExit(main())
