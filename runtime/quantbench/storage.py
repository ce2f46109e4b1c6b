"""A quantised model in one .safetensors file: packed bytes as they are, everything else in float16 or as it was.

    NAME.data          uint8: the bytes of `pycore.pack`
    NAME.column_scale  float16, where the method scales columns
    the rest           the model's other tensors, float32 kept as it is, or float16 with `halve`

The header's metadata holds, as JSON under "quantbench", each packed layer's layout and scheme and, for our own models, the
configuration, so that the file can be opened without the original.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from pycore.errors import InputError, SourceError
from pycore.pack import formats
from runtime.models.configuration import Configuration, said_of
from runtime.models.transformer import Transformer, empty
from runtime.quantbench.linear import QuantLinear
from runtime.quantbench.targets import targets
from runtime.quantbench.unpack import Layout

KEY, VERSION = "quantbench", 1


def save(model: nn.Module, path: Path, *, halve: bool = False) -> int:
    """Write a quantised model; the file's size in bytes. Raises InputError where nothing in it is quantised, SourceError."""
    layers = {target.name: target.module for target in targets(model) if target.quantised}
    if not layers:
        raise InputError("model", type(model).__name__, "none of its layers is quantised")
    described = {name: layer.layout.as_dict() | {"activations": layer.activations} for name, layer in layers.items()}
    header: dict[str, object] = {"version": VERSION, "layers": described}
    if isinstance(model, Transformer):
        header["configuration"] = model.configuration.as_dict()
    tensors, seen = {}, set()
    for name, tensor in model.state_dict().items():
        key = tensor.data_ptr(), tensor.shape
        if tensor.numel() and key in seen:  # a tied head: written once, under the embedding's name
            continue
        seen.add(key)
        tensors[name] = (tensor.half() if halve and tensor.dtype == torch.float32 else tensor).contiguous()
    return written(tensors, path, {KEY: json.dumps(header, sort_keys=True)})


def written(tensors: dict[str, Tensor], path: Path, metadata: dict[str, str]) -> int:
    """Write a .safetensors file, whole or not at all; its size in bytes. Raises SourceError."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    partial = path.with_name(path.name + ".partial")
    try:
        save_file(tensors, partial, metadata=metadata)
        partial.replace(path)
        return path.stat().st_size
    except (OSError, SafetensorError) as error:
        raise SourceError(str(path), f"cannot be written: {getattr(error, 'strerror', None) or error}", "out") from None
    finally:
        partial.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Stored:
    """A file that was read: layouts by layer, tensors by name, and the configuration where it has one."""

    layers: dict[str, dict]
    tensors: dict[str, Tensor]
    configuration: Configuration | None


def read(path: Path) -> Stored:
    """A file's parts, checked against each other. Raises SourceError."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            header = json.loads((file.metadata() or {}).get(KEY, "null"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}
    except (OSError, SafetensorError, ValueError, RecursionError) as error:
        raise SourceError(path.name, f"is not a sound safetensors file: {error}") from None
    if not isinstance(header, dict) or header.get("version") != VERSION or not isinstance(header.get("layers"), dict):
        raise SourceError(path.name, "was not written by quantbench (or by a later version of it)")
    try:
        given = header.get("configuration")
        with said_of(path.name):
            configuration = Configuration(**given) if given else None
    except TypeError:
        raise SourceError(path.name, "has a configuration that is not understood") from None
    return Stored(layers=header["layers"], tensors=tensors, configuration=configuration)


def load(path: Path, model: nn.Module | None = None) -> nn.Module:
    """The quantised model. `model` is the architecture to fill, in place; not needed for our own models.

    Raises SourceError.
    """
    stored = read(path)
    if model is None:
        if stored.configuration is None:
            raise SourceError(path.name, "does not say what model it is of: give the unquantised one")
        model = empty(stored.configuration)
    by_name = {target.name: target for target in targets(model)}
    for name, described in stored.layers.items():
        if name not in by_name:
            raise SourceError(path.name, f"has a layer {name!r} that the model has not")
        by_name[name].replace(layer_from(path.name, name, described, stored.tensors, by_name[name].weight().shape))
    fill(path.name, model, stored.tensors)
    return model.eval()


def layer_from(source: str, name: str, described: dict, tensors: dict[str, Tensor], shape: tuple[int, ...]) -> QuantLinear:
    """A packed layer from its description and tensors. Raises SourceError where they do not fit."""
    data = tensors.get(f"{name}.data")
    try:
        layout = Layout(format=described["format"], shape=tuple(described["shape"]), stride=described["stride"],
                        options=tuple(described["options"].items()))
        if data is None or data.dtype != torch.uint8 or layout.shape != tuple(shape):
            raise InputError("shape", layout.shape, f"the model has {tuple(shape)}")
        free = {key: value for key, value in layout.options if key in dict(formats.format_of(layout.format).options)}
        packed = formats.read(layout.format, data.numpy().tobytes(), layout.shape, **free)
        if packed.stride != layout.stride:
            raise InputError("stride", layout.stride, f"rows of this format have {packed.stride} slots")
    except (KeyError, TypeError, AttributeError, InputError) as error:
        raise SourceError(source, f"layer {name!r} does not hold together: {error}") from None
    scale = tensors.get(f"{name}.column_scale")
    if scale is not None and tuple(scale.shape) != layout.shape[-1:]:
        raise SourceError(source, f"layer {name!r} has column scales of shape {tuple(scale.shape)}")
    bias = tensors.get(f"{name}.bias")
    return QuantLinear(data, layout, bias=None if bias is None else bias.float(), column_scale=scale,
                       activations=bool(described.get("activations")))


def fill(source: str, model: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Every tensor into its place. Raises SourceError where one is missing or does not fit."""
    wanted, shared = model.state_dict(), {}
    for name, tensor in wanted.items():
        shared.setdefault((tensor.data_ptr(), tensor.shape), name)
    for name, tensor in wanted.items():
        first = shared[tensor.data_ptr(), tensor.shape] if tensor.numel() else name
        given = tensors.get(name, tensors.get(first))
        if given is None or given.shape != tensor.shape:
            raise SourceError(source, f"lacks tensor {name!r}, or has it in another shape")
        with torch.no_grad():
            tensor.copy_(given)
