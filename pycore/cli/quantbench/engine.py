"""The torch engine behind `quantize` and `eval`: found when it is asked for, never imported before."""

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

from pycore.errors import SourceError

INSTALL = "pip install 'inference-studios[runtime]'"
PLACE = "runtime.quantbench.commands"


def missing() -> str:
    """What the engine lacks, in words; '' where it can be used."""
    for package in ("torch", "numpy", "safetensors"):
        if importlib.util.find_spec(package) is None:
            return f"{package} is not installed; this installs it: {INSTALL}"
    try:
        found = importlib.util.find_spec(PLACE)
    except ModuleNotFoundError:
        found = None
    return "" if found else f"the torch engine is not part of this installation; this installs it: {INSTALL}"


def state() -> str:
    """The same for a list of what is there."""
    return missing() or "ready"


def call(name: str) -> Callable[..., Any]:
    """A function of the engine. Raises SourceError where it, or torch, is not here."""
    if lack := missing():
        raise SourceError("torch engine", lack)
    found = getattr(importlib.import_module(PLACE), name, None)
    if found is None:
        raise SourceError("torch engine", f"has no {name} yet")
    return found
