"""`quantbench pareto`: every format on the same weights, and whole models as they were measured."""

from dataclasses import replace
from typing import Any

import click

from pycore.cli import output
from pycore.cli.errors import flag
from pycore.cli.options import QuestionCommand
from pycore.cli.progress import bar
from pycore.cli.quantbench import asking
from pycore.quality import frontier, table
from pycore.quality.frontier import Point
from pycore.quality.table import BELOW, Interval, Measured, Model
from pycore.quality.weights import Weights
from pycore.systems import quantbench
from pycore.units import MB, significant

EPILOG = """\b
Examples:
  quantbench pareto
  quantbench pareto --preset outlier-channel --frontier
  quantbench pareto --tensor model.safetensors:model.layers.0.mlp.up_proj.weight
  quantbench pareto --measured --json

\b
The first table is computed now, on the weights asked for; the second was measured on whole models. What is dominated
takes no fewer bits than another and is no closer to the weights.
"""


@click.command(cls=QuestionCommand, epilog=EPILOG)
@click.option("--frontier", "only", is_flag=True, help="Leave out what is dominated.")
@click.option("--measured", "only_measured", is_flag=True, help="Only whole models as they were measured.")
@asking.options(*asking.DRAWN, "model", weights=True)
def command(only: bool, only_measured: bool, **options: Any) -> None:
    """Every format on the same weights, error against true bits; and whole models as measured."""
    as_json = flag(options, "as_json")
    query = asking.read(options)
    if not only_measured:
        asking.need_numpy()
    weights = None if only_measured else quantbench.chosen_weights(query)
    points = () if weights is None else computed(weights)
    model = table.model(query.model)
    if only:
        points = tuple(one for one in points if not one.dominated_by and not one.fault)
        model = model and replace(model, configurations=tuple(one for one in model.configurations if not one.dominated_by))
    if as_json:
        output.write_json(asking.setting(query) | document(weights, points, model))
    else:
        show(weights, points, model)


def computed(weights: Weights) -> tuple[Point, ...]:
    """Every configuration on the weights, with progress."""
    with bar() as report:
        compared = frontier.configurations()
        for number, one in enumerate(compared):
            report(one.label, number / len(compared))
            frontier.measured(weights, one)
    return frontier.points(weights)


def document(weights: Weights | None, points: tuple[Point, ...], model: Model | None) -> dict[str, Any]:
    """What --json prints: `points` computed now, `measured` rows of the dataset."""
    return {
        "weights": weights and {"source": weights.label, "rows": weights.rows, "columns": weights.columns},
        "points": [point(one) for one in points],
        "model": model and {"name": model.name, "label": model.label, "corpus": model.corpus, "tokens": model.corpus_tokens,
                            "window": model.window, "stride": model.stride, "device": model.device,
                            "versions": model.versions, "date": model.date, "command": model.command, "note": model.note},
        "measured": [] if model is None else [measured(one) for one in model.configurations],
    }


def point(one: Point) -> dict[str, Any]:
    """A configuration on the weights, as JSON has it."""
    return {"configuration": one.configuration.id, "label": one.configuration.label, "format": one.configuration.format,
            "options": dict(one.configuration.options), "bits_per_weight": one.bits_per_weight, "sqnr_db": one.sqnr_db,
            "max_error": one.max_error, "dominated_by": one.dominated_by or None, "fault": one.fault or None}


def measured(one: Measured) -> dict[str, Any]:
    """A configuration of a whole model, as JSON has it."""
    return {"configuration": one.configuration, "label": one.label, "format": one.format or None, "method": one.method,
            "options": dict(one.options), "activations": one.activations or None, "bits_per_weight": one.bits_per_weight,
            "size_bytes": one.size_bytes, "perplexity": interval(one.perplexity),
            "ratio_to_unquantised": interval(one.ratio), "kl_divergence": interval(one.kl_divergence),
            "top1_agreement": one.top1_agreement, "weight_sqnr_db": one.weight_sqnr_db,
            "decode_tokens_per_s": one.decode_tokens_per_s, "lossless_by_construction": one.lossless,
            "trained": one.trained, "below_the_reference": one.better_than_reference,
            "dominated_by": one.dominated_by or None, "command": one.command, "note": one.note}


def interval(one: Interval | None) -> dict[str, float | None] | None:
    """A measured value with its interval."""
    return None if one is None else {"value": one.value, "low": one.low, "high": one.high}


def show(weights: Weights | None, points: tuple[Point, ...], model: Model | None) -> None:
    """As text."""
    if weights is not None:
        output.heading(f"{weights.label}: {weights.rows:,} x {weights.columns:,} weights")
        output.table(("", "bits per weight", "SQNR, dB", "largest error", ""), [
            (one.configuration.label, significant(one.bits_per_weight, 5) if not one.fault else "-",
             asking.decibels(one.sqnr_db), significant(one.max_error, 4) if not one.fault else "-",
             remark(one)) for one in sorted(points, key=order)], right=(1, 2, 3))
    if model is None:
        output.line()
        asking.sentence("No measured rows are here.")
        return
    output.heading(f"{model.label}, measured: {model.corpus}, {model.device}, {model.date}")
    output.table(("", "bits per weight", "MB", "perplexity", "KL, nats", "same next token", "tokens/s", ""), [
        (one.label, significant(one.bits_per_weight, 4), f"{one.size_bytes / MB:,.1f}", written(one.perplexity),
         written(one.kl_divergence), "-" if one.top1_agreement is None else f"{100 * one.top1_agreement:.1f} %",
         "-" if one.decode_tokens_per_s is None else significant(one.decode_tokens_per_s, 3), said(one))
        for one in model.configurations], right=(1, 2, 3, 4, 5, 6))
    if any(one.decode_tokens_per_s is None for one in model.configurations):
        asking.sentence("tokens/s, written one after the other: - where the machine was busy, and a speed would be noise.")
    if model.note:
        asking.sentence(model.note)


def order(one: Point) -> tuple:
    """By bits, what was refused last."""
    return bool(one.fault), one.bits_per_weight, -one.sqnr_db


def remark(one: Point) -> str:
    """What is to be said of a point."""
    return one.fault or (f"dominated by {one.dominated_by}" if one.dominated_by else "")


def said(one: Measured) -> str:
    """What is to be said of a measured row."""
    parts = ["lossless by construction: the weights lie on this grid" if one.lossless else "",
             "trained for it" if one.trained else "",
             f"below the reference: {BELOW[one.below]}" if one.below and not one.lossless else "",
             f"dominated by {one.dominated_by}" if one.dominated_by else ""]
    return "; ".join(filter(None, parts))


def written(one: Interval | None) -> str:
    """'30.04', '-' where it was not measured; four digits."""
    return "-" if one is None else f"{one.value:.4g}" if abs(one.value) < 1e-3 else significant(one.value, 4)
