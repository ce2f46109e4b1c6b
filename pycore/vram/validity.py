"""What cannot be: a split that cuts a head, a format the engine does not load. Every fault at its field, in words."""

from collections.abc import Iterator

from pycore.catalog import formats
from pycore.errors import InputError, InvalidQuery
from pycore.layout import divisors, tensor_fault
from pycore.nouns import Deployment
from pycore.vram.engines import ENGINES, NO_ENGINE, Engine, engine, spread


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
    if loads(profile, weights.id, weights.family):
        return
    others = [other.id for other in ENGINES.values() if loads(other, weights.id, weights.family)]
    same = next((form.id for form in formats() if form.id == f"gguf-{weights.id}"), "")
    hint = f"; as a GGUF file it is {same}" if same and same != weights.id and "GGUF tensor type" in (
        profile.weight_families) else ""
    yield InputError("quant", weights.name, f"{profile.name} loads {', '.join(profile.weight_families)}; "
                                            f"{weights.family} is for engine {', '.join(others)}{hint}")


def cache_faults(deployment: Deployment, profile: Engine) -> Iterator[InputError]:
    """A cache format that the engine does not store.

    int8: vllm#36893 (for the Triton attention backend), noonghunna/club-3090#773 (vLLM 0.23 offers that one alone).
    """
    accepted = "accepted by " + profile.name + ": auto, " + ", ".join(profile.keys)
    for field, form in (("kv_dtype", deployment.keys), ("v_dtype", deployment.values)):
        name = form.id.removeprefix("kv-").replace("-", "_")
        if name not in profile.keys and (field == "kv_dtype" or form != deployment.keys):
            yield InputError(field, name, accepted)
    if deployment.keys.id == "kv-int8" and deployment.model.latent:  # only TRITON_ATTN stores it, no MLA backend does
        yield InputError("kv_dtype", "int8", f"{profile.name} keeps {deployment.model.name}'s latents (MLA) in 16 bits "
                                             "or fp8; accepted: auto, fp16, bf16, fp8")
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
    weights, expert = deployment.weights, deployment.parallel.expert
    reason = tensor_fault(model, tensor, weights, expert)
    if not reason:
        return
    fitting = [str(size) for size in divisors(model.attention_heads) if not tensor_fault(model, size, weights, expert)]
    whole = model.mixture and not expert and not tensor_fault(model, tensor, weights)
    yield InputError("tp", tensor, f"{reason}; accepted for {model.name}: {', '.join(fitting)}"
                     + (", or expert parallel, which places experts whole" if whole else ""))


def expert_faults(deployment: Deployment) -> Iterator[InputError]:
    """Expert parallelism without experts, or over more devices than there are experts."""
    parallel, experts = deployment.parallel, deployment.model.experts
    if not parallel.expert:
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
