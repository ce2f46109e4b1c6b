"""A format for every projection: the plan that fits a size at the least predicted loss, as an exact knapsack.

One choice a projection, sizes add up, losses add up (each measured with only that projection quantised: that they add is an
assumption, and the answer says so). Bound by the relaxation in which a projection may be cut in two: its price per byte
gives every projection's least loss + price x bytes, and a partial plan that cannot beat the best whole one is dropped
(multiple-choice knapsack; Pisinger 1995). What is left is small: hundreds of projections take milliseconds, exactly.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pycore.ledger import Term, term
from pycore.quality import recipes

SLACK = 1e-12  # of a bound, against rounding in its sums


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One format that a projection may take: `configuration` of the dataset, the bytes it takes, the measured loss (KL
    divergence in nats when only this projection is quantised), and the pack format with its options."""

    configuration: str
    bytes: int
    loss: float
    format: str = ""
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One projection of one layer: q, k, v, o, gate, up or down, its weights, and what it may take."""

    layer: int
    projection: str
    weights: int
    choices: tuple[Choice, ...]

    @property
    def fixed(self) -> bool:
        """Whether there is nothing to choose."""
        return len(self.choices) == 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Assigned:
    """A projection with its format. `fixed`: the question said so."""

    layer: int
    projection: str
    weights: int
    choice: Choice
    fixed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Uniform:
    """Every projection in the same configuration: bytes, bits per weight and the losses added up."""

    configuration: str
    bytes: int
    bits_per_weight: float
    loss: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The plan: every projection's format, size and predicted loss.

    budget_bytes  0 where there is none (the plan is then the least loss at any size). `fits` is False where even the
                  smallest choices are larger: the plan is then those
    uniform       the best single configuration that fits the budget; None where none does
    uniforms      every single configuration, smallest first
    commands      the plan as others take it: llama.cpp and llm-compressor, and what cannot be said there
    """

    assigned: tuple[Assigned, ...]
    size: Term
    bits_per_weight: Term
    loss: Term
    budget_bytes: int
    fits: bool
    uniform: Uniform | None
    uniforms: tuple[Uniform, ...]
    commands: recipes.Commands


@term("Size of the planned weights", "B")
def size_term(bytes_of_all):
    "the sum of every projection's bytes, scales and metadata included"
    return bytes_of_all


@term("Bits per planned weight", "bits")
def bits_term(stored_bytes, weights):
    "8 × stored_bytes ÷ weights"
    return 8 * stored_bytes / weights


@term("Predicted loss", "nats", basis="assumed", source="measured one projection at a time; that the losses add up is "
                                                        "assumed (exact only for small ones)")
def loss_term(losses_of_all):
    "the sum of every projection's measured KL divergence"
    return losses_of_all


def plan(places: Sequence[Place], budget_bytes: int = 0) -> Plan:
    """The plan with the least predicted loss within `budget_bytes` (0: no budget). Of equals the smaller."""
    from math import fsum

    places = tuple(places)
    options = [frontier(place.choices) for place in places]
    least = sum(one[0].bytes for one in options)
    fits = not budget_bytes or least <= budget_bytes
    if not budget_bytes:
        chosen = [one[-1] for one in options]
    else:
        chosen = knapsack(options, budget_bytes) if fits else [one[0] for one in options]
    weights = sum(place.weights for place in places)
    size = size_term(bytes_of_all=sum(one.bytes for one in chosen))
    assigned = tuple(Assigned(layer=place.layer, projection=place.projection, weights=place.weights, choice=one,
                              fixed=place.fixed) for place, one in zip(places, chosen, strict=True))
    found = uniforms(places, weights)
    return Plan(
        assigned=assigned, size=size, bits_per_weight=bits_term(stored_bytes=size, weights=weights),
        loss=loss_term(losses_of_all=fsum(one.loss for one in chosen)), budget_bytes=budget_bytes, fits=fits, uniforms=found,
        uniform=min((one for one in found if not budget_bytes or one.bytes <= budget_bytes),
                    key=lambda one: (one.loss, one.bytes), default=None),
        commands=recipes.commands([(one.layer, one.projection, one.choice.configuration, one.choice.format,
                                    one.choice.options) for one in assigned]))


def frontier(choices: Sequence[Choice]) -> list[Choice]:
    """Choices that no other beats in bytes and loss, smallest first (so losses fall)."""
    found: list[Choice] = []
    for one in sorted(choices, key=lambda one: (one.bytes, one.loss)):
        if not found or one.loss < found[-1].loss:
            found.append(one)
    return found


def knapsack(options: list[list[Choice]], budget: int) -> list[Choice]:
    """One choice each with the least total loss within the budget, which the smallest choices fit."""
    price, best = relaxed(options, budget)
    rest = [0.0] * (len(options) + 1)  # least loss + price x bytes of the options from there on
    for index in range(len(options) - 1, -1, -1):
        rest[index] = rest[index + 1] + min(one.loss + price * one.bytes for one in options[index])
    smallest = [0] * (len(options) + 1)
    for index in range(len(options) - 1, -1, -1):
        smallest[index] = smallest[index + 1] + options[index][0].bytes
    limit = sum(one.loss for one in best) * (1 + SLACK) + SLACK
    states: list[tuple[int, float, tuple | None]] = [(0, 0.0, None)]  # bytes, loss, (choice, what came before)
    for index, choices in enumerate(options):
        grown = sorted(
            ((size + one.bytes, loss + one.loss, (one, before)) for size, loss, before in states for one in choices
             if size + one.bytes + smallest[index + 1] <= budget
             and loss + one.loss + rest[index + 1] + price * (size + one.bytes - budget) <= limit),
            key=lambda state: state[:2])
        states = []
        for state in grown:
            if not states or state[1] < states[-1][1]:
                states.append(state)
    if not states:
        return best
    chosen, before = [], states[-1][2]
    while before:
        chosen.append(before[0])
        before = before[1]
    return chosen[::-1]


def relaxed(options: list[list[Choice]], budget: int) -> tuple[float, list[Choice]]:
    """(loss saved per byte at the point where the budget is used up, a good whole plan), by the steepest upgrades first."""
    chosen, used, price = [one[0] for one in options], sum(one[0].bytes for one in options), None
    steps = [(-(left.loss - right.loss) / (right.bytes - left.bytes), index, place)
             for index, choices in enumerate(options) for hull in [convex(choices)]
             for place, (left, right) in enumerate(zip(hull, hull[1:], strict=False))]
    hulls = [convex(choices) for choices in options]
    stopped: set[int] = set()
    for slope, index, place in sorted(steps):
        if index in stopped:
            continue
        extra = hulls[index][place + 1].bytes - chosen[index].bytes
        if used + extra > budget:
            price = -slope if price is None else price
            stopped.add(index)
            continue
        chosen[index], used = hulls[index][place + 1], used + extra
    return price or 0.0, chosen


def convex(choices: list[Choice]) -> list[Choice]:
    """The lower convex hull of a frontier: each step saves less loss per byte than the one before."""
    hull: list[Choice] = []
    for one in choices:
        while len(hull) > 1 and ((hull[-2].loss - hull[-1].loss) * (one.bytes - hull[-1].bytes)
                                 <= (hull[-1].loss - one.loss) * (hull[-1].bytes - hull[-2].bytes)):
            hull.pop()
        hull.append(one)
    return hull


def uniforms(places: Sequence[Place], weights: int) -> tuple[Uniform, ...]:
    """Every configuration that all projections may take, smallest first."""
    from math import fsum

    found = []
    for name in dict.fromkeys(one.configuration for place in places for one in place.choices):
        mine = [next((one for one in place.choices if one.configuration == name), None) for place in places]
        if None not in mine:
            size = sum(one.bytes for one in mine)
            found.append(Uniform(configuration=name, bytes=size, bits_per_weight=8 * size / weights,
                                 loss=fsum(one.loss for one in mine)))
    return tuple(sorted(found, key=lambda one: (one.bytes, one.loss)))


def narrowed(place: Place, configuration: str) -> Place:
    """The place with only that configuration left."""
    return replace(place, choices=tuple(one for one in place.choices if one.configuration == configuration))
