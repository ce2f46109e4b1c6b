"""`mini-infer speculate`: guesses accepted and rejected, token by token, and what that is worth on a card."""

from typing import Any

import click

from pycore.cli import output
from pycore.cli.mini_infer import drawing
from pycore.cli.options import QuestionCommand
from pycore.scenes.drafting import Guess, Step
from pycore.scenes.waterfall import Waterfall
from pycore.systems.mini_infer import Answer, BreakEven
from pycore.systems.mini_infer_question import BYTES, SPECULATION
from pycore.units import significant

EPILOG = """\b
Examples:
  mini-infer speculate
  mini-infer speculate --draft-tokens 8 --similarity 40 --temperature 0.5
  mini-infer speculate --model llama-3.3-70b --draft-model llama-3.2-1b --gpu b300

\b
The two models are tiny and known exactly, so that every chance can be shown; --model, --draft-model and --gpu say whose step
times turn the tokens a step that were measured into a speed-up.
"""


@click.command(cls=QuestionCommand, epilog=EPILOG)
@drawing.options(SPECULATION, BYTES)
def command(pictures: bool, url: bool, as_json: bool, **options: Any) -> None:
    """Speculative decoding token by token: chances, draws, verdicts, wasted positions."""
    query = drawing.read(options, scene="speculation")
    drawing.show(query, {"pictures": pictures, "url": url, "as_json": as_json}, lambda found: show(found, pictures=pictures))


def show(found: Answer, *, pictures: bool) -> None:
    """As text."""
    waterfall = found.waterfall
    output.heading("Steps")
    output.table(("step", "guesses", "then", "kept", "wasted"), [
        (f"{step.number}{' <' if step.number == found.number else ''}", " ".join(map(judged, step.guesses)),
         f"{step.last} ({step.source})", step.kept, step.wasted) for step in waterfall.steps], right=(3, 4))
    for step in waterfall.steps if pictures else (waterfall.steps[found.number - 1],):
        one_step(step)
    figures(waterfall)
    worth(found.break_even)


def judged(guess: Guess) -> str:
    """'cat' as accepted, '[cat]' as rejected, '(cat)' as not looked at."""
    return {"accepted": "{}", "rejected": "[{}]", "not reached": "({})"}[guess.verdict].format(guess.token)


def one_step(step: Step) -> None:
    """Every guess of a step."""
    output.heading(f"Step {step.number}, after '{' '.join(step.before)}'")
    output.table(("guess", "p", "q", "kept with", "draw", ""), [
        (guess.token, significant(guess.p, 4), significant(guess.q, 4), significant(guess.chance, 4),
         "" if guess.draw is None else significant(guess.draw, 4), guess.verdict) for guess in step.guesses],
        right=(1, 2, 3, 4))


def figures(found: Waterfall) -> None:
    """What was measured, and by the closed form."""
    output.heading("Measured against the closed form")
    for term in (found.acceptance, found.exact, found.measured, found.expected, found.wasted_share):
        output.line(f"  {term.name}: {term.text}")
    output.table(("draft tokens", "tokens a step, closed form", "measured"), [
        (rung.draft_tokens, significant(rung.expected, 4), significant(rung.measured.value, 4)) for rung in found.curve],
        right=(0, 1, 2))


def worth(found: BreakEven) -> None:
    """The speed-up by batch."""
    output.heading(f"On {found.deployment.accelerator.name} with {found.deployment.model.name}, "
                   f"drafted by {found.deployment.draft.name}")
    output.line(f"  {found.speculation.verdict}")
    output.table(("sequences", "speed-up", ""), [
        (f"{batch:,}", significant(gain, 4), "" if batch <= found.most.value else "does not fit")
        for batch, gain in found.batches], right=(0, 1))
