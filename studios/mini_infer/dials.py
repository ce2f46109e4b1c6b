"""Fields of the question that stand beside the picture, because turning them is the point of the scene."""

from dataclasses import dataclass
from typing import Any

from pycore.knobs import as_text, knobs
from studios.explain import help_field

OF_SCENE = {"speculation": ("draft_tokens", "similarity", "temperature")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Dial:
    """One field, set from the panel."""

    field: str = help_field("its name in the question")
    label: str = help_field("what it is, with its unit")
    value: str = help_field("as it stands")
    low: int = help_field("least value of a slider")
    high: int = help_field("most")
    choices: tuple[tuple[str, bool], ...] = help_field("(choice, whether it is the one), empty for a slider")


def dials(query: Any) -> tuple[Dial, ...]:
    """Those of the scene."""
    declared = {knob.name: knob for knob in knobs(type(query))}
    return tuple(dial(declared[name], getattr(query, name)) for name in OF_SCENE.get(query.scene, ()))


def dial(knob: Any, value: Any) -> Dial:
    """One field as it stands."""
    unit = f", {knob.unit}" if knob.unit and knob.unit.lower() not in knob.label.lower() else ""
    return Dial(field=knob.name, label=f"{knob.label}{unit}", value=as_text(value), low=int(knob.low or 0),
                high=int(knob.high or 0), choices=tuple((one, one == value) for one in knob.choices))
