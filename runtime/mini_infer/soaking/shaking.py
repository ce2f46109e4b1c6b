"""How far rounding can carry a text's logits where numbers are kept in few bits.

A sum in another order changes the last bits of a number; where that number lies near the border of two codes, it tips over,
and what was nothing becomes a step of the format. So a text is computed again with keys, values, queries and what attention
finds shaken by several times what another order changes: where no shaken run has tipped over, none of an engine will.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from pycore.serving.plan import Scheduled
from runtime.mini_infer.cache import Cache
from runtime.mini_infer.kv_formats import KvFormat
from runtime.mini_infer.model import Model
from runtime.mini_infer.step import batch, forward

RUNS = 8
NOISE = 24  # of the last bit: about ten times what other chunks and batches change in logits
BLOCK = 16


class Shaken(Cache):
    """A cache that moves every number that comes to it, and attention's, by up to `noise` of itself."""

    def __init__(self, *arguments: object, dice: torch.Generator, **options: object):
        super().__init__(*arguments, **options)
        self.dice, self.noise = dice, NOISE * torch.finfo(self.dtype).eps

    def turned(self, x: Tensor) -> Tensor:
        """Queries, and what attention found."""
        return super().turned(self._moved(x))

    def write(self, layer: int, places: Tensor, keys: Tensor, values: Tensor) -> None:
        """Keys and values."""
        super().write(layer, places, self._moved(keys), self._moved(values))

    def _moved(self, x: Tensor) -> Tensor:
        return x * (1 + self.noise * (2 * torch.rand(x.shape, generator=self.dice, device=x.device) - 1)).to(x.dtype)


def moved(model: Model, kept: KvFormat, prompt: Sequence[int], tokens: Sequence[int], rows: Tensor) -> Tensor:
    """How far shaken runs come from the logits `rows` (tokens, vocabulary) that each of the tokens after a prompt was chosen
    by: the largest difference so far in the text, as a share of the largest logit there, (tokens)."""
    text = [*prompt, *tokens][:-1]
    count, blocks = len(text), -(-len(text) // BLOCK)
    dice = torch.Generator(model.device).manual_seed(count)
    cache = Shaken(model.configuration, RUNS * blocks, BLOCK, dtype=model.dtype, device=model.device, kept=kept, dice=dice)
    parts = [Scheduled(sequence_id="text", start=0, count=count, decode=False, emits=True,
                       block_table=tuple(range(run * blocks, (run + 1) * blocks))) for run in range(RUNS)]
    last = torch.arange(RUNS * count, device=model.device).view(RUNS, count)[:, len(prompt) - 1:].flatten()
    with torch.inference_mode():
        found = forward(model, cache, replace(batch(parts, {"text": text}, BLOCK, model.device), last=last)).cpu()
    apart = (found.view(RUNS, *rows.shape) - rows).abs().amax(2).amax(0) / rows.abs().amax(1)
    return apart.cummax(0).values
