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
from pycore.systems.quantbench_question import FORMAT, options_of

EPILOG = """\b
Examples:
  quantbench eval smollm2 --corpus wiki.test.txt
  quantbench eval smollm2-int4 --against smollm2 --corpus wiki.test.txt --json
  quantbench eval smollm2 --format nf4 --corpus wiki.test.txt      # quantised in memory, nothing written

\b
Perplexity over windows of --window tokens, each moved on by --stride: tokens of a window that were seen before are context
and not scored.
"""


@click.command(name="eval", cls=QuestionCommand, epilog=EPILOG)
@click.argument("model")
@click.option("--corpus", metavar="FILE", help="Text to score. Without it: the engine's own sample.")
@click.option("--against", metavar="MODEL", help="The unquantised model. Without it: the same model with --format none.")
@click.option("--tokens", type=click.IntRange(16, 10**8), default=5120, show_default=True, help="Tokens scored at most.")
@click.option("--window", type=click.IntRange(2, 1 << 20), default=512, show_default=True, help="Tokens in a window.")
@click.option("--stride", type=click.IntRange(1, 1 << 20), default=512, show_default=True, help="How far windows are apart.")
@click.option("--plain", is_flag=True, help="As the model is stored: no format.")
@asking.options(*asking.fields(FORMAT))
def command(model: str, corpus: str | None, against: str | None, tokens: int, window: int, stride: int, plain: bool,
            **options: Any) -> None:
    """Perplexity, KL divergence, agreement, size and speed of a model (needs torch)."""
    as_json, named = flag(options, "as_json"), options.get("format") is not None
    query = asking.read(options)
    chosen, unused = options_of(query)
    if unused and named:
        raise InputError(unused[0], getattr(query, unused[0]), f"{query.format} has no such option; leave it out")
    if stride > window:
        raise InputError("stride", stride, f"accepted: 1 to the window, {window}")
    run = engine.call("evaluate")
    with bar() as report:
        found = run(model=model, format=query.format if named and not plain else None, options=dict(chosen), tokens=tokens,
                    corpus=None if corpus is None else Path(corpus), against=against, window=window, stride=stride,
                    report=report)
    if as_json:
        output.write_json(found)
    else:
        output.table(("", ""), [(name.replace("_", " "), f"{value:.6g}" if isinstance(value, float) else value)
                                for name, value in found.items()])
