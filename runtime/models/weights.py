"""A model's tensors from a file into its modules: every one of them, each of the right shape, or an error by name."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import torch
from torch import Tensor

from pycore.errors import SourceError
from runtime.models.configuration import Configuration
from runtime.models.gguf import Gguf
from runtime.models.transformer import Transformer, empty

OUTSIDE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
INSIDE = {"attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
          "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm",
          "attn_k_norm": "self_attn.k_norm", "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj",
          "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
COMPUTED = ("rope_freqs.weight",)


def our_name(name: str) -> str | None:
    """GGUF's name of a tensor in ours; None for one that we do not know."""
    stem, _, ending = name.rpartition(".")
    if stem in OUTSIDE:
        return f"{OUTSIDE[stem]}.{ending}"
    block, _, part = stem.removeprefix("blk.").partition(".")
    if stem.startswith("blk.") and block.isascii() and block.isdigit() and part in INSIDE:
        return f"model.layers.{int(block)}.{INSIDE[part]}.{ending}"
    return None


def unpermuted(tensor: Tensor, heads: int) -> Tensor:
    """q or k rows (weight or bias) of GGUF's `llama` from interleaved pairs back to halves, as our RoPE pairs them.

    llama.cpp's converter stores row (half, j) of a head at 2 j + half, for its kernel that turns neighbours.
    """
    pairs = tensor.reshape(heads, tensor.shape[0] // heads // 2, 2, *tensor.shape[1:])
    return pairs.transpose(1, 2).reshape(tensor.shape)


def gguf_tensors(file: Gguf, configuration: Configuration) -> Iterator[tuple[str, Tensor]]:
    """(our name, float32 tensor) of every tensor of a file, one at a time. Raises SourceError for an unknown one."""
    for name in file.tensors:
        ours = our_name(name)
        if ours is None:
            if name in COMPUTED:
                continue
            raise SourceError(file.source, f"has tensor {name!r}, which this architecture does not use")
        tensor = torch.from_numpy(file.numbers(name))
        if configuration.architecture == "llama" and ".attn_q." in name:
            tensor = unpermuted(tensor, configuration.heads)
        elif configuration.architecture == "llama" and ".attn_k." in name:
            tensor = unpermuted(tensor, configuration.kv_heads)
        yield ours, tensor


def safetensors_tensors(paths: Iterable[Path]) -> Iterator[tuple[str, Tensor]]:
    """(name, float32 tensor) of every tensor in some files. Raises SourceError."""
    from safetensors import SafetensorError, safe_open

    for path in paths:
        try:
            with safe_open(path, framework="pt") as file:
                for name in file.keys():
                    yield name, file.get_tensor(name).float()
        except (OSError, SafetensorError) as error:
            raise SourceError(path.name, f"is not a sound safetensors file: {error}") from None


def filled(configuration: Configuration, tensors: Iterable[tuple[str, Tensor]], source: str) -> Transformer:
    """A model with these weights. Raises SourceError where one is missing, unknown, of another shape or not finite."""
    model = empty(configuration)
    wanted = dict(model.named_parameters())
    absent = set(wanted)
    for name, tensor in tensors:
        if name == "lm_head.weight" and configuration.tied or name.endswith("rotary_emb.inv_freq"):
            continue
        if name not in wanted:
            raise SourceError(source, f"has tensor {name!r}, which this architecture does not use")
        if wanted[name].shape != tensor.shape:
            raise SourceError(source, f"tensor {name!r} has shape {tuple(tensor.shape)}; the configuration says "
                                      f"{tuple(wanted[name].shape)}")
        if not torch.isfinite(tensor).all():
            raise SourceError(source, f"tensor {name!r} holds NaN or infinity")
        with torch.no_grad():
            wanted[name].copy_(tensor)
        absent.discard(name)
    if absent:
        raise SourceError(source, "lacks " + ", ".join(sorted(absent)[:5]) + (" and more" if len(absent) > 5 else ""))
    return model
