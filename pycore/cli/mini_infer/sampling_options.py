"""How a text is sampled and when it ends, as command-line options: the same for `generate` and `chat`."""

from collections.abc import Callable
from typing import Any

import click

from pycore.cli.mini_infer import engine

SAMPLING = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty", "seed")
ENDS = ("max_tokens", "min_tokens", "ignore_eos", "stop", "include_stop")
GROUP = "Sampling"


class Sampled(click.Option):
    """An option that the help lists under its group."""

    group = GROUP


def option(name: str, kind: type, metavar: str, text: str, **settings: Any) -> Callable:
    """One option; its range is checked by the engine, which says what is accepted."""
    return click.option(name, cls=Sampled, type=kind, metavar=metavar, help=text, **settings)


def sampling_options(command: Callable) -> Callable:
    """Decorator: the command takes every option of SAMPLING and ENDS."""
    for one in reversed((
            option("--max-tokens", int, "TOKENS", "Most tokens to write. [default: 256, or what the context still holds]"),
            option("--min-tokens", int, "TOKENS", "Tokens before which nothing ends it.", default=0),
            option("--temperature", float, "X", "0 = always the most likely token.", default=0.0, show_default=True),
            option("--top-k", int, "N", "Only the N most likely tokens; 0 = all.", default=0),
            option("--top-p", float, "X", "Only the most likely tokens that make up X of the probability.", default=1.0),
            option("--min-p", float, "X", "Only tokens with X of the most likely one's probability.", default=0.0),
            option("--repetition-penalty", float, "X", "1 = none; over prompt and output.", default=1.0),
            option("--presence-penalty", float, "X", "Taken from the logit of what was written.", default=0.0),
            option("--frequency-penalty", float, "X", "The same for each time it was written.", default=0.0),
            option("--seed", int, "N", "The same seed gives the same text."),
            option("--stop", str, "TEXT", "End at this text; may be given several times.", multiple=True),
            click.option("--include-stop", cls=Sampled, is_flag=True, help="The stop is part of the text."),
            click.option("--ignore-eos", cls=Sampled, is_flag=True, help="Go on after the model's own end."))):
        command = one(command)
    return command


def taken(options: dict[str, Any], *, logprobs: int | None = None) -> dict[str, Any]:
    """Fields of `batch.Asked` out of the options, which are taken from them. Raises InputError, SourceError."""
    sampling = {name: options.pop(name) for name in SAMPLING}
    ends = {name: options.pop(name) for name in ENDS}
    made = engine.part("sampling").Sampling(**sampling, logprobs=logprobs)
    engine.part("generation").refuse_counts(ends["max_tokens"], ends["min_tokens"])
    return {"sampling": made, "max_tokens": ends["max_tokens"], "min_tokens": ends["min_tokens"],
            "ignore_end": ends["ignore_eos"], "include_stop": ends["include_stop"],
            "stops": engine.part("stops").checked(ends["stop"])}
