"""The torch engine behind the commands: its modules are found when they are asked for, never imported before."""

import importlib
import importlib.util
from types import ModuleType

from pycore.errors import SourceError

INSTALL = "pip install 'inference-studios[runtime]'"
PACKAGE = "runtime.mini_infer"
NEEDED = ("torch", "numpy", "safetensors", "tokenizers", "jinja2")


def missing(*more: str) -> str:
    """What the engine lacks, in words; '' where it can be used. `more`: packages that are needed besides."""
    for package in (*NEEDED, *more):
        if importlib.util.find_spec(package) is None:
            return f"{package} is not installed; this installs it: {INSTALL}"
    try:
        found = importlib.util.find_spec(PACKAGE)
    except ModuleNotFoundError:
        found = None
    return "" if found else f"the torch engine is not part of this installation; this installs it: {INSTALL}"


def part(name: str, *more: str) -> ModuleType:
    """A module of the engine: 'source' is runtime/mini_infer/source.py. Raises SourceError where it, torch, or a package of
    `more` is not here."""
    if lack := missing(*more):
        raise SourceError("torch engine", lack)
    return importlib.import_module(f"{PACKAGE}.{name}")
