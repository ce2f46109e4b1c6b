"""What requests took, and what an engine has done: plain counts, for usage in answers and for metrics."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What one sample took. Counts of tokens, but for `preemptions`.

    cached_tokens   of the prompt, found in the prefix cache
    drafted         tokens guessed for it by speculation;  accepted: those of them that became its text
    """

    prompt_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    preemptions: int = 0
    drafted: int = 0
    accepted: int = 0

    @property
    def acceptance(self) -> float | None:
        """Share of the guesses that were accepted; None without a guess."""
        return self.accepted / self.drafted if self.drafted else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """An engine as it stands between two steps, and what it has done since its start.

    running, waiting                 sequences with a seat and without
    blocks, blocks_used, blocks_cached   the pool; cached ones are free, and their content can still be found
    prompt_tokens, cached_tokens     of requests let in: tokens of their prompts, and those of them found in the cache
    output_tokens                    that came out
    preemptions, steps               since the start
    drafted, accepted                guesses of speculation;  wasted: positions computed for guesses and rolled back
    finished                         samples that ended, by how
    """

    running: int
    waiting: int
    blocks: int
    blocks_used: int
    blocks_cached: int
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    preemptions: int
    steps: int
    drafted: int = 0
    accepted: int = 0
    wasted: int = 0
    finished: dict[str, int] = field(default_factory=dict)

    @property
    def pool_usage(self) -> float:
        """Share of the pool's blocks in use."""
        return self.blocks_used / self.blocks

    @property
    def hit_rate(self) -> float | None:
        """Share of prompt tokens found in the prefix cache; None before the first request."""
        return self.cached_tokens / self.prompt_tokens if self.prompt_tokens else None

    @property
    def acceptance(self) -> float | None:
        """Share of the guesses that were accepted; None without a guess."""
        return self.accepted / self.drafted if self.drafted else None
