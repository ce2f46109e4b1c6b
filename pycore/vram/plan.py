"""The memory of one deployment, per device: every row with its formula, rows that add up to the total exactly.

Budget and pool follow the engine's own rule. `outside` is what an engine does not count against its fraction (the CUDA
context; graphs before vLLM 0.21; SGLang's activations): it is part of the total and widens the budget by as much.
"""

from dataclasses import dataclass, replace

from pycore.ledger import Term, fact, term, total
from pycore.nouns import Accelerator, Deployment
from pycore.units import GIB, MIB
from pycore.vram import draft, hardware, overheads
from pycore.vram.engines import NO_ENGINE, Engine, engine, sglang_fraction, sglang_step, spread, tokens_a_step
from pycore.vram.kv import minimum, per_token
from pycore.vram.reservation import Reservation, reserve, reserved
from pycore.vram.stages import group_layers, split
from pycore.vram.weights import host_bytes, mtp_bytes, placed_bytes, weights


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPlan:
    """Bytes per device, on the fullest one. All Terms; `rows` add up to `total`."""

    weights: Term
    kv: Term  # what the engine reserves for the asked load, parts by attention group
    kv_minimum: Term  # what the architecture needs for the same load
    activations: Term
    graphs: Term
    framework: Term
    total: Term
    usable: Term  # what the driver reports, not the box number
    visible: Term  # what CUDA offers of it
    fraction: float  # 0 where the engine has none
    budget: Term
    free: Term
    fits: bool
    kv_bytes_per_token: Term
    pool: Term  # bytes the engine will give the KV cache
    vision: Term | None  # part of `weights`; None where the model has no vision tower here
    mtp: Term | None  # not loaded: what the MTP layers would add
    draft: tuple[Term, ...]  # weights and cache of a draft model; () where there is none
    host: Term | None  # in main memory: llama.cpp's token embedding
    rows: tuple[Term, ...]
    stage: int
    stages: int
    tensor: int
    sequences: int  # per replica
    batch_tokens: int
    reservation: Reservation
    notes: tuple[str, ...]


@term("Visible to CUDA", "B", source="the driver's figure less what it keeps")
def visible_bytes(usable, hidden):
    """usable - hidden"""
    return usable - hidden


@term("Budget", "B", source="vllm gpu_worker: requested = total × fraction; the rest must be free")
def total_budget(visible, fraction, outside, used):
    """min(visible × fraction + outside, visible - used)"""
    return max(0, min(int(visible * fraction) + outside, visible - used))


@term("Budget", "B", source="sglang profile_max_num_token")
def static_budget(visible, fraction, context, outside, used):
    """min((visible - context - used) × fraction + outside, visible - used)"""
    return max(0, min(int((visible - context - used) * fraction) + outside, visible - used))


@term("Budget", "B", source="no memory fraction: all that is free")
def whole_budget(visible, used):
    """visible - used"""
    return max(0, visible - used)


@term("Free", "B")
def free_bytes(budget, needed):
    """budget - needed"""
    return budget - needed


@term("KV pool", "B", source="vllm gpu_worker: requested memory less weights, profile and (from 0.21) graphs")
def pool_of_total(visible, fraction, counted):
    """max(0, visible × fraction - counted)"""
    return max(0, int(visible * fraction) - counted)


@term("KV pool", "B", source="sglang profile_max_num_token: free after loading less (1 - fraction) of free before")
def pool_of_static(visible, context, used, fraction, counted):
    """max(0, (visible - context - used) × fraction - counted)"""
    return max(0, int((visible - context - used) * fraction) - counted)


@term("KV pool", "B", source="no pool is set aside: what everything else leaves free")
def pool_of_rest(budget, others):
    """max(0, budget - others)"""
    return max(0, budget - others)


def usable_term(accelerator: Accelerator) -> Term:
    """The card's memory as the driver reports it, else the box figure, and which of the two."""
    mebibytes = accelerator.memory_usable_mib
    size = round(mebibytes * MIB) if mebibytes else round(accelerator.memory_box_gib * GIB)
    return fact("Usable memory", size, "B", basis="reported" if mebibytes else "datasheet", source=accelerator.source,
                note=accelerator.memory_usable_basis)


def default_fraction(profile: Engine, usable: int, visible: int, context: int, used: int, tensor: int, stages: int,
                     asked: float, chunk: int) -> float:
    """The fraction asked for, else the engine's own; where others hold memory at most what is left, in hundredths."""
    if profile.memory_rule == "whole":
        return 0.0
    if asked:
        return asked
    if profile.memory_rule == "static":
        return sglang_fraction(usable, tensor, stages, chunk)
    return max(0.0, min(profile.memory_fraction, (visible - context - used) * 100 // max(1, visible) / 100))


def memory(deployment: Deployment) -> MemoryPlan:
    """The plan of the fullest device. Raises NotKnown where a fact is missing; `validity.check` is the caller's."""
    profile = engine(deployment.engine)
    _, count = spread(profile, deployment.parallel)
    plans = [stage_plan(deployment, profile, index) for index in distinct_stages(deployment, profile, count)]
    fullest = max(plans, key=lambda plan: plan.total.value - plan.budget.value)
    least = min(plans, key=lambda plan: plan.pool.value // plan.reservation.block_bytes)
    if least is fullest or profile.memory_rule == "whole":
        return fullest
    blocks = least.pool.value // least.reservation.block_bytes  # every stage gets as many blocks as the poorest
    common = min(fullest.pool.value, blocks * fullest.reservation.block_bytes)
    return replace(fullest, pool=replace(fullest.pool, value=common, low=None, high=None))


def distinct_stages(deployment: Deployment, profile: Engine, count: int) -> list[int]:
    """Stages worth looking at: one of each make-up."""
    seen, kept = set(), []
    for index, stage in enumerate(split(deployment.model, profile, count)):
        key = (index == count - 1, tuple(group_layers(deployment.model, stage).values()),
               placed_bytes(deployment.model, deployment.weights, profile, deployment.parallel, index))
        if key not in seen:
            seen.add(key)
            kept.append(index)
    return kept


def stage_plan(deployment: Deployment, profile: Engine, index: int) -> MemoryPlan:
    """The plan of one pipeline stage's devices."""
    model, parallel = deployment.model, deployment.parallel
    tensor, count = spread(profile, parallel)
    stage = split(model, profile, count)[index]
    sequences = deployment.sequences_per_replica
    usable = usable_term(deployment.accelerator)
    visible = visible_bytes(usable=usable, hidden=overheads.hidden(deployment.accelerator))
    batch = batch_size(deployment, profile, visible.value)
    held = weights(model, deployment.weights, profile, parallel, index)
    reservation = reserve(model, profile, deployment.keys, deployment.values, tensor, count, stage, batch)
    kv = reserved(reservation, deployment.context, sequences)
    activations = activation_term(deployment, profile, tensor, batch, last=index == count - 1)
    graphs = graph_term(profile, len(stage), sequences, tensor, usable.value)
    inside, outside = overheads.framework(profile, tensor, count, overheads.linked(deployment.accelerator))
    framework = overheads.framework_total(inside, outside)
    drafted = draft.terms(deployment, profile, batch)
    needed = total("Total", (held, kv, *drafted, activations, graphs, framework))
    fraction = default_fraction(profile, usable.value, visible.value, outside.value, deployment.used_bytes, tensor,
                                count, deployment.memory_fraction, batch)
    starting = starts(profile, visible.value, fraction, outside.value, deployment.used_bytes)
    budget = budget_term(deployment, profile, visible, fraction, outside, activations, graphs)
    return MemoryPlan(
        weights=held, kv=kv, activations=activations, graphs=graphs, framework=framework, total=needed, usable=usable,
        visible=visible, fraction=fraction, budget=budget, free=free_bytes(budget=budget, needed=needed),
        fits=needed.value <= budget.value and starting, stage=index, stages=count,
        pool=pool_term(deployment, profile, visible, fraction, budget, (held, *drafted),
                       (activations, graphs, inside, outside)),
        kv_minimum=minimum(model, deployment.keys, deployment.values, deployment.context, sequences, tensor,
                           group_layers(model, stage)),
        kv_bytes_per_token=per_token(model, deployment.keys, deployment.values, tensor, group_layers(model, stage)),
        vision=next((part for part in held.parts if part.name == "Vision tower"), None),
        mtp=mtp_term(deployment, profile, tensor), host=host_term(deployment, profile),
        rows=(*held.parts, *kv.parts, *drafted, activations, graphs, outside, inside), draft=drafted,
        tensor=tensor, sequences=sequences,
        batch_tokens=batch, reservation=reservation, notes=notes(deployment, profile, usable, fraction, starting))


def batch_size(deployment: Deployment, profile: Engine, visible: int) -> int:
    """Tokens in the largest pass: the engine's step, at least one a sequence; all prompts in transformers."""
    step = tokens_a_step(profile, visible, deployment.accelerator.id, deployment.max_batched_tokens)
    sequences = deployment.sequences_per_replica
    return max(step, sequences) if step else deployment.prompt * sequences


def activation_term(deployment: Deployment, profile: Engine, tensor: int, batch: int, last: bool) -> Term:
    """Activations on one device; stages before the last hold no logits."""
    model, sequences = deployment.model, deployment.sequences_per_replica if last else 0
    if profile.id == "llama.cpp":
        heads = model.attention_heads if model.latent else 0
        return overheads.compute_buffer(batch=batch, vocabulary=model.vocabulary, hidden=model.hidden_size, heads=heads,
                                        context=deployment.context if heads else 0)
    wide = overheads.widths(model, tensor, deployment.parallel.expert, workspace=deployment.weights.id != "mxfp4")
    if profile.id == "transformers":
        return overheads.eager_peak(tokens=batch, sequences=sequences, vocabulary=model.vocabulary,
                                    hidden=model.hidden_size, inner=wide.inner)
    sampling = overheads.sampling_bytes(logit_bytes=profile.logit_bytes, sequences=sequences, tokens=batch,
                                        vocabulary=model.vocabulary, hidden=model.hidden_size) if sequences else 0
    layer = overheads.layer_bytes(tokens=batch, inner=wide.inner, hidden=model.hidden_size)
    workspace = overheads.workspace_bytes(tokens=batch, per_token=wide.per_token, expert=wide.expert,
                                          hidden=model.hidden_size) if wide.expert else 0
    formula = overheads.profiled_peak if profile.memory_rule == "total" else overheads.static_peak
    return formula(sampling=sampling, layer=layer, workspace=workspace)


def graph_term(profile: Engine, layers: int, sequences: int, tensor: int, usable: int) -> Term:
    """CUDA graphs on one device; 0 where the engine captures none."""
    if not profile.graphs:
        return fact("CUDA graphs", 0, "B", basis="definition", source=f"{profile.name} captures no graphs ahead")
    graphs = overheads.captured(sequences) if profile.memory_rule == "total" else overheads.sglang_captured(
        min(sequences, sglang_step(usable, tensor)[1]))
    return overheads.graph_pool(layers=layers, graphs=graphs)


def budget_term(deployment: Deployment, profile: Engine, visible: Term, fraction: float, outside: Term,
                activations: Term, graphs: Term) -> Term:
    """What the total may come to under the engine's rule."""
    if profile.memory_rule == "whole":
        return whole_budget(visible=visible, used=deployment.used_bytes)
    if profile.memory_rule == "static":
        free_of = outside.value + activations.value + graphs.value
        return static_budget(visible=visible, fraction=fraction, context=outside.value, outside=free_of,
                             used=deployment.used_bytes)
    free_of = outside.value + (0 if profile.graphs_inside else graphs.value)
    return total_budget(visible=visible, fraction=fraction, outside=free_of, used=deployment.used_bytes)


def pool_term(deployment: Deployment, profile: Engine, visible: Term, fraction: float, budget: Term,
              loaded: tuple[Term, ...], rest: tuple[Term, Term, Term, Term]) -> Term:
    """What the engine gives the KV cache, as it would log it: its fraction less the rows that it counts."""
    activations, graphs, inside, outside = rest
    if profile.memory_rule == "total":
        counted = total("Counted", (*loaded, activations, inside) + ((graphs,) if profile.graphs_inside else ()))
        return pool_of_total(visible=visible, fraction=fraction, counted=counted)
    if profile.memory_rule == "static":
        return pool_of_static(visible=visible, context=outside, used=deployment.used_bytes, fraction=fraction,
                              counted=total("Counted", (*loaded, inside)))
    return pool_of_rest(budget=budget, others=total("All but the KV cache", (*loaded, *rest)))


def mtp_term(deployment: Deployment, profile: Engine, tensor: int) -> Term | None:
    """What the multi-token-prediction layers would take if they were loaded."""
    size = mtp_bytes(deployment.model, deployment.weights, profile, tensor)
    source = "pycore/vram/parameters.py mtp_matrices"
    return fact("MTP layers (not loaded)", size, "B", basis="derived", source=source) if size else None


def host_term(deployment: Deployment, profile: Engine) -> Term | None:
    """The token embedding in main memory."""
    size = host_bytes(deployment.model, deployment.weights, profile)
    source = "ik_llama.cpp discussion 334 (v078)"
    return fact("Token embedding in main memory", size, "B", basis="derived", source=source) if size else None


def starts(profile: Engine, visible: int, fraction: float, context: int, used: int) -> bool:
    """Whether the engine starts at all: vLLM wants total x fraction free before it loads anything.

    vllm gpu_worker: "Free memory on device ... on startup is less than desired GPU memory utilization".
    """
    return profile.memory_rule != "total" or int(visible * fraction) <= visible - context - used


def notes(deployment: Deployment, profile: Engine, usable: Term, fraction: float, starting: bool) -> tuple[str, ...]:
    """What the reader should know before believing the figures."""
    found = []
    if not starting:
        found.append(f"{profile.name} refuses to start: " + (f"{fraction:g} of the device is more than is free on it."
                                                             if fraction else "the device has no memory free."))
    if deployment.prompt + deployment.output > deployment.context:
        found.append(f"{deployment.prompt:,} tokens of prompt and {deployment.output:,} of answer do not fit into a "
                     f"context of {deployment.context:,}: memory is sized for the context, times for the request.")
    found += [text for text in (*hardware.cautions(deployment, profile), draft.stranger(deployment)) if text]
    stored = deployment.model.stored_format
    if stored and deployment.weights.family == "16/32-bit":
        found.append(f"{deployment.model.name} is published in {stored}: {deployment.weights.name} weights are a "
                     f"conversion of it, quant {stored} is the checkpoint itself.")
    if deployment.weights.id in NO_ENGINE:
        found.append(f"None of these engines reads {deployment.weights.name}; the rows are what its tensors take.")
    if deployment.context > deployment.model.max_context:
        found.append(f"{deployment.context:,} tokens are more than the {deployment.model.max_context:,} that "
                     f"{deployment.model.name} was made for.")
    if usable.basis == "datasheet":
        found.append("No source gave the driver's memory figure for this device; the box figure is used.")
    if profile.split == "layer" and deployment.parallel.tensor > 1:
        found.append(f"{profile.name} places whole layers: the {deployment.parallel.tensor} tensor-parallel devices "
                     "are used as stages.")
    if deployment.accelerator.vendor == "Apple":
        found.append("macOS caps what the GPU may use of unified memory; no source gave the cap: it is not taken off.")
    return tuple(found)
