"""Text and JSON that act on nothing they hold, and exit statuses that scripts can rely on."""

import json
import os
import signal
import subprocess
import sys
import time

import click
import pytest

from pycore.cli import errors, output
from pycore.errors import InputError, InvalidQuery, NotKnown, SourceError, UnknownName

HOSTILE = ["[red]x[/red]", "{{7*7}}", "{% raw %}", "<script>alert(1)</script>", "[link=file:///x]y[/link]", "[/]",
           "[bold", ":smile:", "%s %n", "$(id)"]


@pytest.mark.parametrize("text", HOSTILE)
def test_what_was_typed_is_shown_as_it_was_typed(text, capsys):
    output.line(text)
    output.line(text, style="bold")
    output.table(("a", text), [(text, "1")])
    shown = capsys.readouterr().out
    assert shown.count(text) == 4


@pytest.mark.parametrize(("text", "shown"), [
    ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"), ("a\x07b", "a\\x07b"), ("\u202eabc", "\\u202eabc"),
    ("a\rb", "a\\rb"), ("\x9bK", "\\x9bK"), ("\udc80", "\\udc80"), ("plain é 数", "plain é 数")])
def test_control_characters_are_written_out(text, shown, capsys):
    output.line(text)
    output.table(("x",), [(text,)])
    printed = capsys.readouterr().out
    assert printed.count(shown) == 2
    assert not any(mark in printed for mark in "\x1b\x07\u202e\x9b\r")


def test_no_colour_in_a_pipe(capsys):
    output.line("verdict", style="bold green")
    output.table(("a", "b"), [("1", "2")], right=(1,))
    assert "\x1b" not in capsys.readouterr().out


def test_tables_keep_whole_cells_in_a_pipe(capsys):
    cell = "a value of some length, " * 5
    output.table(("name", "value"), [("x", cell.strip())])
    assert cell.strip() in capsys.readouterr().out


def test_json_has_no_infinities(capsys):
    output.write_json({"a": float("inf"), "b": [float("nan"), 1.5], "c": ({"d": -float("inf")},)})
    assert json.loads(capsys.readouterr().out) == {"a": None, "b": [None, 1.5], "c": [{"d": None}]}


def outcome(raised, capsys):
    @click.command()
    def command():
        raise raised

    status = errors.run(command, [], "x")
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err and captured.out == ""
    return status, captured.err


def test_faults_name_option_value_and_nearest_names(capsys):
    status, text = outcome(InvalidQuery([UnknownName("kv_dtype", "[red]x[/red]", "accepted: a, b", ("a", "b")),
                                         InputError("tp", 3, "accepted: 1, 2")]), capsys)
    assert status == 2
    assert text == ("Error: --kv-dtype: '[red]x[/red]' is not accepted; accepted: a, b.\n  Did you mean: a, b?\n"
                    "Error: --tp: '3' is not accepted; accepted: 1, 2.\n")


@pytest.mark.parametrize(("raised", "status", "words"), [
    (NotKnown("no price"), 2, "no price"), (SourceError("hub", "is down\x1b[2J"), 2, "\\x1b[2J"),
    (errors.DoesNotFit(), 1, ""), (KeyboardInterrupt(), 130, "Interrupted"), (click.Abort(), 130, "Interrupted"),
    (ZeroDivisionError("boom"), 3, "Internal fault: ZeroDivisionError: boom"),
    (click.UsageError("no such"), 2, "no such")])
def test_exit_statuses(raised, status, words, capsys):
    found, text = outcome(raised, capsys)
    assert found == status and words in text


def test_the_variable_shows_where_a_fault_happened(monkeypatch):
    monkeypatch.setenv(errors.TRACEBACK_VARIABLE, "1")

    @click.command()
    def command():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        errors.run(command, [], "x")


SCRIPT = """
import sys, click
from pycore.cli import errors, output
@click.command()
@click.argument("what")
def command(what):
    if what in ("pipe", "table"):
        for number in range(100_000):
            output.line("line %d" % number) if what == "pipe" else output.table(("a",), [("b",)] * 1000)
    else:
        print("ready", flush=True)
        import time
        time.sleep(30)
sys.exit(errors.run(command, None, "x"))
"""


def start(what, **settings):
    return subprocess.Popen([sys.executable, "-c", SCRIPT, what], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            **settings)


@pytest.mark.parametrize("what", ["pipe", "table"])
def test_a_reader_that_goes_away_ends_it_quietly(what):
    process = start(what)
    process.stdout.read(100)
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(20) == errors.READER_GONE


def test_interrupt_is_clean():
    process = start("sleep")
    assert process.stdout.readline() == b"ready\n"
    time.sleep(0.1)
    os.kill(process.pid, signal.SIGINT)
    _, text = process.communicate(timeout=20)
    assert (process.returncode, text.strip()) == (130, b"Interrupted.")


def test_a_terminal_without_the_character_gets_a_question_mark():
    code = ("import sys, click\nfrom pycore.cli import errors, output\n@click.command()\ndef command():\n"
            "    output.line('2 █ a')\n    output.table(('x',), [('█',)])\n"
            "sys.exit(errors.run(command, [], 'x'))")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True,
                          env=os.environ | {"PYTHONIOENCODING": "latin-1"})
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(b"2 ? a\n")
