"""A config's fields, each read by its names, checked against its range and remembered: a refusal can then say what was
understood and what is missing.
"""

from collections.abc import Mapping

from pycore.config_json.text import shown
from pycore.errors import ConfigError

ALIASES = {
    "hidden_size": ("n_embd", "d_model", "n_embed"),
    "num_hidden_layers": ("n_layer", "n_layers", "num_layers"),
    "num_attention_heads": ("n_head", "n_heads"),
    "num_key_value_heads": ("num_kv_heads", "n_head_kv", "n_kv_heads", "num_query_groups", "multi_query_group_num"),
    "intermediate_size": ("n_inner", "ffn_dim", "ffn_hidden_size", "d_ff"),
    "vocab_size": ("padded_vocab_size",),
    "max_position_embeddings": ("n_positions", "max_sequence_length", "seq_length", "max_seq_len", "model_max_length"),
    "head_dim": ("attention_head_dim", "kv_channels"),
    "num_experts": ("n_routed_experts", "num_local_experts", "moe_num_experts"),
    "num_experts_per_tok": ("experts_per_token", "top_k_experts", "num_experts_per_token", "moe_topk", "moe_k"),
    "n_shared_experts": ("num_shared_experts", "moe_num_shared_experts"),
    "shared_expert_intermediate_size": ("share_expert_dim", "shared_intermediate_size",
                                        "moe_shared_expert_intermediate_size"),
    "num_nextn_predict_layers": ("mtp_num_hidden_layers", "num_mtp_layers"),
    "torch_dtype": ("dtype",),
}
HIGHEST = {  # far above any model, low enough that no product of them is absurd
    "hidden_size": 1 << 20, "num_hidden_layers": 2048, "num_attention_heads": 1 << 14, "num_key_value_heads": 1 << 14,
    "intermediate_size": 1 << 22, "vocab_size": 1 << 24, "max_position_embeddings": 1 << 30, "head_dim": 1 << 14,
    "num_experts": 1 << 16, "num_experts_per_tok": 1 << 16, "n_shared_experts": 1 << 10, "sliding_window": 1 << 30,
    "attention_chunk_size": 1 << 30, "num_nextn_predict_layers": 64,
}
HIGH = 1 << 22


class Fields:
    """The fields of one configuration. `values` are the config's own, `defaults` those of its architecture's class."""

    def __init__(self, values: Mapping[str, object], defaults: Mapping[str, object]) -> None:
        self.values, self.defaults = values, defaults
        self.understood: dict[str, object] = {}
        self.missing: list[str] = []

    def given(self, name: str) -> object:
        """A field's value under any of its names, the architecture's default, or None."""
        for alias in (name,) + ALIASES.get(name, ()):
            if self.values.get(alias) is not None:
                self.understood[alias] = shown(self.values[alias])
                return self.values[alias]
        return None if name in self.values else self.defaults.get(name)

    def refuse(self, name: str, accepted: str) -> ConfigError:
        """The error for a value that cannot be: field, value, what is accepted."""
        alias = next((alias for alias in (name,) + ALIASES.get(name, ()) if self.values.get(alias) is not None), name)
        self.understood.pop(alias, None)
        return ConfigError(f"{alias}: {shown(self.values.get(alias))} is not accepted; {accepted}", self.understood)

    def whole(self, name: str, *, low: int = 1) -> int | None:
        """A whole number within its range, or None where the field is absent. Raises ConfigError."""
        value, high = self.given(name), HIGHEST.get(name, HIGH)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self.refuse(name, f"accepted: a whole number from {low:,} to {high:,}")
        return value

    def needed(self, name: str) -> int:
        """A whole number that a sizing cannot do without; noted as missing (and 0) where absent."""
        value = self.whole(name)
        if value is None and name not in self.missing:
            self.missing.append(name)
        return value or 0

    def flag(self, name: str | bool, default: bool = False) -> bool:
        """A yes or no; `name` may be the answer itself, where the architecture fixes it. Raises ConfigError."""
        if isinstance(name, bool):
            return name
        value = self.given(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.refuse(name, "accepted: true or false")
        return value

    def text(self, name: str) -> str:
        """A text, '' where absent. Raises ConfigError."""
        value = self.given(name)
        if value is not None and not isinstance(value, str):
            raise self.refuse(name, "accepted: a text")
        return value or ""

    def each_layer(self, name: str, layers: int) -> list | None:
        """A list with one entry a layer, or None where absent. Raises ConfigError."""
        value = self.given(name)
        if value is None:
            return None
        if not isinstance(value, list) or len(value) != layers:
            raise self.refuse(name, f"accepted: a list of {layers:,} entries, one a layer")
        return value

    def layer_numbers(self, name: str, layers: int) -> frozenset[int] | None:
        """A list of layer numbers, or None where absent. Raises ConfigError."""
        value = self.given(name)
        if value is None:
            return None
        if not isinstance(value, list) or not all(type(entry) is int and 0 <= entry < layers for entry in value):
            raise self.refuse(name, f"accepted: a list of layers from 0 to {layers - 1:,}")
        return frozenset(value)

    def settle(self, architecture: str) -> None:
        """Raise ConfigError if anything needed was missing so far."""
        if self.missing:
            raise ConfigError(f"{architecture} is not fully described", self.understood, self.missing)
