"""`infersize hub`: a plan for a model on the Hugging Face Hub, with the exact bytes that it stores."""

from dataclasses import replace
from typing import Any

import click

from pycore import hub
from pycore.cli import output
from pycore.cli.errors import flag
from pycore.cli.infersize import asking, plan
from pycore.cli.infersize.document import data, document
from pycore.cli.options import QuestionCommand, ask, question
from pycore.hub import HubModel
from pycore.systems.infersize import Answer, Query
from pycore.units import both_bytes
from pycore.vram.parameters import parameters

EPILOG = """\b
Examples:
  infersize hub Qwen/Qwen2.5-7B-Instruct --gpu l4
  infersize hub deepseek-ai/DeepSeek-V3 --gpu h200 --count 8 --json
  HF_ENDPOINT=https://mirror.example infersize hub org/model
  HF_HUB_OFFLINE=1 infersize hub org/model     (the local Hugging Face cache only)

\b
Only config.json, the index and the headers of safetensors files are read, never the weights. HF_TOKEN is sent to the
endpoint alone, for private and gated repositories. The weight format is the stored one unless --quant is given.
Exit status: 0 it fits; 1 it does not fit; 2 the Hub did not answer as it should, or the config is not understood.
"""


@click.command(cls=QuestionCommand, epilog=EPILOG)
@click.argument("repo_id")
@click.option("--revision", default="main", show_default=True, metavar="NAME", help="Branch, tag or commit.")
@click.option("--headers", type=click.IntRange(0, 1000), default=hub.MOST_HEADERS, show_default=True, metavar="N",
              help="Read the header of at most this many files; a repository of more is sized from totals.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object: that of plan, and `hub`.")
@question(Query, leave_out=("model", "config"))
def command(repo_id: str, revision: str, headers: int, **options: Any) -> None:
    """Plan for a model on the Hugging Face Hub, from its config and stored weights."""
    as_json = flag(options, "as_json")
    query = ask(Query, options | {"model": repo_id})
    found = hub.lookup(repo_id, revision=revision, headers=headers)
    query = replace(query, config=found.config)
    answer = asking.answer(query)
    if as_json:
        output.write_json(document(answer) | {"hub": stored(found)})
        asking.exit_unless(answer.fits)
    else:
        show(found, answer)
        output.line()
        plan.show(answer, as_json=False)


def stored(found: HubModel) -> dict[str, Any]:
    """What the Hub said, without the config's text (the question holds it)."""
    return {key: value for key, value in data(found).items() if key != "config"}


def show(found: HubModel, answer: Answer) -> None:
    """What is stored, and how it compares with what the config's shape gives."""
    output.line(f"{found.repository} at {found.revision}, read from {found.origin}", style="bold")
    weights = found.weights
    if weights is not None:
        output.line(f"Stored: {both_bytes(weights.bytes)} in {weights.files} file{'' if weights.files == 1 else 's'} "
                    f"({weights.basis})")
        output.table(("dtype", "elements", "bytes"),
                     [(dtype, f"{elements:,}", both_bytes(size)) for dtype, elements, size in weights.by_dtype],
                     right=(1, 2))
        output.table(("part", "elements", "bytes"),
                     [(part, f"{elements:,}", both_bytes(size)) for part, elements, size in weights.by_component],
                     right=(1, 2))
    for note in found.notes:
        output.line(f"Note: {note}.")
    output.line(compared(found, parameters(answer.deployment.model).stored))


def compared(found: HubModel, computed: int) -> str:
    """The config's parameter count beside the stored one, as far as they can be compared."""
    text = f"The config's shape gives {computed:,} parameters"
    if found.weights is None or found.weights.elements is None:
        return text + "."
    packed = any(dtype in ("U8", "I8", "I32", "U32", "F4") for dtype, _, _ in found.weights.by_dtype)
    if packed:
        return text + "; the stored elements are packed and cannot be compared one by one."
    difference = found.weights.elements - computed
    return text + ("; exactly what is stored." if difference == 0 else
                   f"; {abs(difference):,} {'more' if difference > 0 else 'fewer'} are stored (a vision tower, a "
                   "prediction layer, a stored copy of a tied head, or scales of a quantised format).")
