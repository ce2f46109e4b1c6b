"""What a model is, read from its files without its weights: sizes, tensors, words, and how much of it fits here."""

from collections import Counter
from dataclasses import asdict
from math import prod
from pathlib import Path

import torch

from pycore.errors import SourceError
from pycore.systems.mini_infer_setup import KV_FORMATS
from runtime.mini_infer import files, room, rope, source, words
from runtime.mini_infer.kv_formats import kv_format, plain_name
from runtime.mini_infer.words import Words
from runtime.models.configuration import Configuration
from runtime.models.gguf import Gguf, open_gguf
from runtime.models.supply import file_digest

Tensors = list[dict[str, object]]


def facts(name: str, *, dtype: str = "float32", device: str = "auto", hashes: bool = False,
          say: source.Say = lambda text: None) -> dict[str, object]:
    """All of it, as plain data. Raises StudioError where the model could not be run either."""
    where = source.resolve_device(device)
    numbers = source.computed_in(dtype, where, say)
    path = source.find(name, say)
    opened = None if path.is_dir() else open_gguf(path)
    sizes = files.configuration_of(path, opened)
    paths = files.shards(path) if opened is None else (path,)
    found = words.from_gguf(opened, name) if opened else source.folder_words(path, name)
    tensors = gguf_tensors(opened) if opened else [one for file in paths for one in safetensors_tensors(file)]
    return {
        "model": name, "place": str(path), "files": [file(one, hashes=hashes) for one in paths],
        "architecture": sizes.architecture, "parameters": room.weight_bytes(sizes, numbers) // numbers.itemsize,
        "sizes": {one: value for one, value in sizes.as_dict().items() if one not in ("architecture", "rope_base")},
        "rope": scaling(path, opened, sizes), "tokenizer": about(found),
        "kinds": dict(Counter(str(one["kind"]) for one in tensors)), "tensors": tensors, "dtype": plain_name(numbers),
        "device": where,
    } | fits(sizes, numbers, where)


def file(path: Path, *, hashes: bool) -> dict[str, object]:
    """A file of weights."""
    return {"file": path.name, "bytes": path.stat().st_size, "sha256": file_digest(path) if hashes else None}


def scaling(path: Path, opened: Gguf | None, sizes: Configuration) -> dict[str, object]:
    """How positions are turned into angles. Raises SourceError, ConfigError."""
    if opened is None:
        found = rope.from_config(files.read_json(path / "config.json"), "config.json")
    else:
        found = rope.from_gguf(opened, sizes.architecture, sizes.head_width)
    kept = {"default": ("kind", "base"), "linear": ("kind", "base", "factor")}
    names = kept.get(found.kind, ("kind", "base", "factor", "original", "slow", "fast", "scale"))
    return {one: value for one, value in asdict(found).items() if one in names} | {"divisors": bool(found.divisors)}


def about(one: Words) -> dict[str, object]:
    """The tokenizer."""
    begin = one.encode("", specials=True)
    return {"tokens": one.size, "special": len(one.special), "byte_level": one.pieces.byte_level,
            "begin": list(map(one.backend.id_to_token, begin)), "end": list(map(one.backend.id_to_token, one.end)),
            "end_ids": list(one.end), "chat_template": one.template is not None}


def gguf_tensors(opened: Gguf) -> Tensors:
    """Name, kind, shape and bytes of every tensor in a GGUF file."""
    return [{"name": one.name, "kind": one.kind.name, "shape": list(one.shape), "bytes": one.size}
            for one in opened.tensors.values()]


def safetensors_tensors(path: Path) -> Tensors:
    """The same of a safetensors file, from its header. Raises SourceError."""
    from safetensors import SafetensorError, safe_open

    found = []
    try:
        with safe_open(path, framework="pt") as opened:
            for name in opened.keys():
                part = opened.get_slice(name)
                kind, shape = part.get_dtype(), part.get_shape()
                bits = int("".join(filter(str.isdigit, kind.partition("_")[0])) or 8)
                found.append({"name": name, "kind": kind, "shape": list(shape), "bytes": prod(shape) * bits // 8})
    except (OSError, SafetensorError) as error:
        raise SourceError(path.name, f"is not a sound safetensors file: {error}") from None
    return found


def fits(sizes: Configuration, numbers: torch.dtype, where: str) -> dict[str, object]:
    """Bytes of the weights and of a token's keys and values in each format, and the tokens that fit beside the weights."""
    free, weights = room.free_bytes(where), room.weight_bytes(sizes, numbers)
    left = None if free is None else max(0, free - weights)
    formats = {}
    for name in KV_FORMATS:
        each = room.token_bytes(sizes, kv_format(name, sizes.head_width))
        tokens = None if left is None else left // each
        formats[name] = {"bytes_per_token": each, "tokens": tokens,
                         "whole_contexts": None if tokens is None else tokens // sizes.context}
    return {"weight_bytes": weights, "free_bytes": free, "weights_fit": None if free is None else weights <= free,
            "keys_and_values": formats}
