"""`mini-infer chat`: a conversation at the terminal, or line by line out of a pipe."""

import sys
import time
from collections.abc import Iterator
from typing import Any

import click

from pycore.cli import errors, output
from pycore.cli.errors import flag
from pycore.cli.mini_infer import engine, model
from pycore.cli.mini_infer.answers import figures_line, shown
from pycore.cli.mini_infer.interrupt import Insisted, watched
from pycore.cli.mini_infer.sampling_options import sampling_options, taken
from pycore.cli.mini_infer.say import say
from pycore.cli.mini_infer.setup_options import setup_options
from pycore.cli.options import QuestionCommand, limited
from pycore.errors import InputError, SourceError, StudioError
from pycore.knobs import TEXT_LIMIT

EPILOG = """\b
Examples:
  mini-infer chat
  mini-infer chat ./my-qwen3 --temperature 0.7 --system "Answer in one sentence."
  printf 'What is the capital of France?\\nAnd of Italy?\\n' | mini-infer chat

\b
In the conversation:
  /reset          forget everything but the system message
  /retry          answer the last message again
  /system TEXT    another system message, and begin anew
  /help, /exit
Ctrl-C ends an answer, Ctrl-D the conversation. Of a pipe every line is a message; the answers alone go to standard output.
"""
HELP = "/reset  /retry  /system TEXT  /exit   Ctrl-C ends an answer, Ctrl-D the conversation"


class Talk:
    """A conversation: its messages, the engine that goes on from turn to turn, and what it all came to."""

    def __init__(self, found: model.Opened, asked: dict[str, Any], system: str | None):
        self.found, self.asked, self.part = found, asked, engine.part("batch")
        self.turns: list[dict[str, Any]] = []
        self.begin(system)

    def begin(self, system: str | None) -> None:
        """Forget everything; another system message, or none."""
        self.system = system
        self.messages: list[dict[str, str]] = [] if system is None else [{"role": "system", "content": system}]

    def answer(self, message: str, *, live: bool) -> dict[str, Any]:
        """Say something, have the answer written as it comes; the turn. Raises StudioError: then nothing was said."""
        batch = self.part.Batch(self.found.engine, self.found.source.words)
        messages = (*self.messages, {"role": "user", "content": message})
        began = time.perf_counter()
        with watched() as pressed:
            (text,) = batch.add(self.part.Asked(messages=messages, **self.asked))
            batch.run(lambda one, part: click.echo(shown(part), nl=False) if live else None, given_up=pressed)
        if live:
            click.echo(" [stopped]" if text.finish == "aborted" else "")
        if text.finish in ("error", "refused"):
            raise SourceError("engine", text.reason)
        self.messages = [*messages, {"role": "assistant", "content": text.text}]
        figures = self.part.figures([text], time.perf_counter() - began)
        self.turns.append({"message": message, "answer": text.text, "finish_reason": text.finish} | figures)
        return self.turns[-1]

    def retry(self) -> str | None:
        """The last message, taken back with its answer; None where there is none."""
        if not self.messages or self.messages[-1]["role"] != "assistant":
            return None
        self.messages, last = self.messages[:-2], self.messages[-2]["content"]
        return last


@click.command(cls=QuestionCommand, epilog=EPILOG)
@click.argument("word", metavar="[MODEL]", required=False)
@click.option("--system", metavar="TEXT", help="A system message.")
@click.option("--json", "as_json", is_flag=True, help="Print the whole conversation as one JSON object at its end.")
@model.variable_option
@model.events_option
@sampling_options
@setup_options("seed")
def command(word: str | None, system: str | None, variable: tuple[str, ...], events: str | None, **options: Any) -> None:
    """Talk with a model; Ctrl-C ends an answer, not the talk (needs torch)."""
    as_json = flag(options, "as_json")
    asked = taken(options) | {"variables": model.variables(variable)}
    chosen = model.chosen_by(options, word)
    engine.part("batch")
    talk = Talk(model.opened(chosen), asked, system)
    if talk.found.source.words.template is None:
        raise InputError("model", chosen.model, "accepted: one with a chat template; `generate` goes on from any text")
    with model.recorded(talk.found, events):
        if sys.stdin.isatty():
            at_terminal(talk, live=not as_json)
        else:
            for line in piped():
                talk.answer(line, live=not as_json)
    if as_json:
        output.write_json({"model": talk.found.source.name, "system": talk.system, "messages": talk.messages,
                           "turns": talk.turns})


def piped() -> Iterator[str]:
    """The lines of standard input that are not empty. Raises SourceError for what is no UTF-8."""
    for line in iter(lambda: sys.stdin.buffer.readline(TEXT_LIMIT + 1), b""):
        text = limited("prompt", "standard input", line).strip()
        if text:
            yield text


def at_terminal(talk: Talk, *, live: bool) -> None:
    """Messages as they are typed, until there are no more."""
    try:
        import readline  # noqa: F401  - lines can be edited, and earlier ones brought back
    except ImportError:
        pass
    words = talk.found.source
    say(f"{words.name} on {words.model.device}", style="bold")
    say(HELP, style="dim")
    while True:
        try:
            line = input("\n> ").strip()
            if line == "/exit":
                return
            message = obeyed(talk, line) if line.startswith("/") else line
            if message:
                turn(talk, message, live=live)
        except EOFError:
            say("")
            return
        except Insisted:
            raise
        except KeyboardInterrupt:
            say("\nCtrl-D or /exit ends the conversation.")


def turn(talk: Talk, message: str, *, live: bool) -> None:
    """One message and its answer; what cannot be answered is said, and the talk goes on."""
    try:
        figures = talk.answer(message, live=live)
    except StudioError as error:
        say(errors.message(error) + "  (/reset begins anew)", style="bold")
    else:
        say(figures_line(figures), style="dim")


def obeyed(talk: Talk, line: str) -> str | None:
    """Do what a line beginning with / wants; the message to answer, where it wants one."""
    name, _, rest = line.partition(" ")
    if name == "/reset":
        talk.begin(talk.system)
        say("Forgotten.")
    elif name == "/system":
        talk.begin(rest.strip() or None)
        say("Begun anew" + (" with that system message." if rest.strip() else " without a system message."))
    elif name == "/retry":
        if (last := talk.retry()) is not None:
            return last
        say("There is nothing to answer again.")
    else:
        say(HELP if name == "/help" else f"There is no {name}. {HELP}")
    return None
