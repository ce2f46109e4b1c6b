"""`quantbench eval`: what a model's quality and speed are, by the torch engine."""

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

EPILOG = """\b
Examples:
  quantbench eval smollm2-135m --corpus wiki.test.txt
  quantbench eval smollm2-135m --format nf4 --corpus wiki.test.txt      # quantised in memory, nothing written
  quantbench eval smollm2-int4 --against smollm2-135m --json

\b
MODEL: as in quantize, or a folder that it wrote. Without --format and --plan the model is scored as it is.
Perplexity over windows of --window tokens, each moved on by --stride: tokens of a window that were seen before are context
and not scored.
"""


@click.command(cls=QuestionCommand, epilog=EPILOG)
@click.argument("model")
@click.option("--corpus", metavar="FILE", help="Text to score. Without it: a sample in the public domain.")
@click.option("--against", metavar="MODEL", help="The unquantised model, where MODEL is quantised already.")
@click.option("--tokens", type=click.IntRange(16, 10**8), default=5120, show_default=True, help="Tokens read at most.")
@click.option("--window", type=click.IntRange(2, 1 << 20), default=512, show_default=True, help="Tokens in a window.")
@click.option("--stride", type=click.IntRange(1, 1 << 20), default=512, show_default=True, help="How far windows are apart.")
@engine.scheme
@asking.options(*asking.fields(FORMAT))
def command(model: str, corpus: str | None, against: str | None, tokens: int, window: int, stride: int,
            **options: Any) -> None:
    """Perplexity, KL divergence, agreement, size and speed of a model (needs torch)."""
    as_json, plan = flag(options, "as_json"), engine.plan(options, required=False)
    if stride > window:
        raise InputError("stride", stride, f"accepted: 1 to the window, {window}")
    if plan and against:
        raise InputError("against", against, "accepted: for a model that is quantised already, without --format and --plan")
    run = engine.call("evaluate")
    with bar() as report:
        found = run(model=model, plan=plan, against=against, corpus=None if corpus is None else Path(corpus), tokens=tokens,
                    window=window, stride=stride, report=report)
    if as_json:
        output.write_json(found)
    else:
        output.table(("", ""), [(name.replace("_", " "), f"{value:.6g}" if isinstance(value, float) else value)
                                for name, value in found.items() if value not in (None, "")])
