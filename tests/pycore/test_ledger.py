"""Terms explain themselves: formula, values put in, ranges, sums that add up exactly."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pycore.ledger import Range, Term, add, fact, term, total


@term("KV cache", "B", source="definition")
def kv_bytes(layers, kv_heads, head_dim, element_bytes, tokens):
    """2 × layers × kv_heads × head_dim × element_bytes × tokens"""
    return 2 * layers * kv_heads * head_dim * element_bytes * tokens


@term("time", "s")
def read_time(size, bandwidth):
    """size / bandwidth"""
    return size / bandwidth


def test_a_term_carries_value_formula_inputs_and_line():
    result = kv_bytes(layers=32, kv_heads=8, head_dim=128, element_bytes=2, tokens=8192)
    assert result.value == 1 << 30 and result.text == "1 GiB"
    assert result.substituted == "2 × 32 × 8 × 128 × 2 × 8,192"
    path, line = result.line.split(":")
    source = open(__file__, encoding="utf-8").read().splitlines()
    assert path.endswith("test_ledger.py") and source[int(line) - 1].startswith("@term(")
    assert kv_bytes.plain(1, 1, 1, 2, 1) == 4


def test_a_rule_in_words_lists_its_inputs():
    rule = Term(name="most", value=3, unit="sequences", formula="the most sequences of that context that fit",
                inputs=(("context", 8192), ("replicas", 1)))
    assert rule.substituted == "context = 8,192, replicas = 1"


def test_terms_as_inputs_are_kept_and_walked():
    size = kv_bytes(layers=1, kv_heads=1, head_dim=1, element_bytes=2, tokens=1)
    time = read_time(size=size, bandwidth=4.0)
    assert time.value == 1.0 and [t.name for t in time.walk()] == ["time", "KV cache"]


def test_ranges_are_carried_to_the_ends():
    size = fact("size", 10, "B", basis="assumed", source="test", low=5, high=20)
    bandwidth = fact("bandwidth", 2.0, "B/s", basis="assumed", source="test", low=1.0, high=4.0)
    time = read_time(size=size, bandwidth=bandwidth)
    assert (time.low, time.value, time.high) == (1.25, 5.0, 20.0)


def test_total_adds_exactly_and_refuses_mixed_units():
    parts = [fact(str(n), n, "B", basis="given", source="") for n in (1, 2, 3)]
    assert total("sum", parts).value == 6
    with pytest.raises(ValueError, match="cannot add"):
        total("sum", [*parts, fact("t", 1.0, "s", basis="given", source="")])


def test_range_and_basis_are_checked():
    with pytest.raises(ValueError):
        Range(1, 2, 3)
    with pytest.raises(ValueError, match="basis"):
        Term(name="x", value=1, unit="B", formula="", basis="guessed")


@given(st.lists(st.integers(-(10**18), 10**18), min_size=1))
def test_integer_sums_stay_integers(values):
    assert add(values) == sum(values) and isinstance(add(values), int)


@given(st.lists(st.floats(-1e12, 1e12), min_size=1))
def test_float_sums_are_correctly_rounded(values):
    assert add(values) == math.fsum(values)
