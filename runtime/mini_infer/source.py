"""A model by name: `smollm2-135m` (out of a package), a folder, a .gguf file, or a repository on the Hugging Face Hub."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from pycore.cache import place
from pycore.errors import InputError, SourceError, UnknownName
from runtime.mini_infer import arithmetic, files, hub, room, words
from runtime.mini_infer.kv_formats import PLAIN
from runtime.mini_infer.model import Model
from runtime.mini_infer.words import Words
from runtime.models.gguf import open_gguf
from runtime.models.load import NAMES
from runtime.models.supply import SMOLLM2, fetch, file_digest

DEFAULT = "smollm2-135m"
DEVICE = re.compile(r"auto|cpu|mps(:0)?|cuda(:[0-9]{1,3})?")  # torch itself calls the only one mps:0
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Source:
    """A model that is ready, its words, and the files of its weights. `place`: its folder or file here."""

    name: str
    model: Model
    words: Words
    place: Path
    files: tuple[Path, ...]

    def hashes(self) -> dict[str, str]:
        """sha256 of each file of weights, by its name: all of them are read."""
        return {path.name: file_digest(path) for path in self.files}


def open_source(name: str, *, dtype: str = "float32", device: str = "auto", say: Say = lambda text: None) -> Source:
    """A model by name, its weights in numbers `dtype` on a device.

    Raises SourceError, ConfigError, UnknownName, InputError (no such device, no room for its weights).
    """
    where = resolve_device(device)
    numbers = computed_in(dtype, where, say)
    path = find(name, say)
    opened = None if path.is_dir() else open_gguf(path)
    found = words.from_gguf(opened, name) if opened else folder_words(path, name)
    sizes = files.configuration_of(path, opened)
    if beyond := [token for token in found.end if token >= sizes.vocabulary]:
        raise SourceError(name, f"ends a text with token {beyond[0]:,}; the model has {sizes.vocabulary:,}")
    room.refuse_weights(sizes, numbers, where)
    return Source(name=name, model=files.load(path, numbers, where, opened), words=found, place=path,
                  files=files.shards(path) if path.is_dir() else (path,))


def folder_words(folder: Path, name: str) -> Words:
    """The words of a folder, after its config.json: where that is missing too, it is no model at all. Raises SourceError."""
    if not (folder / "config.json").is_file():
        raise SourceError(name, "is a folder without config.json; accepted: a folder as transformers writes it")
    return words.from_folder(folder, name)


def find(name: str, say: Say = lambda text: None) -> Path:
    """The folder or file that a name means, fetched where it is not here. Raises SourceError, UnknownName."""
    if name == DEFAULT:
        return fetch(SMOLLM2, say)
    if name in NAMES:
        folder = place(f"models/{name}")
        if not (folder / "config.json").is_file():
            raise SourceError(name, "is not here yet; train it once with: python -m runtime.quantbench.train_tiny")
        return folder
    path = Path(name)
    try:
        here = bool(name) and (path.is_dir() or path.is_file())
    except (OSError, ValueError):  # too long for a path, or with a zero byte
        here = False
    if here and path.suffix == ".safetensors":
        raise SourceError(path.name, "holds weights alone; name the folder that it lies in")
    if here:
        return path
    if hub.REPOSITORY.fullmatch(name):
        return hub.fetch(name, say)
    raise UnknownName("model", name, "accepted: " + ", ".join(NAMES) + ", a folder with config.json, a .gguf file, or a "
                      "repository on the Hugging Face Hub (owner/name)", ())


def resolve_dtype(name: str) -> torch.dtype:
    """Numbers of torch. Raises InputError."""
    if name not in PLAIN:
        raise InputError("dtype", name, "accepted: " + ", ".join(PLAIN))
    return PLAIN[name]


def computed_in(name: str, device: str, say: Say) -> torch.dtype:
    """The numbers that a model asked for in these is computed in on a device; where that is float32 instead, `say` is told.
    Raises InputError."""
    numbers = resolve_dtype(name)
    found = arithmetic.computed(numbers, device)
    if found != numbers:
        say(f"{device} has no arithmetic for {name}: float32 stands in")
    return found


def resolve_device(name: str) -> str:
    """'auto', 'cpu', 'cuda', 'cuda:1' or 'mps' as a device of torch that is here. Raises InputError."""
    if not isinstance(name, str) or not DEVICE.fullmatch(name):
        raise InputError("device", name, "accepted: auto, cpu, cuda, cuda:1, mps")
    cards = torch.cuda.device_count() if torch.cuda.is_available() else 0
    metal = torch.backends.mps.is_available()
    if name == "auto":
        return "cuda" if cards else "mps" if metal else "cpu"
    if name.startswith("mps") and not metal or name.startswith("cuda") and int(name.partition(":")[2] or 0) >= cards:
        here = ["cpu"] + [f"cuda:{index}" for index in range(cards)] + ["mps"] * metal
        raise InputError("device", name, f"accepted: what torch finds here: {', '.join(here)}")
    return name
