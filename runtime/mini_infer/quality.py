"""What smaller numbers cost: a text's logits with them beside those without, token by token."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from pycore.errors import InputError
from pycore.serving.plan import Scheduled
from runtime.mini_infer.cache import Cache
from runtime.mini_infer.kv_formats import KvFormat
from runtime.mini_infer.model import Model
from runtime.mini_infer.step import batch, forward

BLOCK = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Error:
    """Logits against a reference, over the tokens of a text.

    logit_error     root of the mean square difference, as a share of the reference's spread (standard deviation)
    kl_divergence   nats, mean over tokens, reference first
    agreement       share of tokens after which both put the same token first
    perplexity, reference_perplexity   of the text's own tokens
    """

    tokens: int
    logit_error: float
    largest: float
    kl_divergence: float
    agreement: float
    perplexity: float
    reference_perplexity: float


def logits(model: Model, tokens: Sequence[int], kept: KvFormat | None = None, chunk: int = 0) -> Tensor:
    """Logits (tokens, vocabulary) after every token of a text, by the engine's own step over paged keys and values.

    `kept`: their format, the model's own numbers without; `chunk`: tokens a step, all at once where 0.
    """
    blocks = -(-len(tokens) // BLOCK)
    cache = Cache(model.configuration, blocks, BLOCK, dtype=model.dtype, device=model.device, kept=kept)
    found, size = [], chunk or len(tokens)
    with torch.inference_mode():
        for start in range(0, len(tokens), size):
            count = min(size, len(tokens) - start)
            item = Scheduled(sequence_id="text", start=start, count=count, decode=False, emits=True,
                             block_table=tuple(range(-(-(start + count) // BLOCK))))
            made = batch([item], {"text": tokens}, BLOCK, model.device)
            found.append(forward(model, cache, replace(made, last=torch.arange(count, device=model.device))))
    return torch.cat(found)


def compare(reference: Tensor, found: Tensor, tokens: Sequence[int]) -> Error:
    """Logits beside a reference's, both (tokens, vocabulary). Raises InputError for a text of one token."""
    if len(tokens) < 2:
        raise InputError("text", f"{len(tokens)} tokens", "at least 2")
    reference, found = reference.cpu(), found.cpu()  # they may come from two devices, and not every one has 64 bits
    ours, theirs = found.double().log_softmax(-1), reference.double().log_softmax(-1)
    following = torch.tensor(tokens[1:])[:, None]
    difference = (found - reference).double()
    return Error(
        tokens=len(tokens), logit_error=float(difference.square().mean().sqrt() / reference.double().std()),
        largest=float(difference.abs().max()), kl_divergence=float((theirs.exp() * (theirs - ours)).sum(-1).mean()),
        agreement=float((found.argmax(-1) == reference.argmax(-1)).double().mean()),
        perplexity=float((-ours[:-1].gather(1, following).mean()).exp()),
        reference_perplexity=float((-theirs[:-1].gather(1, following).mean()).exp()))
