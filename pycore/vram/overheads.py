"""What a device holds beside weights and KV cache: activations, CUDA graphs, the framework. Formulas with their range.

Read off start-up logs of vLLM 0.15 to 0.19 on H100 (`data/catalog/memory_evidence.csv`, p01 to p43): on the 33 runs of
0.19.0 the activation formula comes out within -6 % to +1 %, the graphs within a factor of three. Where no log was found
the range is wider and the basis says "assumed".
"""

import functools
from dataclasses import dataclass

from pycore.ledger import Range, Term, fact, term, total
from pycore.nouns import Accelerator, AttentionGroup, Model
from pycore.units import GIB, MIB
from pycore.vram.engines import SORTING, Engine

SCRATCH_BYTES = 4 * 132  # a vocabulary entry: one fp32 row for each of an H100's 132 multiprocessors (vllm#33538)
WORKSPACE_BYTES = 45_000_000  # cuBLAS workspace (32 MiB) and small buffers: the fit's constant
ACTIVATION_LOW, ACTIVATION_HIGH = 0.84, 1.07  # residuals, both ends; the low one where experts keep no workspace
GRAPH_BYTES = int(0.26 * MIB)  # a layer and captured graph: median of the 0.19.0 runs
GRAPH_LOW, GRAPH_HIGH = int(0.02 * MIB), int(0.78 * MIB)  # vllm#51590 (v040: 62 MiB at tp 8); gpt-oss-20b in the runs
MODEL_SOURCE = "vLLM start-up logs p01 to p43 (data/validation/vllm_profiles.csv)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Widths:
    """Numbers per token that a forward pass holds at once on one device, beside the residual stream."""

    inner: int  # widest of MLP and attention: gate, up and their product; queries, keys, values and output
    expert: int  # intermediate size of one expert on this device, 0 without experts or without a workspace
    per_token: int  # experts a token is sent to


def widths(model: Model, tensor: int, expert_parallel: bool, workspace: bool = True) -> Widths:
    """The widths of a model cut over `tensor` devices. `workspace`: the expert kernels keep one (MXFP4's do not)."""
    experts = model.experts
    dense = model.intermediate_size if experts is None else max(
        experts.shared_count * experts.shared_intermediate_size,
        (experts.dense_intermediate_size or 0) if model.dense_layers else 0)
    inner = max([(3 if model.gated_mlp else 2) * -(-dense // tensor)]
                + [attention_width(model, group, tensor) for group in model.groups])
    if experts is None or not workspace:
        return Widths(inner=inner, expert=0, per_token=0)
    expert = experts.intermediate_size if expert_parallel else -(-experts.intermediate_size // tensor)
    return Widths(inner=inner, expert=expert, per_token=experts.per_token)


def attention_width(model: Model, group: AttentionGroup, tensor: int) -> int:
    """Queries, keys, values and the output of one attention layer on one device, in numbers per token."""
    if group.kind == "linear":
        state = group.linear
        return -(-(state.convolution_channels + 2 * state.value_heads * state.value_dim) // tensor)
    heads = -(-group.query_heads // tensor)
    if group.kind == "latent":
        return heads * (2 * group.key_dim + model.qk_nope_dim + 2 * group.value_dim)
    return (heads + max(1, group.kv_heads // tensor)) * (group.key_dim + group.value_dim)


@term("Sampling", "B", basis="fitted", source=MODEL_SOURCE)
def sampling_bytes(logit_bytes, sequences, vocabulary, tokens, hidden):
    """logit_bytes × sequences × vocabulary + 528 × vocabulary + 2 × hidden × (tokens + sequences)

    Logits of every sequence, the sampler's scratch, and the hidden states they came from.
    """
    return logit_bytes * sequences * vocabulary + SCRATCH_BYTES * vocabulary + 2 * hidden * (tokens + sequences)


@term("Widest layer", "B", source="16-bit activations of one layer: MLP or attention, and three residual streams")
def layer_bytes(tokens, inner, hidden):
    """2 × tokens × (inner + 3 × hidden)"""
    return 2 * tokens * (inner + 3 * hidden)


@term("Workspace of the experts", "B", source="vllm fused_moe: a buffer as wide as gate and up or the output, one more")
def workspace_bytes(tokens, per_token, expert, hidden):
    """2 × tokens × per_token × (max(2 × expert, hidden) + expert)"""
    return 2 * tokens * per_token * (max(2 * expert, hidden) + expert)


@term("Activations", "B", basis="fitted", source=MODEL_SOURCE)
def profiled_peak(sampling, layer, workspace):
    """max(sampling, layer) + workspace + 45,000,000

    The peak of vLLM's profile run: tokens through the layers, then the logits through the sampler; the experts'
    workspace stays allocated. Stages before the last do not sample.
    """
    value = max(sampling, layer) + workspace + WORKSPACE_BYTES
    return Range(value, int(value * ACTIVATION_LOW), int(value * ACTIVATION_HIGH))


@term("Activations", "B", basis="assumed", source="the same formula as vLLM's; no SGLang log with this term was found")
def static_peak(sampling, layer, workspace):
    """max(sampling, layer) + workspace + 45,000,000"""
    value = max(sampling, layer) + workspace + WORKSPACE_BYTES
    return Range(value, value // 2, value * 2)


def peak_bytes(tokens: int, sequences: int, vocabulary: int, hidden: int, wide: Widths, logit_bytes: int) -> int:
    """`profiled_peak` in one step and without its range, for hot loops."""
    sampling = sampling_bytes.plain(logit_bytes, sequences, vocabulary, tokens, hidden) if sequences else 0
    layer = 2 * tokens * (wide.inner + 3 * hidden)
    workspace = workspace_bytes.plain(tokens, wide.per_token, wide.expert, hidden) if wide.expert else 0
    return (sampling if sampling > layer else layer) + workspace + WORKSPACE_BYTES


@term("Compute buffer", "B", source="llama.cpp, flash attention on; ik_llama.cpp v078, v084 to v091, v093, v100")
def compute_buffer(batch, vocabulary, hidden, heads, context):
    """4 × batch × (vocabulary + 2 × hidden)

    fp32 logits of a physical batch and its hidden states (some models keep one of the two: the low end). Without flash
    attention the scores come instead: 4 × heads × context × batch, as rows v079 and v080 show; `context` 0 leaves them
    out.
    """
    value = buffer_bytes(batch, vocabulary, hidden)
    high = max(value + 16 * batch * hidden, 4 * heads * context * batch)
    return Range(value, 4 * batch * (vocabulary + hidden), high)


def buffer_bytes(batch: int, vocabulary: int, hidden: int) -> int:
    """`compute_buffer` without its range."""
    return 4 * batch * (vocabulary + 2 * hidden)


@term("Activations", "B", basis="assumed", source="eager PyTorch with SDPA; logits of the last token only")
def eager_peak(tokens, sequences, vocabulary, hidden, inner):
    """2 × tokens × (inner + 3 × hidden) + 6 × sequences × vocabulary"""
    value = eager_bytes(tokens, sequences, vocabulary, hidden, inner)
    return Range(value, 6 * sequences * vocabulary, 2 * value)


def eager_bytes(tokens: int, sequences: int, vocabulary: int, hidden: int, inner: int) -> int:
    """`eager_peak` without its range."""
    return 2 * tokens * (inner + 3 * hidden) + 6 * sequences * vocabulary


@term("CUDA graphs", "B", basis="fitted", source=MODEL_SOURCE + "; v037, v041, v040 (vllm#57475, #30515, #51590)")
def graph_pool(layers, graphs):
    """0.26 MiB × layers × graphs

    `graphs`: captured sizes, piecewise and full together. Logged from 0.02 MiB (tp 8) to 0.78 MiB (experts) each.
    """
    return Range(GRAPH_BYTES * layers * graphs, GRAPH_LOW * layers * graphs, GRAPH_HIGH * layers * graphs)


@functools.lru_cache(maxsize=4096)
def captured(sequences: int) -> int:
    """Graphs that vLLM captures: sizes 1, 2, 4, then every 8 to 256, then every 16 to 512; piecewise up to twice
    the sequences, full ones up to the sequences. vllm config/compilation: 51 + 35 at 256 sequences, 51 + 51 at 1,024.

    >>> captured(256), captured(1024), captured(1)
    (86, 102, 3)
    """
    return sizes_up_to(min(2 * sequences, 512)) + sizes_up_to(min(sequences, 512))


def sizes_up_to(largest: int) -> int:
    """How many capture sizes are at most `largest`."""
    small = (largest >= 1) + (largest >= 2) + (largest >= 4)
    return small + min(largest, 256) // 8 + (max(0, largest - 256) // 16)


def sglang_captured(largest: int) -> int:
    """Graphs that SGLang captures up to a batch: 1, 2, 4, 8, 12, every 8 from 16 to 256, every 16 to 512, every 32."""
    return (sum(size <= largest for size in (1, 2, 4, 8, 12)) + max(0, min(largest, 256) // 8 - 1)
            + max(0, min(largest, 511) // 16 - 16) + max(0, (largest - 512) // 32 + 1))


NON_TORCH = {  # devices of a stage -> (value, low, high) in GiB that the engine counts inside its budget
    "one": (0.25, 0.0, 0.61),  # runs: 0.07 to 0.46; other vLLM logs up to 0.61
    "linked": (2.1, 1.9, 2.6),  # runs at tp 2 and 4: 2.06 to 2.21; v069 2.1 at tp 8
    "unlinked": (0.39, 0.0, 2.2),  # v020: 0.39 over PCIe; v040 leaves none at tp 8
}
NON_TORCH_SORTING = {  # the same until 0.16: v002 1.79, v004 0.35, v071 0.01; v003 3.58 and 0.55 (p40) at tp 2
    "one": (0.25, 0.0, 1.79), "linked": (2.1, 0.39, 3.58), "unlinked": (0.39, 0.0, 2.2)}
CONTEXT = {"one": (0.51, 0.2, 0.61), "many": (1.5, 0.8, 2.05)}
"""CUDA context (and, with several devices, NCCL's buffers) in GiB, held before the engine starts to count.
The runs: 0.51 alone, 1.43 to 1.55 at two and four devices (1.99 to 2.05 for two); vllm#51590: 1.37 over the budget."""
HIDDEN = (0.46, 0.19, 0.85)
"""GiB that the driver reports and CUDA does not: T4 15.00 - 14.74, A10G 22.49 - 22.30 (v070), RTX 4090 23.99 - 23.52
(v050), RTX PRO 4500 31.86 - 31.38 (v040), A100 40.00 - 39.39 (v069) and 80.00 - 79.15, H100 79.65 - 79.19 (p01 on)."""


def gibibytes(name: str, figures: tuple[float, float, float], source: str, note: str = "") -> Term:
    """A range in GiB as a term in whole bytes."""
    value, low, high = (int(figure * GIB) for figure in figures)
    return fact(name, value, "B", basis="reported", source=source, low=low, high=high, note=note)


def linked(accelerator: Accelerator) -> bool:
    """Whether devices of that kind talk over NVLink or xGMI without an optional bridge."""
    kind = accelerator.link_kind
    return kind.startswith(("NVLink", "xGMI", "ICI")) and "bridge" not in kind and "C2C" not in kind


def non_torch_kind(tensor: int, fast_link: bool) -> str:
    """Which row of NON_TORCH holds."""
    return "one" if tensor == 1 else "linked" if fast_link else "unlinked"


def framework(engine: Engine, tensor: int, stages: int, fast_link: bool) -> tuple[Term, Term]:
    """(counted inside the engine's budget, held outside it): allocations that are not tensors, context and NCCL."""
    outside = gibibytes("CUDA context" if tensor * stages == 1 else "CUDA context and NCCL",
                        CONTEXT["one" if tensor * stages == 1 or engine.split == "layer" else "many"],
                        "vLLM 0.19.0 logs (init snapshot), vllm#51590")
    if engine.memory_rule != "total":
        return gibibytes("Other allocations", (0.0, 0.0, 0.25), "no log has it; up to vLLM's on one device"), outside
    kind = non_torch_kind(tensor, fast_link)
    figures = (NON_TORCH_SORTING if engine.id == SORTING.id else NON_TORCH)[kind]
    return gibibytes("Allocations outside PyTorch", figures, "vram_reports v002-v071; vLLM 0.19.0 logs"), outside


def hidden(accelerator: Accelerator) -> Term:
    """Memory that the driver reports but CUDA does not offer."""
    if accelerator.vendor != "NVIDIA":
        return fact("Hidden by the driver", 0, "B", basis="assumed", source="no pair of reports found for this vendor")
    return gibibytes("Hidden by the driver", HIDDEN, "nvidia-smi against CUDA: v040, v050, v069, v070, H100 runs")


def framework_total(inside: Term, outside: Term) -> Term:
    """Both as one row group."""
    return total("Framework", (outside, inside))
