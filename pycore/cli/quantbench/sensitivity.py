"""`quantbench sensitivity`: what the whole model loses when one projection alone is quantised, as it was measured."""

import difflib
from typing import Any

import click

from pycore.cli import output
from pycore.cli.errors import flag
from pycore.cli.options import QuestionCommand
from pycore.cli.quantbench import asking
from pycore.cli.quantbench.pareto import interval
from pycore.errors import NotKnown, UnknownName
from pycore.quality import table
from pycore.quality.places import measured_formats
from pycore.quality.table import PROJECTIONS, Model, Sensitivity, Verdict

EPILOG = """\b
Examples:
  quantbench sensitivity
  quantbench sensitivity --configuration q4_0 --measure output
  quantbench sensitivity --json
"""
MEASURES = {"kl": "KL divergence of the whole model's answers, in thousandths of a nat",
            "weight": "SQNR of the weights, dB", "output": "SQNR of the projection's outputs, dB"}


@click.command(cls=QuestionCommand, epilog=EPILOG)
@click.option("--configuration", metavar="NAME", help="Which measured configuration. Without it: the first.")
@click.option("--measure", type=click.Choice(tuple(MEASURES)), default="kl", show_default=True, help="What the cells show.")
@asking.options("model")
def command(configuration: str | None, measure: str, **options: Any) -> None:
    """Projections quantised one by one, as measured: which hurt, and whether the textbook story holds."""
    as_json = flag(options, "as_json")
    model = table.model(asking.read(options).model)
    if model is None or not model.sensitivity:
        raise NotKnown("the measured rows are not here" if model is None else
                       f"{model.name} was not measured projection by projection")
    name = chosen(model, configuration)
    rows = [one for one in model.sensitivity if one.configuration == name]
    verdict = next(one for one in model.verdicts if one.configuration == name)
    if as_json:
        output.write_json({"model": model.name, "configuration": name, "configurations": list(measured_formats(model)),
                           "rows": [row(one) for one in rows], "verdict": told(verdict)})
    else:
        show(model, rows, verdict, measure)


def chosen(model: Model, name: str | None) -> str:
    """A measured configuration. Raises UnknownName."""
    known = measured_formats(model)
    if name is None or name in known:
        return name or known[0]
    raise UnknownName("configuration", name, "accepted: " + ", ".join(known), difflib.get_close_matches(name, known, 2))


def row(one: Sensitivity) -> dict[str, Any]:
    """One projection, as JSON has it."""
    return {"layer": one.layer, "projection": one.projection, "rows": one.rows, "columns": one.columns, "bytes": one.bytes,
            "weight_sqnr_db": one.weight_sqnr_db, "output_sqnr_db": one.output_sqnr_db,
            "kl_divergence": interval(one.kl_divergence)}


def told(verdict: Verdict) -> dict[str, Any]:
    """The textbook story held against the rows, as JSON has it."""
    return {"mean_kl": dict(verdict.total), "mean_kl_per_million_weights": dict(verdict.per_weight),
            "query_and_key_most_sensitive": verdict.holds, "layers_where_query_or_key_leads": verdict.layers,
            "layers": verdict.of}


def cell(one: Sensitivity | None, measure: str) -> str:
    """A cell of the map."""
    if one is None:
        return "-"
    if measure == "kl":
        return f"{1000 * one.kl_divergence.value:.3f}"
    return asking.decibels(one.weight_sqnr_db if measure == "weight" else one.output_sqnr_db, 1)


def show(model: Model, rows: list[Sensitivity], verdict: Verdict, measure: str) -> None:
    """As text: layers down, projections across."""
    output.heading(f"{model.label}, {verdict.configuration}: {MEASURES[measure]}")
    by_place = {(one.layer, one.projection): one for one in rows}
    used = [name for name in PROJECTIONS if any(projection == name for _, projection in by_place)]
    output.table(("layer", *used), [
        (layer, *(cell(by_place.get((layer, name)), measure) for name in used))
        for layer in sorted({layer for layer, _ in by_place})], right=range(len(used) + 1))
    ranked = ", ".join(f"{name} {1000 * value:.3f}" for name, value in verdict.total)
    asking.sentence(f"Mean, most sensitive first: {ranked} thousandths of a nat; by weight: "
                    + ", ".join(name for name, _ in verdict.per_weight) + ".")
    asking.sentence(f"'Q and K are the most sensitive' {'holds' if verdict.holds else 'does not hold'} here; one of them "
                    f"leads in {verdict.layers} of {verdict.of} layers.")
