"""Nesting is measured before anything is parsed: in text and bytes, with brackets in strings left out."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pycore.errors import ConfigError, InputError, SourceError
from pycore.nesting import deeper

VALUES = st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=3)
                      | st.dictionaries(st.text(max_size=4), inner, max_size=3), max_leaves=12)


def depth(value) -> int:
    """Levels of lists and objects, counted on the parsed value."""
    if isinstance(value, dict):
        value = list(value.values())
    return 1 + max(map(depth, value), default=0) if isinstance(value, list) else 0


@given(VALUES)
def test_it_is_as_deep_as_what_is_parsed(value):
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False, indent=1)):
        levels = depth(value)
        for given_as in (text, text.encode("utf-8", "surrogatepass")):
            assert not deeper(given_as, levels)
            assert levels == 0 or deeper(given_as, levels - 1)


def test_brackets_in_strings_are_text():
    assert not deeper(json.dumps({"a": "[[[[{{\\\"[" * 50}), 1)
    assert deeper('["' + "[" * 9, 5)  # a string that never ends is none


DEEP = "[" * 200_000


def config(text):
    from pycore.config_json import text as reader
    reader.parse(text)


def cost(text):
    from pycore.simulation.costs.custom import read_cost
    read_cost(text)


def tokenizer(text):
    from pycore.tokens.upload import parsed
    parsed(text.encode(), "tokenizer.json")


def header(text):
    from pycore.hub.safetensors import parse_header
    parse_header(text.encode(), "model.safetensors")


def events(text):
    from pycore.scenes import event_file
    list(event_file.parsed([text]))


@pytest.mark.parametrize("reader", [config, cost, tokenizer, header, events])
def test_readers_of_foreign_json_refuse_it_before_they_parse(reader, monkeypatch):
    """None of them leaves it to the parser: in WebAssembly its recursion would end the page's Python for good."""
    monkeypatch.setattr(json, "loads", lambda *arguments, **options: pytest.fail("parsed"))
    with pytest.raises((InputError, SourceError, ConfigError)):
        reader('{"a": ' + DEEP)
