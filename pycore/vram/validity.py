"""What cannot be: a split that cuts a head, a format the engine does not load. Every fault at its field, in words."""

from collections.abc import Iterator

from pycore.errors import InputError, InvalidQuery
from pycore.layout import divisors
from pycore.nouns import AttentionGroup, Deployment, Model
from pycore.vram.engines import ENGINES, NO_ENGINE, Engine, engine, spread
from pycore.vram.parameters import dense_width

VOCABULARY_STEP = 64  # vLLM and SGLang pad the vocabulary to a multiple of this before they cut it


def check(deployment: Deployment) -> None:
    """Raises InvalidQuery with every fault of the deployment; InputError on `engine` where it is unknown."""
    found = faults(deployment)
    if found:
        raise InvalidQuery(found)


def faults(deployment: Deployment) -> tuple[InputError, ...]:
    """All faults; empty where the deployment can be. Raises InputError where the engine is unknown."""
    profile = engine(deployment.engine)
    return (*weight_faults(deployment, profile), *cache_faults(deployment, profile), *split_faults(deployment, profile),
            *expert_faults(deployment), *fraction_faults(deployment, profile))


def loads(profile: Engine, format_id: str, family: str) -> bool:
    """Whether the engine loads that format. What none of them reads can be sized under transformers."""
    if format_id in NO_ENGINE:
        return profile.id == "transformers"
    return family in profile.weight_families


def weight_faults(deployment: Deployment, profile: Engine) -> Iterator[InputError]:
    """A weight format that the engine does not load."""
    weights = deployment.weights
    if not loads(profile, weights.id, weights.family):
        others = [other.name for other in ENGINES.values() if loads(other, weights.id, weights.family)]
        yield InputError("quant", weights.name, f"{profile.name} loads {', '.join(profile.weight_families)}; "
                                                f"{weights.family} is for {', '.join(others)}")


def cache_faults(deployment: Deployment, profile: Engine) -> Iterator[InputError]:
    """A cache format that the engine does not store."""
    accepted = "accepted by " + profile.name + ": auto, " + ", ".join(profile.keys)
    for field, form in (("kv_dtype", deployment.keys), ("v_dtype", deployment.values)):
        name = form.id.removeprefix("kv-").replace("-", "_")
        if name not in profile.keys and (field == "kv_dtype" or form != deployment.keys):
            yield InputError(field, name, accepted)
    if deployment.keys != deployment.values and not profile.values_apart:
        yield InputError("v_dtype", deployment.values.id.removeprefix("kv-"),
                         f"{profile.name} stores keys and values in one format; accepted: same")


def split_faults(deployment: Deployment, profile: Engine) -> Iterator[InputError]:
    """A split that cuts a head, a vocabulary, a matrix or a layer."""
    model = deployment.model
    tensor, count = spread(profile, deployment.parallel)
    if count > model.layers:
        yield InputError("pp", count, f"accepted: at most {model.layers} stages, one layer each")
    if tensor == 1:
        return
    fitting = tuple(size for size in divisors(model.attention_heads) if not tensor_fault(model, size))
    reason = tensor_fault(model, tensor)
    if reason:
        yield InputError("tp", tensor, f"{reason}; accepted for {model.name}: " + ", ".join(map(str, fitting)))


def tensor_fault(model: Model, tensor: int) -> str:
    """Why a model cannot be cut over that many devices, '' where it can.

    Source: vllm config/model.py verify_with_parallel_config, vocab_parallel_embedding.py, linear.py divide().
    """
    for group in model.groups:
        if reason := group_fault(group, tensor):
            return reason
    vocabulary = -(-model.vocabulary // VOCABULARY_STEP) * VOCABULARY_STEP
    sizes = {"vocabulary (padded to 64)": vocabulary}
    if model.dense_layers:
        sizes["intermediate size"] = dense_width(model)
    if model.mixture and model.experts.shared_count:
        sizes["shared expert size"] = model.experts.shared_intermediate_size
    for name, size in sizes.items():
        if size % tensor:
            return f"it does not divide the {name} of {size:,}"
    return ""


def group_fault(group: AttentionGroup, tensor: int) -> str:
    """Why one kind of attention layer cannot be cut over that many devices."""
    if group.kind == "linear":
        heads = (group.linear.key_heads, group.linear.value_heads)
        return "" if all(count % tensor == 0 for count in heads) else (
            f"it does not divide the {heads[0]} key and {heads[1]} value heads of the linear layers")
    if group.query_heads % tensor:
        return f"it does not divide the {group.query_heads} attention heads"
    if group.kind != "latent" and group.kv_heads % tensor and tensor % group.kv_heads:
        return f"neither of {tensor} and {group.kv_heads} KV heads divides the other"
    return ""


def expert_faults(deployment: Deployment) -> Iterator[InputError]:
    """Expert parallelism without experts, or over more devices than there are experts."""
    parallel, experts = deployment.parallel, deployment.model.experts
    if not parallel.expert:
        if experts is not None and parallel.tensor > 1 and engine(deployment.engine).split == "tensor" and (
                experts.intermediate_size % parallel.tensor):
            yield InputError("tp", parallel.tensor,
                             f"it does not divide the expert size of {experts.intermediate_size:,}; accepted: a "
                             "divisor, or expert parallel, which places experts whole")
        return
    if experts is None:
        yield InputError("ep", "yes", f"{deployment.model.name} has no experts; accepted: no")
    elif engine(deployment.engine).split == "layer":
        yield InputError("ep", "yes", f"{engine(deployment.engine).name} places whole layers; accepted: no")
    elif parallel.tensor * parallel.data > experts.count:
        yield InputError("ep", "yes", f"accepted: at most {experts.count} devices, one expert each")


def fraction_faults(deployment: Deployment, profile: Engine) -> Iterator[InputError]:
    """A memory fraction where there is none to set."""
    if deployment.memory_fraction and profile.memory_rule == "whole":
        yield InputError("memory_fraction", deployment.memory_fraction,
                         f"{profile.name} takes what it is asked to hold and has no memory fraction; accepted: 0")
