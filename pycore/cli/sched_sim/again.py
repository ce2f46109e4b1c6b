"""How to ask the same again: the command, and the page's address where one can hold the question."""

import shlex
from collections.abc import Mapping
from dataclasses import replace

from pycore.cli.sched_sim.asking import Asked, page_address
from pycore.errors import InputError
from pycore.knobs import to_command


def command(asked: Asked, name: str, own: Mapping[str, str] | None = None) -> str:
    """The shell command. `name`: 'run', or 'export steps'; `own`: options of that command alone, by name without dashes."""
    options = dict(own or {})
    source = asked.source or asked.query.trace
    words = [f"sched-sim {name}"]
    if name == "replay":
        words.append(shlex.quote(source))
    elif asked.source:
        options["trace"] = source
    if asked.speed != 1.0:
        options["speed"] = repr(asked.speed)
    if asked.folder:
        options["profile"] = asked.folder
    words += [f"--{option} {shlex.quote(value)}" for option, value in options.items()]
    return to_command(replace(asked.query, trace="") if name == "replay" else asked.query, " ".join(words))


def address(asked: Asked, missing: str = "") -> dict[str, str | None]:
    """Keys 'url', and where no address asks the same, 'url_note' that says why. `missing`: what else it cannot hold."""
    lost = missing or unsaid(asked)
    if not lost:
        return {"url": page_address(asked.query)}
    return {"url": None, "url_note": f"no address holds {lost}; the rest of the question: {page_address(asked.query)}"}


def only_address(asked: Asked, missing: str = "") -> str:
    """The address that --url prints. Raises InputError where it would ask something else."""
    lost = missing or unsaid(asked)
    if lost:
        raise InputError("url", "yes", f"no address holds {lost}; the rest of the question: {page_address(asked.query)}")
    return page_address(asked.query)


def unsaid(asked: Asked) -> str:
    """What a query alone does not say, '' for nothing."""
    if asked.source:
        return f"the trace from {'standard input' if asked.source == '-' else 'a file'} (drop it on the page)"
    if asked.tables is not None:
        return "kernel tables from a folder"
    return "the speed of a replay" if asked.speed != 1.0 else ""
