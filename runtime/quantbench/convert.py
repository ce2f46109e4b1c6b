"""A model's projections quantised in place, one after the other, each original let go as soon as its bytes are made."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from pycore.errors import InputError
from pycore.pack import formats
from runtime.quantbench import gptq, half_quadratic, scaling
from runtime.quantbench.calibrate import Moments, walk
from runtime.quantbench.linear import QuantLinear, from_packed
from runtime.quantbench.schemes import Rule, Scheme, scheme_of
from runtime.quantbench.targets import Target, targets

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantised:
    """What became of one projection. `signal` and `noise` are sums of squares of its weights and of what they lost."""

    name: str
    layer: int
    projection: str
    scheme: Scheme
    rows: int
    columns: int
    stored_bytes: int
    signal: float
    noise: float

    @property
    def weights(self) -> int:
        """How many."""
        return self.rows * self.columns


def quantise(model: nn.Module, rules: Sequence[Rule], *, calibration: Tensor | None = None,
             say: Say = lambda text: None) -> tuple[Quantised, ...]:
    """Quantise every projection that a rule names, in place. `calibration`: windows (batch, tokens) of ids.

    Raises InputError where a method needs calibration and none is given, or a layer cannot be quantised so.
    """
    check(model, rules)
    wanted = {target.name: scheme_of(rules, target.layer, target.projection) for target in targets(model)}
    if not any(wanted.values()):
        raise InputError("format", "none", "at least one projection is to be quantised")
    needed = any(scheme and scheme.calibrated for scheme in wanted.values())
    if needed and (calibration is None or not calibration.numel()):
        raise InputError("calibration", "none", "this method looks at text: give some")
    found = []
    if not needed:
        for target in targets(model):
            if wanted[target.name]:
                found.append(exchanged(target, wanted[target.name], None))
        return tuple(found)
    for step in walk(model, calibration):
        say(f"layer {step.layer}")
        for target in step.targets:
            if wanted[target.name]:
                found.append(exchanged(target, wanted[target.name], step.moments[target.name]))
    return tuple(found)


def check(model: nn.Module, rules: Sequence[Rule]) -> None:
    """Raise InputError for a rule that fits no projection: a name misspelt must not leave a layer as it is."""
    every = targets(model)
    for rule in rules:
        if not any(rule.fits(target.layer, target.projection) for target in every):
            place = f"{'' if rule.layer is None else f'{rule.layer}.'}{rule.projection or '*'}"
            known = ", ".join(sorted({target.projection for target in every}))
            raise InputError("plan", place, f"the model has layers 0 to {every[-1].layer} of {known}")


def exchanged(target: Target, scheme: Scheme, moments: Moments | None) -> Quantised:
    """Put the quantised layer in the place of a projection; what it cost."""
    weight = target.weight()
    layer = quantised_layer(weight, target.bias(), scheme, moments)
    difference = (weight - layer.weight()).double()
    target.replace(layer)
    return Quantised(name=target.name, layer=target.layer, projection=target.projection, scheme=scheme,
                     rows=weight.shape[0], columns=weight.shape[1], stored_bytes=layer.stored_bytes,
                     signal=float(weight.double().square().sum()), noise=float(difference.square().sum()))


def quantised_layer(weight: Tensor, bias: Tensor | None, scheme: Scheme, moments: Moments | None) -> QuantLinear:
    """A packed layer for `weight` (outputs, inputs). `moments` of its inputs where the method looks at them."""
    options, scales = dict(scheme.options), None
    weight = weight.contiguous()
    if scheme.method == "smoothquant":
        scales = scaling.smooth_scales(weight, moments)
    elif scheme.method == "awq":
        scales = scaling.search(weight, moments, lambda scaled: rebuilt(scaled, scheme))
    if scheme.method in ("gptq", "gptq-ordered"):
        packed = gptq.quantise(weight, moments.gram, ordered=scheme.method == "gptq-ordered", **options)
    elif scheme.method == "hqq":
        packed = half_quadratic.quantise(weight)
    else:
        scaled = weight if scales is None else weight * scales.float()
        packed = formats.quantise(scheme.format, scaled.numpy(), **options)
    return from_packed(packed, bias=bias, column_scale=scales, activations=scheme.activations)


def rebuilt(weight: Tensor, scheme: Scheme) -> Tensor:
    """Weights through the format and back."""
    return torch.from_numpy(formats.dequantise(formats.quantise(scheme.format, weight.numpy(), **dict(scheme.options))))
