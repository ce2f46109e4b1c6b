"""Each projection quantised alone: what its weights lose, what its outputs lose, and what the whole model's answer loses.

    weight SQNR   10 log10( sum W^2 / sum (W - Q)^2 )
    output SQNR   10 log10( sum (W x)^2 / sum ((W - Q) x)^2 ) over the inputs that the unquantised model gives the layer
    KL            of the model's next-token distribution from the unquantised model's, in nats, averaged over tokens

Blocks before the one that is changed compute what they always do: their outputs are kept, and only the rest is run again.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from pycore.errors import InputError
from pycore.pack.measures import decibels
from runtime.models.transformer import Transformer, rotary
from runtime.quantbench.calibrate import Moments, walk
from runtime.quantbench.convert import quantised_layer
from runtime.quantbench.evaluate import Mean, Reference, Windows, mean
from runtime.quantbench.schemes import Scheme
from runtime.quantbench.targets import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensitivity:
    """One projection in one scheme, all others as they were."""

    scheme: Scheme
    layer: int
    projection: str
    rows: int
    columns: int
    stored_bytes: int
    weight_sqnr_db: float
    output_sqnr_db: float
    divergence: Mean


def sensitivities(model: Transformer, schemes: Sequence[Scheme], text: Windows) -> Iterator[Sensitivity]:
    """Every projection of a model in every scheme, layer by layer; the model is as before when it ends.

    Raises InputError for a text that does not fill a window: the layers' inputs are taken from whole ones.
    """
    if all(len(window) < text.length for window, _ in text.rows):
        raise InputError("text", f"{text.counted:,} tokens", f"give one that fills a window of {text.length:,}")
    reference = Reference(model, text)
    inputs = [hidden_states(model, window) for window, _ in text.rows]
    windows = torch.stack([window for window, _ in text.rows if len(window) == text.length])
    for step in walk(model, windows):
        for target in step.targets:
            for scheme in schemes:
                yield alone(model, target, scheme, step.moments[target.name], reference, inputs)


def hidden_states(model: Transformer, window: Tensor) -> list[Tensor]:
    """What each block is given, (1, tokens, width)."""
    found = []
    with torch.no_grad():
        x, turn = model.model.embed_tokens(window[None]), rotary(model.configuration, torch.arange(len(window)))
        for block in model.model.layers:
            found.append(x)
            x = block(x, turn)
    return found


def alone(model: Transformer, target: Target, scheme: Scheme, moments: Moments, reference: Reference,
          inputs: list[list[Tensor]]) -> Sensitivity:
    """One projection's row. The original is put back."""
    original, weight = target.module, target.weight()
    layer = quantised_layer(weight, target.bias(), scheme, moments)
    difference = (weight - layer.weight()).double()
    target.replace(layer)
    try:
        scores = reference.compared(rest(model, target.layer, reference.text, inputs))
    finally:
        target.replace(original)
    return Sensitivity(
        scheme=scheme, layer=target.layer, projection=target.projection, rows=weight.shape[0], columns=weight.shape[1],
        stored_bytes=layer.stored_bytes, divergence=mean(scores.divergences),
        weight_sqnr_db=decibels(float(weight.double().square().sum()), float(difference.square().sum())),
        output_sqnr_db=decibels(power(weight.double(), moments.gram), power(difference, moments.gram)))


def power(weight: Tensor, gram: Tensor) -> float:
    """Sum of squares of weight @ x over inputs x with that Gram matrix."""
    return max(float(((weight @ gram) * weight).sum()), 0.0)


def rest(model: Transformer, layer: int, text: Windows, inputs: list[list[Tensor]]) -> Iterator[tuple[Tensor, Tensor]]:
    """(log probabilities, targets) of the counted tokens, from that block on."""
    with torch.no_grad():
        for (window, count), kept in zip(text.rows, inputs, strict=True):
            x, turn = kept[layer], rotary(model.configuration, torch.arange(len(window)))
            for block in model.model.layers[layer:]:
                x = block(x, turn)
            logits = model.lm_head(model.model.norm(x[:, :-1][:, -count:]))[0]
            yield functional.log_softmax(logits.float(), dim=-1), window[1:][-count:]
