"""What a reader can take along: the film as a table, the frame shown in full, every number with its source."""

import csv
import dataclasses
import io
import json
from collections.abc import Iterable
from typing import Any

from pycore.ledger import Term
from pycore.scenes.film import Frame

FRAMES = ("frame", "kind", "step", "what", "held", "shared", "cached", "blank", "sequences", "tokens_stored", "slots_paged",
          "slots_exact", "slots_doubling", "slots_longest", "prompt_tokens_asked", "prompt_tokens_hit", "laws_broken")
LEDGER = ("name", "value", "unit", "low", "high", "basis", "formula", "substituted", "source", "line", "note")


def downloads(page: Any) -> dict[str, tuple[str, str]]:
    """File name -> (media type, text)."""
    answer = page.answer
    found = {"ledger.csv": ("text/csv", table(LEDGER, map(ledger, answer.terms)))}
    if answer.film:
        found["frames.csv"] = ("text/csv", table(FRAMES, map(row, answer.film.frames)))
        frame = json.dumps(dataclasses.asdict(answer.frame), ensure_ascii=False, indent=1)
        found["frame.json"] = ("application/json", frame)
    return found


def row(frame: Frame) -> dict:
    """A frame in one line."""
    states = {state: sum(one.state == state for one in frame.blocks) for state in ("held", "shared", "cached", "blank")}
    waste, broken = frame.waste, [one.name for one in frame.invariants if not one.holds]
    return states | {
        "frame": frame.number, "kind": frame.kind, "step": frame.step, "what": frame.what, "sequences": waste.sequences,
        "tokens_stored": waste.stored, "slots_paged": waste.paged, "slots_exact": waste.exact,
        "slots_doubling": waste.doubling, "slots_longest": waste.longest, "prompt_tokens_asked": frame.asked_tokens,
        "prompt_tokens_hit": frame.hit_tokens, "laws_broken": "; ".join(broken)}


def ledger(term: Term) -> dict:
    """A term; figures to 6 digits, so that every Python writes the same text."""
    found = term.as_dict()
    return found | {name: float(f"{found[name]:.6g}") for name in ("value", "low", "high") if isinstance(found[name], float)}


def table(columns: tuple[str, ...], rows: Iterable[dict]) -> str:
    """CSV with a head; a text that a spreadsheet would run as a formula gets a leading quote."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    for one in rows:
        writer.writerow([inert(one[name]) for name in columns])
    return out.getvalue()


def inert(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value[:1] in tuple("=+-@\t\r") else value
