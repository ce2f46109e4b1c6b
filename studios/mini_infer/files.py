"""What a reader can take along: the film as a table, the frame shown in full, every number with its source."""

import dataclasses
import json
from typing import Any

from pycore.scenes.film import Frame
from studios.tables import ledger, table

FRAMES = ("frame", "kind", "step", "what", "held", "shared", "cached", "blank", "sequences", "tokens_stored", "slots_paged",
          "slots_exact", "slots_doubling", "slots_longest", "prompt_tokens_asked", "prompt_tokens_hit", "laws_broken")


def downloads(page: Any) -> dict[str, tuple[str, str]]:
    """File name -> (media type, text)."""
    answer = page.answer
    found = {"ledger.csv": ("text/csv", ledger(answer.terms, 6))}
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
