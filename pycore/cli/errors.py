"""What a command does when something goes wrong: a message on standard error and an exit status, never a traceback.

Status 0: answered. 1: answered, and it does not fit. 2: the question cannot be answered (bad input, a source that
failed). 3: a fault of this program. 130: interrupted. 141: the reader of a pipe went away.
"""

import errno
import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from pycore.cli.output import plain
from pycore.errors import InputError, InvalidQuery, StudioError

ANSWERED, DOES_NOT_FIT, NOT_ANSWERED, FAULT, INTERRUPTED, READER_GONE = 0, 1, 2, 3, 130, 141
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
TRACEBACK_VARIABLE = "INFERENCE_STUDIOS_TRACEBACK"


class DoesNotFit(Exception):
    """Raised after an answer was printed, so that scripts see exit status 1."""


def run(command: click.Command, arguments: Sequence[str] | None = None, name: str | None = None) -> int:
    """Run a click command and return its exit status."""
    if sys.stdout is None:  # closed by the caller, who wants only the status
        sys.stdout = open(os.devnull, "w", encoding="utf-8")
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that lacks a character shows '?', it does not fail
    try:
        return invoke(command, sys.argv[1:] if arguments is None else list(arguments), name or sys.argv[0])
    except BrokenPipeError:
        return reader_gone()
    except SystemExit as stop:  # rich leaves a broken pipe with status 1, which here means "does not fit"
        return reader_gone() if isinstance(stop.__context__, BrokenPipeError) else stop.code
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except DoesNotFit:
        return DOES_NOT_FIT
    except StudioError as error:
        return say(message(error), NOT_ANSWERED)
    except (click.exceptions.Abort, KeyboardInterrupt):
        return say("Interrupted.", INTERRUPTED)
    except click.ClickException as error:
        error.show()
        return NOT_ANSWERED
    except Exception as error:  # the last line of defence; the variable shows the rest to whoever reports it
        if isinstance(error, OSError) and error.errno in NO_ROOM:
            silence()
            return say(f"Error: the output cannot be written: {error.strerror}", NOT_ANSWERED)
        if os.environ.get(TRACEBACK_VARIABLE):
            raise
        return say(f"Internal fault: {type(error).__name__}: {error}\nPlease report the command. "
                   f"{TRACEBACK_VARIABLE}=1 shows where it happened.", FAULT)


def invoke(command: click.Command, arguments: list[str], name: str) -> int:
    """What click's own `main` does, without its handling of broken pipes, which ends with status 1."""
    variable = f"_{name.replace('-', '_').upper()}_COMPLETE"
    if instruction := os.environ.get(variable):
        from click.shell_completion import shell_complete
        return shell_complete(command, {}, name, variable, instruction)
    with command.make_context(name, arguments) as context:
        command.invoke(context)
    sys.stdout.flush()
    return ANSWERED


def reader_gone() -> int:
    """`| head` has read enough: end as quietly as `ls` does."""
    silence()
    return READER_GONE


def silence() -> None:
    """Leave nothing to flush at exit to where nothing can be written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno())


def say(text: str, status: int) -> int:
    """Print to standard error and pass the status on."""
    try:
        click.echo(plain(text), err=True)
    except BrokenPipeError:
        pass
    return status


def message(error: StudioError) -> str:
    """One line a fault, each with its option's name, nearest names on a line of their own."""
    faults = error.errors if isinstance(error, InvalidQuery) else (error,)
    return "\n".join(line(fault) for fault in faults)


def line(error: StudioError) -> str:
    """'Error: --tp: ...'"""
    where = f" --{error.field.replace('_', '-')}:" if error.field else ""
    if not isinstance(error, InputError) or hasattr(error, "place"):  # a fault in a file says itself where it lies
        return f"Error:{where} {error}"
    value = str(error.value)
    value = value if len(value) <= 80 else value[:77] + "..."
    nearest = f"\n  Did you mean: {', '.join(error.suggestions)}?" if error.suggestions else ""
    return f"Error:{where} {value!r} is not accepted; {error.accepted}.{nearest}"


def flag(options: dict[str, Any], name: str) -> bool:
    """Take a command's own flag out of the options, so that only the question's are left."""
    return bool(options.pop(name, False))
