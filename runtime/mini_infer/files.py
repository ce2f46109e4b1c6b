"""A model out of files: a folder as `transformers` writes it, or a GGUF file. Every tensor is there, known, of the right
shape, of a kind of number that is read, and finite, or its name is in the error.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from pycore.errors import SourceError
from runtime.mini_infer import rope
from runtime.mini_infer.model import Model, empty
from runtime.models import configuration, weights
from runtime.models.configuration import Configuration
from runtime.models.gguf import Gguf, open_gguf

INDEX = "model.safetensors.index.json"
FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
MOST_JSON_BYTES = 64 << 20


def load(path: str | Path, dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu",
         opened: Gguf | None = None) -> Model:
    """The model in a folder or a .gguf file (`opened`: as it was opened before), on a device. Raises SourceError."""
    path = Path(path)
    if path.is_dir():
        data = read_json(path / "config.json")
        model = empty(sizes(data), rope.from_config(data, "config.json"), dtype, device)
        return filled(model, safetensors(shards(path)), str(path))
    file = opened or open_gguf(path)
    found = gguf_sizes(file)
    model = empty(found, rope.from_gguf(file, found.architecture, found.head_width), dtype, device)
    return filled(model, weights.gguf_tensors(file, found), file.source)


def configuration_of(path: Path, opened: Gguf | None = None) -> Configuration:
    """The sizes of the model in a folder or a .gguf file (`opened`: as it was opened before), its weights unread. Raises
    SourceError."""
    return sizes(read_json(path / "config.json")) if path.is_dir() else gguf_sizes(opened or open_gguf(path))


def gguf_sizes(file: Gguf) -> Configuration:
    """The sizes in a GGUF file, however rope is scaled there: that is read elsewhere. Raises SourceError."""
    bare = {key: value for key, value in file.metadata.items() if ".rope.scaling." not in key}
    return configuration.from_gguf(replace(file, metadata=bare))


def sizes(data: dict[str, object]) -> Configuration:
    """The sizes in a config.json, however rope is scaled there. Raises SourceError."""
    bare = {key: value for key, value in data.items() if key not in ("rope_parameters", "rope_scaling")}
    try:
        found = configuration.from_config(bare)
    except (TypeError, ValueError, ArithmeticError) as error:
        raise SourceError("config.json", f"is not understood: {error}") from None
    biased = data.get("attention_bias") and found.architecture == "qwen3"
    return replace(found, attention_bias=True) if biased else found


def read_json(path: Path) -> dict[str, object]:
    """A JSON object. Raises SourceError."""
    try:
        if path.stat().st_size > MOST_JSON_BYTES:
            raise SourceError(path.name, f"has {path.stat().st_size:,} bytes; at most {MOST_JSON_BYTES:,} are read")
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise SourceError(path.name, f"cannot be read as JSON: {error}") from None
    if not isinstance(data, dict):
        raise SourceError(path.name, "is not a JSON object")
    return data


def shards(folder: Path) -> tuple[Path, ...]:
    """The files of weights: those that the index names, else all there are. Raises SourceError."""
    if not (folder / INDEX).is_file():
        found = tuple(sorted(path for path in folder.glob("*.safetensors") if path.is_file()))  # a pipe would be waited for
        if not found:
            raise SourceError(str(folder), "holds no .safetensors file")
        return found
    table = read_json(folder / INDEX).get("weight_map")
    if not isinstance(table, dict) or not table or not all(isinstance(name, str) for name in table.values()):
        raise SourceError(INDEX, "has no weight_map from tensors to files")
    names = sorted(set(table.values()))
    for name in names:
        if Path(name).name != name:
            raise SourceError(INDEX, f"names {name!r}, which is not a file beside it")
        if not (folder / name).is_file():
            raise SourceError(str(folder), f"lacks {name}, which {INDEX} names")
    return tuple(folder / name for name in names)


def safetensors(paths: Iterable[Path]) -> Iterator[tuple[str, Tensor]]:
    """(name, tensor as it is in the file, mapped) of every tensor in some files. Raises SourceError."""
    from safetensors import SafetensorError, safe_open

    for path in paths:
        try:
            with safe_open(path, framework="pt") as file:
                for name in file.keys():
                    yield name, file.get_tensor(name)
        except (OSError, SafetensorError) as error:
            raise SourceError(path.name, f"is not a sound safetensors file: {error}") from None


def filled(model: Model, tensors: Iterable[tuple[str, Tensor]], source: str) -> Model:
    """The model with these weights. Raises SourceError where one is missing, unknown, there twice, of another shape, not of
    floats, or not finite."""
    places = dict(model.places())
    absent = set(places)
    for name, tensor in tensors:
        if name == "lm_head.weight" and model.configuration.tied or name.endswith("rotary_emb.inv_freq"):
            continue
        if name not in places:
            raise SourceError(source, f"has tensor {name!r}, which this architecture does not use")
        if name not in absent:
            raise SourceError(source, f"has tensor {name!r} twice")
        _check(name, tensor, places[name], source)
        place = places[name]
        place.copy_(tensor.to(place.dtype) if tensor.dtype == torch.float64 else tensor)  # a device need not have 64 bits
        absent.discard(name)
    if absent:
        raise SourceError(source, "lacks " + ", ".join(sorted(absent)[:5]) + (" and more" if len(absent) > 5 else ""))
    return model


def _check(name: str, tensor: Tensor, place: Tensor, source: str) -> None:
    if tensor.dtype not in FLOATS:
        raise SourceError(source, f"tensor {name!r} is of {tensor.dtype}; read are {', '.join(map(str, FLOATS))}")
    if tensor.shape != place.shape:
        raise SourceError(source, f"tensor {name!r} has shape {tuple(tensor.shape)}; the configuration says "
                                  f"{tuple(place.shape)}")
    # A sum is finite only where all is, and is 20 times as fast; one that is too large is looked at again.
    total = tensor.sum(dtype=torch.promote_types(tensor.dtype, torch.float32))
    if not total.isfinite() and not torch.isfinite(tensor).all():
        raise SourceError(source, f"tensor {name!r} holds NaN or infinity")
