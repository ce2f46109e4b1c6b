"""A format for every projection: the plan that fits a size at the least predicted loss, as an exact knapsack."""

from dataclasses import dataclass

from pycore.ledger import Term


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One format that a projection may take: `configuration` of the dataset, the bytes it takes, the measured loss (KL
    divergence in nats when only this projection is quantised)."""

    configuration: str
    bytes: int
    loss: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One projection of one layer: q, k, v, o, gate, up or down, its weights, and what it may take."""

    layer: int
    projection: str
    weights: int
    choices: tuple[Choice, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Assigned:
    """A projection with its format. `fixed`: the question said so."""

    layer: int
    projection: str
    weights: int
    choice: Choice
    fixed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The plan: every projection's format, size and predicted loss (the measured losses added up: an assumption, stated).

    budget_bytes  0 where there is none. `fits` is False where even the smallest choices are larger: the plan is then those.
    uniform       the best single configuration that fits, and its loss; None where none does
    llama_cpp     arguments for llama-quantize; recipe: a YAML recipe for llm-compressor; each '' where no choice can be said
                  so, with what was left out in `unsaid`
    """

    assigned: tuple[Assigned, ...]
    size: Term
    bits_per_weight: Term
    loss: Term
    budget_bytes: int
    fits: bool
    uniform: "Uniform | None"
    uniforms: tuple["Uniform", ...]
    llama_cpp: str
    recipe: str
    unsaid: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Uniform:
    """Every projection in the same configuration: bytes, bits per weight and the losses added up."""

    configuration: str
    bytes: int
    bits_per_weight: float
    loss: float
