"""`mini-infer prove`: the equalities that an engine owes, shown on a model of one's own."""

from dataclasses import asdict
from typing import Any

import click

import pycore
from pycore.cli import output
from pycore.cli.errors import DoesNotFit, flag
from pycore.cli.mini_infer import engine, model
from pycore.cli.mini_infer.say import say
from pycore.cli.mini_infer.setup_options import setup_options
from pycore.cli.options import QuestionCommand
from pycore.units import significant

EPILOG = """\b
Examples:
  mini-infer prove
  mini-infer prove ./my-qwen3 --kv-format int4
  mini-infer prove smollm2-135m --linear int8 --max-tokens 24 --json

\b
The reference is each prompt alone in a fresh engine, the whole prompt in one step, nothing cached. Logits may differ by
rounding: by 0.01 % of the largest logit in float32; where weights, keys or values have fewer bits by 3 %, or by as much
as those numbers themselves are off from float32 on these texts, since one may fall on the other side of a rounding step.
A way that the engine did not really take counts as failed.
Exit status 1 where an equality fails.
"""
OTHERS = ("kv_blocks", "kv_memory_bytes", "block_size", "host_blocks", "max_model_length", "max_batched_tokens",
          "max_sequences", "policy", "prefix_caching", "preemption", "draft", "draft_tokens", "seed")


@click.command(cls=QuestionCommand, epilog=EPILOG)
@click.argument("word", metavar="[MODEL]", required=False)
@click.option("--prompt", multiple=True, metavar="TEXT", help="One more text to go on from. May be given several times.")
@click.option("--max-tokens", type=click.IntRange(2, 512), default=12, show_default=True, help="Tokens of each answer.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end.")
@setup_options(*OTHERS)
def command(word: str | None, prompt: tuple[str, ...], max_tokens: int, **options: Any) -> None:
    """Cold = prefix hit = chunked = preempted and resumed = batch of one, held logit by logit (needs torch)."""
    as_json = flag(options, "as_json")
    chosen = model.chosen_by(options, word)
    part = engine.part("prove")
    source = engine.part("source").open_source(chosen.model, dtype=chosen.dtype, device=chosen.device, say=say)
    court = part.court(source, engine.part("setup").Setup.of(chosen), prompt, max_tokens, say)
    found = []
    for one in part.proofs(court):
        found.append(one)
        if not as_json:
            show(one, source.words)
    failed = [one.name for one in found if not one.holds]
    if as_json:
        output.write_json({"version": pycore.__version__, "model": source.name, "tolerance": court.tolerance,
                           "prompts": len(court.prompts), "max_tokens": max_tokens, "holds": not failed,
                           "proofs": [asdict(one) for one in found]})
    else:
        output.line(f"{len(found)} of {len(found)} hold." if not failed else
                    f"{len(failed)} of {len(found)} fail: {', '.join(failed)}.", style="bold")
    if failed:
        raise DoesNotFit


def show(one: Any, words: Any) -> None:
    """One equality as a line, and where it fails."""
    figures = f"{one.compared} " + ("steps" if one.largest is None else
                                    f"rows of logits, at most {significant(100 * one.largest, 2)} % apart")
    ties = f", {one.ties} parted at a tie" if one.ties else ""
    output.line(f"{'holds' if one.holds else 'FAILS'}  {one.name}: {one.law} ({figures}{ties})",
                style=None if one.holds else "bold")
    if one.words:
        output.line(f"       {one.words}")
    if (first := one.first) is not None:
        reference, other = (words.decode((token,)) for token in first.said)
        output.line(f"       prompt {first.prompt + 1}, token {first.place + 1} of its answer: logit {first.token} "
                    f"({words.decode((first.token,))!r}) is {significant(first.other)}, the reference has "
                    f"{significant(first.reference)}; said {other!r}, the reference {reference!r}")
