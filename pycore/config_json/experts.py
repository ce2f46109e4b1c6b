"""The mixture of experts that a configuration describes, if it does."""

from pycore.config_json.families import Family
from pycore.config_json.fields import Fields
from pycore.nouns import Experts


def experts(fields: Fields, family: Family, layers: int) -> Experts | None:
    """The mixture's shape; None for a dense model. Raises ConfigError where experts sit on no regular set of layers."""
    count = fields.whole("num_experts", low=0)
    if not count or not fields.flag("enable_moe_block", True):
        return None
    first, step = regular(fields, expert_layers(fields, layers))
    chosen = fields.needed("num_experts_per_tok")
    if chosen > count:
        raise fields.refuse("num_experts_per_tok", f"accepted: at most the {count:,} experts there are")
    size = fields.whole(family.expert_size) or fields.needed(family.expert_size if fields.given(family.expert_size)
                                                             else "intermediate_size")
    shared_count, shared_size = shared(fields, family, size)
    return Experts(
        count=count, per_token=chosen, intermediate_size=size, shared_count=shared_count,
        shared_intermediate_size=shared_size, first_dense_layers=first, layer_step=step,
        dense_intermediate_size=fields.whole("intermediate_size_mlp") or fields.whole("dense_intermediate_size"),
        router_bias=router_bias(fields, family),
        shared_gate=family.shared_gate, bias=family.expert_bias)


def router_bias(fields: Fields, family: Family) -> bool:
    """Whether the router keeps one number an expert: a bias, a score correction, or (Gemma 4) a scale."""
    return (family.router_bias or fields.given("topk_method") == "noaux_tc" or fields.flag("use_moe_router_bias")
            or fields.flag("use_routing_bias") or fields.given("global_head_dim") is not None)


def shared(fields: Fields, family: Family, size: int) -> tuple[int, int]:
    """How many shared experts, and the intermediate size of each."""
    count = fields.whole("n_shared_experts", low=0) or 0
    own = fields.whole("shared_expert_intermediate_size", low=0) or 0
    if family.shared_size and not count:
        return 1, fields.needed(family.shared_size)
    if count:
        return count, own if own and count == 1 else size
    return (1, own) if own else (0, 0)


def expert_layers(fields: Fields, layers: int) -> list[bool]:
    """Whether each layer holds experts, by whichever of the many ways the config says it."""
    if (stated := fields.each_layer("mlp_layer_types", layers)) is not None:
        return [kind == "sparse" for kind in stated]
    if isinstance(fields.given("moe_layer_freq"), list):
        return [bool(kind) for kind in fields.each_layer("moe_layer_freq", layers) or ()]
    if stated := fields.layer_numbers("moe_layers", layers):
        return [layer in stated for layer in range(layers)]
    dense = fields.layer_numbers("mlp_only_layers", layers) or frozenset()
    first = fields.whole("first_k_dense_replace", low=0) or 0
    step = fields.whole("decoder_sparse_step") or fields.whole("interleave_moe_layer_step") or 1
    every = fields.whole("moe_layer_freq") or 1  # counted from layer 0, unlike the steps
    return [layer >= first and layer not in dense and (layer + 1) % step == 0 and layer % every == 0
            for layer in range(layers)]


def regular(fields: Fields, mixture: list[bool]) -> tuple[int, int]:
    """`first_dense_layers` and `layer_step` that give exactly these layers. Raises ConfigError where none do."""
    held = [layer for layer, holds in enumerate(mixture) if holds]
    step = held[1] - held[0] if len(held) > 1 else 1
    first = max(0, held[0] - step + 1) if held else len(mixture)
    if mixture != [layer >= first and (layer + 1) % step == 0 for layer in range(len(mixture))]:
        raise fields.refuse("num_experts", "experts on irregular layers are not covered")
    return first, step
