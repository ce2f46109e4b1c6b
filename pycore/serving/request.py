"""A request as it arrives: how long its prompt is, what of it can be shared, how much it may produce."""

from dataclasses import dataclass

from pycore.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a client asks for. Times are integer nanoseconds on the driver's clock; tokens are counts.

    `output_tokens` is how many tokens it will produce, or (under a real engine) the most it may produce.
    `token_ids` makes prefixes shareable by their content. `prefix_hashes` does so for traces without text: one chained
    hash a block of the pool's block size, so that equal hashes mean equal prefixes up to and including that block; it
    may run past the prompt, to cover what will be generated. With neither, nothing is shared with other requests.
    `priority`: lower goes first. `deadline_ns`: when the first token is due. `predicted_output`: what a length
    predictor says, for policies that order by it.

    Raises InputError for a prompt or an output below one token and for token ids that do not match the count.
    """

    id: str
    arrival_ns: int
    prompt_tokens: int
    output_tokens: int
    token_ids: tuple[int, ...] | None = None
    prefix_hashes: tuple[int, ...] | None = None
    priority: int = 0
    deadline_ns: int | None = None
    predicted_output: int | None = None

    def __post_init__(self) -> None:
        if self.prompt_tokens < 1:
            raise InputError("prompt_tokens", self.prompt_tokens, "a request needs at least one prompt token")
        if self.output_tokens < 1:
            raise InputError("output_tokens", self.output_tokens, "a request produces at least one token")
        if self.token_ids is not None and len(self.token_ids) != self.prompt_tokens:
            raise InputError("token_ids", f"{len(self.token_ids)} ids", f"prompt_tokens says {self.prompt_tokens}")
