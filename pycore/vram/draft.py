"""The draft model of speculative decoding as memory: its own weights and its own cache, on the target's devices."""

from dataclasses import replace

from pycore import catalog
from pycore.ledger import Term
from pycore.nouns import Deployment, Parallel
from pycore.vram.engines import Engine
from pycore.vram.reservation import Reservation, reserve, reserved
from pycore.vram.weights import placed_bytes, weights

FORMAT = "bf16"  # drafts are small and served in 16 bits
VOCABULARY_SLACK = 128  # llama.cpp common/speculative.cpp SPEC_VOCAB_MAX_SIZE_DIFFERENCE: paddings differ by as much


def stranger(deployment: Deployment) -> str:
    """That draft and target cannot share a tokenizer, in words; '' where they may (or there is no draft)."""
    model, own = deployment.model, deployment.draft
    if own is None or abs(model.vocabulary - own.vocabulary) <= VOCABULARY_SLACK:
        return ""
    return (f"{own.name} has {own.vocabulary:,} tokens, {model.name} {model.vocabulary:,}: a draft must have its "
            "target's tokenizer, engines refuse this pair.")


def beside(deployment: Deployment) -> Deployment:
    """How the draft is laid out: same devices, load and cache format, its own shape, 16-bit weights.

    Split as the target is where the draft's heads allow it, otherwise whole on every device (engines offer both). It is
    never pipelined; every stage is charged for it, the last one truly.
    """
    tensor = deployment.parallel.tensor
    divides = deployment.draft.attention_heads % tensor == 0
    parallel = Parallel(tensor=tensor if divides else 1, data=deployment.parallel.data)
    return replace(deployment, model=deployment.draft, weights=catalog.weight_format(FORMAT), parallel=parallel,
                   draft=None)


def weight_bytes(own: Deployment, profile: Engine) -> int:
    """The draft's weights on one device; `own` as `beside` lays it out."""
    return placed_bytes(own.model, own.weights, profile, own.parallel, 0)


def reservation(own: Deployment, profile: Engine, batch: int) -> Reservation:
    """What the draft's cache reserves on one device."""
    return reserve(own.model, profile, own.keys, own.values, own.parallel.tensor, 1, range(own.model.layers), batch)


def terms(deployment: Deployment, profile: Engine, batch: int) -> tuple[Term, ...]:
    """(weights, cache for the asked load) of the draft; () where the deployment has none."""
    if deployment.draft is None:
        return ()
    own = beside(deployment)
    held = weights(own.model, own.weights, profile, own.parallel, 0)
    cache = reserved(reservation(own, profile, batch), own.context, own.sequences_per_replica)
    return held.renamed("Draft model weights"), cache.renamed("Draft model KV cache")
