"""The memory of one device as a page shows it: the bar, the KV cache twice, and the rows that add up to the byte."""

from dataclasses import dataclass
from typing import Any

from pycore.ledger import Term
from pycore.units import GIB, binary_bytes, significant
from studios.explain import Ledger, Number, help_field
from studios.infersize.speed import Figure, listed
from studios.marks import Segment, percent, share_text, stack

STYLES = {"Weights": 1, "KV cache, reserved": 2, "Activations": 3, "Compute buffer": 3, "CUDA graphs": 4,
          "Framework": 5, "Draft model weights": 6, "Draft model KV cache": 7}
"""Colour and pattern of what fills a device, the same for every question."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryBar:
    """One device's memory, drawn to scale."""

    title: str = help_field("whose memory it is")
    segments: tuple[Segment, ...] = help_field("what fills it, from the left")
    total: Number = help_field("their sum")
    doubt_x: str = help_field("where the span of the sum begins, as a percentage, or '' where it is exact")
    doubt_width: str = help_field("width of that span")
    budget: Number = help_field("what the engine may take")
    budget_x: str = help_field("where that is")
    over_width: str = help_field("how far the sum goes beyond it, as a width, or '' where it does not")
    usable: Number = help_field("what the driver reports")
    usable_x: str = help_field("where that is")
    box: str = help_field("the size on the box, '48 GB'")
    caption: str = help_field("the whole drawing in one sentence, for who cannot see it")


@dataclass(frozen=True, slots=True, kw_only=True)
class KvLine:
    """One of the ways to count the KV cache."""

    name: str = help_field("what is counted")
    number: Number = help_field("bytes per device")
    width: str = help_field("length of its bar, as a percentage")
    style: str = help_field("how its bar is filled: 'plain', 'hatched' or 'empty'")
    note: str = help_field("what makes it differ, in words")


@dataclass(frozen=True, slots=True, kw_only=True)
class ByteRow:
    """One addend of the byte ledger."""

    number: Number = help_field("its value")
    name: str = help_field("what the bytes hold")
    exact: str = help_field("the bytes in full")
    share: str = help_field("share of the total")
    formula: str = help_field("formula with its values")
    basis: str = help_field("one of pycore.ledger.BASES")


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Everything about bytes."""

    bar: MemoryBar = help_field("the picture")
    kv: tuple[KvLine, ...] = help_field("what the model needs, what the engine reserves, its whole pool")
    per_token: Number = help_field("KV bytes per token and device")
    rows: tuple[ByteRow, ...] = help_field("the addends")
    total: ByteRow = help_field("their sum, equal to the byte")
    free: Number = help_field("budget less total")
    apart: tuple[Figure, ...] = help_field("bytes that are not on the device, or part of a row")


def memory(answer: Any, ledger: Ledger, engine: str) -> Memory:
    """The memory section of an Answer."""
    plan = answer.memory
    ledger.section("Memory per device")
    whole = scale(answer)
    total = ledger.number(plan.total)
    rows = tuple(byte_row(row, plan.total, ledger) for row in plan.rows)
    return Memory(
        bar=bar(answer, ledger, whole, total), kv=kv_lines(answer, ledger, engine),
        per_token=ledger.number(plan.kv_bytes_per_token), rows=rows, total=byte_row(plan.total, plan.total, ledger),
        free=ledger.number(plan.free), apart=apart(plan, ledger))


def apart(plan: Any, ledger: Ledger) -> tuple[Figure, ...]:
    """What the rows hold together or leave out: vision tower, MTP layers, what stays in main memory."""
    found = (("Vision tower", plan.vision, "part of the weights"),
             ("MTP layers", plan.mtp, "not loaded; would come on top"),
             ("Token embedding", plan.host, "in main memory, not on the device"))
    return listed(found, ledger)


def scale(answer: Any) -> float:
    """Bytes at the right end of the bar: the box, or what is needed where that is more."""
    plan = answer.memory
    box = answer.deployment.accelerator.memory_box_gib * GIB
    return max(box, plan.usable.value, plan.total.high or plan.total.value)


def bar(answer: Any, ledger: Ledger, whole: float, total: Number) -> MemoryBar:
    """The stacked bar against the lines of budget and usable memory."""
    plan, deployment = answer.memory, answer.deployment
    segments = stack([(term.name.removesuffix(", reserved"), term.value, STYLES.get(term.name, 7), ledger.number(term))
                      for term in plan.total.parts], whole)
    low, high, over = plan.total.low, plan.total.high, plan.total.value - plan.budget.value
    spoken = ", ".join(f"{piece.label} {piece.number.text}" for piece in segments)
    devices = deployment.parallel.devices
    return MemoryBar(
        title=f"Memory of {'each ' if devices > 1 else 'the '}{deployment.accelerator.name}", segments=segments,
        total=total, doubt_x="" if low is None else percent(low, whole),
        doubt_width="" if low is None else percent(high - low, whole),
        budget=ledger.number(plan.budget), budget_x=percent(plan.budget.value, whole),
        over_width=percent(over, whole) if over > 0 else "",
        usable=ledger.number(plan.usable), usable_x=percent(plan.usable.value, whole),
        box=f"{significant(deployment.accelerator.memory_box_gib, 4)} GiB",
        caption=f"{spoken}; together {plan.total.text} of {plan.usable.text} usable, "
                f"of which the engine may take {plan.budget.text}")


def kv_lines(answer: Any, ledger: Ledger, engine: str) -> tuple[KvLine, ...]:
    """The KV cache as the model needs it, as the engine reserves it, and the pool it comes from."""
    plan = answer.memory
    whole = max(plan.kv.value, plan.kv_minimum.value, plan.pool.value, 1)
    sequences = answer.deployment.sequences
    load = f"{sequences:,} × {answer.deployment.context:,} tokens"
    return (
        KvLine(name="The model needs at least", number=ledger.number(plan.kv_minimum), style="plain",
               width=percent(plan.kv_minimum.value, whole), note=f"for {load}, no page or block rounding"),
        KvLine(name=f"{engine} reserves", number=ledger.number(plan.kv), style="hatched",
               width=percent(plan.kv.value, whole), note=overhead(plan.kv.value, plan.kv_minimum.value)),
        KvLine(name="Its whole pool", number=ledger.number(plan.pool), style="empty",
               width=percent(plan.pool.value, whole), note="what is left of the budget for the cache, filled or not"),
    )


def overhead(reserved: float, minimum: float) -> str:
    """How much more the engine takes, in words."""
    if reserved <= minimum:
        return "the same: nothing is lost to rounding"
    return f"{binary_bytes(reserved - minimum, 3)} more ({significant(100 * (reserved / minimum - 1), 2)} %): " \
           "whole blocks and pages" if minimum else "all of it rounding"


def byte_row(row: Term, total: Term, ledger: Ledger) -> ByteRow:
    """One term as a row of the byte ledger."""
    return ByteRow(number=ledger.number(row), name=row.name, exact=f"{int(row.value):,}",
                   share=share_text(row.value, total.value), formula=row.substituted, basis=row.basis)
