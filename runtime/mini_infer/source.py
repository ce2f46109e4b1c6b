"""A model by name: `smollm2-135m` (out of a package), a folder, a .gguf file, or a repository on the Hugging Face Hub."""

from collections.abc import Callable
from dataclasses import dataclass

from runtime.mini_infer.model import Model
from runtime.mini_infer.words import Words

DEFAULT = "smollm2-135m"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Source:
    """A model that is ready, its words, and what identifies it: (file, sha256) of each file of weights."""

    name: str
    model: Model
    words: Words
    files: tuple[tuple[str, str], ...]


def open_source(name: str, *, dtype: str = "float32", device: str = "auto",
                say: Callable[[str], None] = lambda text: None) -> Source:
    """A model by name. Raises SourceError, ConfigError, UnknownName, InputError."""
    raise NotImplementedError


def resolve_device(name: str) -> str:
    """'auto', 'cpu', 'cuda', 'cuda:1' or 'mps' as a device of torch that is here. Raises InputError."""
    raise NotImplementedError
