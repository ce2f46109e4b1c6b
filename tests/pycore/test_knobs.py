"""One declaration of a question; URL, texts, commands and messages agree with it."""

import importlib
import shlex
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pycore import knobs
from pycore.errors import InvalidQuery
from pycore.systems.infersize import Query

TABLE = {knob.name: knob for knob in knobs.knobs(Query)}


def values(knob):
    """A strategy for every value that a knob takes."""
    if knob.kind == "integer":
        return st.integers(int(knob.low), int(knob.high))
    if knob.kind == "number":
        return st.floats(knob.low, knob.high, allow_nan=False)
    if knob.kind == "flag":
        return st.booleans()
    if knob.kind == "choice":
        return st.sampled_from(knob.choices)
    text = st.text(st.characters(codec="utf-8"), max_size=40)
    return text if knob.kind == "long text" else text.map(str.strip)


QUERIES = st.builds(Query, **{name: values(knob) for name, knob in TABLE.items()})


@given(QUERIES)
def test_every_question_survives_the_url(query):
    assert knobs.from_url(Query, "?" + knobs.to_url(query)) == query


@given(QUERIES)
def test_every_question_survives_the_command_line(query):
    words = shlex.split(knobs.to_command(query, "infersize plan"))[2:]
    given_options = {words[i][2:].replace("-", "_"): words[i + 1] for i in range(0, len(words), 2)}
    assert knobs.parse(Query, given_options) == query


@given(QUERIES)
def test_every_question_survives_python(query):
    scope = {}
    lines = knobs.to_python(query, "pycore.systems.infersize").replace("import Query, answer", "import Query")
    exec(lines.replace("answer(", "("), scope)
    assert scope["result"] == query


def test_the_default_question_is_the_empty_url():
    assert knobs.to_url(Query()) == "" and knobs.from_url(Query, "") == Query()


@pytest.mark.parametrize(("text", "value"), [("8192", 8192), ("8,192", 8192), ("8k", 8192), (" 32K ", 32768), ("1m", 1 << 20)])
def test_token_counts_as_people_type_them(text, value):
    assert knobs.parse(Query, {"context": text}).context == value


@pytest.mark.parametrize(("field", "text"), [
    ("context", "0"), ("context", "-1"), ("context", "1e99"), ("context", "many"), ("context", ""), ("context", "1.5"),
    ("context", "nan"), ("context", "inf"), ("utilisation", "2"), ("engine", "vLLLM"), ("ep", "perhaps"), ("count", "٣"),
    ("model", "x" * (knobs.TEXT_LIMIT + 1)), ("no_such_field", "1"),
])
def test_bad_values_name_the_field_and_what_is_accepted(field, text):
    with pytest.raises(InvalidQuery) as caught:
        knobs.parse(Query, {field: text})
    error = caught.value.errors[0].as_dict()
    assert error["field"] == field and (error["accepted"]) and len(error["message"]) < 1500


def test_all_faults_are_reported_at_once():
    with pytest.raises(InvalidQuery) as caught:
        knobs.parse(Query, {"context": "x", "count": "-3", "engine": "y", "gpu": "fine"})
    assert [error.field for error in caught.value.errors] == ["context", "count", "engine"]


def test_every_field_is_declared_in_full():
    for knob in TABLE.values():
        assert knob.label and knob.help.endswith((".", ":")) and knob.group and knob.accepted


def test_choices_do_not_hang_on_dots_and_capitals():
    for typed in ("llamacpp", "Llama.cpp", "llama-cpp", "LLAMA CPP"):
        assert knobs.parse(Query, {"engine": typed}).engine == "llama.cpp"
    assert knobs.parse(Query, {"kv_dtype": "Q8_0", "v_dtype": "iq4-nl"}).v_dtype == "iq4_nl"


@pytest.mark.parametrize("module", ["infersize", "sched_sim", "token_atlas", "quantbench"])
def test_a_form_with_every_field_as_it_stands_is_the_default_question(module):
    """A page's form says all fields, those below zero included."""
    question = importlib.import_module(f"pycore.systems.{module}").Query
    form = urlencode({knob.name: knobs.as_text(getattr(question(), knob.name)) for knob in knobs.knobs(question)})
    assert knobs.from_url(question, form) == question()
