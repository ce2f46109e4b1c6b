"""What goes into every projection: a walk through the blocks, one after the other, on a few thousand tokens.

The inputs of the first block are caught; then each block is run twice: once with its weights as they are, to see what goes
into its projections, and, after the caller has quantised them, once more for what the next block will really be given.
So later layers are calibrated on what the quantised model computes, and only one block's statistics are held at a time.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from runtime.quantbench.targets import Target, blocks, targets


class _Caught(Exception):  # noqa: N818 - no error: it stops a forward pass that has served its purpose
    pass


@dataclass(slots=True, kw_only=True)
class Moments:
    """Statistics of the inputs (samples, columns) of one projection: X^T X, largest and mean magnitude of each column."""

    gram: Tensor
    largest: Tensor
    total: Tensor
    samples: int = 0

    @property
    def mean(self) -> Tensor:
        """Mean magnitude of each column."""
        return self.total / max(self.samples, 1)

    def add(self, inputs: Tensor) -> None:
        """More samples, (..., columns). Products in float32, their sums in float64."""
        flat = inputs.detach().reshape(-1, inputs.shape[-1]).float()
        self.gram += (flat.T @ flat).double()
        size = flat.abs()
        self.largest = torch.maximum(self.largest, size.amax(0))
        self.total += size.sum(0).double()
        self.samples += flat.shape[0]


def empty(columns: int) -> Moments:
    """No samples yet."""
    return Moments(gram=torch.zeros(columns, columns, dtype=torch.float64), largest=torch.zeros(columns),
                   total=torch.zeros(columns, dtype=torch.float64))


@dataclass(slots=True, kw_only=True)
class Step:
    """A block's turn: its projections and the moments of their inputs, by name."""

    layer: int
    targets: tuple[Target, ...]
    moments: dict[str, Moments] = field(default_factory=dict)


def walk(model: nn.Module, windows: Tensor) -> Iterator[Step]:
    """The blocks in order; what the caller does to a block's projections before going on is what later blocks see.

    `windows` (batch, tokens) of ids; each is run by itself.
    """
    _, found = blocks(model)
    calls = first_inputs(model, found[0], windows)
    by_layer: dict[int, list[Target]] = {}
    for target in targets(model):
        by_layer.setdefault(target.layer, []).append(target)
    for layer, block in enumerate(found):
        step = Step(layer=layer, targets=tuple(by_layer.get(layer, ())))
        watched(block, step, calls)
        yield step
        calls = [((output(block, arguments, keywords), *arguments[1:]), keywords) for arguments, keywords in calls]


def first_inputs(model: nn.Module, first: nn.Module, windows: Tensor) -> list[tuple[tuple, dict]]:
    """(arguments, keywords) of the first block for each window."""
    calls: list[tuple[tuple, dict]] = []

    def catch(module: nn.Module, arguments: tuple, keywords: dict) -> None:
        if not arguments:  # hidden states given by keyword: brought to the front, as all blocks take them first
            keywords = dict(keywords)
            arguments = (keywords.pop("hidden_states"),)
        calls.append((arguments, keywords))
        raise _Caught

    handle = first.register_forward_pre_hook(catch, with_kwargs=True)
    try:
        with torch.no_grad():
            for window in windows:
                try:
                    model(window[None], **without_cache(model))
                except _Caught:
                    continue
    finally:
        handle.remove()
    return calls


def without_cache(model: nn.Module) -> dict[str, object]:
    """Keywords that keep a model of `transformers` from collecting keys and values: its blocks run twice here."""
    return {"use_cache": False} if hasattr(model, "config") else {}


def watched(block: nn.Module, step: Step, calls: list[tuple[tuple, dict]]) -> None:
    """Run a block and add what goes into its projections to the step's moments."""
    handles = []
    for target in step.targets:
        moments = step.moments[target.name] = empty(target.weight().shape[1])
        handles.append(target.module.register_forward_pre_hook(
            lambda module, arguments, moments=moments: moments.add(arguments[0])))
    try:
        for arguments, keywords in calls:
            output(block, arguments, keywords)
    finally:
        for handle in handles:
            handle.remove()


def output(block: nn.Module, arguments: tuple, keywords: dict) -> Tensor:
    """What a block gives on: a tensor, or the first of a tuple."""
    with torch.no_grad():
        found = block(*arguments, **keywords)
    return found[0] if isinstance(found, tuple) else found
