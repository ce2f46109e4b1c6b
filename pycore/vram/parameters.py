"""How many numbers a model holds, matrix by matrix, from its shape alone. Integers, exact.

`matrices(model)` lists every stored matrix with its shape and the layers that hold it; `parameters(model)` adds them.
Shapes follow the checkpoints on the Hugging Face Hub: rows are output features, columns input features. A tied head is
not stored, so it counts 0 here; what an engine keeps in memory is the business of `pycore.vram`.
Not counted: rotary tables and other buffers that a checkpoint may store (Llama 2: 2,048 to 5,120 numbers).
"""

import functools
from collections.abc import Iterator
from dataclasses import dataclass

from pycore.nouns import AttentionGroup, Model

KINDS = ("linear", "embedding", "head", "vector", "convolution")
"""linear: a projection that quantisers shrink; the others usually stay 16-bit (outside GGUF)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """One kind of weight: `rows` x `columns`, `each` of them in every layer of `layers` (empty: one for the model)."""

    role: str
    component: str
    rows: int
    columns: int = 1
    layers: tuple[int, ...] = ()
    each: int = 1
    kind: str = "linear"

    @property
    def elements(self) -> int:
        """Numbers in one such matrix."""
        return self.rows * self.columns

    @property
    def count(self) -> int:
        """How many such matrices the model holds."""
        return self.each * (len(self.layers) or 1)

    @property
    def total(self) -> int:
        """Numbers in all of them."""
        return self.elements * self.count


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """Exact counts of one model. `total` is the language model itself, without vision tower and MTP layers."""

    embedding: int
    head: int  # 0 when tied to the embedding
    positions: int
    attention: int  # projections of layers that keep a KV cache (or a latent), indexer included
    linear_attention: int
    mlp: int  # dense MLP layers
    router: int
    experts: int
    shared_experts: int
    norms: int
    biases: int  # biases, attention sinks, gates' constants
    mtp: int
    vision: int
    active: int  # numbers used for one token: all but the experts that were not chosen
    roles: tuple[tuple[str, int], ...]  # role of the matrix -> numbers, in the order of `matrices`

    @property
    def total(self) -> int:
        return (self.embedding + self.head + self.positions + self.attention + self.linear_attention + self.mlp
                + self.router + self.experts + self.shared_experts + self.norms + self.biases)

    @property
    def stored(self) -> int:
        """With vision tower and MTP layers: what the checkpoint holds."""
        return self.total + self.mtp + self.vision

    def role(self, name: str) -> int:
        """Numbers in all matrices of that role; 0 where the model has none."""
        return dict(self.roles).get(name, 0)


def attention(model: Model, group: AttentionGroup, layers: tuple[int, ...]) -> Iterator[Matrix]:
    """Projections and small vectors of attention layers with keys and values (MHA, GQA, MQA; Vaswani 2017)."""
    hidden, heads, kv = model.hidden_size, group.query_heads, group.kv_heads
    queries = heads * group.key_dim * (2 if model.output_gate else 1)
    keys, values = kv * group.key_dim, 0 if group.values_are_keys else kv * group.value_dim

    def part(role: str, rows: int, columns: int = 1, component: str = "attention", kind: str = "linear") -> Matrix:
        return Matrix(role=role, component=component, rows=rows, columns=columns, layers=layers, kind=kind)

    yield part("q", queries, hidden)
    yield part("k", keys, hidden)
    if values:
        yield part("v", values, hidden)
    yield part("o", hidden, heads * group.value_dim)
    if model.qkv_bias:
        yield part("qkv_bias", queries + keys + values, component="biases", kind="vector")
    if model.output_bias:
        yield part("o_bias", hidden, component="biases", kind="vector")
    if model.qk_norm in ("per_head", "full"):
        widths = (1, 1) if model.qk_norm == "per_head" else (heads, kv)
        yield part("qk_norm", sum(widths) * group.key_dim, component="norms", kind="vector")
    if group.sinks:
        yield part("sinks", heads, component="biases", kind="vector")


def latent_attention(model: Model, group: AttentionGroup, layers: tuple[int, ...]) -> Iterator[Matrix]:
    """Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434) and the indexer of its sparse form (V3.2)."""
    hidden, heads, query_rank = model.hidden_size, group.query_heads, model.query_latent_rank

    def part(role: str, rows: int, columns: int = 1, component: str = "attention", kind: str = "linear") -> Matrix:
        return Matrix(role=role, component=component, rows=rows, columns=columns, layers=layers, kind=kind)

    if query_rank:
        yield part("q_a", query_rank, hidden)
        yield part("q_b", heads * group.key_dim, query_rank)
    else:
        yield part("q", heads * group.key_dim, hidden)
    yield part("kv_a", group.latent_rank + group.rope_dim, hidden)
    yield part("kv_b", heads * (model.qk_nope_dim + group.value_dim), group.latent_rank)
    yield part("o", hidden, heads * group.value_dim)
    yield part("latent_norm", (query_rank or 0) + group.latent_rank, component="norms", kind="vector")
    if model.qkv_bias:
        rows = (query_rank or 0) + group.latent_rank + group.rope_dim
        yield part("qkv_bias", rows, component="biases", kind="vector")
    if model.output_bias:
        yield part("o_bias", hidden, component="biases", kind="vector")
    if group.indexer_heads:
        yield part("indexer_q", group.indexer_heads * group.indexer_dim, query_rank or hidden)
        yield part("indexer_k", group.indexer_dim, hidden)
        yield part("indexer_weights", group.indexer_heads, hidden)
        yield part("indexer_norm", 2 * group.indexer_dim, component="norms", kind="vector")


def linear_attention(model: Model, group: AttentionGroup, layers: tuple[int, ...]) -> Iterator[Matrix]:
    """Gated delta net (arXiv 2412.06464): queries, keys, values and gate in one projection, two gates a value head."""
    hidden, state = model.hidden_size, group.linear
    width = state.value_heads * state.value_dim

    def part(role: str, rows: int, columns: int = 1, component: str = "linear_attention",
             kind: str = "linear") -> Matrix:
        return Matrix(role=role, component=component, rows=rows, columns=columns, layers=layers, kind=kind)

    yield part("linear_qkv", state.convolution_channels, hidden)
    yield part("linear_gate", width, hidden)
    yield part("linear_beta_alpha", 2 * state.value_heads, hidden)
    yield part("linear_convolution", state.convolution_channels, state.convolution_kernel, kind="convolution")
    yield part("linear_o", hidden, width)
    yield part("linear_decay", 2 * state.value_heads, component="biases", kind="vector")
    yield part("linear_norm", state.value_dim, component="norms", kind="vector")


def dense_mlp(model: Model, width: int, layers: tuple[int, ...]) -> Iterator[Matrix]:
    """Gated (SwiGLU, arXiv 2002.05202: gate, up, down) or plain (up, down) MLP."""
    hidden = model.hidden_size
    for role in ("gate", "up") if model.gated_mlp else ("up",):
        yield Matrix(role=role, component="mlp", rows=width, columns=hidden, layers=layers)
    yield Matrix(role="down", component="mlp", rows=hidden, columns=width, layers=layers)
    if model.mlp_bias:
        rows = width * (2 if model.gated_mlp else 1) + hidden
        yield Matrix(role="mlp_bias", component="biases", rows=rows, layers=layers, kind="vector")


def expert_mlp(model: Model, layers: tuple[int, ...]) -> Iterator[Matrix]:
    """Router, experts and shared experts of mixture layers (Shazeer 2017, arXiv 1701.06538; DeepSeekMoE 2401.06066)."""
    hidden, experts = model.hidden_size, model.experts
    gates = ("gate", "up") if model.gated_mlp else ("up",)
    yield Matrix(role="router", component="router", rows=experts.count, columns=hidden, layers=layers)
    if experts.router_bias:
        yield Matrix(role="router_bias", component="biases", rows=experts.count, layers=layers, kind="vector")
    kinds = [("expert", "experts", experts.count, experts.intermediate_size)]
    if experts.shared_count:
        kinds.append(("shared", "shared_experts", experts.shared_count, experts.shared_intermediate_size))
    for prefix, component, each, width in kinds:
        for role, rows, columns in [*((gate, width, hidden) for gate in gates), ("down", hidden, width)]:
            yield Matrix(role=f"{prefix}_{role}", component=component, rows=rows, columns=columns, layers=layers,
                         each=each)
    if experts.bias:
        yield Matrix(role="expert_bias", component="biases", rows=len(gates) * experts.intermediate_size + hidden,
                     layers=layers, each=experts.count, kind="vector")
    if experts.shared_gate:
        yield Matrix(role="shared_gate", component="router", rows=1, columns=hidden, layers=layers)


def mixer(model: Model, group: AttentionGroup, layers: tuple[int, ...]) -> Iterator[Matrix]:
    """What mixes tokens in the layers of one group."""
    kind = {"latent": latent_attention, "linear": linear_attention}.get(group.kind, attention)
    return kind(model, group, layers)


def norm_width(model: Model) -> int:
    """Numbers in one norm over the hidden size: LayerNorm weight and bias, RMSNorm a weight, OLMo's first nothing."""
    return model.hidden_size * {"layernorm": 2, "none": 0}.get(model.norm_kind, 1)


@functools.lru_cache(maxsize=512)
def matrices(model: Model) -> tuple[Matrix, ...]:
    """Every weight of the language model (no vision tower, no MTP), embedding first, head last."""
    every = tuple(range(model.layers))
    dense = tuple(layer for layer in every if not model.holds_experts(layer))
    mixture = tuple(layer for layer in every if model.holds_experts(layer))
    found = [Matrix(role="embedding", component="embedding", rows=model.vocabulary, columns=model.hidden_size,
                    kind="embedding")]
    if model.learned_positions:
        found.append(Matrix(role="positions", component="positions", rows=model.learned_positions,
                            columns=model.hidden_size, kind="embedding"))
    for index, group in enumerate(model.groups):
        layers = tuple(layer for layer in every if model.group_of(layer) is model.groups[index])
        found.extend(mixer(model, group, layers))
    if dense:
        found.extend(dense_mlp(model, dense_width(model), dense))
    if mixture:
        found.extend(expert_mlp(model, mixture))
    found.append(Matrix(role="norm", component="norms", rows=norm_width(model), layers=every,
                        each=model.norms_per_layer, kind="vector"))
    found.append(Matrix(role="final_norm", component="norms", rows=norm_width(model), kind="vector"))
    if not model.tied_embeddings:
        found.append(Matrix(role="head", component="head", rows=model.vocabulary, columns=model.hidden_size,
                            kind="head"))
    return tuple(found)


def dense_width(model: Model) -> int:
    """Intermediate size of the layers that hold no experts."""
    return (model.experts and model.experts.dense_intermediate_size) or model.intermediate_size


@functools.lru_cache(maxsize=512)
def mtp_matrices(model: Model) -> tuple[Matrix, ...]:
    """The multi-token-prediction layers (DeepSeek-V3, arXiv 2412.19437, section 2.2): a decoder layer each, the
    projection that joins hidden state and embedding, three norms, and (where stored) copies of embedding and head.
    """
    if not model.mtp_layers:
        return ()
    layers, hidden = tuple(range(model.mtp_layers)), model.hidden_size
    group = next((group for group in model.groups if group.kind in ("full", "latent")), model.groups[0])
    found = list(mixer(model, group, layers))
    found += expert_mlp(model, layers) if model.mixture else dense_mlp(model, dense_width(model), layers)
    found.append(Matrix(role="norm", component="norms", rows=norm_width(model), layers=layers,
                        each=model.norms_per_layer + 3, kind="vector"))
    found.append(Matrix(role="mtp_join", component="mtp", rows=hidden, columns=2 * hidden, layers=layers))
    if model.mtp_own_embeddings:
        for role in ("embedding", "head"):
            found.append(Matrix(role=role, component=role, rows=model.vocabulary, columns=hidden, layers=layers,
                                kind=role))
    return tuple(found)


@functools.lru_cache(maxsize=512)
def parameters(model: Model) -> Parameters:
    """The exact counts of one model; cached, so asking again costs a look-up."""
    components = dict.fromkeys(("embedding", "head", "positions", "attention", "linear_attention", "mlp", "router",
                                "experts", "shared_experts", "norms", "biases"), 0)
    roles: dict[str, int] = {}
    idle = 0
    for matrix in matrices(model):
        components[matrix.component] += matrix.total
        roles[matrix.role] = roles.get(matrix.role, 0) + matrix.total
        if matrix.role.startswith("expert_"):
            idle += matrix.total // matrix.each * (matrix.each - model.experts.per_token)
    mtp = sum(matrix.total for matrix in mtp_matrices(model))
    return Parameters(**components, mtp=mtp, vision=model.vision_parameters,
                      active=sum(components.values()) - idle, roles=tuple(roles.items()))
