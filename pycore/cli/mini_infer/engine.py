"""The torch engine behind the commands: its modules are found when they are asked for, never imported before."""

import importlib
from types import ModuleType

from pycore.cli.torch_engine import INSTALL, missing
from pycore.errors import SourceError

__all__ = ("INSTALL", "part")
PACKAGE = "runtime.mini_infer"


def part(name: str, *more: str) -> ModuleType:
    """A module of the engine: 'source' is runtime/mini_infer/source.py. Raises SourceError where it, torch, or a package of
    `more` is not here."""
    if lack := missing(PACKAGE, "jinja2", *more):
        raise SourceError("torch engine", lack)
    return importlib.import_module(f"{PACKAGE}.{name}")
