"""Llama, Qwen2 and Qwen3 as one code path over plain tensors: what an engine runs, with projections that read the same
input fused into one.

    x = embedding[tokens]
    each layer:  q, k, v = qkv(norm(x));  x += out(attention(turn(q), turn(k), v));  x += down(silu(gate) x up),
                 gate, up = gate_up(norm(x))
    logits = head(norm(x))

Attention is handed in, so that this module knows nothing of caches and batches. Rope's angles and the norms are taken
in float32 whatever the weights are, as `transformers` does.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from runtime.mini_infer.rope import Rope
from runtime.models.configuration import Configuration

Attend = Callable[[int, Tensor, Tensor, Tensor], Tensor]


class Projection:
    """x (tokens, in) to (tokens, out). The one place that multiplies by weights, to be replaced by faster ones."""

    __slots__ = ("weight", "bias")

    def __init__(self, weight: Tensor, bias: Tensor | None = None):
        self.weight, self.bias = weight, bias

    def __call__(self, x: Tensor) -> Tensor:
        return functional.linear(x, self.weight, self.bias)


@dataclass(slots=True, kw_only=True, eq=False)
class Layer:
    """One block's weights. Rows of `qkv` are q, k, v; rows of `gate_up` are gate, up. Head norms only in Qwen3."""

    attention_norm: Tensor
    qkv: Projection
    query_norm: Tensor | None
    key_norm: Tensor | None
    out: Projection
    feed_norm: Tensor
    gate_up: Projection
    down: Projection


@dataclass(slots=True, kw_only=True, eq=False)
class Model:
    """A model's weights on one device. `frequencies`: rope's, float32 (head width / 2)."""

    configuration: Configuration
    rope: Rope
    frequencies: Tensor
    embedding: Tensor
    layers: tuple[Layer, ...]
    norm: Tensor
    head: Projection

    @property
    def dtype(self) -> torch.dtype:
        return self.embedding.dtype

    @property
    def device(self) -> torch.device:
        return self.embedding.device

    def hidden(self, tokens: Tensor, positions: Tensor, attend: Attend) -> Tensor:
        """Tokens (n) at their positions (n) to what the head is given, before the last norm: (n, width).

        `attend(layer, queries (n, heads, head width), keys, values (n, kv heads, head width))` gives (n, heads x head
        width).
        """
        turn = self.turn(positions)
        x = functional.embedding(tokens, self.embedding)
        for index, layer in enumerate(self.layers):
            x += layer.out(attend(index, *self.projected(layer, x, turn)))
            gate, up = layer.gate_up(self.normed(x, layer.feed_norm)).chunk(2, dim=-1)
            x += layer.down(functional.silu(gate).mul_(up))
        return x

    def logits(self, hidden: Tensor) -> Tensor:
        """(n, width) to float32 logits (n, vocabulary)."""
        return self.head(self.normed(hidden, self.norm)).float()

    def projected(self, layer: Layer, x: Tensor, turn: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """Turned queries, turned keys and values, each (n, its heads, head width)."""
        one = self.configuration
        fused = layer.qkv(self.normed(x, layer.attention_norm)).view(len(x), -1, one.head_width)
        both, values = fused.split((one.heads + one.kv_heads, one.kv_heads), dim=1)
        if layer.query_norm is not None:
            queries, keys = both.split((one.heads, one.kv_heads), dim=1)
            both = torch.cat([self.normed(queries, layer.query_norm), self.normed(keys, layer.key_norm)], dim=1)
        return *turned(both, turn).split((one.heads, one.kv_heads), dim=1), values

    def normed(self, x: Tensor, weight: Tensor) -> Tensor:
        """x / sqrt(mean(x^2) + epsilon) x weight, over the last dimension."""
        if x.dtype == torch.float32:  # torch's own gives the same bits, in a call
            return functional.rms_norm(x, weight.shape, weight, self.configuration.epsilon)
        wide = x.float()
        return weight * (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.configuration.epsilon)).to(x.dtype)

    def turn(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and signed sines (n, 1, head width) for positions (n), as `turned` takes them."""
        angles = positions.float()[:, None, None] * self.frequencies
        cosines, sines = (angles.cos() * self.rope.scale).to(self.dtype), (angles.sin() * self.rope.scale).to(self.dtype)
        return torch.cat([cosines, cosines], dim=-1), torch.cat([-sines, sines], dim=-1)

    def places(self) -> Iterator[tuple[str, Tensor]]:
        """(name in a checkpoint, where its values go) of every tensor; parts of fused ones are views into them."""
        one = self.configuration
        yield "model.embed_tokens.weight", self.embedding
        yield "model.norm.weight", self.norm
        if not one.tied:
            yield "lm_head.weight", self.head.weight
        rows = tuple(heads * one.head_width for heads in (one.heads, one.kv_heads, one.kv_heads))
        for index, layer in enumerate(self.layers):
            stem = f"model.layers.{index}."
            yield stem + "input_layernorm.weight", layer.attention_norm
            yield stem + "post_attention_layernorm.weight", layer.feed_norm
            yield from _parts(stem + "self_attn.", ("q_proj", "k_proj", "v_proj"), layer.qkv, rows)
            yield from _parts(stem + "self_attn.", ("o_proj",), layer.out, (one.width,))
            yield from _parts(stem + "mlp.", ("gate_proj", "up_proj"), layer.gate_up, (one.feed_forward,) * 2)
            yield from _parts(stem + "mlp.", ("down_proj",), layer.down, (one.width,))
            if layer.query_norm is not None:
                yield stem + "self_attn.q_norm.weight", layer.query_norm
                yield stem + "self_attn.k_norm.weight", layer.key_norm


def _parts(stem: str, names: tuple[str, ...], fused: Projection, rows: tuple[int, ...]) -> Iterator[tuple[str, Tensor]]:
    for kind, tensor in (("weight", fused.weight), ("bias", fused.bias)):
        if tensor is not None:
            yield from ((f"{stem}{name}.{kind}", part) for name, part in zip(names, tensor.split(rows), strict=True))


def turned(x: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
    """x (n, heads, head width) turned by its position: the pair of dimension j is j + half."""
    cosines, sines = turn
    return (x * cosines).addcmul_(x.roll(x.shape[-1] // 2, dims=-1), sines)


def empty(configuration: Configuration, rope: Rope, dtype: torch.dtype = torch.float32,
          device: torch.device | str = "cpu") -> Model:
    """A model with memory for its weights and nothing in it: for a loader that fills every one."""
    one = configuration

    def room(*shape: int) -> Tensor:
        return torch.empty(shape, dtype=dtype, device=device)

    def projection(rows: int, columns: int, bias: bool = False) -> Projection:
        return Projection(room(rows, columns), room(rows) if bias else None)

    inner, all_heads = one.heads * one.head_width, (one.heads + 2 * one.kv_heads) * one.head_width
    layers = tuple(Layer(
        attention_norm=room(one.width), qkv=projection(all_heads, one.width, one.qkv_bias),
        query_norm=room(one.head_width) if one.head_norms else None,
        key_norm=room(one.head_width) if one.head_norms else None,
        out=projection(one.width, inner, one.attention_bias), feed_norm=room(one.width),
        gate_up=projection(2 * one.feed_forward, one.width), down=projection(one.width, one.feed_forward),
    ) for _ in range(one.layers))
    embedding = room(one.vocabulary, one.width)
    return Model(configuration=one, rope=rope, frequencies=rope.frequencies(one.head_width).to(device), embedding=embedding,
                 layers=layers, norm=room(one.width),
                 head=Projection(embedding) if one.tied else projection(one.vocabulary, one.width))
