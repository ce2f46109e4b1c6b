"""A Hugging Face config.json read as a `Model`: what the catalogue does not hold can still be sized exactly.

Known architectures are read with all that they fix beyond their fields (`families`); others by their fields alone,
which `Model.note` then says. What would change the shape and is not covered is refused by name, never guessed at.
Not read: rotary settings, soft caps and scalings (no bytes), and vision towers other than Gemma 3's and Llama 4's.
"""

import re

from pycore.config_json.experts import experts as read_experts
from pycore.config_json.families import FAMILIES, FOREIGN, Family
from pycore.config_json.fields import Fields
from pycore.config_json.layers import attention_groups
from pycore.config_json.quantisation import stored_format
from pycore.config_json.text import parse, shown
from pycore.errors import ConfigError
from pycore.nouns import Experts, Model

NESTED = ("text_config", "language_config", "llm_config")
OUTER = ("tie_word_embeddings", "torch_dtype", "dtype", "quantization_config", "_name_or_path", "architectures")
"""Fields that a multimodal config may hold outside its language model's part."""
_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", re.ASCII)
VISION = {"gemma3": lambda hidden: 416_867_184 + 1152 * hidden, "llama4": lambda hidden: 871_932_416}
"""Tower and projector as published checkpoints hold them (data/validation/parameters.csv: exact for five models)."""


def read_config(text: str, name: str = "") -> Model:
    """The model that a config.json describes. `name`: what to call it, such as its Hub repository.

    Raises ConfigError: not JSON (with line and column), a value that cannot be (with its field), something needed that
    is missing, or an architecture whose shape is not covered (with what was understood).
    """
    outer = parse(text)
    values = language_part(outer)
    kind = architecture(values, outer)
    family = FAMILIES.get(kind)
    fields = Fields(values, (family or Family()).defaults)
    refuse_foreign(fields, kind)
    model = build(fields, family or Family(), kind, outer)
    called = name or str(values.get("_name_or_path") or "")
    repository = called if _REPOSITORY.fullmatch(called) else ""
    title = (repository.rsplit("/", 1)[-1] or name or kind)[:120]
    return renamed(model, title, repository, "" if family else unknown_note(kind))


def language_part(outer: dict) -> dict:
    """The fields of the language model: the whole config, or its text part with outer fields that it leaves open."""
    inner = next((outer[key] for key in NESTED if isinstance(outer.get(key), dict)), None)
    if inner is None:
        return outer
    said = {key: value for key, value in inner.items() if value is not None or key not in OUTER}
    return {key: outer[key] for key in OUTER if key in outer} | said


def architecture(values: dict, outer: dict) -> str:
    """The model type without its '_text'; that of the outer config where the inner gives none."""
    for source in (values, outer):
        kind = source.get("model_type")
        if isinstance(kind, str) and kind:
            return kind.removesuffix("_text")[:60]
    return "an architecture without model_type"


def refuse_foreign(fields: Fields, kind: str) -> None:
    """Raise ConfigError where a field switches on something that changes the shape and is not covered."""
    for name, meaning in FOREIGN.items():
        if fields.values.get(name):
            fields.given(name)
            raise ConfigError(f"{kind} has {meaning} ({name}), which is not covered", core(fields))


def core(fields: Fields) -> dict[str, object]:
    """What was understood of the plainest fields, for a refusal."""
    for name in ("hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "vocab_size"):
        fields.given(name)
    return fields.understood


def build(fields: Fields, family: Family, kind: str, outer: dict) -> Model:
    """Every field that a sizing needs, checked. Raises ConfigError."""
    hidden, layers = fields.needed("hidden_size"), fields.needed("num_hidden_layers")
    heads, vocabulary = fields.needed("num_attention_heads"), fields.needed("vocab_size")
    max_context = fields.needed("max_position_embeddings")
    fields.settle(kind)
    groups, pattern = attention_groups(fields, family, layers, max_context)
    mixture = read_experts(fields, family, layers)
    width = mlp_width(fields, family, hidden, mixture, layers)
    fields.settle(kind)
    first = next((group for group in groups if group.kind != "linear"), groups[0])
    quantised = fields.given("quantization_config")
    mtp_layers = fields.whole("num_nextn_predict_layers", low=0) or 0
    return Model(
        id="", name="", hub_repository="", hidden_size=hidden, layers=layers, attention_heads=heads,
        kv_heads=first.kv_heads or heads, head_dim=first.key_dim or hidden // heads, intermediate_size=width,
        vocabulary=vocabulary, tied_embeddings=fields.flag("tie_word_embeddings"), max_context=max_context,
        groups=groups, pattern=pattern, experts=mixture, query_latent_rank=fields.whole("q_lora_rank"),
        qk_nope_dim=fields.whole("qk_nope_head_dim") or 0, gated_mlp=family.gated_mlp,
        qkv_bias=fields.flag(family.qkv_bias), output_bias=fields.flag(family.output_bias),
        mlp_bias=fields.flag(family.mlp_bias), norm_kind=family.norm_kind,
        norms_per_layer=norms(fields, family, mixture), qk_norm=qk_norm(fields, family),
        learned_positions=0 if family.positions_offset is None else max_context + family.positions_offset,
        output_gate=fields.flag("attn_output_gate", family.output_gate), native_dtype=stored_dtype(fields, quantised),
        stored_format=stored_format(quantised) if isinstance(quantised, dict) else "",
        vision_parameters=VISION[kind](hidden) if kind in VISION and tower(outer, "vision") else 0,
        mtp_layers=mtp_layers if family.mtp_own_embeddings or family.output_gate else 0,
        mtp_own_embeddings=family.mtp_own_embeddings and mtp_layers > 0, source="the config.json that was given",
        note="; ".join(remarks(fields, kind, outer, mtp_layers, family)))


def mlp_width(fields: Fields, family: Family, hidden: int, mixture: Experts | None, layers: int) -> int:
    """Intermediate size of dense layers; 0 where every layer holds experts and the config gives none."""
    width = fields.whole("intermediate_size")
    if width or family.four_times:
        return width or 4 * hidden
    all_sparse = mixture is not None and not mixture.first_dense_layers and mixture.layer_step == 1
    return 0 if all_sparse else fields.needed("intermediate_size")


def norms(fields: Fields, family: Family, mixture: Experts | None) -> int:
    """Norms over the hidden size in each layer, where fields decide it."""
    if fields.given("new_decoder_architecture") is not None or fields.given("parallel_attn") is not None:  # Falcon
        two = fields.flag("new_decoder_architecture") and fields.whole("num_ln_in_parallel_attn") != 1
        return 2 if two or not fields.flag("parallel_attn", True) else 1
    if fields.flag("use_parallel_residual") and fields.given("use_qkv_bias") is not None:  # StableLM
        return 1
    if mixture is not None and fields.given("global_head_dim") is not None:  # Gemma 4: 7, and the router's scale
        return 8
    return family.norms_per_layer


def qk_norm(fields: Fields, family: Family) -> str | None:
    """'per_head', 'full' or None."""
    if family.qk_norm_field:
        return family.qk_norm if fields.flag(family.qk_norm_field) else None
    return family.qk_norm


def dtype(fields: Fields) -> str:
    """The dtype of the stored weights, as the catalogue writes it; 16-bit where the config says nothing."""
    return fields.text("torch_dtype").removeprefix("torch.")[:40] or "bfloat16"


def remarks(fields: Fields, kind: str, outer: dict, mtp_layers: int, family: Family) -> list[str]:
    """What a reader should know about how the config was read."""
    found = []
    if tower(outer, "vision") and kind not in VISION:
        found.append("its vision tower is not counted")
    if tower(outer, "audio"):
        found.append("its audio tower is not counted")
    if mtp_layers and not (family.mtp_own_embeddings or family.output_gate):
        found.append(f"its {mtp_layers} multi-token-prediction layers are not counted")
    if not fields.text("torch_dtype"):
        found.append("it names no dtype: 16-bit is assumed")
    quantised = fields.given("quantization_config")
    if isinstance(quantised, dict) and not stored_format(quantised):
        method = shown(quantised.get("quant_method"))
        found.append(f"it is stored quantised in a way the catalogue does not hold ({method})")
    return found


def stored_dtype(fields: Fields, quantised: object) -> str:
    """The type that weights are stored in; a quantisation that the catalogue does not hold says its method."""
    if isinstance(quantised, dict) and not stored_format(quantised):
        return f"quantised ({shown(quantised.get('quant_method'))})"
    return dtype(fields)


def tower(outer: dict, sense: str) -> bool:
    """Whether the config describes a vision or audio tower."""
    return isinstance(outer.get(f"{sense}_config"), dict)


def unknown_note(kind: str) -> str:
    """What is assumed of an architecture that has no entry in `families`."""
    return (f"{kind} is not known here: read by its fields, as a decoder with RMSNorm, gated MLP and no biases beyond "
            "those it names")


def renamed(model: Model, title: str, repository: str, note: str) -> Model:
    """The same model with its names and one more remark in front."""
    values = {name: getattr(model, name) for name in Model.__dataclass_fields__}
    notes = "; ".join(part for part in (note, model.note) if part)
    return Model(**values | {"id": repository or title, "name": title, "hub_repository": repository, "note": notes})
