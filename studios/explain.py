"""Numbers on a page, and the one place where each is explained.

A page shows many numbers and each opens its explanation; the explanation itself is written once, in the ledger at the
end of the page, under an id. `Ledger` hands out the ids, walks every number down to the facts it rests on, and puts
each into exactly one group.
"""

import functools
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from pycore.ledger import Term, bare, written
from pycore.units import show

MEANING = {
    "definition": "true by construction",
    "datasheet": "the maker's figure",
    "measured": "measured by this project",
    "reported": "measured by others",
    "derived": "computed from what is listed here",
    "fitted": "from a fit to measurements",
    "assumed": "a stated assumption",
    "given": "your question says so",
}
"""What each basis of a Term means, in words."""

FACTS = "Facts it rests on"
_KIND = {"definition": "exact", "given": "exact", "datasheet": "reported", "reported": "reported",
         "measured": "measured", "fitted": "predicted", "assumed": "predicted"}
_NOT_IN_ID = re.compile(r"[^a-z0-9]+")
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


def help_field(text: str) -> object:
    """A dataclass field with its documentation: what it is and which unit or form it has."""
    return field(metadata={"help": text})


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A number on screen that opens its explanation."""

    text: str = help_field("the value with its unit, as written: '14.2 GiB'")
    range_text: str = help_field("'28 ms to 37 ms', or '' where the value is exact")
    id: str = help_field("id of its entry in the ledger")
    kind: str = help_field("'exact', 'predicted', 'reported' or 'measured': how it looks and what it is called")


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """One value that went into a formula."""

    name: str = help_field("the symbol as the formula writes it")
    text: str = help_field("its value as text")
    id: str = help_field("id of its own ledger entry, or '' for a plain value")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """The explanation of one number."""

    id: str = help_field("anchor, unique on the page")
    name: str = help_field("what the number is")
    text: str = help_field("the value with its unit")
    exact: str = help_field("the same to the byte ('15,231,233,024 B'), or '' where `text` already is exact")
    range_text: str = help_field("from and to, or ''")
    kind: str = help_field("'exact', 'predicted', 'reported' or 'measured'")
    formula: str = help_field("the formula in words, or '' for a fact")
    substituted: str = help_field("the formula with its values put in, or '' where that says nothing new")
    inputs: tuple[Input, ...] = help_field("the values in the formula, and the parts of a sum")
    basis: str = help_field("one of pycore.ledger.BASES")
    meaning: str = help_field("the basis in words")
    source: str = help_field("document, log or dataset, or ''")
    url: str = help_field("the source as a link where it is one, or ''")
    code: str = help_field("the line of code, 'pycore/vram/kv.py:16', or ''")
    note: str = help_field("a remark, or ''")


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Entries that belong together."""

    title: str = help_field("heading")
    entries: tuple[Entry, ...] = help_field("in the order they were met")


class Ledger:
    """Collects the terms of one page. Terms that say the same (name, value, code line, inputs) share one entry."""

    def __init__(self, prefix: str = "t-") -> None:
        self._prefix = prefix  # of every id: where a page has two ledgers
        self._ids: dict[tuple, str] = {}
        self._terms: dict[str, tuple[str, Term]] = {}  # id -> (group, term)
        self._seen: dict[int, tuple[str, Term]] = {}  # id() of a Term -> its id; the Term is kept so id() stays taken
        self._kinds: dict[str, str] = {}
        self._group = FACTS

    def section(self, title: str) -> None:
        """Terms met from here on belong under this heading (facts have their own)."""
        self._group = title

    def number(self, term: Term, write: Callable[[float], str] | None = None) -> Number:
        """The term as a number on screen, in its usual writing or as `write` writes it."""
        name = self._add(term)
        text = write or functools.partial(show, unit=term.unit)
        return Number(text=text(term.value), range_text=span_text(term, text), id=name, kind=self._kinds[name])

    def groups(self) -> tuple[Group, ...]:
        """Every term met, explained; headings in the order they were opened, facts last."""
        titles = dict.fromkeys(group for group, _ in self._terms.values())
        ordered = [title for title in titles if title != FACTS] + [FACTS] * (FACTS in titles)
        return tuple(Group(title=title, entries=tuple(
            self._entry(name, term) for name, (group, term) in self._terms.items() if group == title))
            for title in ordered)

    def _add(self, term: Term) -> str:
        known = self._seen.get(id(term))
        if known:
            return known[0]
        key = (term.name, term.value, term.unit, term.line, term.low, term.high, term.basis,
               tuple(bare(value) for _, value in term.inputs))
        name = self._ids.get(key)
        if name is None:
            name = self._ids[key] = self._free_id(term.name)
            fact = not term.inputs and not term.parts
            self._terms[name] = (FACTS if fact else self._group, term)
            below = [self._add(part) for part in _parts(term)]
            self._kinds[name] = kind_of(term, (self._kinds[other] for other in below))
        self._seen[id(term)] = (name, term)
        return name

    def _free_id(self, text: str) -> str:
        stem = self._prefix + (_NOT_IN_ID.sub("-", text.lower()).strip("-")[:40] or "number")
        name, serial = stem, 1
        while name in self._terms:
            serial += 1
            name = f"{stem}-{serial}"
        return name

    def _entry(self, name: str, term: Term) -> Entry:
        inputs = tuple(self._input(key, value) for key, value in term.inputs)
        parts = tuple(self._input(part.name, part) for part in term.parts)
        substituted = term.substituted if term.inputs else " + ".join(part.text for part in term.parts)
        return Entry(id=name, name=term.name, text=term.text, exact=exact_text(term),
                     range_text=span_text(term, functools.partial(show, unit=term.unit)),
                     kind=self._kinds[name], formula=term.formula,
                     substituted=plain(substituted) if substituted != term.formula else "",
                     inputs=inputs + parts, basis=term.basis, meaning=MEANING[term.basis], source=term.source,
                     url=term.source if term.source.startswith("https://") and " " not in term.source else "",
                     code=term.line, note=term.note)

    def _input(self, name: str, value: object) -> Input:
        if isinstance(value, Term):
            return Input(name=name, text=value.text, id=self._add(value))
        return Input(name=name, text=plain(value) if isinstance(value, str) else written(value), id="")


def _parts(term: Term) -> Iterable[Term]:
    yield from term.parts
    yield from (value for _, value in term.inputs if isinstance(value, Term))


def kind_of(term: Term, below: Iterable[str]) -> str:
    """How a term is to be read. A computed number is a prediction once anything under it is, or it has a range that
    is not that of measurements alone."""
    if term.basis != "derived":
        return _KIND[term.basis]
    found = set(below)
    if term.low is not None and found in ({"measured"}, {"reported"}):
        return found.pop()  # the range is the data's own, not a model's
    return "predicted" if "predicted" in found or term.low is not None else "exact"


def span_text(term: Term, write: Callable[[float], str]) -> str:
    """From and to; '' where there is no range or none that the writing shows."""
    ends = () if term.low is None else (write(term.low), write(term.high))
    return f"{ends[0]} to {ends[1]}" if len(set(ends)) == 2 else ""


def exact_text(term: Term) -> str:
    """Bytes in full, since a ledger adds up to the byte."""
    return f"{int(term.value):,} B" if term.unit == "B" and term.value >= 1024 and term.value == int(term.value) else ""


def plain(text: str, limit: int = 400) -> str:
    """Text without control characters and of bounded length: what a question brings along may be anything."""
    text = _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text)
    return text if len(text) <= limit else text[: limit - 1] + "…"
