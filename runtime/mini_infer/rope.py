"""Rotary embedding: its base and scaling as checkpoints spell them, and the frequencies they stand for.

    angle(position, pair j) = position x f[j],   f[j] = base^(-2 j / head width), then scaled:

    linear   f / factor                              (position interpolation, arXiv 2306.15595)
    yarn     slow pairs f / factor, fast pairs f, a ramp between; cos and sin x (0.1 ln factor + 1)   (arXiv 2309.00071)
    llama3   the same idea with the ramp over wavelengths (Llama 3.1's model card and reference code)

What is scaled by the length of a text (dynamic, longrope) is refused: keys in the cache would be turned wrongly later.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil, floor, log, pi

import torch
from torch import Tensor

from pycore.errors import ConfigError, SourceError
from runtime.models.configuration import said_of
from runtime.models.gguf import Gguf

KINDS = ("default", "linear", "yarn", "llama3")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rope:
    """`original`: the context before scaling, in tokens. `slow`, `fast`: turns over it that bound the ramp (yarn), or
    llama3's low and high frequency factor. `scale` multiplies cos and sin. `divisors`: one a pair, as a GGUF file gives."""

    base: float
    kind: str = "default"
    factor: float = 1.0
    original: int = 0
    slow: float = 1.0
    fast: float = 32.0
    scale: float = 1.0
    whole: bool = True
    divisors: tuple[float, ...] = field(default=(), repr=False)

    def __post_init__(self):
        if self.kind not in KINDS:
            raise ConfigError(f"rope of kind {self.kind!r} is not computed here; {', '.join(KINDS)} are")
        scaled = self.kind in ("yarn", "llama3")
        if not self.base > 1 or not self.factor >= 1 or scaled and (self.original < 1 or not self.fast > self.slow > 0):
            raise ConfigError("rope's parameters make no sense", {"base": self.base, "factor": self.factor,
                              "original context": self.original, "slow": self.slow, "fast": self.fast})

    def frequencies(self, head_width: int) -> Tensor:
        """Radians a position, float32 (head width / 2)."""
        plain = 1.0 / self.base ** (torch.arange(0, head_width, 2).float() / head_width)
        if self.divisors:
            return plain / torch.tensor(self.divisors)
        if self.kind == "default":
            return plain
        share = torch.zeros(()) if self.kind == "linear" else self._unscaled(plain, head_width)
        return plain * share + plain / self.factor * (1 - share)

    def _unscaled(self, plain: Tensor, head_width: int) -> Tensor:
        """How much of each pair keeps its frequency, 0 to 1."""
        if self.kind == "llama3":
            turns = self.original * plain / (2 * pi)
            return ((turns - self.slow) / (self.fast - self.slow)).clamp(0, 1)
        first, last = (head_width * log(self.original / (turns * 2 * pi)) / (2 * log(self.base))
                       for turns in (self.fast, self.slow))
        if self.whole:
            first, last = floor(first), ceil(last)
        first, last = max(first, 0), min(last, head_width - 1)
        ramp = (torch.arange(head_width // 2).float() - first) / max(last - first, 0.001)
        return 1 - ramp.clamp(0, 1)


def from_config(data: Mapping[str, object], source: str) -> Rope:
    """Rope as a config.json says it: `rope_parameters` (transformers 5), or `rope_theta` and `rope_scaling` (before).

    Raises SourceError.
    """
    given = data.get("rope_parameters") or data.get("rope_scaling") or {}
    if not isinstance(given, Mapping):
        raise SourceError(source, f"has rope parameters of type {type(given).__name__}, not an object")
    try:
        with said_of(source):
            return _from_parameters(data, given)
    except (TypeError, ValueError, KeyError, ArithmeticError) as error:
        raise SourceError(source, f"has rope parameters that are not understood: {error!r}") from None


def _from_parameters(data: Mapping[str, object], given: Mapping[str, object]) -> Rope:
    if float(given.get("partial_rotary_factor", data.get("partial_rotary_factor")) or 1.0) != 1.0:
        raise ConfigError("only a part of each head is turned (partial_rotary_factor), which is not computed here")
    base = given.get("rope_theta", data.get("rope_theta"))
    base = 10_000.0 if base is None else float(base)
    kind = given.get("rope_type", given.get("type")) or "default"
    if kind == "default" or kind not in KINDS:
        return Rope(base=base, kind=kind)
    factor = float(given["factor"])
    # Where both places name the context before scaling, `transformers` goes by the outer one.
    original = int(data.get("original_max_position_embeddings") or given.get("original_max_position_embeddings")
                   or data["max_position_embeddings"])
    if kind == "linear":
        return Rope(base=base, kind=kind, factor=factor)
    if kind == "llama3":
        return Rope(base=base, kind=kind, factor=factor, original=original, slow=float(given["low_freq_factor"]),
                    fast=float(given["high_freq_factor"]))
    return Rope(base=base, kind=kind, factor=factor, original=original, slow=float(given.get("beta_slow") or 1),
                fast=float(given.get("beta_fast") or 32), scale=_yarn_scale(given, factor),
                whole=bool(given.get("truncate", True)))


def _yarn_scale(given: Mapping[str, object], factor: float) -> float:
    if given.get("attention_factor") is not None:
        return float(given["attention_factor"])

    def scale(weight: float) -> float:
        return 0.1 * weight * log(factor) + 1 if factor > 1 else 1.0

    if given.get("mscale") and given.get("mscale_all_dim"):
        return scale(float(given["mscale"])) / scale(float(given["mscale_all_dim"]))
    return scale(1.0)


def from_gguf(file: Gguf, architecture: str, head_width: int) -> Rope:
    """Rope as a GGUF file says it; `rope_freqs.weight`, where it is there, holds llama3's scaling. Raises SourceError."""
    turned = file.value(f"{architecture}.rope.dimension_count", int, head_width)
    if turned != head_width:
        raise SourceError(file.source, f"turns {turned} dimensions of each head's {head_width}, which is not computed here")
    base = float(file.value(f"{architecture}.rope.freq_base", float, 10_000.0))
    kind = file.value(f"{architecture}.rope.scaling.type", str, "none")
    found: dict[str, object] = {"base": base}
    if "rope_freqs.weight" in file.tensors:
        divisors = tuple(file.numbers("rope_freqs.weight").ravel().tolist())
        if len(divisors) != head_width // 2 or not min(divisors) > 0:
            raise SourceError(file.source, f"tensor 'rope_freqs.weight' is not {head_width // 2} positive divisors")
        found["divisors"] = divisors
    elif kind != "none":
        factor = float(file.value(f"{architecture}.rope.scaling.factor", float))
        original = file.value(f"{architecture}.rope.scaling.original_context_length", int,
                              file.value(f"{architecture}.context_length", int))
        found |= {"kind": kind, "factor": factor, "original": original,
                  "scale": _yarn_scale({}, factor) if kind == "yarn" else 1.0}
    with said_of(file.source):
        return Rope(**found)
