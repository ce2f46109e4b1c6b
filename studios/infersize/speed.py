"""Speed as a page shows it: the three tiles, and where the time of a step goes."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pycore.ledger import Term, total
from pycore.units import significant
from studios.explain import Ledger, Number, help_field
from studios.marks import RangeMark, Segment, range_mark, stack

Sentence = tuple[object, ...]
"""Texts and Numbers in reading order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """One headline figure."""

    title: str = help_field("what it is")
    number: Number | None = help_field("the figure, or None where it is not known")
    mark: RangeMark | None = help_field("its span on a scale, or None")
    mark_name: Sentence = help_field("the span in words, () where there is none")
    band: RangeMark | None = help_field("a second span to compare with (API offers, the asked load), or None")
    band_name: Sentence = help_field("that span in words")
    notes: tuple[Sentence, ...] = help_field("lines under it: texts and Numbers")


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """Where the time of one step goes."""

    title: str = help_field("which step")
    number: Number = help_field("its time")
    bound: str = help_field("what limits it, in words")
    segments: tuple[Segment, ...] = help_field("what the time is spent on")


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A named number with a remark."""

    name: str = help_field("what it is")
    number: Number = help_field("the number")
    note: str = help_field("a remark, or ''")


def ranged(term: Term, whole: float) -> RangeMark | None:
    """The term's span on a scale up to `whole`, or None where it is exact."""
    if term.low is None or whole <= 0:
        return None
    return range_mark(term.low, term.value, term.high, whole)


def speed_tile(speed: Any, ledger: Ledger) -> Tile:
    """Time per output token, with the first token's time under it."""
    tpot, first = speed.tpot_s, speed.ttft_s
    return Tile(
        title="Time per output token", number=ledger.number(tpot), band=None, band_name=(),
        mark=ranged(tpot, 1.2 * (tpot.high or tpot.value)), mark_name=(tpot.range_text,) if tpot.range_text else (),
        notes=((f"limited by {speed.bound_decode}; ", ledger.number(speed.mbu_decode), " of the bandwidth used"),
               *(() if first is None else (("first token after ", *with_range(ledger.number(first))),))))


def with_range(number: Number) -> Sentence:
    """A number with its range in brackets."""
    return (number, f" ({number.range_text})") if number.range_text else (number,)


def phases(speed: Any, ledger: Ledger) -> tuple[Phase, ...]:
    """Prefill and decode, split into what they spend their time on."""
    names = dict.fromkeys(part.name for part in (*speed.decode_parts, *speed.prefill_parts))
    styles = {name: 1 + index % 6 for index, name in enumerate(names)}
    found = (("Decode step", speed.decode_parts, speed.bound_decode),
             ("Prefill step", speed.prefill_parts, speed.bound_prefill))
    return tuple(phase(name, parts, bound, styles, ledger) for name, parts, bound in found if parts)


def phase(name: str, parts: tuple[Term, ...], bound: str, styles: dict[str, int], ledger: Ledger) -> Phase:
    """One step as a stacked bar that spans the full width."""
    whole = total(name, parts)
    pieces = [(part.name, part.value, styles[part.name], ledger.number(part)) for part in parts]
    return Phase(title=name, number=ledger.number(whole), bound=bound, segments=stack(pieces, whole.value))


def figures(speed: Any, ledger: Ledger) -> tuple[Figure, ...]:
    """The rest of the speed section as a list."""
    rows = (("One user", speed.tokens_per_s_user, ""), ("All users", speed.tokens_per_s_total, ""),
            ("Per device", speed.tokens_per_s_per_gpu, ""), ("Requests", speed.requests_per_s, ""),
            ("First token", speed.ttft_s, "under the asked load"), ("Prefill", speed.prefill_s, "one prompt, alone"),
            ("Compute used in prefill", speed.mfu_prefill, "MFU: share of the dense rate"),
            ("Bandwidth used in decode", speed.mbu_decode, "MBU: share of the peak"),
            ("Decode turns compute-bound at", speed.compute_bound_batch, "until there a larger batch costs little"))
    return listed(rows, ledger)


def listed(rows: Iterable[tuple[str, Term | None, str]], ledger: Ledger) -> tuple[Figure, ...]:
    """(name, term, remark) as Figures; what is not known is left out."""
    return tuple(Figure(name=name, number=ledger.number(term), note=note) for name, term, note in rows
                 if term is not None)


def sequences(count: float) -> str:
    return f"{int(count):,} sequence" + ("" if count == 1 else "s")


def capacity_tile(answer: Any, ledger: Ledger) -> Tile:
    """The KV tokens that the engine's log will show, and what they hold."""
    capacity, deployment = answer.capacity, answer.deployment
    most, asked = capacity.max_sequences, deployment.sequences
    whole = max(most.value, asked)
    return Tile(
        title="KV tokens in the engine's log", number=ledger.number(capacity.kv_tokens, significant),
        mark=None, mark_name=(), band=range_mark(0, asked, asked, whole),
        band_name=(f"{asked:,} asked, room for ", ledger.number(most, sequences)),
        notes=((f"each of {deployment.context:,} tokens",), ("longest single ", ledger.number(capacity.max_context))))
