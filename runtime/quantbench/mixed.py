"""Mixed precision: a scheme for every projection, from what each loses alone, within a size.

The choice is `pycore.quality.allocate`'s exact knapsack. It adds up losses that were measured one at a time: measure the
plan that comes out (`measure.quantised`) before believing the sum.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from pycore.errors import InputError
from pycore.quality.allocate import Choice, Place, Plan, plan
from runtime.quantbench.schemes import Rule, parse
from runtime.quantbench.sensitivity import Sensitivity


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One projection in one scheme (its text): the bytes it takes, and the loss (KL, nats) with all others as they were."""

    layer: int
    projection: str
    weights: int
    scheme: str
    bytes: int
    loss: float


def option(one: Sensitivity) -> Option:
    """What was measured, as something to choose."""
    return Option(layer=one.layer, projection=one.projection, weights=one.rows * one.columns, scheme=one.scheme.text,
                  bytes=one.stored_bytes, loss=max(one.divergence.value, 0.0))


def planned(options: Iterable[Option], bits: float) -> tuple[Plan, tuple[Rule, ...]]:
    """The plan of at most that many bits a weight with the least predicted loss, and its rules for `convert.quantise`.

    Raises InputError where there is nothing to choose from or even the smallest options are larger.
    """
    found: dict[tuple[int, str], list[Option]] = {}
    for one in options:
        found.setdefault((one.layer, one.projection), []).append(one)
    if not found or not bits > 0:
        raise InputError("bits", bits, "give some measured projections, and a number of bits above 0")
    places = tuple(Place(layer=layer, projection=projection, weights=each[0].weights, choices=tuple(
        Choice(configuration=one.scheme, bytes=one.bytes, loss=one.loss) for one in each))
        for (layer, projection), each in found.items())
    made = plan(places, int(sum(one.weights for one in places) * bits / 8))
    if not made.fits:
        raise InputError("bits", bits, f"the smallest schemes take {float(made.bits_per_weight.value):.6g}")
    return made, tuple(Rule(layer=one.layer, projection=one.projection, scheme=parse(one.choice.configuration))
                       for one in made.assigned)


def text_of(rules: Iterable[Rule]) -> str:
    """Rules as `schemes.parse_plan` and `quantbench quantize --plan` read them."""
    return "; ".join(f"{'' if rule.layer is None else f'{rule.layer}.'}{rule.projection or '*'}="
                     f"{rule.scheme.text if rule.scheme else 'none'}" for rule in rules)
