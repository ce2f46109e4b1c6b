"""Which guesses are kept: the rejection rule of speculative sampling (Leviathan et al., arXiv 2211.17192, appendix A.1).

A guess g was drawn from q; the model's own distribution there is p, both after temperature, filters and penalties. It is
kept with probability min(1, p(g) / q(g)); else the token is drawn from max(0, p - q), normalised, and what was guessed
after it is void. Where all are kept, one more is drawn from the model's last row. Whatever q is, what comes is
distributed as p. A greedy request keeps a guess that is the most likely token: its text is the one without guesses.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from runtime.mini_infer.sampling import Choice, Sampler


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Guess:
    """Tokens guessed after a text, and for each the distribution (vocabulary) that it was drawn from; None where it was
    not drawn: then that is 1 at the token itself."""

    tokens: tuple[int, ...] = ()
    drawn_from: tuple[Tensor | None, ...] = ()


NO_GUESS = Guess()


def finite(logits: Tensor) -> list[bool]:
    """Which rows (rows, vocabulary) hold neither NaN nor infinity."""
    sound = torch.isfinite(logits.sum(dim=-1)).tolist()  # NaN and infinity survive a sum
    if all(sound):
        return sound
    return torch.isfinite(logits).all(dim=-1).tolist()  # a sum of sound numbers may be too large: only now each is looked at


def accepted(samplers: Sequence[Sampler], guesses: Sequence[Guess], logits: Tensor) -> tuple[tuple[Choice, ...], ...]:
    """The tokens that come for each: guesses kept, and one more. `logits`: 1 + guesses rows for each, in order.

    Ends before a row that is not finite; empty where that is the first.
    """
    sound = finite(logits)
    best = logits.argmax(dim=-1).tolist()
    rows = None if all(sampler.plain for sampler in samplers) else logits.float().cpu()
    found, at = [], 0
    for sampler, guess in zip(samplers, guesses, strict=True):
        count = 1 + len(guess.tokens)
        place = range(at, at + count)
        found.append(_kept(sampler, guess, [sound[row] for row in place], [best[row] for row in place],
                           None if rows is None else rows[at:at + count]))
        at += count
    return tuple(found)


def _kept(sampler: Sampler, guess: Guess, sound: list[bool], best: list[int], rows: Tensor | None) -> tuple[Choice, ...]:
    ahead, kept = sampler.supposed() if guess.tokens else sampler, []
    for place, (finite, likeliest) in enumerate(zip(sound, best, strict=True)):
        if not finite:
            break
        guessed = guess.tokens[place] if place < len(guess.tokens) else None
        if ahead.plain:
            choice = Choice(token=likeliest)
        elif guessed is None or ahead.generator is None:
            choice = ahead.choose(rows[place])
        else:
            token = verified(ahead.likely(rows[place]), guess.drawn_from[place], guessed, ahead.generator)
            choice = ahead.reported(rows[place], token)
        kept.append(choice)
        if choice.token != guessed:
            break  # always where nothing was guessed, so that a sampler itself is never told what is only supposed
        ahead.said_now(choice.token)
    return tuple(kept)


def verified(p: Tensor, q: Tensor | None, guessed: int, generator: torch.Generator) -> int:
    """The guess, or another token in its stead; equal to the guess exactly where that is kept."""
    coin = float(torch.rand((), dtype=torch.float64, generator=generator))
    if keeps(p, q, guessed, coin):
        return guessed
    return int(torch.multinomial(left(p, q, guessed), 1, generator=generator))


def keeps(p: Tensor, q: Tensor | None, guessed: int, coin: float) -> bool:
    """Whether a guess is kept: a coin from [0, 1) below p / q."""
    return coin * (1.0 if q is None else float(q[guessed])) < float(p[guessed])


def left(p: Tensor, q: Tensor | None, guessed: int) -> Tensor:
    """What the model would say more often than the guesser, max(0, p - q), to draw from after a rejection; sums to more
    than 0 because the rejected guess has p < q."""
    if q is None:
        return p.index_fill(0, torch.tensor([guessed]), 0.0)
    rest = (p - q).clamp(min=0)
    return rest if float(rest.sum()) > 0 else p  # equal but for rounding
