"""`mini-infer info`: a model from its files, its weights unread."""

from typing import Any

import click

import pycore
from pycore.cli import output
from pycore.cli.mini_infer import engine
from pycore.cli.mini_infer.say import say
from pycore.cli.output import heading, table
from pycore.units import binary_bytes, decimal_bytes

EPILOG = """\b
Examples:
  mini-infer info
  mini-infer info ./my-qwen3 --dtype float16 --tensors
  mini-infer info model.gguf --hashes --json

\b
MODEL: as in `generate`. Nothing is allocated: memory for keys and values is computed, what is free is asked of the system.
"""


@click.command(epilog=EPILOG)
@click.argument("model", default="smollm2-135m")
@click.option("--dtype", type=click.Choice(("float32", "float16", "bfloat16")), default="float32", show_default=True,
              help="Numbers that the weights would be kept in.")
@click.option("--device", default="auto", show_default=True, metavar="NAME", help="auto, cpu, cuda, cuda:1 or mps.")
@click.option("--tensors", is_flag=True, help="List every tensor.")
@click.option("--hashes", is_flag=True, help="With the sha256 of each file of weights: reads all of them.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(model: str, dtype: str, device: str, tensors: bool, hashes: bool, as_json: bool) -> None:
    """A model's sizes, tokenizer and memory a token, and what fits here (needs torch)."""
    found = engine.part("facts").facts(model, dtype=dtype, device=device, hashes=hashes, say=say)
    if as_json:
        output.write_json({"version": pycore.__version__} | found)
    else:
        show(found, tensors)


def show(found: dict[str, Any], tensors: bool) -> None:
    """As text."""
    output.line(f"{found['model']}: {found['architecture']}, {found['parameters']:,} parameters", style="bold")
    table(("", ""), [("place", found["place"]), *((one["file"], size(one)) for one in found["files"])])
    heading("Sizes")
    table(("", ""), [*((name.replace("_", " "), written(value)) for name, value in found["sizes"].items()),
                     ("rope", ", ".join(f"{name} {written(value)}" for name, value in found["rope"].items())),
                     ("tensors", ", ".join(f"{count} {kind}" for kind, count in found["kinds"].items()))])
    words = found["tokenizer"]
    heading("Words")
    table(("", ""), [("tokens", f"{words['tokens']:,}, {words['special']} of them special"),
                     ("begins a text", " ".join(words["begin"]) or "-"), ("ends a text", " ".join(words["end"]) or "-"),
                     ("chat template", written(words["chat_template"]))])
    memory(found)
    if tensors:
        heading("Tensors")
        table(("", "kind", "shape", "bytes"), [
            (one["name"], one["kind"], " x ".join(map(str, one["shape"])), f"{one['bytes']:,}")
            for one in found["tensors"]], right=(3,))


def memory(found: dict[str, Any]) -> None:
    """What fits."""
    free = found["free_bytes"]
    heading(f"Memory on {found['device']}: weights in {found['dtype']} take {binary_bytes(found['weight_bytes'])}; "
            + ("what is free is not known" if free is None else f"{binary_bytes(free)} are free"
               + ("" if found["weights_fit"] else ": they do not fit")))
    table(("keys and values", "bytes a token", "tokens beside the weights", "whole contexts"), [
        (name, f"{one['bytes_per_token']:,}", *("-" if one[which] is None else f"{one[which]:,}"
                                                for which in ("tokens", "whole_contexts")))
        for name, one in found["keys_and_values"].items()], right=(1, 2, 3))


def size(one: dict[str, Any]) -> str:
    """A file's size, and its hash where it was asked for."""
    return decimal_bytes(one["bytes"]) + (f", sha256 {one['sha256']}" if one["sha256"] else "")


def written(value: object) -> str:
    """A value as a reader writes it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else f"{value:g}" if isinstance(value, float) else str(value)
