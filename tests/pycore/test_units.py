"""How quantities are written: GB and GiB never mixed, at most six significant digits, no exponents on screen."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pycore import units


@pytest.mark.parametrize(("value", "unit", "text"), [
    (1 << 30, "B", "1 GiB"), (10_737_418_240, "B", "10 GiB"), (0, "B", "0 B"), (1536, "B", "1.5 KiB"),
    (0.0321, "s", "32.1 ms"), (1.5e-6, "s", "1.5 µs"), (9.89e14, "FLOP/s", "989 TFLOP/s"), (131072, "B/token", "131,072 B/token"),
    (0.58, "USD", "$0.58"), (0.3, "USD", "$0.30"), (0.0123, "USD", "$0.0123"), (1234.5, "USD/1M tokens", "$1,234.50 per 1M tokens"), (71.23, "%", "71.2 %"),
    (41408, "tokens", "41,408 tokens"),
])
def test_customary_writing(value, unit, text):
    assert units.show(value, unit) == text


def test_both_systems_side_by_side():
    assert units.both_bytes(24 * units.GIB) == "24 GiB (25.77 GB)"


@given(st.floats(allow_nan=True, allow_infinity=True), st.integers(1, 9))
def test_writing_never_fails_nor_shows_an_exponent(value, digits):
    text = units.significant(value, digits)
    assert text and "e+" not in text


@given(st.floats(1e-9, 1e14), st.integers(1, 6))
def test_written_value_is_near_the_value(value, digits):
    written = float(units.significant(value, digits).replace(",", ""))
    assert abs(written - value) <= max(abs(value) * 10.0 ** (1 - digits), 0.5 if abs(value) >= 10**digits else 0) + 1e-15
