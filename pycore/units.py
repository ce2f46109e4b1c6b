"""Units and how numbers are written: SI inside, GB and GiB never mixed, at most 6 significant digits shown."""

import re

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
KB, MB, GB, TB = 10**3, 10**6, 10**9, 10**12

_BINARY = (("TiB", 1 << 40), ("GiB", GIB), ("MiB", MIB), ("KiB", KIB))
_DECIMAL = (("TB", TB), ("GB", GB), ("MB", MB), ("kB", KB))
_SECONDS = (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9))
_SI = (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3))
_COUNT = re.compile(r"\s*([0-9][0-9_,]*(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)\s*([kKmM]?)\s*$")


def significant(value: float, digits: int = 3) -> str:
    """`value` to `digits` (at most 6) significant digits, no exponent below 1e15, thousands grouped.

    >>> significant(0.012345), significant(41408), significant(1234567.8, 3)
    ('0.0123', '41,408', '1,234,568')
    """
    if value != value or value in (float("inf"), float("-inf")):
        return "not a number" if value != value else ("∞" if value > 0 else "−∞")
    if isinstance(value, int) or float(value).is_integer() and abs(value) < 1e15:
        return f"{int(value):,}"
    digits = min(digits, 6)
    if abs(value) >= 10**digits:
        return f"{value:,.0f}"
    text = f"{value:.{digits}g}"
    return f"{float(text):.15f}".rstrip("0").rstrip(".") if "e" in text else text


def scaled(value: float, steps: tuple[tuple[str, float], ...], base: str, digits: int) -> str:
    """`value` in the largest unit of `steps` that leaves at least 1, else in `base`."""
    for name, size in steps:
        if abs(value) >= size:
            return f"{significant(value / size, digits)} {name}"
    return f"{significant(value, digits)} {base}"


def binary_bytes(value: float, digits: int = 4) -> str:
    """Bytes in KiB, MiB, GiB, TiB: `binary_bytes(10 * GIB)` is '10 GiB'."""
    return scaled(value, _BINARY, "B", digits)


def decimal_bytes(value: float, digits: int = 4) -> str:
    """Bytes in kB, MB, GB, TB."""
    return scaled(value, _DECIMAL, "B", digits)


def both_bytes(value: float, digits: int = 4) -> str:
    """Bytes in both systems, since a card is sold in one and logged in the other: '14.19 GiB (15.23 GB)'."""
    return f"{binary_bytes(value, digits)} ({decimal_bytes(value, digits)})"


def seconds(value: float, digits: int = 3) -> str:
    """Seconds in s, ms, µs or ns."""
    if value == 0:
        return "0 s"
    for name, size in _SECONDS:
        if abs(value) >= size:
            return f"{significant(value / size, digits)} {name}"
    return f"{significant(value / 1e-9, digits)} ns"


def si(value: float, unit: str, digits: int = 3) -> str:
    """`value` with an SI prefix: `si(9.89e14, 'FLOP/s')` is '989 TFLOP/s'."""
    for prefix, size in _SI:
        if abs(value) >= size:
            return f"{significant(value / size, digits)} {prefix}{unit}"
    return f"{significant(value, digits)} {unit}"


def dollars(value: float) -> str:
    """US dollars: two decimals from 1 dollar up, three significant digits below but never fewer than two decimals."""
    if value == float("inf"):
        return "∞"
    if abs(value) >= 1 or value == 0:
        return f"${value:,.2f}"
    whole, _, decimals = significant(value, 3).partition(".")
    return f"${whole}.{decimals:0<2}"


def count(text: str) -> float:
    """A count as people type it: '8192', '8,192', '8k' (8 x 1,024), '1m' (1,048,576), '1e6'.

    Raises ValueError for anything else. Token counts are powers of two in this field, hence k = 1,024.
    """
    match = _COUNT.match(text)
    if not match:
        raise ValueError(text)
    number = float(match.group(1).replace(",", "").replace("_", ""))
    return number * {"": 1, "k": KIB, "m": MIB}[match.group(2).lower()]


def show(value: float, unit: str) -> str:
    """A value in the customary writing of its unit; the one place that decides how a quantity looks."""
    if unit == "B":
        return binary_bytes(value)
    if unit == "B/token":
        return f"{significant(value, 6)} B/token"
    if unit == "s":
        return seconds(value)
    if unit in ("FLOP", "FLOP/s", "B/s", "FLOP/B"):
        return si(value, unit)
    if unit == "USD" or unit.startswith("USD/"):
        return dollars(value) + unit[3:].replace("/", " per ", 1)
    if unit == "":
        return significant(value, 4)
    if unit == "%":
        return f"{significant(value, 3)} %"
    return f"{significant(value, 4)} {unit}"
