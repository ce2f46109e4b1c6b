"""Llama, Qwen2 and Qwen3 in one short module.

Submodules carry the names that `transformers` gives them (`model.layers.0.self_attn.q_proj`), so that a checkpoint's
tensors fit without a table and what finds the projections of one finds those of the other.

    x = embed(tokens)
    for each block:  x += o( attention( rope(q(n(x))), rope(k(n(x))), v(n(x)) ) )      n: x / rms(x) x weight
                     x += down( silu(gate(n(x))) x up(n(x)) )
    logits = head(n(x))
"""


import torch
from torch import Tensor, nn
from torch.nn import functional

from pycore.errors import InputError
from pycore.units import decimal_bytes
from runtime.memory import physical_bytes
from runtime.models.configuration import Configuration


class Cache:
    """Keys and values of the tokens so far, (batch, kv heads, capacity, head width) a layer; `length` are filled."""

    def __init__(self, configuration: Configuration, batch: int, capacity: int, dtype: torch.dtype = torch.float32,
                 device: torch.device | str = "cpu"):
        shape = (batch, configuration.kv_heads, capacity, configuration.head_width)
        self.keys = [torch.zeros(shape, dtype=dtype, device=device) for _ in range(configuration.layers)]
        self.values = [torch.zeros(shape, dtype=dtype, device=device) for _ in range(configuration.layers)]
        self.length = 0

    def extend(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Write the keys and values of new tokens; all of them up to the last."""
        end = self.length + keys.shape[2]
        self.keys[layer][:, :, self.length:end] = keys
        self.values[layer][:, :, self.length:end] = values
        return self.keys[layer][:, :, :end], self.values[layer][:, :, :end]


class RootMeanSquareNorm(nn.Module):
    """x / sqrt(mean(x^2) + epsilon) x weight, over the last dimension."""

    def __init__(self, width: int, epsilon: float):
        super().__init__()
        self.weight, self.epsilon = nn.Parameter(torch.ones(width)), epsilon

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        return self.weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.epsilon)).to(x.dtype)


def rotary(configuration: Configuration, positions: Tensor) -> tuple[Tensor, Tensor]:
    """Cosines and sines (positions, head width) of rotary embedding; the second half repeats the first."""
    powers = torch.arange(0, configuration.head_width, 2, device=positions.device).float() / configuration.head_width
    angles = torch.outer(positions.float(), 1.0 / configuration.rope_base**powers)
    angles = torch.cat([angles, angles], dim=-1)
    return angles.cos(), angles.sin()


def rotated(x: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
    """x (batch, heads, tokens, head width) turned by its position: the pair of dimension j is j + half."""
    left, right = x.chunk(2, dim=-1)
    return x * turn[0] + torch.cat([-right, left], dim=-1) * turn[1]


class Attention(nn.Module):
    """Grouped-query attention over all tokens before, and itself."""

    def __init__(self, configuration: Configuration, layer: int):
        super().__init__()
        one, self.layer = configuration, layer
        self.heads, self.kv_heads, self.head_width = one.heads, one.kv_heads, one.head_width
        self.q_proj = nn.Linear(one.width, one.heads * one.head_width, bias=one.qkv_bias)
        self.k_proj = nn.Linear(one.width, one.kv_heads * one.head_width, bias=one.qkv_bias)
        self.v_proj = nn.Linear(one.width, one.kv_heads * one.head_width, bias=one.qkv_bias)
        self.o_proj = nn.Linear(one.heads * one.head_width, one.width, bias=one.attention_bias)
        if one.head_norms:
            self.q_norm = RootMeanSquareNorm(one.head_width, one.epsilon)
            self.k_norm = RootMeanSquareNorm(one.head_width, one.epsilon)
        self.head_norms = one.head_norms

    def split(self, x: Tensor, heads: int) -> Tensor:
        return x.view(x.shape[0], x.shape[1], heads, self.head_width).transpose(1, 2)

    def forward(self, x: Tensor, turn: tuple[Tensor, Tensor], cache: Cache | None) -> Tensor:
        queries, keys = self.split(self.q_proj(x), self.heads), self.split(self.k_proj(x), self.kv_heads)
        values = self.split(self.v_proj(x), self.kv_heads)
        if self.head_norms:
            queries, keys = self.q_norm(queries), self.k_norm(keys)
        queries, keys = rotated(queries, turn), rotated(keys, turn)
        mask = None
        if cache is not None:
            keys, values = cache.extend(self.layer, keys, values)
            if x.shape[1] > 1:
                before = keys.shape[2] - x.shape[1]
                mask = torch.ones(x.shape[1], keys.shape[2], dtype=torch.bool, device=x.device).tril(before)
        out = functional.scaled_dot_product_attention(queries, keys, values, attn_mask=mask, is_causal=cache is None,
                                                      enable_gqa=self.heads != self.kv_heads)
        return self.o_proj(out.transpose(1, 2).reshape(x.shape[0], x.shape[1], -1))


class FeedForward(nn.Module):
    """down(silu(gate(x)) x up(x))."""

    def __init__(self, configuration: Configuration):
        super().__init__()
        self.gate_proj = nn.Linear(configuration.width, configuration.feed_forward, bias=False)
        self.up_proj = nn.Linear(configuration.width, configuration.feed_forward, bias=False)
        self.down_proj = nn.Linear(configuration.feed_forward, configuration.width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))


class Block(nn.Module):
    """Attention, then feed-forward, each around a residual."""

    def __init__(self, configuration: Configuration, layer: int):
        super().__init__()
        self.input_layernorm = RootMeanSquareNorm(configuration.width, configuration.epsilon)
        self.self_attn = Attention(configuration, layer)
        self.post_attention_layernorm = RootMeanSquareNorm(configuration.width, configuration.epsilon)
        self.mlp = FeedForward(configuration)

    def forward(self, x: Tensor, turn: tuple[Tensor, Tensor], cache: Cache | None = None) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), turn, cache)
        return x + self.mlp(self.post_attention_layernorm(x))


class Body(nn.Module):
    """Embedding, blocks, last norm."""

    def __init__(self, configuration: Configuration):
        super().__init__()
        self.embed_tokens = nn.Embedding(configuration.vocabulary, configuration.width)
        self.layers = nn.ModuleList(Block(configuration, layer) for layer in range(configuration.layers))
        self.norm = RootMeanSquareNorm(configuration.width, configuration.epsilon)


class Transformer(nn.Module):
    """Tokens (batch, tokens) to logits (batch, tokens, vocabulary). With a cache, tokens follow those in it."""

    def __init__(self, configuration: Configuration):
        super().__init__()
        self.configuration = configuration
        self.model = Body(configuration)
        self.lm_head = nn.Linear(configuration.width, configuration.vocabulary, bias=False)
        if configuration.tied:
            self.lm_head.weight = self.model.embed_tokens.weight

    def hidden(self, tokens: Tensor, cache: Cache | None = None) -> Tensor:
        """What the head is given, (batch, tokens, width)."""
        start = 0 if cache is None else cache.length
        turn = rotary(self.configuration, torch.arange(start, start + tokens.shape[1], device=tokens.device))
        x = self.model.embed_tokens(tokens)
        for block in self.model.layers:
            x = block(x, turn, cache)
        if cache is not None:
            cache.length += tokens.shape[1]
        return self.model.norm(x)

    def forward(self, tokens: Tensor, cache: Cache | None = None) -> Tensor:
        return self.lm_head(self.hidden(tokens, cache))


def empty(configuration: Configuration) -> Transformer:
    """A model with memory for its weights but nothing in it: for a loader that fills every one.

    Raises InputError where this machine has not that much memory.
    """
    needed, there = 4 * configuration.parameters, physical_bytes()
    if there is not None and needed > there:
        raise InputError("model", f"weights of {decimal_bytes(needed)} as 32-bit floats",
                         f"this machine has {decimal_bytes(there)} of memory")
    with torch.device("meta"):
        model = Transformer(configuration)
    model = model.to_empty(device="cpu").eval()
    if configuration.tied:
        model.lm_head.weight = model.model.embed_tokens.weight
    return model
