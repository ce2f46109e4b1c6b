"""The nouns every part shares: a model's shape, an accelerator, a number format, a price. Plain frozen data, no tables.

Field names follow the catalogue's columns. Derived facts are properties.
"""

from dataclasses import dataclass
from typing import Literal

StateKind = Literal["full", "sliding", "chunked", "latent", "linear"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearState:
    """Shape of a gated-delta-net / Mamba layer's state: a convolution tail and a recurrent matrix per sequence.

    `convolution_elements` and `recurrent_elements` are element counts of one layer for one sequence.
    """

    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    convolution_kernel: int

    @property
    def convolution_channels(self) -> int:
        return 2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim

    @property
    def convolution_elements(self) -> int:
        return self.convolution_channels * (self.convolution_kernel - 1)

    @property
    def recurrent_elements(self) -> int:
        return self.value_heads * self.key_dim * self.value_dim


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionGroup:
    """The layers of a model that keep the same kind of state.

    full: keys and values of every token. sliding, chunked: of the last `window` tokens. latent: one compressed vector
    of `latent_rank + rope_dim` per token (MLA), shared by all heads. linear: a state of fixed size (`linear`).
    """

    kind: StateKind
    layers: int
    query_heads: int = 0
    kv_heads: int = 0
    key_dim: int = 0
    value_dim: int = 0
    window: int | None = None
    latent_rank: int = 0
    rope_dim: int = 0
    indexer_dim: int = 0  # DeepSeek sparse attention: keys of the indexer, cached beside the latent
    indexer_heads: int = 0
    values_are_keys: bool = False  # no value projection: values are the keys (both are still cached)
    sinks: bool = False  # one learned logit a head (gpt-oss)
    linear: LinearState | None = None

    @property
    def elements_per_token(self) -> int:
        """Cached elements per token of ONE layer, before any split over GPUs; 0 for linear layers."""
        if self.kind == "linear":
            return 0
        if self.kind == "latent":
            return self.latent_rank + self.rope_dim + self.indexer_dim
        return self.kv_heads * (self.key_dim + self.value_dim)


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """Mixture-of-experts shape. Layers before `first_dense_layers`, and those off the `layer_step`, stay dense."""

    count: int
    per_token: int
    intermediate_size: int
    shared_count: int = 0
    shared_intermediate_size: int = 0
    first_dense_layers: int = 0
    layer_step: int = 1
    dense_intermediate_size: int | None = None
    router_bias: bool = False  # one number an expert: a bias, or DeepSeek's correction of the score
    shared_gate: bool = False
    bias: bool = False  # biases inside the experts


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A decoder-only language model's shape, from the catalogue or a config.json.

    `pattern` says which group each layer belongs to: one character a layer, an index into `groups` in base 36, repeated
    from the first layer on ("001" = two layers of the first group, then one of the second, and again).
    """

    id: str
    name: str
    hub_repository: str
    hidden_size: int
    layers: int
    attention_heads: int
    kv_heads: int
    head_dim: int
    intermediate_size: int
    vocabulary: int
    tied_embeddings: bool
    max_context: int
    groups: tuple[AttentionGroup, ...]
    experts: Experts | None = None
    query_latent_rank: int | None = None
    qk_nope_dim: int = 0
    gated_mlp: bool = True
    qkv_bias: bool = False
    output_bias: bool = False
    mlp_bias: bool = False
    norm_kind: str = "rmsnorm"
    norms_per_layer: int = 2
    qk_norm: str | None = None
    learned_positions: int = 0
    pattern: str = "0"
    output_gate: bool = False  # a sigmoid gate on the attention output: its query projection is twice as wide
    native_dtype: str = "bfloat16"
    stored_format: str = ""  # catalogue id of the number format the checkpoint is stored in, where it is not plain
    published_parameters: int | None = None
    vision_parameters: int = 0
    mtp_layers: int = 0  # multi-token-prediction layers stored beside the model, loaded only to speculate
    mtp_own_embeddings: bool = False  # each of them stores its own copy of embedding and head
    source: str = ""
    note: str = ""

    def __hash__(self) -> int:  # equal ones have equal ids; hashing every field would cost more than a plan
        return hash(self.id)

    @property
    def mixture(self) -> bool:
        return self.experts is not None

    @property
    def expert_layers(self) -> int:
        """How many layers hold experts."""
        if self.experts is None:
            return 0
        first, step = self.experts.first_dense_layers, self.experts.layer_step
        return max(0, self.layers // step - first // step)

    @property
    def dense_layers(self) -> int:
        return self.layers - self.expert_layers

    def holds_experts(self, layer: int) -> bool:
        """Whether the layer (counted from 0) is a mixture of experts."""
        return (self.experts is not None and layer >= self.experts.first_dense_layers
                and (layer + 1) % self.experts.layer_step == 0)

    def group_of(self, layer: int) -> AttentionGroup:
        """The attention group that the layer (counted from 0) belongs to."""
        return self.groups[int(self.pattern[layer % len(self.pattern)], 36)]

    @property
    def latent(self) -> AttentionGroup | None:
        """The MLA group, if the model has one."""
        return next((group for group in self.groups if group.kind == "latent"), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerator:
    """One device. Rates are dense, with fp32 accumulation; None: the device has no such path, or no source gave it."""

    id: str
    name: str
    vendor: str
    segment: str
    architecture: str
    year: int | None
    memory_box_gib: float
    memory_usable_mib: float | None  # what the driver reports; None where no source gave it
    memory_usable_basis: str
    bandwidth_bytes_per_s: float
    bf16_flops: float | None
    fp16_flops: float | None
    fp8_flops: float | None
    int8_ops: float | None
    fp4_flops: float | None
    fp32_flops: float | None
    tdp_w: float | None
    link_kind: str
    link_bytes_per_s_one_way: float | None
    pcie_bytes_per_s_one_way: float | None
    compute_capability: str | None = None
    source: str = ""
    note: str = ""

    def __hash__(self) -> int:  # equal ones have equal ids; hashing every field would cost more than a plan
        return hash(self.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A number format for weights or KV cache.

    scope: "linear" (linear weights only; embeddings, head and norms stay 16-bit), "all" (every matrix),
    "mix" (a GGUF file mix, bits computed per model), "tensor" (one GGUF tensor type), "kv" (cache elements).
    """

    id: str
    name: str
    family: str
    scope: str
    bits_per_weight: float
    block_elements: int = 1
    block_bytes: float = 0.0
    row_bytes: float = 0.0  # beside the blocks: per output feature (a per-channel scale), per input feature,
    column_bytes: float = 0.0  # and per matrix (a per-tensor scale)
    matrix_bytes: float = 0.0
    compute: str = "bf16"  # which dense rate the matrix units run at: bf16 (any 16-bit), fp8, int8, fp4, fp32
    formula: str = ""
    perplexity_delta: float | None = None  # Llama-3-8B on WikiText-2, llama.cpp's published table
    kl_divergence: float | None = None
    source: str = ""
    note: str = ""

    def __hash__(self) -> int:  # equal ones have equal ids; hashing every field would cost more than a plan
        return hash(self.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudPrice:
    """What one accelerator costs for an hour somewhere. `date` is '' where the source gave none (say so on screen)."""

    accelerator: str
    cloud: str
    region: str
    instance: str
    gpus: float
    usd_per_gpu_hour: float | None
    spot_usd_per_gpu_hour: float | None
    date: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiOffer:
    """A provider's price for one model, per million tokens."""

    model: str
    provider: str
    input_usd: float
    output_usd: float
    cached_input_usd: float | None
    date: str
    source: str
    outlier: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Parallel:
    """How one replica is split: tensor parallel within a stage, pipeline stages, and how many replicas (dp) there are.

    `expert`: experts are placed whole (each device holds count / (tp x dp) of them) instead of sliced tp ways.
    """

    tensor: int = 1
    pipeline: int = 1
    data: int = 1
    expert: bool = False

    @property
    def devices(self) -> int:
        return self.tensor * self.pipeline * self.data


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """A question after every name has been looked up: what runs, on what, split how, under which load.

    `sequences` counts all replicas together; `context` is the longest sequence to hold; `prompt` and `output` describe
    the typical request; `max_batched_tokens` 0 and `memory_fraction` 0 mean the engine's default.
    """

    model: Model
    weights: Format
    keys: Format
    values: Format
    accelerator: Accelerator
    parallel: Parallel
    engine: str
    context: int
    sequences: int
    prompt: int
    output: int
    memory_fraction: float = 0.0
    max_batched_tokens: int = 0
    used_bytes: int = 0
    draft: Model | None = None  # proposes tokens for speculative decoding
    cached_share: float = 0.0  # of prompt tokens that a prefix cache answers

    @property
    def cached_tokens(self) -> int:
        """Tokens of the typical prompt that a prefix cache answers; at least one is always computed, for its logits."""
        return min(self.prompt - 1, int(self.prompt * self.cached_share))

    @property
    def sequences_per_replica(self) -> int:
        return -(-self.sequences // self.parallel.data)
