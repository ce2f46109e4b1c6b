"""One cell of a trace as a whole number: token counts, and times as integer nanoseconds.

Each function takes the text of a CSV cell or the value of a JSON field and raises ValueError, whose text says what is
accepted; the reader adds the place.
"""

import math
import re
from collections.abc import Callable
from datetime import date
from functools import lru_cache

from pycore.simulation.lengths import LONGEST

LATEST_NS = 1 << 62  # year 2116 since 1970: what still fits in 64 bits with room for sums
_WHOLE = re.compile(r"\s*\+?([0-9]{1,18})(?:\.0{0,9})?\s*")  # pandas writes whole numbers as 123.0
_DECIMAL = re.compile(r"\s*\+?([0-9]{0,18})(?:\.([0-9]{0,40}))?\s*")
_MOMENT = re.compile(r"\s*([0-9]{4})-([0-9]{2})-([0-9]{2})[ T]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,9}))?"
                     r"\s*(?:Z|([+-])([0-9]{2}):?([0-9]{2}))?\s*")


def whole(value: object, low: int, high: int, what: str) -> int:
    """A whole number in range, from '123', '123.0' or a JSON number. Raises ValueError."""
    if isinstance(value, str):
        if len(value) < 19 and value.isascii() and value.isdigit():
            number = int(value)
        elif found := _WHOLE.fullmatch(value):
            number = int(found[1])
        else:
            raise ValueError(f"accepted: {what} as a whole number from {low:,} to {high:,}")
    elif isinstance(value, int) and not isinstance(value, bool):
        number = value
    elif isinstance(value, float) and value.is_integer():
        number = int(value)
    else:
        raise ValueError(f"accepted: {what} as a whole number from {low:,} to {high:,}")
    if not low <= number <= high:
        raise ValueError(f"accepted: {what} from {low:,} to {high:,}")
    return number


def token_count(value: object) -> int:
    """Tokens of a prompt or an answer, at least 1."""
    return whole(value, 1, LONGEST, "tokens")


def token_count_or_zero(value: object) -> int:
    """Tokens, 0 included: where a layout writes 0 for a request that failed."""
    return whole(value, 0, LONGEST, "tokens")


def clock(unit_ns: int, unit: str) -> Callable[[object], int]:
    """A reader of times in `unit` (of `unit_ns` nanoseconds) since any zero; exact for decimals."""
    accepted = f"accepted: a time in {unit}, not negative"

    def read(value: object) -> int:
        if isinstance(value, str):
            time = decimal_ns(value, unit_ns, accepted)
        elif isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise ValueError(accepted)
        else:
            time = round(value * unit_ns) if isinstance(value, float) else value * unit_ns
        if not 0 <= time < LATEST_NS:
            raise ValueError(accepted)
        return time

    return read


def decimal_ns(text: str, unit_ns: int, accepted: str) -> int:
    """A decimal number of units in nanoseconds, digits below a nanosecond rounded half up. Raises ValueError."""
    found = _DECIMAL.fullmatch(text)
    if found and (found[1] or found[2]):
        digits = found[2] or ""
        parts = int(found[1] or "0") * 10**len(digits) + int(digits or "0")
        return (2 * parts * unit_ns + 10**len(digits)) // (2 * 10**len(digits))
    if len(text) > 40 or not re.fullmatch(r"\s*[+-]?[0-9.]+[eE][+-]?[0-9]{1,3}\s*", text):
        raise ValueError(accepted)
    number = float(text) * unit_ns  # ValueError for '1.2.3e4'
    if not math.isfinite(number):
        raise ValueError(accepted)
    return round(number)


def moment_ns(value: object) -> int:
    """'2023-11-16 18:17:03.9799600', with 'T', 'Z' or an offset as well: nanoseconds since 1970, UTC."""
    accepted = "accepted: a date and time as 2023-11-16 18:17:03.9799600"
    found = _MOMENT.fullmatch(value) if isinstance(value, str) else None
    if not found:
        raise ValueError(accepted)
    year, month, day, hour, minute, second = found.group(1, 2, 3, 4, 5, 6)
    if int(hour) > 23 or int(minute) > 59 or int(second) > 60:
        raise ValueError(accepted)
    seconds = days(year, month, day) * 86_400 + int(hour) * 3_600 + int(minute) * 60 + int(second)
    if found[8]:
        shift = int(found[9]) * 3_600 + int(found[10]) * 60
        seconds += -shift if found[8] == "+" else shift
    time = seconds * 1_000_000_000 + int((found[7] or "").ljust(9, "0"))
    if not 0 <= time < LATEST_NS:
        raise ValueError("accepted: a date from 1970 to 2116")
    return time


@lru_cache(maxsize=64)
def days(year: str, month: str, day: str) -> int:
    """Days since 1970. Raises ValueError for the 30th of February."""
    try:
        return date(int(year), int(month), int(day)).toordinal() - 719_163
    except ValueError:
        raise ValueError("accepted: a date that exists, as 2023-11-16") from None


def identifiers(value: object) -> tuple[int, ...]:
    """Whole numbers: a JSON list, or a cell with spaces between them."""
    items = value.split() if isinstance(value, str) else value
    if not isinstance(items, list):
        raise ValueError("accepted: a list of whole numbers")
    return tuple(whole(item, 0, (1 << 63) - 1, "identifiers") for item in items)
