"""Requests against the limits of a model and of a KV pool: kept as they are, refused by name, or cut, and what was cut."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pycore.errors import InputError
from pycore.serving.request import Request

OVERSIZE = ("keep", "clip", "refuse")
NAMED = 5  # requests named in a message


@dataclass(frozen=True, slots=True, kw_only=True)
class Clipping:
    """What a limit cut from `requests` requests. `limit` tokens hold prompt and output together."""

    limit: int
    requests: int
    prompts: int  # prompts cut
    outputs: int  # outputs cut
    prompt_tokens: int  # tokens cut from prompts
    output_tokens: int  # tokens cut from outputs
    ids: tuple[str, ...]  # the first few requests that were cut

    @property
    def text(self) -> str:
        """In words, '' where nothing was cut."""
        if not self.ids:
            return ""
        return (f"cut to {self.limit:,} tokens: {self.prompts:,} prompts (-{self.prompt_tokens:,} tokens) and "
                f"{self.outputs:,} outputs (-{self.output_tokens:,} tokens) of {self.requests:,} requests, "
                f"first {', '.join(self.ids)}")


def fit(requests: Sequence[Request], limit: int, oversize: str = "keep",
        block_size: int = 16) -> tuple[tuple[Request, ...], Clipping]:
    """Requests as a model (or pool) of `limit` tokens takes them, and what was cut.

    keep: unchanged; a scheduler then refuses each one that is too long, and counts it. clip: the prompt to limit - 1
    first, then the output to what is left. refuse: InputError that names the first ones whose prompt leaves no room for
    a token or whose prompt and output exceed the limit. `block_size` is that of the requests' prefix hashes. Raises
    InputError for a limit below 2 and for an unknown `oversize`.
    """
    if oversize not in OVERSIZE:
        raise InputError("oversize", oversize, "accepted: " + ", ".join(OVERSIZE))
    if limit < 2:
        raise InputError("max_model_length", limit, "accepted: a whole number of tokens from 2")
    long = [request for request in requests if request.prompt_tokens + request.output_tokens > limit]
    if oversize == "refuse" and long:
        named = ", ".join(f"{request.id[:40]} ({request.prompt_tokens:,} + {request.output_tokens:,})"
                          for request in long[:NAMED])
        raise InputError("trace", f"{len(long):,} of {len(requests):,} requests", f"accepted: prompt + output of at most "
                         f"{limit:,} tokens; too long: {named}" + (", ..." if len(long) > NAMED else ""))
    if oversize == "keep" or not long:
        return tuple(requests), Clipping(limit=limit, requests=len(requests), prompts=0, outputs=0, prompt_tokens=0,
                                         output_tokens=0, ids=())
    kept = tuple(shortened(request, limit, block_size) for request in requests)
    cut = [(was.prompt_tokens - now.prompt_tokens, was.output_tokens - now.output_tokens)
           for was, now in zip(requests, kept, strict=True)]
    return kept, Clipping(
        limit=limit, requests=len(kept), prompts=sum(prompt > 0 for prompt, _ in cut),
        outputs=sum(output > 0 for _, output in cut), prompt_tokens=sum(prompt for prompt, _ in cut),
        output_tokens=sum(output for _, output in cut), ids=tuple(request.id for request in long[:NAMED]))


def shortened(request: Request, limit: int, block_size: int) -> Request:
    """The request within `limit` tokens, what describes its tokens cut with it."""
    prompt = min(request.prompt_tokens, limit - 1)
    output = min(request.output_tokens, limit - prompt)
    if (prompt, output) == (request.prompt_tokens, request.output_tokens):
        return request
    hashes, predicted = request.prefix_hashes, request.predicted_output
    known = prompt + output if prompt == request.prompt_tokens else prompt  # what follows a cut prompt is other text
    return replace(
        request, prompt_tokens=prompt, output_tokens=output,
        token_ids=request.token_ids[:prompt] if request.token_ids is not None else None,
        prefix_hashes=hashes[:known // block_size] if hashes is not None else None,
        predicted_output=min(predicted, output) if predicted is not None else None)
