"""One step of the engine: the tokens of a StepPlan through the model, prompts, chunks and decodes together.

A prompt, a chunk of one, what a prefix hit left over, a recomputation after a preemption, a decode: each is "tokens
[start, start + count) of a sequence, whose keys and values before that are in its blocks". Weights are read once for all
of them. Attention alone goes by groups: single tokens with others of about their length, so a token with guesses after it,
longer parts one by one.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional

from pycore.serving.plan import Scheduled, StepPlan
from runtime.mini_infer.cache import Cache
from runtime.mini_infer.model import Model


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Alike:
    """Parts of equally many tokens each: one, or a token and guesses after it.

    `rows` (n x count) in the step, `tables` (n, blocks), once a step runs its lines in the cache; `mask` (n, count,
    tokens): what each sees.
    """

    rows: Tensor
    tables: Tensor
    mask: Tensor

    def attend(self, cache: Cache, layer: int, queries: Tensor) -> Tensor:
        """(n x count, heads, head width) to the same; heads that share keys are one key head's several queries."""
        keys, values = cache.read(layer, self.tables)
        (parts, count, _), (_, heads, width) = self.mask.shape, queries.shape
        if count == 1:
            grouped, mask = queries.view(parts, cache.kv_heads, -1, width), self.mask
        else:
            grouped = queries.view(parts, count, cache.kv_heads, -1, width).permute(0, 2, 3, 1, 4).flatten(2, 3)
            mask = self.mask.repeat(1, heads // cache.kv_heads, 1)
        found = functional.scaled_dot_product_attention(grouped, keys, values, attn_mask=mask[:, None])
        if count > 1:
            found = found.view(parts, cache.kv_heads, -1, count, width).permute(0, 3, 1, 2, 4)
        return found.reshape(queries.shape)


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
    groups: tuple[Alike | Chunk, ...]
    last: Tensor


def run(model: Model, cache: Cache, plan: StepPlan, texts: Mapping[str, Sequence[int]],
        guesses: Mapping[str, Sequence[int]] | None = None) -> tuple[tuple[str, ...], Tensor]:
    """Execute a plan: moves, then tokens. `texts`: prompt and generated tokens of each sequence, by id; `guesses`: what is
    guessed after them, where the plan has room for guesses (fewer than that are as good).

    Returns the ids of the sequences that emit and their logits (rows, vocabulary), float32: a row for each of them, and one
    more for each of its guesses.
    """
    with torch.inference_mode():
        cache.move(plan)
        items = tuple(_verified(item, guesses or {}) if item.drafts else item for item in plan.items)
        names = tuple(item.sequence_id for item in items if item.emits)
        if not items:
            return names, torch.empty(0, model.configuration.vocabulary)
        return names, forward(model, cache, batch(items, texts, cache.block_size, model.device, guesses))


def _verified(item: Scheduled, guesses: Mapping[str, Sequence[int]]) -> Scheduled:
    """It with the guesses that there are."""
    drafts = len(guesses.get(item.sequence_id, ()))
    return replace(item, count=item.count - item.drafts + drafts, drafts=drafts)


def forward(model: Model, cache: Cache, batch: Batch) -> Tensor:
    """Logits (rows asked for, vocabulary) of a batch; its keys and values are in the cache afterwards."""
    groups = tuple(replace(group, mask=added(group.mask, model.dtype), tables=cache.lines(group.tables))
                   for group in batch.groups)
    places = cache.places(batch.slots)

    def attend(layer: int, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        cache.write(layer, places, keys, values)
        queries = cache.turned(queries)
        if len(groups) == 1:  # its rows are all rows, in order
            return cache.turned(groups[0].attend(cache, layer, queries)).flatten(1)
        found = torch.empty_like(queries)
        for group in groups:
            found[group.rows] = group.attend(cache, layer, queries[group.rows])
        return cache.turned(found).flatten(1)

    return model.logits(model.hidden(batch.tokens, batch.positions, attend)[batch.last])


def without_guesses(model: Model, cache: Cache, plan: StepPlan, texts: Mapping[str, Sequence[int]],
                    names: Collection[str]) -> Tensor:
    """Those of a plan's parts once more, each its known token alone: logits (names, vocabulary), in the plan's order.

    For guesses that overflow: a mask hides them from the token before them, but 0 x NaN is NaN. What they wrote is set to
    zero, so that it also is where their blocks go next.
    """
    items = [item for item in plan.items if item.sequence_id in names]
    with torch.inference_mode():
        for item in items:
            size, table = cache.block_size, item.block_table
            slots = [table[at // size] * size + at % size for at in range(item.start + 1, item.start + item.count)]
            nothing = torch.zeros(len(slots), cache.kv_heads, cache.head_width, dtype=model.dtype, device=model.device)
            places = cache.places(_long(slots, model.device))
            for layer in range(model.configuration.layers):
                cache.write(layer, places, nothing, nothing)
        return forward(model, cache, batch([_verified(item, {}) for item in items], texts, cache.block_size, model.device))


def added(mask: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """A mask as what is added to scores, once a step: attention would turn it so in every layer."""
    return None if mask is None else torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill_(~mask, -torch.inf)


def batch(items: Sequence[Scheduled], texts: Mapping[str, Sequence[int]], block_size: int,
          device: torch.device | str = "cpu", guesses: Mapping[str, Sequence[int]] | None = None) -> Batch:
    """Lay the parts of a step out as one line of tokens, those of `guesses` after those of `texts`."""
    tokens: list[int] = []
    positions: list[int] = []
    slots: list[int] = []
    last: list[int] = []
    alike: dict[tuple[int, int], list[tuple[int, Scheduled]]] = {}
    groups: list[Alike | Chunk] = []
    for item in items:
        first, end, table = len(tokens), item.start + item.count, item.block_table
        tokens += texts[item.sequence_id][item.start:end]
        missing = end - item.start - (len(tokens) - first)
        if missing:
            tokens += _guessed(item, len(texts[item.sequence_id]), guesses or {})
        positions += range(item.start, end)
        slots += [table[at // block_size] * block_size + at % block_size for at in range(item.start, end)]
        if item.emits:
            last += range(len(tokens) - 1 - item.drafts, len(tokens))
        if item.count == 1 or item.drafts:
            alike.setdefault((item.count, len(table).bit_length()), []).append((first, item))
        else:
            groups.append(_chunk(item, first, device))
    groups += [_alike(members, block_size, device) for members in alike.values()]
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


def _guessed(item: Scheduled, known: int, guesses: Mapping[str, Sequence[int]]) -> Sequence[int]:
    """The tokens of a part that come after the `known` ones of its text."""
    return guesses.get(item.sequence_id, ())[max(0, item.start - known):item.start + item.count - known]


def _alike(members: list[tuple[int, Scheduled]], block_size: int, device: torch.device | str) -> Alike:
    """Tables of different lengths are filled up with their own first block, which the mask hides: no sequence reads
    another's memory, not even to drop it."""
    longest = max(len(item.block_table) for _, item in members)
    tables = [item.block_table + item.block_table[:1] * (longest - len(item.block_table)) for _, item in members]
    count = members[0][1].count
    seen = _long([[item.start + 1 + place for place in range(count)] for _, item in members], device)
    mask = torch.arange(longest * block_size, device=device) < seen[:, :, None]
    rows = [first + place for first, _ in members for place in range(count)]
    return Alike(rows=_long(rows, device), tables=_long(tables, device), mask=mask)
