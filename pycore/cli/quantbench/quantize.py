"""`quantbench quantize`: a model's weights in a format, written as safetensors, by the torch engine."""

from pathlib import Path
from typing import Any

import click

from pycore.cli import output
from pycore.cli.errors import flag
from pycore.cli.options import QuestionCommand
from pycore.cli.progress import bar
from pycore.cli.quantbench import asking, engine
from pycore.errors import InputError
from pycore.systems.quantbench_question import FORMAT, options_of
from pycore.units import decimal_bytes

METHODS = ("rtn", "gptq", "awq", "smoothquant", "hqq")
EPILOG = """\b
Examples:
  quantbench quantize smollm2 --format int4 --group 64 --out smollm2-int4
  quantbench quantize ./my-llama --format q4_k --out my-llama-q4k
  quantbench quantize smollm2 --format int4 --method gptq --corpus calibration.txt --out smollm2-gptq

\b
MODEL: smollm2, tiny, or a folder with config.json and .safetensors, or a .gguf file. Nothing is overwritten without --force.
"""


@click.command(cls=QuestionCommand, epilog=EPILOG)
@click.argument("model")
@click.option("--out", metavar="FOLDER", required=True, help="Where the quantised model goes.")
@click.option("--method", type=click.Choice(METHODS), default="rtn", show_default=True, help="How codes are found.")
@click.option("--corpus", metavar="FILE", help="Text that calibrates gptq, awq and smoothquant.")
@click.option("--force", is_flag=True, help="Write into a folder that holds something.")
@asking.options(*asking.fields(FORMAT))
def command(model: str, out: str, method: str, corpus: str | None, force: bool, **options: Any) -> None:
    """Convert a model to a format, weights in place (needs torch)."""
    as_json = flag(options, "as_json")
    query = asking.read(options)
    chosen, unused = options_of(query)
    if unused:
        raise InputError(unused[0], getattr(query, unused[0]), f"{query.format} has no such option; leave it out")
    run = engine.call("quantize")
    place = Path(out)
    if place.exists() and not force and (not place.is_dir() or any(place.iterdir())):
        raise InputError("out", out, "accepted: a folder that does not exist yet or is empty; --force writes anyway")
    with bar() as report:
        found = run(model=model, out=place, format=query.format, options=dict(chosen), method=method,
                    corpus=None if corpus is None else Path(corpus), report=report)
    if as_json:
        output.write_json(found)
    else:
        output.line(f"{out}: {query.format}, {found['bits_per_weight']:.5g} bits per quantised weight, "
                    f"{decimal_bytes(found['size_bytes'])}", style="bold")
