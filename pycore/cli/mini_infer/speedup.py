"""`mini-infer speedup`: what guesses save, measured on a model and prompts of one's own."""

from typing import Any

import click

import pycore
from pycore.cli import output
from pycore.cli.errors import DoesNotFit, flag
from pycore.cli.mini_infer import engine, model
from pycore.cli.mini_infer.generate import read
from pycore.cli.mini_infer.sampling_options import sampling_options, taken
from pycore.cli.mini_infer.say import say
from pycore.cli.mini_infer.setup_options import setup_options
from pycore.cli.options import QuestionCommand
from pycore.units import significant

EPILOG = """\b
Examples:
  mini-infer speedup --prompt "one two three one two three one two"
  mini-infer speedup --prompt - --max-tokens 128 --draft-tokens 6 < code.py
  mini-infer speedup ./large --draft ./small --prompt "Once upon a time" --json

\b
Without --draft guesses are looked up in the text itself. The runs take turns, each from an empty pool, after one of each
that is not counted. Greedy texts must be the same both ways: exit status 1 where one is not.
"""
LOOKED_UP = "n-gram"


@click.command(cls=QuestionCommand, epilog=EPILOG)
@click.argument("word", metavar="[MODEL]", required=False)
@click.option("--prompt", multiple=True, metavar="TEXT",
              help="What to go on from; - reads standard input. Several run as one batch.")
@click.option("--runs", type=click.IntRange(1, 100), default=3, show_default=True, help="Runs of each way.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end.")
@sampling_options
@setup_options("seed")
def command(word: str | None, prompt: tuple[str, ...], runs: int, **options: Any) -> None:
    """What speculation saves here: the same texts with guesses and without, side by side (needs torch)."""
    as_json, prompts, asked = flag(options, "as_json"), read(prompt), taken(options)
    if not options.get("draft"):
        options["draft"] = LOOKED_UP
    chosen = model.chosen_by(options, word)
    part, asking = engine.part("speedup"), engine.part("batch").Asked
    part.refuse_stops(asked["stops"])
    found = model.opened(chosen)
    requests = part.requests(found.engine, found.source.words, [asking(prompt=one, **asked) for one in prompts])
    compared = part.measured(found.engine, requests, runs=runs,
                             told=lambda run: say(f"run {run} of {runs}", style="dim") if run else None)
    difference = compared.first_difference if asked["sampling"].temperature == 0 else None
    if as_json:
        output.write_json({"version": pycore.__version__, "model": found.source.name, "draft": chosen.draft,
                           "draft_tokens": chosen.draft_tokens, "runs": runs, "same": difference is None,
                           **figures(compared)})
    else:
        show(compared, chosen, difference)
    if difference is not None:
        raise DoesNotFit


def figures(compared: Any) -> dict[str, Any]:
    """Both ways as plain data."""
    plain, guessed = compared.plain, compared.guessed
    return {"times_as_fast": compared.times, "tokens": guessed.tokens, "texts": len(guessed.texts),
            "steps": {"plain": plain.steps, "guessed": guessed.steps}, "drafted": guessed.drafted,
            "accepted": guessed.accepted, "acceptance": compared.acceptance, "wasted_positions": guessed.wasted,
            "seconds": {"plain": list(plain.seconds), "guessed": list(guessed.seconds)}}


def show(compared: Any, chosen: Any, difference: tuple[str, int] | None) -> None:
    """The comparison in words."""
    plain, guessed = compared.plain, compared.guessed
    output.line(f"{significant(compared.times, 3)} times as fast with guesses ({chosen.draft}, up to {chosen.draft_tokens} "
                "a step)", style="bold")
    output.line(f"  steps     {guessed.steps} instead of {plain.steps}, for {guessed.tokens} tokens of {len(guessed.texts)} "
                f"text{'s' if len(guessed.texts) > 1 else ''}")
    if compared.acceptance is not None:
        output.line(f"  guesses   {guessed.drafted}, of which {guessed.accepted} became text "
                    f"({significant(100 * compared.acceptance, 3)} %); {guessed.wasted} positions were computed in vain")
    else:
        output.line("  guesses   none: no text came back to what it had said")
    if difference is not None:
        name, at = difference
        output.line(f"  DIFFERENT text {name} differs from its token {at + 1} on: two logits closer than rounding, or a "
                    "fault")
