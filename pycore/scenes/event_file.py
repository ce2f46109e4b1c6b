"""The event file: what went into a scheduler while it served, one JSON object a line, so that it can be played again.

    {"mini-infer events": 1, "blocks": 64, "block_size": 16, "policy": "chunked", ..., "model": "smollm2-135m"}
    {"words": {"504": "The", ...}}                              how token ids read, before they are first used
    {"add": "A", "at": 0, "prompt": [504, ...], "output": 16}
    {"step": 1, "at": 120, "end": 9000, "work": [["A", 0, 5, 7, 8]], "tokens": {"A": [253]}}
    {"fork": "A", "as": "B", "at": 9100}
    {"abort": "A", "at": 9300}
    {"end": "closed"}

Only inputs are needed to play it, since the scheduler decides alike; `work` (id, start, count, block table; of a decode the
blocks that it writes) says what was decided there, and is compared. Times are nanoseconds after the file was begun. It
holds the prompts: it is as private as they are. A file that breaks off between two lines is played as far as it goes.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from pycore.errors import InputError
from pycore.nesting import deeper
from pycore.serving.limits import Limits
from pycore.serving.plan import StepPlan
from pycore.serving.policies.contract import Policy
from pycore.serving.policies.named import KINDS

MARK, VERSION = "mini-infer events", 1
POLICIES = {kind().name: kind for kind in KINDS}
MOST_LINE, MOST_LINES, MOST_BLOCKS, MOST_TOKENS = 1 << 20, 200_000, 1 << 16, 1 << 20
LARGEST = 1 << 62
DEEPEST = 8  # levels of JSON; the format needs three
LINES = "add, fork, abort, step, words, idle, end"


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What the scheduler was made with. `policy_fields`: those that differ from the policy's defaults."""

    blocks: int
    block_size: int
    policy: str
    policy_fields: Mapping[str, int | bool]
    prefix_caching: bool
    preemption: str
    host_blocks: int
    limits: Limits
    model: str = ""

    def made_policy(self) -> Policy:
        return POLICIES[self.policy](**self.policy_fields)


@dataclass(frozen=True, slots=True)
class Line:
    """One line after the first: its kind is the first of LINES that it has. `number` counts from 1."""

    number: int
    kind: str
    content: Mapping[str, Any]

    def fault(self, accepted: str, value: object = None) -> InputError:
        """An InputError that names the line."""
        return InputError("events", self.content if value is None else value, f"line {self.number}; accepted: {accepted}")

    def whole(self, key: str, *, low: int = 0, high: int = LARGEST, default: int | None = None) -> int:
        """A whole number within its range. Raises InputError."""
        value = self.content.get(key, default)
        if type(value) is not int or not low <= value <= high:
            raise self.fault(f"{key} is a whole number from {low:,} to {high:,}", value)
        return value

    def name(self, key: str) -> str:
        """A name of 1 to 200 characters. Raises InputError."""
        value = self.content.get(key)
        if not isinstance(value, str) or not 0 < len(value) <= 200:
            raise self.fault(f"{key} is a name of 1 to 200 characters", value)
        return value

    def numbers(self, value: Any, *, least: int = 0, most: int = MOST_TOKENS) -> tuple[int, ...]:
        """Whole numbers of at least 0. Raises InputError."""
        if not isinstance(value, list) or not least <= len(value) <= most or not all(
                type(one) is int and 0 <= one <= LARGEST for one in value):
            raise self.fault(f"a list of {least:,} to {most:,} whole numbers", value)
        return tuple(value)

    def table(self, key: str) -> dict[str, Any]:
        """An object by names; {} where it is left out. Raises InputError."""
        value = self.content.get(key, {})
        if not isinstance(value, dict):
            raise self.fault(f"{key} is an object", value)
        return value


def begins(scheduler: Any, model: str = "") -> dict[str, Any]:
    """The first line, of a Scheduler. Raises InputError for one whose runs cannot be told in this format."""
    pool, limits, policy, host = scheduler.pool, scheduler.limits, scheduler.policy, scheduler.memory.host
    if policy.name not in POLICIES or pool.total != len(pool.references) or pool.watermark_blocks:
        raise InputError("events", policy.name, f"accepted: a pool without reserve under one of {', '.join(POLICIES)}")
    usual = POLICIES[policy.name]()
    own = {field.name: value for field in fields(policy) if field.name not in ("name", "settled")
           and (value := getattr(policy, field.name)) != getattr(usual, field.name)}
    return {MARK: VERSION, "model": model, "blocks": pool.total, "block_size": pool.block_size, "policy": policy.name,
            "policy_fields": own, "prefix_caching": pool.prefix_caching, "preemption": "swap" if host else "recompute",
            "host_blocks": host.total if host else 0} | {field.name: getattr(limits, field.name) for field in fields(limits)}


def work(plan: StepPlan) -> list[list[Any]]:
    """What a plan decided: [id, start, count, block, ...] of every sequence. A prompt's part has its whole table; of a
    decode only what it writes into, so that a step is short however long its texts are."""
    size = plan.block_size
    return [[item.sequence_id, item.start, item.count, *item.block_table[item.start // size if item.decode else 0:]]
            for item in plan.items]


def written(content: Mapping[str, Any]) -> str:
    """A line, with its end."""
    return json.dumps(content, ensure_ascii=True, separators=(",", ":"), allow_nan=False) + "\n"


def read(lines: Iterable[str]) -> tuple[Header, Iterator[Line]]:
    """The first line, and the others as they are asked for. Raises InputError naming the line, now or then."""
    numbered = parsed(lines)
    first = next(numbered, None)
    if first is None or type(first.content.get(MARK)) is not int:
        raise InputError("events", first.content if first else "nothing", "accepted: a file that begins with "
                         f'{{"{MARK}": {VERSION}, ...}}, as mini-infer writes it with --events FILE')
    if first.content[MARK] != VERSION:
        raise InputError("events", f"version {first.content[MARK]}", f"accepted: version {VERSION}")
    return header(first), numbered


def header(line: Line) -> Header:
    """The first line, checked. Raises InputError."""
    content = line.content
    policy, preemption = content.get("policy"), content.get("preemption", "recompute")
    if not isinstance(policy, str) or policy not in POLICIES:
        raise line.fault("policy is one of " + ", ".join(POLICIES), policy)
    known = {field.name for field in fields(POLICIES[policy])} - {"name", "settled"}
    own = line.table("policy_fields")
    if set(own) - known or not all(type(value) in (int, bool) and value <= LARGEST for value in own.values()):
        raise line.fault(f"policy_fields of {policy} are numbers among {', '.join(sorted(known)) or 'none'}", own)
    if preemption not in ("recompute", "swap") or not isinstance(content.get("prefix_caching", True), bool):
        raise line.fault("preemption is recompute or swap, prefix_caching true or false", preemption)
    try:
        limits = Limits(**{field.name: limit(line, field.name, field.default) for field in fields(Limits)})
    except InputError as fault:
        raise line.fault(f"{fault.field} is {fault.accepted}", fault.value) from None
    model = content.get("model", "")
    return Header(
        blocks=line.whole("blocks", low=1, high=MOST_BLOCKS), block_size=line.whole("block_size", low=1, high=4096),
        policy=policy, policy_fields=own, prefix_caching=content.get("prefix_caching", True), preemption=preemption,
        host_blocks=line.whole("host_blocks", low=int(preemption == "swap"), high=MOST_BLOCKS, default=0), limits=limits,
        model=model[:200] if isinstance(model, str) else "")


def limit(line: Line, name: str, usual: Any) -> Any:
    """One of the limits: true or false, a count, or null where none is usual. Raises InputError."""
    value = line.content.get(name, usual)
    if isinstance(usual, bool):
        if not isinstance(value, bool):
            raise line.fault(f"{name} is true or false", value)
        return value
    return None if value is None and usual is None else line.whole(name, high=1 << 31, default=usual)


def parsed(lines: Iterable[str]) -> Iterator[Line]:
    """Every line that is not empty as an object. Raises InputError."""
    for number, text in enumerate(lines, 1):
        if len(text) > MOST_LINE or number > MOST_LINES:
            raise InputError("events", f"line {number:,}",
                             f"accepted: at most {MOST_LINES:,} lines of {MOST_LINE:,} characters")
        if not text.strip():
            continue
        if deeper(text, DEEPEST):
            raise InputError("events", text.strip()[:60], f"line {number}; accepted: one JSON object a line, at most "
                             f"{DEEPEST} levels deep")
        try:
            content = json.loads(text, parse_constant=not_a_number)
        except (ValueError, RecursionError):
            raise InputError("events", text.strip()[:60], f"line {number}; accepted: one JSON object a line; this one is "
                             "cut off or is none") from None
        if not isinstance(content, dict):
            raise InputError("events", text.strip()[:60], f"line {number}; accepted: a JSON object")
        kind = next((kind for kind in LINES.split(", ") if kind in content), "")
        line = Line(number, kind, content)
        if not kind and number > 1:
            raise line.fault(f"a line with one of {LINES}")
        yield line


def not_a_number(text: str) -> float:
    raise ValueError(text)


def streamed(size: int, ranged: Callable[[int, int], bytes], chunk: int = 1 << 18) -> Iterator[str]:
    """The lines of a file that is read by ranges. Raises InputError for bytes that are no UTF-8 and for endless lines."""
    rest, at = b"", 0
    while at < size:
        part = ranged(at, min(chunk, size - at))
        if not part:
            break
        at += len(part)
        *whole, rest = (rest + part).split(b"\n")
        yield from map(decoded, whole)
        if len(rest) > MOST_LINE:
            raise InputError("events", "a line without an end", f"accepted: lines of at most {MOST_LINE:,} characters")
    if rest:
        yield decoded(rest)


def decoded(line: bytes) -> str:
    """Raises InputError."""
    try:
        return line.decode()
    except UnicodeDecodeError:
        raise InputError("events", line[:40], "accepted: UTF-8 text, one JSON object a line") from None
