"""The same memory arithmetic without explanations, for the matrix: a few microseconds a question.

`prepare` does what depends on model, formats, engine and layout once; `memory` does what depends on card and load. The
formulas are the ledger's own (`.plain` or the integer functions under them), and a property test holds both equal.
"""

from dataclasses import dataclass

from pycore.nouns import Accelerator, Deployment, Format, Model, Parallel
from pycore.units import GIB, MIB
from pycore.vram import draft, overheads
from pycore.vram.engines import Engine, sglang_step, spread, tokens_a_step
from pycore.vram.engines import engine as profile_of
from pycore.vram.plan import default_fraction, starts, static_budget, total_budget, whole_budget
from pycore.vram.reservation import Reservation, reserve
from pycore.vram.stages import group_layers, split
from pycore.vram.weights import placed_bytes

MOST = 1 << 30  # sequences: no answer goes above


@dataclass(frozen=True, slots=True, kw_only=True)
class StageNumbers:
    """One make-up of pipeline stage."""

    weights: int
    stage: range
    layers: int
    last: bool
    held: tuple[int, ...]  # layers of each attention group

    def covers(self, other: "StageNumbers") -> bool:
        """Whether this stage needs at least as much as the other under every load: the other can be left out."""
        return (self.weights >= other.weights and self.layers >= other.layers and self.last >= other.last
                and all(own >= its for own, its in zip(self.held, other.held, strict=True)))


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedMemory:
    """What does not depend on card and load. `widths` are those of `overheads.widths`."""

    model: Model
    engine: Engine
    keys: Format
    values: Format
    parallel: Parallel
    tensor: int
    count: int
    stages: tuple[StageNumbers, ...]
    widths: overheads.Widths
    windows: bool  # whether the step's size matters to the reservation: only window layers hold a step beside theirs
    draft: Deployment | None  # the draft as `draft.beside` lays it out
    draft_weights: int
    reservations: dict  # (stage index in `stages`, batch tokens) -> Reservation, filled as asked


@dataclass(frozen=True, slots=True)
class QuickMemory:
    """The short answer, per device of the fullest stage."""

    fits: bool
    total_bytes: int
    max_sequences: int
    budget_bytes: int
    usable_bytes: int
    weights_bytes: int
    kv_bytes: int


def prepare(model: Model, weights: Format, keys: Format, values: Format, engine: str, parallel: Parallel,
            drafted: Deployment | None = None) -> PreparedMemory:
    """Everything that a matrix row keeps while cards and loads change."""
    profile = profile_of(engine)
    tensor, count = spread(profile, parallel)
    stages: list[StageNumbers] = []
    for index, stage in enumerate(split(model, profile, count)):
        size = placed_bytes(model, weights, profile, parallel, index)
        numbers = StageNumbers(weights=size, stage=stage, layers=len(stage), last=index == count - 1,
                               held=tuple(group_layers(model, stage).values()))
        if not any(other.covers(numbers) for other in stages):
            stages = [other for other in stages if not numbers.covers(other)] + [numbers]
    wide = overheads.widths(model, tensor, parallel.expert, workspace=weights.id != "mxfp4")
    return PreparedMemory(model=model, engine=profile, keys=keys, values=values, parallel=parallel, tensor=tensor,
                          count=count, stages=tuple(stages), widths=wide, reservations={}, draft=drafted,
                          draft_weights=draft.weight_bytes(drafted, profile) if drafted else 0,
                          windows=any(group.window for group in model.groups))


def prepare_deployment(deployment: Deployment) -> PreparedMemory:
    """`prepare` of a deployment."""
    return prepare(deployment.model, deployment.weights, deployment.keys, deployment.values, deployment.engine,
                   deployment.parallel, draft.beside(deployment) if deployment.draft else None)


def settings(deployment: Deployment) -> dict[str, float | int]:
    """The keyword arguments of `memory` that a deployment carries beside card, context and sequences."""
    return dict(fraction=deployment.memory_fraction, batched=deployment.max_batched_tokens,
                used=deployment.used_bytes, prompt=deployment.prompt)


def reservation(prepared: PreparedMemory, position: int, batch: int) -> Reservation:
    """The stage's reservation at that step size, kept for the next question."""
    key = (position, batch if prepared.windows else 0)
    if key not in prepared.reservations:
        prepared.reservations[key] = reserve(
            prepared.model, prepared.engine, prepared.keys, prepared.values, prepared.tensor, prepared.count,
            prepared.stages[position].stage, batch)
    return prepared.reservations[key]


def card_bytes(accelerator: Accelerator) -> tuple[int, int]:
    """(usable, visible) bytes of the card, as the plan takes them."""
    usable = round(accelerator.memory_usable_mib * MIB) if accelerator.memory_usable_mib else round(
        accelerator.memory_box_gib * GIB)
    return usable, usable - (int(overheads.HIDDEN[0] * GIB) if accelerator.vendor == "NVIDIA" else 0)


def activations(prepared: PreparedMemory, batch: int, sequences: int) -> int:
    """Activations on one device; `sequences` 0 on stages that do not sample."""
    model, wide = prepared.model, prepared.widths
    if prepared.engine.id == "llama.cpp":
        return overheads.buffer_bytes(batch, model.vocabulary, model.hidden_size)
    if prepared.engine.id == "transformers":
        return overheads.eager_bytes(batch, sequences, model.vocabulary, model.hidden_size, wide.inner)
    logit_bytes = prepared.engine.logit_bytes
    return overheads.peak_bytes(batch, sequences, model.vocabulary, model.hidden_size, wide, logit_bytes)


def graph_bytes(prepared: PreparedMemory, layers: int, sequences: int, usable: int) -> int:
    """CUDA graphs on one device."""
    profile = prepared.engine
    if not profile.graphs:
        return 0
    graphs = overheads.captured(sequences) if profile.memory_rule == "total" else overheads.sglang_captured(
        min(sequences, sglang_step(usable, prepared.tensor)[1]))
    return overheads.GRAPH_BYTES * layers * graphs


def framework_bytes(prepared: PreparedMemory, accelerator: Accelerator) -> tuple[int, int]:
    """(inside, outside) of the budget."""
    profile = prepared.engine
    alone = prepared.tensor * prepared.count == 1 or profile.split == "layer"
    outside = int(overheads.CONTEXT["one" if alone else "many"][0] * GIB)
    if profile.memory_rule != "total":
        return 0, outside
    kind = overheads.non_torch_kind(prepared.tensor, overheads.linked(accelerator))
    return int(overheads.NON_TORCH[kind][0] * GIB), outside


def draft_bytes(prepared: PreparedMemory, context: int, own: int, batch: int) -> int:
    """Weights and cache of the draft on one device."""
    key = ("draft", batch)
    if key not in prepared.reservations:
        prepared.reservations[key] = draft.reservation(prepared.draft, prepared.engine, batch)
    return prepared.draft_weights + prepared.reservations[key].sequence_bytes(context) * own


@dataclass(frozen=True, slots=True)
class Card:
    """What a question fixes beside the number of sequences."""

    usable: int
    visible: int
    inside: int
    outside: int
    step: int
    context: int
    fraction: float
    used: int
    prompt: int
    share: float  # the engine's fraction at its own step size


def fraction_of(prepared: PreparedMemory, asked: Card, batch: int) -> float:
    """The memory fraction, which SGLang derives from the step's size."""
    return default_fraction(prepared.engine, asked.usable, asked.visible, asked.outside, asked.used, prepared.tensor,
                            prepared.count, asked.fraction, batch)


def card(prepared: PreparedMemory, accelerator: Accelerator, context: int, fraction: float = 0.0, batched: int = 0,
         used: int = 0, prompt: int = 1024) -> Card:
    """The question's constants."""
    usable, visible = card_bytes(accelerator)
    inside, outside = framework_bytes(prepared, accelerator)
    step = tokens_a_step(prepared.engine, visible, accelerator.id, batched)
    share = default_fraction(prepared.engine, usable, visible, outside, used, prepared.tensor, prepared.count, fraction,
                             step)
    return Card(usable, visible, inside, outside, step, context, fraction, used, prompt, share)


def sizes(prepared: PreparedMemory, asked: Card, own: int) -> tuple[bool, int, int, int, int]:
    """(fits, total, budget, weights, KV) of the fullest stage with `own` sequences on a replica."""
    profile, step = prepared.engine, asked.step
    batch = (step if step > own else own) if step else asked.prompt * own
    share = asked.share if batch == step else fraction_of(prepared, asked, batch)
    worst = (False, 1, 0, 0, 0)
    beside = draft_bytes(prepared, asked.context, own, batch) if prepared.draft else 0
    for position, numbers in enumerate(prepared.stages):
        active = activations(prepared, batch, own if numbers.last else 0)
        graphs = graph_bytes(prepared, numbers.layers, own, asked.usable)
        kv = reservation(prepared, position, batch).sequence_bytes(asked.context) * own
        total = numbers.weights + kv + beside + active + graphs + asked.inside + asked.outside
        budget = limit(profile, asked.visible, share, asked.outside, active, graphs, asked.used)
        if position == 0 or total - budget > worst[1] - worst[2]:
            worst = (total <= budget, total, budget, numbers.weights, kv)
    return (worst[0] and starts(profile, asked.visible, share, asked.outside, asked.used), *worst[1:])


def memory(prepared: PreparedMemory, accelerator: Accelerator, context: int, sequences: int, fraction: float = 0.0,
           batched: int = 0, used: int = 0, prompt: int = 1024) -> QuickMemory:
    """Total, budget and the most sequences on that card; `sequences` counts all replicas together."""
    replicas = prepared.parallel.data
    asked, own = card(prepared, accelerator, context, fraction, batched, used, prompt), -(-sequences // replicas)
    fit, total, budget, held, kv = sizes(prepared, asked, own)
    return QuickMemory(fit, total, most(prepared, asked) * replicas, budget, asked.usable, held, kv)


def most(prepared: PreparedMemory, asked: Card) -> int:
    """The most sequences on a replica, their own logits and graphs counted; 0 where not even one fits.

    What is over the budget grows with the sequences, nearly in a line: a secant from one sequence, then a bracket.
    """
    fit, total, budget, _, kv = sizes(prepared, asked, 1)
    if not fit:
        return 0
    spare, low = budget - total, 1
    guess = 1 + spare // kv if kv else MOST
    for _ in range(2):
        if not 1 < guess < MOST:
            break
        fit, total, budget, _, _ = sizes(prepared, asked, guess)
        low = max(low, guess) if fit else low
        better = 1 + spare * (guess - 1) // max(1, total - budget + spare)
        if better == guess:
            break
        guess = better
    high, step = low + 1, 1
    while high <= MOST and sizes(prepared, asked, high)[0]:
        low, high, step = high, high + step, 2 * step
    while low + 1 < high:
        middle = (low + high) // 2
        low, high = (middle, high) if sizes(prepared, asked, middle)[0] else (low, middle)
    return low


def limit(profile: Engine, visible: int, share: float, outside: int, active: int, graphs: int, used: int) -> int:
    """The budget of the plan."""
    if profile.memory_rule == "whole":
        return whole_budget.plain(visible, used)
    if profile.memory_rule == "static":
        return static_budget.plain(visible, share, outside, outside + active + graphs, used)
    return total_budget.plain(visible, share, outside + (0 if profile.graphs_inside else graphs), used)


def longest_context(prepared: PreparedMemory, accelerator: Accelerator, sequences: int, limit: int,
                    fraction: float = 0.0, batched: int = 0, used: int = 0, prompt: int = 1024) -> int:
    """The longest context, at most `limit`, at which that many sequences fit; 0 where none does."""
    own, low, high = -(-sequences // prepared.parallel.data), 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        asked = card(prepared, accelerator, middle, fraction, batched, used, min(prompt, middle))
        low, high = (middle, high) if sizes(prepared, asked, own)[0] else (low, middle - 1)
    return low
