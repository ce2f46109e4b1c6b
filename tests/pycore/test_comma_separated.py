"""Rows that come back as they were, whatever is in them, and that no spreadsheet runs."""

import csv
import io

from hypothesis import given
from hypothesis import strategies as st

from pycore.comma_separated import FORMULA, csv_text

CELLS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")) | st.integers()


@given(st.lists(st.tuples(CELLS, CELLS), max_size=5))
def test_rows_come_back(rows):
    text = csv_text(("a", "b"), rows)
    back = list(csv.reader(io.StringIO(text, newline="")))
    assert back[0] == ["a", "b"] and len(back) == 1 + len(rows)
    for row, found in zip(rows, back[1:], strict=True):
        assert found == [f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA) else str(cell) for cell in row]


def test_a_bare_carriage_return_is_quoted_in_every_python():
    assert csv_text(("a",), [("x\ry",)]) == 'a\n"x\ry"\n'
