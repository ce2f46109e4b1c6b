"""What a token and a sequence leave in memory, by the architecture alone: keys and values, latents, states.

Everything is per device: `tensor` devices share the heads of a layer. Where an engine rounds, pads or reserves more is
the business of `reservation`. Integers throughout; a cache row (one token, one layer) is rounded up to whole bytes.
"""

from pycore.ledger import Term, term, total
from pycore.nouns import AttentionGroup, Format, Model

CONVOLUTION_BYTES = 2  # the convolution tail is kept in the model's 16-bit type by vLLM, SGLang and transformers
RECURRENT_BYTES = 4  # the recurrent matrix is kept in fp32 (mamba_ssm_dtype of the Qwen3.5 configs)


def kv_heads_per_device(kv_heads: int, tensor: int) -> int:
    """KV heads that one of `tensor` devices holds: an equal share, at least one (a head is replicated, never cut).

    >>> kv_heads_per_device(8, 4), kv_heads_per_device(4, 8), kv_heads_per_device(1, 2)
    (2, 1, 1)
    """
    return max(1, -(-kv_heads // tensor))


def row_bytes(elements: int, format: Format) -> int:
    """Bytes of `elements` cached numbers in one row; GGUF types pack 32 numbers a block (q8_0: 34 bytes of 32)."""
    return -(-elements * int(format.block_bytes) // format.block_elements)


def scale_bytes(heads: int, format: Format) -> int:
    """Bytes of the scales beside one token's int8 keys or values: one fp32 per head (vLLM's int8_per_token_head).

    fp8 and 16-bit caches have none per token; GGUF types carry theirs inside the block.
    Source: vllm v1/kv_cache_interface.py, AttentionSpec.page_size_bytes.
    """
    return 4 * heads if format.id == "kv-int8" else 0


def token_bytes(group: AttentionGroup, keys: Format, values: Format, tensor: int = 1, shards: int = 1) -> int:
    """Bytes per token of ONE layer on one device; 0 for linear-attention layers, which keep a state instead.

    A latent (MLA) is one vector for all heads: every tensor-parallel rank keeps all of it, and there is no separate V.
    `shards` is decode context parallelism: ranks that keep every shards-th token, so the average is what counts.
    """
    if group.kind == "linear":
        return 0
    if group.kind == "latent":
        return -(-latent_bytes(group, keys) // shards)
    heads = kv_heads_per_device(group.kv_heads, tensor)
    return (row_bytes(heads * group.key_dim, keys) + scale_bytes(heads, keys)
            + row_bytes(heads * group.value_dim, values) + scale_bytes(heads, values))


def latent_bytes(group: AttentionGroup, keys: Format) -> int:
    """Bytes of one token's latent. Sparse attention (DeepSeek V3.2) adds the indexer's key, always 8-bit with one fp32
    scale per 128; with an fp8 cache it keeps the rotary part in 16-bit and one fp32 scale per 128: 656 bytes.

    Source: vllm v1/kv_cache_interface.py (fp8_ds_mla) and models/deepseek_v2.py (DeepseekV32IndexerCache).
    """
    if not group.indexer_dim:
        return row_bytes(group.latent_rank + group.rope_dim, keys)
    indexer = group.indexer_dim + 4 * -(-group.indexer_dim // 128)
    if keys.id == "kv-fp8":
        return group.latent_rank + 4 * -(-group.latent_rank // 128) + 2 * group.rope_dim + indexer
    return row_bytes(group.latent_rank + group.rope_dim, keys) + indexer


def state_bytes(group: AttentionGroup, tensor: int = 1, convolution_bytes: int = CONVOLUTION_BYTES,
                recurrent_bytes: int = RECURRENT_BYTES) -> int:
    """Bytes that ONE linear-attention layer keeps per sequence on one device; 0 for the other kinds.

    The convolution's tail (kernel - 1 columns of queries, keys, values) and a key_dim x value_dim matrix a value head.
    llama.cpp keeps both in fp32 (pass 4): Qwen3.6-27B, 4 cells, 48 layers: 598.5 MiB, as its log says.
    """
    if group.kind != "linear":
        return 0
    state = group.linear
    return (-(-state.convolution_elements // tensor) * convolution_bytes
            + -(-state.recurrent_elements // tensor) * recurrent_bytes)


def tokens_kept(group: AttentionGroup, context: int) -> int:
    """Tokens of a sequence of `context` tokens that one layer of the group must keep."""
    if group.kind == "linear":
        return 0
    return context if group.window is None else min(context, group.window)


@term("Keys and values", "B", source="Vaswani 2017, arXiv 1706.03762; Shazeer 2019, arXiv 1911.02150")
def cache_bytes(layers, bytes_per_token, tokens, sequences):
    """layers × bytes_per_token × tokens × sequences"""
    return layers * bytes_per_token * tokens * sequences


@term("Recurrent state", "B", source="gated delta net, arXiv 2412.06464")
def recurrent_bytes(layers, bytes_per_state, sequences):
    """layers × bytes_per_state × sequences"""
    return layers * bytes_per_state * sequences


@term("KV bytes per token", "B/token", basis="derived", source="sum over the layers that cache every token")
def bytes_per_token(layers, row):
    """layers × row"""
    return layers * row


NAMES = {"full": "full attention", "sliding": "sliding window", "chunked": "chunked attention",
         "latent": "latent (MLA)", "linear": "linear attention"}


def describe(group: AttentionGroup) -> str:
    """'sliding window 1,024': how a group is called in the ledger."""
    return NAMES[group.kind] + (f" {group.window:,}" if group.window else "")


def minimum(model: Model, keys: Format, values: Format, context: int, sequences: int, tensor: int = 1,
            layers: dict[AttentionGroup, int] | None = None) -> Term:
    """The least that `sequences` of `context` tokens can occupy on one device, with one part per attention group.

    `layers` gives the layers of each group on this device where a pipeline splits the model (default: all of them).
    """
    parts = []
    for group in model.groups:
        count = group.layers if layers is None else layers.get(group, 0)
        if group.kind == "linear":
            parts.append(recurrent_bytes(layers=count, bytes_per_state=state_bytes(group, tensor), sequences=sequences))
        else:
            parts.append(cache_bytes(layers=count, bytes_per_token=token_bytes(group, keys, values, tensor),
                                     tokens=tokens_kept(group, context), sequences=sequences))
        parts[-1] = parts[-1].renamed(f"KV cache, {describe(group)}")
    return total("KV cache, architectural minimum", parts,
                 note="Exactly the tokens that attention can still read, no rounding to blocks.")


def per_token(model: Model, keys: Format, values: Format, tensor: int = 1,
              layers: dict[AttentionGroup, int] | None = None) -> Term:
    """Bytes one more token costs on one device, all layers that cache tokens counted (windows not yet full)."""
    parts = []
    for group in model.groups:
        if group.kind != "linear":
            count = group.layers if layers is None else layers.get(group, 0)
            one = bytes_per_token(layers=count, row=token_bytes(group, keys, values, tensor))
            parts.append(one.renamed(f"per token, {describe(group)}"))
    return total("KV bytes per token", parts)
