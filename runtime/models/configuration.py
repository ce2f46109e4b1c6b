"""What a Llama-shaped model is made of, from a GGUF file's metadata or from a config.json.

Three architectures differ in two details: Qwen2 adds a bias to q, k and v; Qwen3 normalises q and k in each head.
What we do not compute (sliding windows, scaled RoPE, mixtures of experts) is refused by name, never ignored.
"""

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from pycore.errors import ConfigError, SourceError
from pycore.nouns import AttentionGroup, Model
from pycore.vram.parameters import parameters
from runtime.models.gguf import Gguf

ARCHITECTURES = ("llama", "qwen2", "qwen3")
LARGEST = 1 << 24  # no width, vocabulary or context that we run is larger: a guard against damaged files
MOST_LAYERS = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """The sizes of a model. `tied`: the output head is the embedding."""

    architecture: str
    vocabulary: int
    layers: int
    width: int
    heads: int
    kv_heads: int
    head_width: int
    feed_forward: int
    rope_base: float
    epsilon: float
    context: int
    tied: bool
    attention_bias: bool = False

    def __post_init__(self):
        sizes = {name: getattr(self, name) for name in ("vocabulary", "layers", "width", "heads", "kv_heads", "head_width",
                                                        "feed_forward", "context")}
        wrong = {name: size for name, size in sizes.items() if type(size) is not int or not 0 < size <= LARGEST}
        if self.architecture not in ARCHITECTURES:
            raise ConfigError(f"architecture {self.architecture!r} is not one of {', '.join(ARCHITECTURES)}")
        if not wrong and self.layers > MOST_LAYERS:
            wrong = {"layers": self.layers}
        for name in ("rope_base", "epsilon"):
            if not isinstance(getattr(self, name), int | float) or not 0 < getattr(self, name) < math.inf:
                wrong[name] = getattr(self, name)
        if wrong:
            given = ", ".join(f"{name} = {str(value)[:40]!r}" if isinstance(value, str) else f"{name} = {str(value)[:40]}"
                              for name, value in wrong.items())
            raise ConfigError(f"sizes are positive whole numbers, layers at most {MOST_LAYERS:,}, rope_base and epsilon "
                              f"positive numbers; not {given}")
        if self.heads % self.kv_heads or self.head_width % 2:
            raise ConfigError("query heads are a multiple of key heads, and a head's width is even", sizes)

    def shape(self) -> Model:
        """The same as the sizing formulas know models."""
        group = AttentionGroup(kind="full", layers=self.layers, query_heads=self.heads, kv_heads=self.kv_heads,
                               key_dim=self.head_width, value_dim=self.head_width)
        return Model(id=self.architecture, name=self.architecture, hub_repository="", hidden_size=self.width,
                     layers=self.layers, attention_heads=self.heads, kv_heads=self.kv_heads, head_dim=self.head_width,
                     intermediate_size=self.feed_forward, vocabulary=self.vocabulary, tied_embeddings=self.tied,
                     max_context=self.context, groups=(group,), qkv_bias=self.qkv_bias, output_bias=self.attention_bias,
                     qk_norm="per_head" if self.head_norms else None)

    @property
    def parameters(self) -> int:
        """How many weights a model of these sizes has, biases and norms among them."""
        return parameters(self.shape()).total

    @property
    def qkv_bias(self) -> bool:
        """Whether q, k and v have a bias."""
        return self.architecture == "qwen2" or self.attention_bias

    @property
    def head_norms(self) -> bool:
        """Whether q and k are normalised in each head."""
        return self.architecture == "qwen3"

    def as_dict(self) -> dict[str, object]:
        """Plain data; `Configuration(**data)` makes it again."""
        return asdict(self)


@contextmanager
def said_of(source: str) -> Iterator[None]:
    """Sizes are read from a file: what makes no sense in them is said of the file. Raises SourceError."""
    try:
        yield
    except ConfigError as error:
        raise SourceError(source, str(error)) from None


def from_gguf(file: Gguf) -> Configuration:
    """The configuration of a GGUF file. Raises SourceError."""
    with said_of(file.source):
        name = file.value("general.architecture", str)
        if name not in ARCHITECTURES:
            raise SourceError(file.source, f"is of architecture {name!r}; run are {', '.join(ARCHITECTURES)}")
        refuse(file.source, {key: file.metadata.get(f"{name}.{key}") for key in
                             ("expert_count", "attention.sliding_window", "rope.scaling.factor")})
        heads, width = file.value(f"{name}.attention.head_count", int), file.value(f"{name}.embedding_length", int)
        return Configuration(
            architecture=name, vocabulary=file.tensor("token_embd.weight").shape[0], width=width, heads=heads,
            layers=file.value(f"{name}.block_count", int), feed_forward=file.value(f"{name}.feed_forward_length", int),
            kv_heads=file.value(f"{name}.attention.head_count_kv", int, heads),
            head_width=file.value(f"{name}.attention.key_length", int, width // max(heads, 1)),
            rope_base=file.value(f"{name}.rope.freq_base", float, 10_000.0),
            epsilon=file.value(f"{name}.attention.layer_norm_rms_epsilon", float),
            context=file.value(f"{name}.context_length", int), tied="output.weight" not in file.tensors,
            attention_bias=name == "llama" and "blk.0.attn_output.bias" in file.tensors)


def refuse(source: str, given: Mapping[str, object]) -> None:
    """Raise SourceError when a model has what we do not compute. `given` maps a name to its value, falsy for absent."""
    for name, value in given.items():
        if value:
            raise SourceError(source, f"has {name} = {str(value)[:80]}, which is not computed here")


def from_config(data: Mapping[str, object], source: str = "config.json") -> Configuration:
    """The configuration in a config.json of `transformers`, 4 or 5. Raises SourceError."""
    with said_of(source):
        rope = data.get("rope_parameters") or data.get("rope_scaling") or {}
        if not isinstance(rope, Mapping):
            raise ConfigError("rope_parameters is a table", {"rope_parameters": str(rope)[:80]})
        refuse(source, {"sliding windows": data.get("use_sliding_window"), "num_experts": data.get("num_experts"),
                        "rope scaling": rope.get("rope_type", rope.get("type", "default")) not in ("default", None) and rope,
                        "mlp_bias": data.get("mlp_bias"), "hidden_act": data.get("hidden_act", "silu") != "silu"})
        needed = ("model_type", "vocab_size", "num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size",
                  "rms_norm_eps", "max_position_embeddings")
        missing = [name for name in needed if name not in data]
        if missing:
            raise ConfigError("is not understood", {}, missing)
        heads, width, base = data["num_attention_heads"], data["hidden_size"], data.get("rope_theta", rope.get("rope_theta"))
        divides = type(heads) is int and type(width) is int and heads > 0
        return Configuration(
            architecture=data["model_type"], vocabulary=data["vocab_size"], layers=data["num_hidden_layers"],
            width=width, heads=heads, kv_heads=data.get("num_key_value_heads", heads),
            head_width=data.get("head_dim") or (width // heads if divides else 0), feed_forward=data["intermediate_size"],
            rope_base=10_000.0 if base is None else float(base) if type(base) is int else base, epsilon=data["rms_norm_eps"],
            context=data["max_position_embeddings"], tied=bool(data.get("tie_word_embeddings", False)),
            attention_bias=bool(data.get("attention_bias", False)) and data["model_type"] == "llama")


def from_file(path: Path) -> Configuration:
    """The configuration in a config.json. Raises SourceError."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise SourceError(path.name, f"cannot be read as JSON: {error}") from None
    if not isinstance(data, dict):
        raise SourceError(path.name, "is not a JSON object")
    return from_config(data, path.name)
