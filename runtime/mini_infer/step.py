"""One step of the engine: the tokens of a StepPlan through the model, prompts, chunks and decodes together.

A prompt, a chunk of one, what a prefix hit left over, a recomputation after a preemption, a decode: each is "tokens
[start, start + count) of a sequence, whose keys and values before that are in its blocks". Weights are read once for all
of them. Attention alone goes by groups: single tokens with others of about their length, longer parts one by one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from pycore.serving.plan import Scheduled, StepPlan
from runtime.mini_infer.cache import Cache
from runtime.mini_infer.model import Model


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Singles:
    """Parts of one token each. `rows` (n) in the step, `tables` (n, blocks), `mask` (n, 1, 1, tokens): what each sees."""

    rows: Tensor
    tables: Tensor
    mask: Tensor

    def attend(self, cache: Cache, layer: int, queries: Tensor) -> Tensor:
        """(n, heads, head width) to the same; heads that share keys are one key head's several queries."""
        keys, values = cache.read(layer, self.tables)
        grouped = queries.view(len(queries), cache.kv_heads, -1, cache.head_width)
        return functional.scaled_dot_product_attention(grouped, keys, values, attn_mask=self.mask).reshape(queries.shape)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chunk:
    """A part of several tokens of one sequence. `mask` (tokens, end): what each sees; None where nothing came before."""

    rows: Tensor
    tables: Tensor
    mask: Tensor | None
    end: int

    def attend(self, cache: Cache, layer: int, queries: Tensor) -> Tensor:
        """(tokens, heads, head width) to the same."""
        keys, values = (part[:, :, :self.end] for part in cache.read(layer, self.tables))
        found = functional.scaled_dot_product_attention(
            queries.transpose(0, 1)[None], keys, values, attn_mask=self.mask, is_causal=self.mask is None,
            enable_gqa=queries.shape[1] != cache.kv_heads)
        return found[0].transpose(0, 1)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Batch:
    """A step's tokens in one line: `tokens`, `positions` and `slots` (n); `last`: rows whose logits are wanted."""

    tokens: Tensor
    positions: Tensor
    slots: Tensor
    groups: tuple[Singles | Chunk, ...]
    last: Tensor


def run(model: Model, cache: Cache, plan: StepPlan, texts: Mapping[str, Sequence[int]]) -> tuple[tuple[str, ...], Tensor]:
    """Execute a plan: moves, then tokens. `texts`: prompt and generated tokens of each sequence, by id.

    Returns the ids of the sequences that emit and their logits (ids, vocabulary), float32.
    """
    with torch.inference_mode():
        cache.move(plan)
        items = plan.items
        names = tuple(item.sequence_id for item in items if item.emits)
        if not items:
            return names, torch.empty(0, model.configuration.vocabulary)
        return names, forward(model, cache, batch(items, texts, cache.block_size, model.device))


def forward(model: Model, cache: Cache, batch: Batch) -> Tensor:
    """Logits (rows asked for, vocabulary) of a batch; its keys and values are in the cache afterwards."""
    def attend(layer: int, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        cache.write(layer, batch.slots, keys, values)
        if len(batch.groups) == 1:  # its rows are all rows, in order
            return batch.groups[0].attend(cache, layer, queries).flatten(1)
        found = torch.empty_like(queries)
        for group in batch.groups:
            found[group.rows] = group.attend(cache, layer, queries[group.rows])
        return found.flatten(1)

    return model.logits(model.hidden(batch.tokens, batch.positions, attend)[batch.last])


def batch(items: Sequence[Scheduled], texts: Mapping[str, Sequence[int]], block_size: int,
          device: torch.device | str = "cpu") -> Batch:
    """Lay the parts of a step out as one line of tokens."""
    tokens: list[int] = []
    positions: list[int] = []
    slots: list[int] = []
    last: list[int] = []
    singles: dict[int, list[tuple[int, Scheduled]]] = {}
    groups: list[Singles | Chunk] = []
    for item in items:
        first, end, table = len(tokens), item.start + item.count, item.block_table
        tokens += texts[item.sequence_id][item.start:end]
        positions += range(item.start, end)
        slots += [table[at // block_size] * block_size + at % block_size for at in range(item.start, end)]
        if item.emits:
            last.append(len(tokens) - 1)
        if item.count == 1:
            singles.setdefault(len(table).bit_length(), []).append((first, item))
        else:
            groups.append(_chunk(item, first, device))
    groups += [_singles(members, block_size, device) for members in singles.values()]
    return Batch(tokens=_long(tokens, device), positions=_long(positions, device), slots=_long(slots, device),
                 groups=tuple(groups), last=_long(last, device))


def _long(numbers: object, device: torch.device | str) -> Tensor:
    return torch.tensor(numbers, dtype=torch.long, device=device)


def _chunk(item: Scheduled, first: int, device: torch.device | str) -> Chunk:
    end, mask = item.start + item.count, None
    if item.start:
        mask = torch.ones(item.count, end, dtype=torch.bool, device=device).tril(item.start)
    return Chunk(rows=torch.arange(first, first + item.count, device=device), tables=_long([item.block_table], device),
                 mask=mask, end=end)


def _singles(members: list[tuple[int, Scheduled]], block_size: int, device: torch.device | str) -> Singles:
    """Tables of different lengths are filled up with their own first block, which the mask hides: no sequence reads
    another's memory, not even to drop it."""
    longest = max(len(item.block_table) for _, item in members)
    tables = [item.block_table + item.block_table[:1] * (longest - len(item.block_table)) for _, item in members]
    seen = _long([item.start + 1 for _, item in members], device)
    mask = torch.arange(longest * block_size, device=device) < seen[:, None]
    return Singles(rows=_long([row for row, _ in members], device), tables=_long(tables, device), mask=mask[:, None, None])
