"""What one forward step of a model does on one device: its matrix products, attention, experts and messages, as
numbers.

`work(model, weights, keys, values, parallel)` divides the matrices of `pycore.vram.parameters` over the devices as
engines do: columns of queries, keys, values, gate and up, rows of output and down; latents, routers and norms are
repeated on every device; KV heads are repeated once there are more devices than heads. Nothing here knows a clock or a
card.
"""

import functools
import math
from dataclasses import dataclass

from pycore.nouns import AttentionGroup, Format, Model, Parallel
from pycore.vram import gguf_mix
from pycore.vram.parameters import Matrix, matrices
from pycore.vram.weights import device_shape, quantised

SPARSE_TOKENS = 2048  # index_topk of DeepSeek-V3.2 and GLM-5: how many cached tokens sparse attention reads
STATE_BYTES = 4  # recurrent states are kept in fp32
FUSED = {"q": "qkv", "k": "qkv", "v": "qkv", "q_a": "latent_down", "kv_a": "latent_down", "gate": "gate_up",
         "up": "gate_up", "shared_gate": "shared_gate_up", "shared_up": "shared_gate_up",
         "linear_qkv": "linear_in", "linear_gate": "linear_in", "linear_beta_alpha": "linear_in"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """A weight matrix times m tokens, `count` of them a step; rows x columns as held by one device."""

    name: str
    rows: int
    columns: int
    count: int
    weight_bytes: float  # of one
    sixteen_bit: bool  # not quantised: runs in 16-bit arithmetic whatever the weight format


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertWork:
    """The mixture layers: `held` experts on this device, each token choosing `chosen` of `count`."""

    layers: int
    count: int
    chosen: int
    held: int
    hidden: int
    inner: int  # intermediate size as held
    matrices: int  # 3 with a gate, else 2
    expert_bytes: float  # of one expert as held
    share: float  # of a replica's routed choices that land on this device
    gathered: int  # replicas whose tokens meet in these experts


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionWork:
    """The layers of one attention group on one device."""

    kind: str
    layers: int
    heads: int
    kv_heads: int
    score_dim: int  # per head: width of queries against keys
    value_dim: int
    prompt_score_dim: int  # the same while a prompt is read: MLA then expands its latent into keys and values
    prompt_value_dim: int
    token_bytes: float  # cached per token and layer
    window: int | None
    state_bytes: float = 0.0  # linear layers: read and written once a step and sequence
    state_flop: float = 0.0  # linear layers: per token and layer
    index_flop: float = 0.0  # sparse attention: per query and cached token
    index_bytes: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One device's work a step. Pipeline stages are counted together: a token passes through all of them."""

    products: tuple[Product, ...]
    head: Product
    experts: ExpertWork | None
    attention: tuple[AttentionWork, ...]
    layers: int
    hidden: int
    tensor: int
    pipeline: int
    exchanged: int  # replicas that exchange tokens with each other for their experts (1: none)
    elementwise: int  # small kernels a step: norms, rotary, activation
    elementwise_bytes: float  # that they move, per token and step
    messages: int  # all-reduces of a token's hidden state a step

    @property
    def token_flop(self) -> float:
        """FLOP (multiply-adds x 2) of one token's products on one device, without head and attention."""
        dense = math.fsum(2.0 * item.rows * item.columns * item.count for item in self.products)
        if self.experts is None:
            return dense
        one = 2.0 * self.experts.matrices * self.experts.hidden * self.experts.inner
        return dense + one * self.experts.chosen * self.experts.share * self.experts.layers

    @property
    def head_flop(self) -> float:
        """FLOP of one token's logits on one device."""
        return 2.0 * self.head.rows * self.head.columns


@functools.lru_cache(maxsize=4096)
def mixed_bytes(model: Model, kind: str) -> dict[str, float]:
    """Mean bytes per number of every role in a GGUF file of that type, over its layers; "head" also where it is
    tied."""
    sizes: dict[str, int] = {}
    for role, _, size, _ in gguf_mix.layer_bytes(model, gguf_mix.mix(model, kind)):
        sizes[role] = sizes.get(role, 0) + size
    numbers: dict[str, int] = {}
    for matrix in matrices(model):
        numbers[matrix.role] = numbers.get(matrix.role, 0) + matrix.total
    means = {role: size / numbers[role] for role, size in sizes.items()}
    return {"head": means["embedding"]} | means


def stored(model: Model, matrix: Matrix, rows: int, columns: int, weights: Format) -> tuple[float, bool]:
    """(bytes of a rows x columns slice of the matrix, whether it stays in 16 bits). Engines unpack MLA's kv_b to 16
    bits to absorb it into queries and outputs."""
    if weights.scope == "mix":
        return rows * columns * mixed_bytes(model, weights.id)[matrix.role], False
    if weights.scope == "linear" and (matrix.role == "kv_b" or not quantised(model, matrix, weights)):
        return 2.0 * rows * columns, True
    size = rows * columns * weights.bits_per_weight / 8
    return size + rows * weights.row_bytes + columns * weights.column_bytes + weights.matrix_bytes, False


@functools.lru_cache(maxsize=4096)
def work(model: Model, weights: Format, keys: Format, values: Format, parallel: Parallel) -> Work:
    """The step of one device of a replica laid out as `parallel`."""
    tensor = parallel.tensor
    products = merged(model, weights, tensor)
    rows = -(-model.vocabulary // tensor)
    size, plain = stored(model, Matrix(role="head", component="head", rows=model.vocabulary, columns=model.hidden_size,
                                       kind="head"), rows, model.hidden_size, weights)
    head = Product(name="head", rows=rows, columns=model.hidden_size, count=1, sixteen_bit=plain, weight_bytes=size)
    small, moved = small_kernels(model, tensor)
    return Work(products=products, head=head, experts=expert_work(model, weights, parallel),
                attention=tuple(attention_work(model, group, keys, values, tensor) for group in model.groups),
                layers=model.layers, hidden=model.hidden_size, tensor=tensor, pipeline=parallel.pipeline,
                exchanged=parallel.data if parallel.expert and model.mixture else 1, elementwise=small,
                elementwise_bytes=moved, messages=2 * model.layers if tensor > 1 else 0)


def merged(model: Model, weights: Format, tensor: int) -> tuple[Product, ...]:
    """The linear layers as products, those that read the same input joined as engines join them."""
    found: dict[tuple, list] = {}
    for matrix in matrices(model):
        if matrix.kind != "linear" or matrix.role.startswith("expert_"):
            continue
        rows, columns = device_shape(model, matrix, tensor)
        size, plain = stored(model, matrix, rows, columns, weights)
        key = (FUSED.get(matrix.role, matrix.role), columns, matrix.layers, matrix.each, plain)
        held = found.setdefault(key, [0, 0.0])
        held[0] += rows
        held[1] += size
    return tuple(Product(name=name, rows=rows, columns=columns, count=len(layers) * each, weight_bytes=size,
                         sixteen_bit=plain)
                 for (name, columns, layers, each, plain), (rows, size) in found.items())


def expert_work(model: Model, weights: Format, parallel: Parallel) -> ExpertWork | None:
    """Experts sliced over the tensor-parallel devices, or placed whole over all devices of all replicas (`expert`)."""
    if model.experts is None:
        return None
    experts, tensor = model.experts, parallel.tensor
    devices = tensor * parallel.data if parallel.expert else 1
    inner = experts.intermediate_size if parallel.expert else -(-experts.intermediate_size // tensor)
    count = 3 if model.gated_mlp else 2
    kinds = {matrix.role: matrix for matrix in matrices(model) if matrix.component == "experts"}
    each = math.fsum(stored(model, matrix, inner if matrix.columns == model.hidden_size else model.hidden_size,
                            model.hidden_size if matrix.columns == model.hidden_size else inner, weights)[0]
                     for matrix in kinds.values())
    return ExpertWork(layers=model.expert_layers, count=experts.count, chosen=experts.per_token,
                      held=-(-experts.count // devices), hidden=model.hidden_size, inner=inner, matrices=count,
                      expert_bytes=each, share=parallel.data / devices if parallel.expert else 1.0,
                      gathered=parallel.data if parallel.expert else 1)


def attention_work(model: Model, group: AttentionGroup, keys: Format, values: Format, tensor: int) -> AttentionWork:
    """One attention group on one of `tensor` devices."""
    heads = max(1, -(-group.query_heads // tensor))
    if group.kind == "linear":
        return linear_work(group, tensor)
    if group.kind == "latent":  # one latent for all heads, on every device; scores and values taken in its space
        width = group.latent_rank + group.rope_dim
        index = group.indexer_heads * group.indexer_dim
        return AttentionWork(kind="latent", layers=group.layers, heads=heads, kv_heads=1, score_dim=width,
                             value_dim=group.latent_rank, prompt_score_dim=group.key_dim,
                             prompt_value_dim=group.value_dim, token_bytes=width * keys.bits_per_weight / 8,
                             window=SPARSE_TOKENS if index else None, index_flop=2.0 * index,
                             index_bytes=group.indexer_dim * keys.bits_per_weight / 8)
    kv = max(1, group.kv_heads // tensor)
    size = kv * (group.key_dim * keys.bits_per_weight + group.value_dim * values.bits_per_weight) / 8
    return AttentionWork(kind=group.kind, layers=group.layers, heads=heads, kv_heads=kv, score_dim=group.key_dim,
                         value_dim=group.value_dim, prompt_score_dim=group.key_dim, prompt_value_dim=group.value_dim,
                         token_bytes=size, window=group.window)


def linear_work(group: AttentionGroup, tensor: int) -> AttentionWork:
    """Gated delta net: the state is read and written once a step; per token it is decayed, corrected and read
    (3 products of key_dim x value_dim a head; Yang et al. 2024, arXiv 2412.06464)."""
    state = group.linear
    elements = state.recurrent_elements + state.convolution_elements
    return AttentionWork(kind="linear", layers=group.layers, heads=-(-state.value_heads // tensor), kv_heads=0,
                         score_dim=state.key_dim, value_dim=state.value_dim, prompt_score_dim=state.key_dim,
                         prompt_value_dim=state.value_dim, token_bytes=0.0, window=None,
                         state_bytes=2 * STATE_BYTES * elements / tensor,
                         state_flop=3 * 2 * state.recurrent_elements / tensor)


def small_kernels(model: Model, tensor: int) -> tuple[int, float]:
    """(kernels, bytes per token) of a step's norms, rotary embeddings, cache writes, activations and routing, counted
    from the layer's shape as engines launch them; 16-bit values in and out."""
    hidden = model.hidden_size
    kernels, moved = 0, 0.0
    for group in model.groups:
        kernels += group.layers * (model.norms_per_layer + MIXER_KERNELS[group.kind] + (model.qk_norm is not None)
                                   + model.output_gate + INDEX_KERNELS * (group.indexer_heads > 0))
        width = group.query_heads * group.key_dim + group.kv_heads * (group.key_dim + group.value_dim)
        moved += group.layers * 2 * (model.norms_per_layer * 2 * hidden + 2 * width / tensor)
    inner = model.experts.intermediate_size * model.experts.per_token if model.experts else model.intermediate_size
    kernels += model.dense_layers + model.expert_layers * (ROUTING_KERNELS + (model.experts is not None
                                                           and model.experts.shared_count > 0) * SHARED_KERNELS)
    return kernels, moved + (model.dense_layers * 2 * 3 * inner / tensor if not model.mixture else 0.0)


MIXER_KERNELS = {"full": 2, "sliding": 2, "chunked": 2, "latent": 4, "linear": 5}
"""Beside norms and products. Attention: rotary, cache write. MLA: its latent norms, rotary, cache write, and the
second of the two products that kv_b becomes. Gated delta net: convolution, gates, state update's norms, output norm,
output gate."""
INDEX_KERNELS = 4  # sparse attention: rotary, scores, top-k, and the quantisation of index keys
ROUTING_KERNELS = 2  # scores to top-k, sorting tokens by expert (the activation is inside the experts' measured time)
SHARED_KERNELS = 2  # activation of the shared expert, adding it up
