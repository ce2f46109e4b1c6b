"""Numbers that explain themselves.

A formula is a plain function whose parameters are the symbols of the formula and whose docstring's first line is the
formula as it is shown. `@term` makes calling it return a `Term`: the value, its unit, the inputs, where it comes from
and the very line of code. `function.plain(...)` is the undecorated arithmetic, for hot loops: one formula, two speeds.

    @term("KV cache of full layers", "B", source="Shazeer 2019, arXiv 1911.02150")
    def kv_bytes(layers, kv_heads, head_dim, element_bytes, tokens):
        "2 × layers × kv_heads × head_dim × element_bytes × tokens"
        return 2 * layers * kv_heads * head_dim * element_bytes * tokens

    kv_bytes(layers=32, kv_heads=8, head_dim=128, element_bytes=2, tokens=8192).value   # 1073741824
"""

import dataclasses
import functools
import inspect
import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from pycore.units import show, significant

ARITHMETIC = re.compile(r"[×÷/+=^(−]|[a-z0-9)] - ")
"""What tells a formula from a rule in words ('the longest sequence that the pool holds')."""

BASES = ("definition", "datasheet", "measured", "reported", "derived", "fitted", "assumed", "given")
"""Where a number comes from. definition: true by construction; datasheet: a maker's figure; measured: we measured it;
reported: others measured it; derived: computed from the rest; fitted: from a fit whose residuals are shipped;
assumed: a stated guess; given: the question says so."""


@dataclass(frozen=True, slots=True)
class Range:
    """A value the world gives only roughly: `low <= value <= high`, same unit."""

    value: float
    low: float
    high: float

    def __post_init__(self):
        if not self.low <= self.value <= self.high:
            raise ValueError(f"range {self.low} <= {self.value} <= {self.high} does not hold")


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One explained number. `low`/`high` are None where it is exact; `parts` are set where it is a sum of terms."""

    name: str
    value: float
    unit: str
    formula: str
    inputs: tuple[tuple[str, object], ...] = ()  # name -> number, text or Term
    basis: str = "derived"
    source: str = ""
    line: str = ""  # "pycore/vram/kv.py:16"
    low: float | None = None
    high: float | None = None
    parts: tuple["Term", ...] = ()
    note: str = ""

    def __post_init__(self):
        if self.basis not in BASES:
            raise ValueError(f"basis {self.basis!r} is none of {', '.join(BASES)}")

    @property
    def text(self) -> str:
        """The value as it is written on screen: '7.0 GiB'."""
        return show(self.value, self.unit)

    @property
    def range_text(self) -> str:
        """'1.4 GiB to 2.1 GiB', or '' where the value is exact."""
        return "" if self.low is None else f"{show(self.low, self.unit)} to {show(self.high, self.unit)}"

    @property
    def substituted(self) -> str:
        """The formula with its values put in: '2 × 28 × 4 × 128'; of a rule in words, its inputs one by one."""
        values = {name: written(value) for name, value in self.inputs}
        if not values:
            return self.formula
        if not ARITHMETIC.search(self.formula):
            return ", ".join(f"{name} = {value}" for name, value in values.items())
        pattern = re.compile(r"\b(" + "|".join(sorted(map(re.escape, values), key=len, reverse=True)) + r")\b")
        return pattern.sub(lambda match: values[match.group()], self.formula)

    def walk(self) -> Iterator["Term"]:
        """This term, then every term it is made of, depth first, each once per place."""
        yield self
        for part in self.parts:
            yield from part.walk()
        for _, value in self.inputs:
            if isinstance(value, Term):
                yield from value.walk()

    def renamed(self, name: str) -> "Term":
        return replace(self, name=name)

    def as_dict(self) -> dict:
        """Plain data for `--json`: inputs flattened to their written values, parts by name."""
        return {
            "name": self.name, "value": self.value, "unit": self.unit, "formula": self.formula,
            "substituted": self.substituted, "inputs": {name: bare(value) for name, value in self.inputs},
            "basis": self.basis, "source": self.source, "line": self.line, "low": self.low, "high": self.high,
            "parts": [part.name for part in self.parts], "note": self.note,
        }


def bare(value: object) -> object:
    """The plain value of a Term, or the thing itself."""
    return value.value if isinstance(value, Term) else value


def written(value: object) -> str:
    """A formula's input as text."""
    if isinstance(value, Term):
        return value.text if value.unit in ("B", "s") else significant(value.value, 4)
    return significant(value, 6) if isinstance(value, (int, float)) and not isinstance(value, bool) else str(value)


def source_line(function: Callable) -> str:
    """'pycore/vram/kv.py:16' of a function: its file from the distribution's root down, and its first line."""
    code = function.__code__
    package = code.co_filename.replace("\\", "/").endswith("/__init__.py")
    return f"{function.__module__.replace('.', '/')}{'/__init__' if package else ''}.py:{code.co_firstlineno}"


def term(name: str, unit: str, *, basis: str = "derived", source: str = "") -> Callable:
    """Make a formula return a `Term`. Arguments may be Terms: their values are used and they stay as inputs.

    The function returns a number, or a `Range` where the answer is one. When an argument is a Term with a range and
    the function returns a plain number, the range is carried by evaluating the function at the ends of every ranged
    argument (formulas here are monotonic in each argument).
    """

    def decorate(function: Callable) -> Callable:
        signature = inspect.signature(function)
        formula = (function.__doc__ or "").strip().split("\n")[0]
        line = source_line(function)

        @functools.wraps(function)
        def explained(*args, **kwargs) -> Term:
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            inputs = tuple(bound.arguments.items())
            result = function(**{key: bare(value) for key, value in inputs})
            low = high = None
            if isinstance(result, Range):
                result, low, high = result.value, result.low, result.high
            elif any(isinstance(value, Term) and value.low is not None for _, value in inputs):
                low, high = ends(function, inputs)
            return Term(name=name, value=result, unit=unit, formula=formula, inputs=inputs, basis=basis,
                        source=source, line=line, low=low, high=high)

        explained.plain = function
        return explained

    return decorate


def ends(function: Callable, inputs: tuple[tuple[str, object], ...]) -> tuple[float, float]:
    """Lowest and highest value of `function` over the corners of its ranged arguments."""
    corners = [{}]
    for key, value in inputs:
        ranged = isinstance(value, Term) and value.low is not None
        choices = {value.low, value.value, value.high} if ranged else (bare(value),)
        corners = [corner | {key: choice} for corner in corners for choice in choices]
    values = [function(**corner) for corner in corners]
    return min(values), max(values)


def add(values: Iterable[float]) -> float:
    """An exact sum: integers stay integers, floats go through `math.fsum` (equal on every Python)."""
    values = list(values)
    return sum(values) if all(isinstance(value, int) for value in values) else math.fsum(values)


def total(name: str, parts: Iterable[Term], *, formula: str = "", note: str = "") -> Term:
    """The sum of terms of one unit, ranges added end to end. Raises ValueError when the units differ."""
    parts = tuple(parts)
    units = {part.unit for part in parts}
    if len(units) != 1:
        raise ValueError(f"{name}: cannot add {sorted(units)}")
    ranged = any(part.low is not None for part in parts)
    return Term(
        name=name, value=add(part.value for part in parts), unit=units.pop(),
        formula=formula or " + ".join(part.name for part in parts), parts=parts, basis="derived", note=note,
        line=source_line(total),
        low=add(part.value if part.low is None else part.low for part in parts) if ranged else None,
        high=add(part.value if part.high is None else part.high for part in parts) if ranged else None,
    )


def fact(name: str, value: float, unit: str, *, basis: str, source: str, line: str = "", note: str = "",
         low: float | None = None, high: float | None = None) -> Term:
    """A number that is not computed: a datasheet's, a report's, or what the question says."""
    return Term(name=name, value=value, unit=unit, formula="", basis=basis, source=source, line=line, note=note,
                low=low, high=high)


def terms_in(record: object) -> Iterator[Term]:
    """The terms among a dataclass's fields, tuples of terms included, in the order of the fields."""
    for field in dataclasses.fields(record):
        value = getattr(record, field.name)
        for one in value if isinstance(value, tuple) else (value,):
            if isinstance(one, Term):
                yield one
