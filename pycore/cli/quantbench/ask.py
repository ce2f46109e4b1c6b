"""`quantbench ask`: all that the page shows for one question; the command that a page gives is this one."""

from typing import Any

import click

from pycore.cli import output
from pycore.cli.errors import flag
from pycore.cli.options import QuestionCommand
from pycore.cli.progress import watched
from pycore.cli.quantbench import asking, pack_inspect, pareto, plan
from pycore.quality.columns import Walk
from pycore.quality.methods import Method
from pycore.systems.quantbench import Answer, steps
from pycore.units import significant

EPILOG = """\b
Examples:
  quantbench ask --format int4 --group 32
  quantbench ask --preset outlier-channel --rotation --explain SQNR
  quantbench ask --act-order --step 9 --bits 3 --json

\b
Each part has a command of its own that says more: pack-inspect, pareto, sensitivity, plan.
"""


@click.command(cls=QuestionCommand, epilog=EPILOG)
@asking.explained
@asking.options(*asking.ALL, weights=True)
def command(explain: str | None, **options: Any) -> None:
    """All that the page shows for one question."""
    as_json = flag(options, "as_json")
    query = asking.read(options)
    asking.need_numpy()
    found = watched(steps(query))
    if explain is not None:
        asking.explain(found.terms, explain)
    elif as_json:
        output.write_json(document(found))
    else:
        show(found)


def document(found: Answer) -> dict[str, Any]:
    """What --json prints: the parts, each as its own command prints it."""
    bench, query = found.bench, found.query
    index = min(query.weight, bench.weights.count - 1)
    inspected = pack_inspect.document(query, bench.weights, bench.inspection, bench.view, bench.owner, index)
    return inspected | {
        "unused": list(bench.unused),
        "pareto": pareto.document(bench.weights, bench.points, found.model),
        "methods": [{"method": one.name, "label": one.label, "weight_sqnr_db": one.weight_sqnr_db,
                     "output_sqnr_db": one.output_sqnr_db, "gain_db": one.gain_db, "note": one.note}
                    for one in bench.methods],
        "gptq": None if bench.walk is None else walked(bench.walk),
        "plan": None if found.plan is None else plan.document(found.plan), "no_plan": found.no_plan or None,
    }


def walked(walk: Walk) -> dict[str, Any]:
    """The step of GPTQ that is looked at."""
    return {"done": walk.done, "column": walk.column, "order": list(walk.order), "variant": walk.chosen,
            "working": walk.working.tolist(), "pushed": walk.pushed.tolist(), "error": walk.error.tolist(),
            "factor": walk.factor.tolist(), "codes": walk.codes.tolist(), "output_error_after_each_step": list(walk.partial),
            "variants": [{"variant": one.name, "label": one.label, "output_error": one.objective,
                          "of_rounding_to_nearest": one.ratio} for one in walk.variants]}


def show(found: Answer) -> None:
    """As text."""
    bench, query = found.bench, found.query
    index = min(query.weight, bench.weights.count - 1)
    pack_inspect.show(query, bench.weights, bench.inspection, bench.view, bench.owner, index)
    if bench.unused:
        asking.sentence(f"{bench.inspection.label} has no {', '.join(name.replace('_', ' ') for name in bench.unused)}.")
    pareto.show(bench.weights, bench.points, found.model)
    if bench.walk is not None:
        methods(bench.methods)
        steps_of(bench.walk)
    if found.plan is not None:
        output.heading("Plan")
        plan.show(found.plan)


def methods(found: tuple[Method, ...]) -> None:
    """What each method buys."""
    output.heading("Methods: error of the layer's outputs over inputs that none was calibrated with")
    output.table(("", "weights, dB", "outputs, dB", "gain, dB", ""), [
        (one.label, asking.decibels(one.weight_sqnr_db), asking.decibels(one.output_sqnr_db), asking.decibels(one.gain_db),
         one.note) for one in found], right=(1, 2, 3))


def steps_of(walk: Walk) -> None:
    """Where GPTQ and its variants end."""
    output.heading(f"GPTQ on {walk.weights.shape[0]} x {walk.weights.shape[1]} weights, after {walk.done} columns"
                   + (f" (column {walk.column} last)" if walk.done else ""))
    output.table(("", "squared output error", "of rounding to nearest"), [
        (one.label, significant(one.objective, 5), significant(one.ratio, 4)) for one in walk.variants], right=(1, 2))
