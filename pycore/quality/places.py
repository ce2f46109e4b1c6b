"""What a plan chooses from: the measured projections of a model, less what the question forbids or fixes."""

import difflib
import re

from pycore.errors import InputError, NotKnown, UnknownName
from pycore.quality.allocate import Choice, Place, narrowed
from pycore.quality.table import PROJECTIONS, Model

FIXED = re.compile(r"(?:([0-9]{1,4})\.)?([a-z]+)\s*[=:]\s*(\S+)")


def measured_formats(model: Model) -> tuple[str, ...]:
    """Configurations that were measured projection by projection, in the table's order."""
    return tuple(dict.fromkeys(one.configuration for one in model.sensitivity))


def places(model: Model, formats: str = "", choices: str = "") -> tuple[Place, ...]:
    """Every measured projection with what it may take: `formats` by commas ('' all), `choices` as 'down=q6_k, 3.v=q8_0'.

    Raises UnknownName, InputError; NotKnown where the model was not measured projection by projection.
    """
    known = measured_formats(model)
    if not known:
        raise NotKnown(f"{model.name} was not measured projection by projection", "model")
    allowed = tuple(named(one, known, "formats") for one in formats.replace(" ", ",").split(",") if one) or known
    fixed = parsed(choices, known)
    stored = {one.configuration: (one.format, one.options) for one in model.configurations}
    found: dict[tuple[int, str], list[Choice]] = {}
    weights: dict[tuple[int, str], int] = {}
    for row in model.sensitivity:
        key = row.layer, row.projection
        kind, options = stored.get(row.configuration, ("", ()))
        weights[key] = row.rows * row.columns
        found.setdefault(key, []).append(Choice(configuration=row.configuration, bytes=row.bytes, format=kind,
                                                loss=row.kl_divergence.value, options=options))
    unknown = [layer for layer, _ in fixed if layer is not None and layer not in {layer for layer, _ in found}]
    if unknown:
        raise InputError("choices", f"layer {unknown[0]}", f"accepted: layers 0 to {max(layer for layer, _ in found)}")
    return tuple(place(key, weights[key], tuple(options), allowed, fixed) for key, options in found.items())


def place(key: tuple[int, str], weights: int, choices: tuple[Choice, ...], allowed: tuple[str, ...],
          fixed: dict[tuple[int | None, str], str]) -> Place:
    """One projection with what is left to it. Raises NotKnown where that is nothing."""
    layer, projection = key
    wanted = fixed.get(key) or fixed.get((None, projection))
    one = Place(layer=layer, projection=projection, weights=weights, choices=choices)
    if wanted:
        one = narrowed(one, wanted)
    else:
        one = Place(layer=layer, projection=projection, weights=weights,
                    choices=tuple(each for each in choices if each.configuration in allowed))
    if not one.choices:
        raise NotKnown(f"layer {layer}, {projection} was not measured in {wanted or ', '.join(allowed)}", "choices")
    return one


def parsed(choices: str, known: tuple[str, ...]) -> dict[tuple[int | None, str], str]:
    """(layer or None for all, projection) -> configuration. Raises UnknownName, InputError."""
    found = {}
    for part in filter(None, re.split(r"\s*[,;\n]\s*", choices.strip())):
        match = FIXED.fullmatch(part)
        if match is None or match[2] not in PROJECTIONS:
            raise InputError("choices", part, "accepted: projection=format or layer.projection=format, separated by commas; "
                                              "projections: " + ", ".join(PROJECTIONS))
        found[int(match[1]) if match[1] else None, match[2]] = named(match[3], known, "choices")
    return found


def named(name: str, known: tuple[str, ...], field: str) -> str:
    """A measured configuration by its name. Raises UnknownName."""
    for one in known:
        if one.lower() == name.lower():
            return one
    raise UnknownName(field, name, "accepted: " + ", ".join(known), difflib.get_close_matches(name.lower(), known, 3))
