"""Which layers of a configuration keep what kind of state, as attention groups and the pattern they repeat in."""

from pycore.config_json.families import Family
from pycore.config_json.fields import Fields
from pycore.nouns import AttentionGroup, LinearState

KINDS = {  # `layer_types` as transformers names them
    "full_attention": "full", "attention": "full", "global_attention": "full", "indexed_attention": "full",
    "deepseek_sparse_attention": "full",
    "sliding_attention": "sliding", "local_attention": "sliding", "sliding_window": "sliding",
    "chunked_attention": "chunked", "linear_attention": "linear",
}
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def attention_groups(fields: Fields, family: Family, layers: int,
                     max_context: int) -> tuple[tuple[AttentionGroup, ...], str]:
    """The groups, in the order their first layers come, and which layer belongs to which (as `Model.pattern`)."""
    kinds = layer_kinds(fields, family, layers, max_context)
    indexers = fields.each_layer("indexer_types", layers) or ["full"] * layers
    shapes: dict[tuple[str, bool], AttentionGroup] = {}
    for key in zip(kinds, (kind == "full" for kind in indexers), strict=True):
        if key not in shapes:
            shapes[key] = group(fields, family, key[0], key[1])
    found: dict[AttentionGroup, list[int]] = {}
    for layer, key in enumerate(zip(kinds, (kind == "full" for kind in indexers), strict=True)):
        found.setdefault(shapes[key], []).append(layer)
    order = list(found)
    pattern = [""] * layers
    for index, shape in enumerate(order):
        for layer in found[shape]:
            pattern[layer] = DIGITS[index]
    return tuple(counted(shape, len(found[shape])) for shape in order), shortest("".join(pattern))


def counted(shape: AttentionGroup, layers: int) -> AttentionGroup:
    """The same group with its number of layers."""
    values = {name: getattr(shape, name) for name in AttentionGroup.__dataclass_fields__}
    return AttentionGroup(**values | {"layers": layers})


def shortest(pattern: str) -> str:
    """The shortest text that gives the pattern when repeated: 'SSFSSFS' -> 'SSF'."""
    for period in range(1, len(pattern)):
        if all(pattern[index] == pattern[index % period] for index in range(period, len(pattern))):
            return pattern[:period]
    return pattern


def layer_kinds(fields: Fields, family: Family, layers: int, max_context: int) -> list[str]:
    """'full', 'sliding', 'chunked' or 'linear' for every layer. A window as long as the context is full attention."""
    window = fields.whole("sliding_window", low=0)  # 0 is how some write "none"
    chunk = fields.whole("attention_chunk_size", low=0) if fields.given("hybrid_layer_pattern") is None else None
    kinds = stated_kinds(fields, layers) or implied_kinds(fields, family, layers, window, chunk)
    limits = {"sliding": window, "chunked": chunk}
    return ["full" if kind in limits and not (limits[kind] and limits[kind] < max_context) else kind for kind in kinds]


def stated_kinds(fields: Fields, layers: int) -> list[str] | None:
    """Kinds from a list in the config. Raises ConfigError for a kind that is not known."""
    if (stated := fields.each_layer("layer_types", layers)) is not None:
        if unknown := [kind for kind in stated if not isinstance(kind, str) or kind not in KINDS]:
            raise fields.refuse("layer_types", f"{unknown[0]!r} layers are not known; known: {', '.join(KINDS)}")
        return [KINDS[kind] for kind in stated]
    if (stated := fields.each_layer("hybrid_layer_pattern", layers)) is not None:
        return ["sliding" if kind == 1 else "full" for kind in stated]
    return None


def implied_kinds(fields: Fields, family: Family, layers: int, window: int | None, chunk: int | None) -> list[str]:
    """Kinds from a period or a switch, as the architecture's own code reads them."""
    period = fields.whole("full_attention_interval") or family.period
    if fields.given("linear_num_value_heads") is not None:
        return ["linear" if not period or (layer + 1) % period else "full" for layer in range(layers)]
    if chunk:
        rotated = fields.given("no_rope_layers")
        rotated = rotated if isinstance(rotated, list) and len(rotated) == layers else None
        return ["chunked" if (rotated[layer] if rotated else (layer + 1) % 4) else "full" for layer in range(layers)]
    if not window or not fields.flag("use_sliding_window", True):
        return ["full"] * layers
    pattern = fields.given("sliding_window_pattern")
    if isinstance(pattern, str) and pattern and set(pattern) <= {"L", "G"}:
        return ["sliding" if pattern[layer % len(pattern)] == "L" else "full" for layer in range(layers)]
    if period := fields.whole("sliding_window_pattern") or family.period:
        return ["sliding" if (layer + 1) % period else "full" for layer in range(layers)]
    if not family.slides:
        first = fields.whole("max_window_layers", low=0) if fields.given("use_sliding_window") else layers
        return ["full" if layer < (first or 0) else "sliding" for layer in range(layers)]
    return ["sliding"] * layers


def group(fields: Fields, family: Family, kind: str, indexed: bool) -> AttentionGroup:
    """The shape of layers of one kind, with `layers` still 1. Raises ConfigError where heads do not divide."""
    if kind == "linear":
        state = LinearState(
            key_heads=fields.needed("linear_num_key_heads"), value_heads=fields.needed("linear_num_value_heads"),
            key_dim=fields.needed("linear_key_head_dim"), value_dim=fields.needed("linear_value_head_dim"),
            convolution_kernel=fields.needed("linear_conv_kernel_dim"))
        return AttentionGroup(kind="linear", layers=1, linear=state)
    heads = fields.needed("num_attention_heads")
    if fields.whole("kv_lora_rank"):
        return latent_group(fields, heads, indexed)
    sinks = family.sinks == "all" or family.sinks == kind
    window = fields.whole("sliding_window" if kind == "sliding" else "attention_chunk_size")
    prefix = "swa_" if kind == "sliding" and fields.given("swa_head_dim") is not None else ""
    heads = fields.whole(f"{prefix}num_attention_heads") or heads
    key_dim = head_dim(fields, heads) if not prefix else fields.needed("swa_head_dim")
    kv_heads = fields.whole(f"{prefix}num_key_value_heads") if prefix else key_value_heads(fields, heads)
    shared = False
    if kind == "full" and fields.whole("global_head_dim"):
        key_dim, shared = fields.needed("global_head_dim"), fields.flag("attention_k_eq_v")
        kv_heads = (fields.whole("num_global_key_value_heads") if shared else None) or kv_heads
    value_dim = fields.whole(f"{prefix}v_head_dim") or key_dim
    if not kv_heads or heads % kv_heads:
        raise fields.refuse("num_key_value_heads", f"accepted: a number that divides the {heads:,} attention heads")
    return AttentionGroup(
        kind=kind, layers=1, query_heads=heads, kv_heads=kv_heads, key_dim=key_dim, value_dim=value_dim,
        window=None if kind == "full" else window, values_are_keys=shared, sinks=sinks)


def latent_group(fields: Fields, heads: int, indexed: bool) -> AttentionGroup:
    """Multi-head latent attention, with the sparse indexer where this layer has its own."""
    rope, rank = fields.needed("qk_rope_head_dim"), fields.needed("kv_lora_rank")
    indexer_heads = (fields.whole("index_n_heads") or 0) if indexed else 0
    return AttentionGroup(
        kind="latent", layers=1, query_heads=heads, kv_heads=heads, key_dim=fields.needed("qk_nope_head_dim") + rope,
        value_dim=fields.needed("v_head_dim"), latent_rank=rank, rope_dim=rope, indexer_heads=indexer_heads,
        indexer_dim=fields.needed("index_head_dim") if indexer_heads else 0)


def head_dim(fields: Fields, heads: int) -> int:
    """The config's head size, else the architecture's, else hidden size over heads. Raises ConfigError."""
    stated = fields.whole("head_dim")
    if stated or not heads:
        return stated or 0
    hidden = fields.needed("hidden_size")
    if hidden % heads:
        raise fields.refuse("num_attention_heads", f"{hidden:,} hidden numbers do not divide over these heads, and no "
                                                   "head_dim is given")
    return hidden // heads


def key_value_heads(fields: Fields, heads: int) -> int:
    """Heads that are cached: the config's number, one for multi-query attention, else all (multi-head attention)."""
    grouped = fields.flag("new_decoder_architecture") or fields.given("multi_query") is None
    if not grouped and fields.flag("multi_query", True):
        return 1
    return fields.whole("num_key_value_heads") or heads
