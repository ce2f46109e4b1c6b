"""`quantbench info`: what there is to choose from."""

from typing import Any

import click

import pycore
from pycore.cli import output
from pycore.cli.output import heading, table
from pycore.cli.quantbench import engine
from pycore.pack.formats import FORMATS
from pycore.quality import table as dataset
from pycore.quality.inputs import INPUTS
from pycore.quality.weights import PRESETS
from pycore.systems.quantbench_question import written


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(as_json: bool) -> None:
    """The formats with their options, presets, methods and measured models there are."""
    found = everything()
    if as_json:
        output.write_json(found)
    else:
        show(found)


def first_line(thing: Any) -> str:
    """The first sentence of a docstring."""
    return (thing.__doc__ or "").strip().split("\n")[0]


def everything() -> dict[str, Any]:
    """All of it."""
    return {
        "version": pycore.__version__,
        "formats": [{"format": one.id, "label": one.label, "weight": one.formula, "layout": first_line(one.module),
                     "options": {name: [written(value) for value in values] for name, values in one.options}}
                    for one in FORMATS],
        "presets": {name: first_line(draw) for name, draw in PRESETS.items()},
        "inputs": {name: first_line(draw) for name, draw in INPUTS.items()},
        "models": [{"model": one.name, "label": one.label, "configurations": len(one.configurations),
                    "sensitivity_rows": len(one.sensitivity)} for one in dataset.models()],
        "torch_engine": engine.state(),
    }


def show(found: dict[str, Any]) -> None:
    """As text."""
    heading("Formats (--format); the first of each option is its default")
    table(("", "", "options"), [
        (one["format"], one["layout"], "; ".join(f"{name.replace('block', 'group')} {', '.join(values)}"
                                                 for name, values in one["options"].items())) for one in found["formats"]])
    heading("Weights (--preset)")
    table(("", ""), found["presets"].items())
    heading("Inputs of the layer (--inputs)")
    table(("", ""), found["inputs"].items())
    heading("Measured models (--model)")
    table(("", "", "configurations", "sensitivity rows"), [tuple(one.values()) for one in found["models"]], right=(2, 3))
    output.line()
    output.line(f"quantize and eval: {found['torch_engine']}")
