"""The keys of a workload's line: how each value is read from text, written back, and described when it is wrong."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from pycore.simulation.arrivals import HIGHEST_CV, HIGHEST_RATE, LONGEST_S, LOWEST_RATE
from pycore.simulation.lengths import FORMS, LONGEST, TRACE_NAME, lengths, shown

MOST_REQUESTS, MOST_USERS, MOST_TURNS, MOST_TEXTS = 1_000_000, 100_000, 200, 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefix:
    """`share` of the prompts begins with one of `texts` shared texts of `tokens` tokens."""

    share: float
    tokens: int
    texts: int = 1

    @property
    def text(self) -> str:
        return f"{shown(self.share)}:{self.tokens}" + (f":{self.texts}" if self.texts > 1 else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """How one key is read from text, written, and described."""

    read: Callable[[str], Any]  # raises ValueError or InputError
    write: Callable[[Any], str]
    accepted: str


def ranged(low: float, high: float, unit: str = "") -> Key:
    """A number within a range."""

    def read(text: str) -> float:
        value = float(text) if re.fullmatch(r"[0-9]{0,12}\.?[0-9]{0,24}(?:[eE][+-]?[0-9]{1,3})?", text) else -1.0
        if not low <= value <= high:
            raise ValueError
        return value

    return Key(read=read, write=shown, accepted=f"a number from {Decimal(shown(low)):f} to {Decimal(shown(high)):,f}{unit}")


def counted(low: int, high: int) -> Key:
    """A whole number within a range."""

    def read(text: str) -> int:
        value = int(text.replace(",", "")) if re.fullmatch(r"[0-9][0-9,]{0,20}", text) else -1
        if not low <= value <= high:
            raise ValueError
        return value

    return Key(read=read, write=str, accepted=f"a whole number from {low:,} to {high:,}")


def seconds(low: float) -> Key:
    """A time: '2s', '500ms', '2' (seconds)."""

    def read(text: str) -> float:
        found = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,24})?)(s|ms|us)?", text)
        value = float(found[1]) / {None: 1, "s": 1, "ms": 1_000, "us": 1_000_000}[found[2]] if found else -1.0
        if not low <= value <= LONGEST_S:
            raise ValueError
        return value

    return Key(read=read, write=time_text, accepted=f"a time from {Decimal(shown(low)):f} s, as 2s or 500ms")


def time_text(value: float) -> str:
    """Seconds as '2s', or as '50ms' where that is the same number."""
    if value < 1 and float(shown(value * 1_000)) / 1_000 == value and value:
        return f"{Decimal(shown(value * 1_000)):f}ms"
    return f"{Decimal(shown(value)):f}s"


def drawn() -> Key:
    """Lengths in tokens."""
    return Key(read=lambda text: lengths(text, "workload"), write=lambda value: value.text, accepted=FORMS)


def read_prefix(text: str) -> Prefix | None:
    """SHARE:TOKENS[:TEXTS]; 'none' for none."""
    if text == "none":
        return None
    share, tokens, texts = (text.split(":") + ["1"])[:3] if text.count(":") in (1, 2) else ("", "", "")
    return Prefix(share=ranged(0, 1).read(share), tokens=counted(1, LONGEST).read(tokens),
                  texts=counted(1, MOST_TEXTS).read(texts))


def read_long(text: str) -> tuple[tuple[int, int], ...]:
    """TOKENS@N, several with commas; 'none' for none."""
    if text == "none":
        return ()
    pairs = [part.partition("@") for part in text.split(",")]
    found = tuple((counted(1, LONGEST).read(size), counted(1, MOST_REQUESTS).read(place)) for size, _, place in pairs)
    if len({place for _, place in found}) < len(found):
        raise ValueError
    return tuple(sorted(found, key=lambda pair: pair[1]))


def matching(pattern: str) -> Callable[[str], str]:
    """Text as it is, where it has that form."""

    def read(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError
        return text

    return read


KEYS = {
    "rate": ranged(LOWEST_RATE, HIGHEST_RATE, " requests/s"), "cv": ranged(0.01, HIGHEST_CV), "on": seconds(1e-3),
    "off": seconds(1e-3), "users": counted(1, MOST_USERS), "think": seconds(0.0),
    "trace": Key(read=matching(TRACE_NAME.pattern), write=str, accepted="the name of a trace"),
    "speed": ranged(1e-3, 1e3),
    "prompt": drawn(), "output": drawn(), "requests": counted(0, MOST_REQUESTS),
    "prefix": Key(read=read_prefix, write=lambda value: value.text if value else "none",
                  accepted="SHARE:TOKENS[:TEXTS], e.g. 0.3:512, or none"),
    "turns": counted(1, MOST_TURNS),
    "long": Key(read=read_long, write=lambda value: ",".join(f"{size}@{place}" for size, place in value) or "none",
                accepted="TOKENS@N, the prompt of the N-th request, several with commas, or none"),
    "urgent": ranged(0, 1),
    "predict": Key(read=matching(r"exact|none|noise:[0-9](?:\.[0-9]{1,6})?"), write=str,
                   accepted="exact, none or noise:SIGMA with SIGMA below 10"),
    "ttft": seconds(1e-6), "tpot": seconds(1e-6), "seed": counted(0, (1 << 53) - 1),
}
