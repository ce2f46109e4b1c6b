"""What goes with an answer beside its numbers: what names were taken to mean, targets met or missed, ways out."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pycore import catalog
from pycore.knobs import to_command
from pycore.systems.infersize import Answer, Query
from pycore.units import seconds
from pycore.vram.engine_log import mismatch
from pycore.vram.engines import engine


def notes(answer: Answer) -> tuple[str, ...]:
    """What names were taken to mean, and what to know about the model and the plan."""
    query = answer.query
    meanings = (catalog.meaning("accelerators", query.gpu), catalog.meaning("formats", query.quant),
                "" if query.config else catalog.name_says(query.model, answer.deployment.weights),
                mismatch(query.engine_log, engine(query.engine)))
    return tuple(filter(None, (*meanings, answer.deployment.model.note if query.config else "", *answer.memory.notes)))


def remedy_command(query: Query, changes: Mapping[str, Any]) -> str:
    """The command that asks the changed question."""
    return to_command(replace(query, **changes), "infersize plan")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A latency target of the question beside the prediction. `sure`: the whole range is within it."""

    name: str
    target_ms: float
    predicted_ms: float
    met: bool
    sure: bool

    @property
    def text(self) -> str:
        """'TTFT target 200 ms: met by the prediction (86 ms), not by the whole of its range'"""
        state = "missed" if not self.met else "met, over the whole range" if self.sure else (
            "met by the prediction, not over its whole range")
        return (f"{self.name} target {seconds(self.target_ms / 1000)}: {state} "
                f"({seconds(self.predicted_ms / 1000)} predicted)")


def targets(answer: Answer) -> tuple[Target, ...]:
    """The targets that the question sets, in its order."""
    pairs = (("TTFT", answer.query.target_ttft_ms, answer.speed.ttft_s),
             ("TPOT", answer.query.target_tpot_ms, answer.speed.tpot_s))
    return tuple(Target(name=name, target_ms=target, predicted_ms=1000 * term.value, met=1000 * term.value <= target,
                        sure=1000 * (term.value if term.high is None else term.high) <= target)
                 for name, target, term in pairs if target and term is not None)
