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
from pycore.ledger import fact

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


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
@pytest.mark.parametrize("what", ["pipe", "table"])
def test_a_disk_without_room_is_no_fault_of_ours(what):
    with open("/dev/full", "w") as full:
        found = subprocess.run([sys.executable, "-c", SCRIPT, what], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert found.returncode == errors.NOT_ANSWERED
    assert found.stderr == "Error: the output cannot be written: No space left on device\n"


def test_a_closed_output_leaves_the_status():
    found = subprocess.run(["sh", "-c", f"exec '{sys.executable}' -c \"$0\" pipe >&-", SCRIPT], stderr=subprocess.PIPE, text=True, check=False)
    assert (found.returncode, found.stderr) == (errors.ANSWERED, "")


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


def test_numbers_are_never_cut_however_narrow_the_terminal():
    code = ("import rich.console\nrich.console.Console.is_terminal = property(lambda self: True)\n"
            "from pycore.cli import output\n"
            "row = ('some long text ' * 3, '123,456,789', '0.001', '1e9')\n"
            "output.table(('name of a thing', 'a', 'b', 'c'), [row] * 2, right=(1, 2, 3))")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                          env=os.environ | {"COLUMNS": "20", "NO_COLOR": "1"})
    assert "…" not in done.stdout
    assert done.stdout.count("123,456,789") == done.stdout.count("0.001") == done.stdout.count("1e9") == 2


@pytest.mark.parametrize(("low", "high", "unit", "text"), [
    (0.0223, 0.0339, "s", "22.3 to 33.9 ms"), (0.5, 1.5, "s", "500 ms to 1.5 s"), (3, 3, "tokens", ""),
    (1, 2, "USD/1M tokens", "$1.00 to $2.00 per 1M tokens"), (1 << 30, 3 << 30, "B", "1 to 3 GiB"),
    (2, 4, "", "2 to 4")])
def test_ranges_say_a_shared_unit_once(low, high, unit, text):
    term = fact("x", low, unit, basis="derived", source="t", low=low, high=high)
    assert output.ranged(term) == text
    assert output.ranged(None) == ""
