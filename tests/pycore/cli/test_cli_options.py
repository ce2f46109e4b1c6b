"""Options from a question's own fields: any Query, the same values back from the command line, URL and JSON."""

import json
import shlex
from dataclasses import dataclass

import click
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pycore.cli.options import QuestionCommand, ask, long_text, question
from pycore.errors import InputError, InvalidQuery, SourceError
from pycore.knobs import from_url, knob, knobs, parse, to_command, to_url
from pycore.systems import infersize


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A small question with one field of each kind."""

    size: int = knob(8, "Size", low=0, high=1 << 20, unit="tokens", group="Load", zero="automatic", help="How many.")
    share: float = knob(0.5, "Share", low=0.0, high=1.0, group="Load", help="How much.")
    fast: bool = knob(False, "Fast", group="Way", help="Hurry.")
    engine: str = knob("vllm", "Engine", choices=("vllm", "sglang"), group="Way", help="Which.")
    name: str = knob("", "Name", help="Any text.", zero="none")
    config: str = knob("", "Config", long=True, help="A file.")


def command_of(query):
    seen = []

    @click.command(cls=QuestionCommand)
    @question(query)
    def command(**options):
        """Asks."""
        seen.append(ask(query, options))

    return command, seen


def run(query, arguments, **settings):
    command, seen = command_of(query)
    result = CliRunner().invoke(command, arguments, catch_exceptions=True, **settings)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return seen[0]


def test_nothing_given_is_the_default_question():
    assert run(Question, []) == Question()
    assert run(infersize.Query, []) == infersize.Query()


def test_values_are_read_as_the_form_reads_them():
    given = run(Question, ["--size", "8k", "--share", "0.25", "--engine", "SGLang", "--fast"])
    assert given == Question(size=8192, share=0.25, engine="sglang", fast=True)
    assert run(Question, ["--fast", "yes", "--size", "1,024"]) == Question(fast=True, size=1024)
    assert run(Question, ["--fast", "no"]) == Question()
    assert run(Question, ["--fast", "--size", "2"]) == Question(fast=True, size=2)


def test_all_faults_at_once():
    with pytest.raises(InvalidQuery) as caught:
        run(Question, ["--size", "-1", "--share", "lots", "--engine", "x", "--fast", "maybe"])
    assert {error.field for error in caught.value.errors} == {"size", "share", "fast", "engine"}


@pytest.mark.parametrize("value", ["1e400", "nan", "inf", "99999999999999999999", "0x10", "1.5", "", "１２x"])
def test_numbers_that_are_none_of_the_field(value):
    with pytest.raises(InvalidQuery):
        run(Question, ["--size", value])


def test_help_has_every_option_its_group_range_and_default():
    command, _ = command_of(infersize.Query)
    text = CliRunner().invoke(command, ["--help"], terminal_width=200).output
    flat = " ".join(text.split())
    for one in knobs(infersize.Query):
        assert one.option in text and one.help in flat, one.name
        assert f"{one.group}:" in text
        if one.kind in ("integer", "number") and one.zero:
            assert f"0 = {one.zero}" in flat
        if one.default != "" and one.kind != "flag":
            assert f"[default: {one.default}]" in flat


def test_long_texts_from_file_standard_input_or_as_they_stand(tmp_path):
    file = tmp_path / "config.json"
    file.write_text('\ufeff{"a": 1}', encoding="utf-8")
    assert run(Question, ["--config", str(file)]).config == '{"a": 1}'
    assert run(Question, ["--config", "-"], input='{"b": 2}').config == '{"b": 2}'
    assert run(Question, ["--config", '{"c": 3}']).config == '{"c": 3}'
    assert run(Question, ["--config", "INFO x\nINFO y"]).config == "INFO x\nINFO y"


def test_files_that_cannot_be_read(tmp_path):
    large, binary = tmp_path / "large", tmp_path / "binary"
    large.write_bytes(b"x" * ((1 << 20) + 1))
    binary.write_bytes(b"\xff\xfe\x00")
    for value, words in ((str(tmp_path / "none.json"), "No such file"), (str(tmp_path), "directory"),
                         (str(large), "larger than"), (str(binary), "UTF-8"), ("a\0b", "cannot be read"),
                         ("x" * 5000, "cannot be read")):
        with pytest.raises(SourceError, match=words):
            long_text("config", value)


def test_standard_input_serves_one_option():
    with pytest.raises(InputError):
        ask(infersize.Query, {"config": "-", "engine_log": "-"})


def words_of(one):
    return st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\0"), max_size=40).map(str.strip)


def long_values():
    letters = st.characters(blacklist_categories=("Cs",))
    document = st.dictionaries(st.text(letters, max_size=5), st.integers() | st.text(letters, max_size=8), max_size=4)
    log = st.lists(st.text(st.characters(min_codepoint=32, max_codepoint=0x2FF), min_size=1), min_size=2, max_size=4)
    return st.just("") | document.map(json.dumps) | log.map(lambda lines: "\n".join(lines))


def value_of(one):
    if one.choices:
        return st.sampled_from(one.choices)
    if one.kind == "flag":
        return st.booleans()
    if one.kind == "integer":
        return st.integers(int(one.low), int(one.high))
    if one.kind == "number":
        return st.floats(one.low, one.high)
    return long_values() if one.kind == "long text" else words_of(one)


def questions(query):
    return st.fixed_dictionaries({}, optional={one.name: value_of(one) for one in knobs(query)}).map(
        lambda values: query(**values))


@pytest.mark.parametrize("query", [Question, infersize.Query], ids=["small", "infersize"])
@given(data=st.data())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_url_command_line_and_json_give_every_question_again(query, data):
    asked = data.draw(questions(query))
    assert from_url(query, to_url(asked)) == asked
    assert parse(query, json.loads(json.dumps({one.name: getattr(asked, one.name) for one in knobs(query)}))) == asked
    assert run(query, shlex.split(to_command(asked, "infersize plan"))[2:]) == asked
