"""Whether torch and an engine of `runtime` are here, for commands that need them; nothing is imported to find out."""

import importlib.util

INSTALL = "pip install 'inference-studios[runtime]'"
NEEDED = ("torch", "numpy", "safetensors", "tokenizers")


def missing(place: str, *more: str) -> str:
    """What lacks for the module or package `place` of the engine, in words; '' where it can be used. `more`: packages that
    are needed besides."""
    for package in (*NEEDED, *more):
        if importlib.util.find_spec(package) is None:
            return f"{package} is not installed; this installs it: {INSTALL}"
    try:
        found = importlib.util.find_spec(place)
    except ModuleNotFoundError:
        found = None
    return "" if found else f"the torch engine is not part of this installation; this installs it: {INSTALL}"
