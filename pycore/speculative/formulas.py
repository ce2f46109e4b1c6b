"""The formulas of speculative decoding as terms. A step proposes gamma tokens and checks them in one pass."""

import math

from pycore.ledger import term

PAPER = "Leviathan et al. 2023, arXiv 2211.17192"
BISECTIONS = 60  # halves [0, 1] down to the spacing of floats


@term("Tokens a step", "tokens", source=f"{PAPER}, equation 1")
def expected_tokens(acceptance, draft_length):
    """(1 − acceptance^(draft_length + 1)) ÷ (1 − acceptance)

    Written as the sum 1 + a + ... + a^gamma, which is the same number, holds at a = 1 and needs no power function.
    """
    powers = [1.0]
    for _ in range(draft_length):
        powers.append(powers[-1] * acceptance)
    return math.fsum(powers)


@term("Speed-up", "×", source=f"{PAPER}, theorem 3.8, with the check priced at its real step time")
def speedup(tokens_per_step, plain_step_s, draft_length, draft_step_s, check_step_s):
    """tokens_per_step × plain_step_s ÷ (draft_length × draft_step_s + check_step_s)"""
    return tokens_per_step * plain_step_s / (draft_length * draft_step_s + check_step_s)


@term("Time per token with the draft", "s")
def speculative_tpot(plain_step_s, speedup):
    """plain_step_s ÷ speedup"""
    return plain_step_s / speedup


@term("Target tokens computed per token kept", "", source=f"{PAPER}, theorem 3.11 with a free draft")
def verified_per_token(draft_length, tokens_per_step):
    """(draft_length + 1) ÷ tokens_per_step"""
    return (draft_length + 1) / tokens_per_step


@term("Cost of a speculative step in plain steps", "")
def step_ratio(plain_step_s, draft_length, draft_step_s, check_step_s):
    """(draft_length × draft_step_s + check_step_s) ÷ plain_step_s"""
    return (draft_length * draft_step_s + check_step_s) / plain_step_s


@term("Break-even acceptance", "", source=f"{PAPER}, theorem 3.8 solved for the acceptance")
def break_even_acceptance(step_ratio, draft_length):
    """the acceptance a with (1 − a^(draft_length + 1)) ÷ (1 − a) = step_ratio, by bisection

    Below 0 tokens kept cannot fall, so 0 is returned where a step costs no more than a plain one. Raises ValueError
    where even a = 1 does not pay (step_ratio > draft_length + 1).
    """
    if step_ratio > draft_length + 1:
        raise ValueError("no acceptance rate pays for this step")
    low, high = 0.0, 1.0
    if step_ratio <= 1:
        return low
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        if expected_tokens.plain(middle, draft_length) < step_ratio:
            low = middle
        else:
            high = middle
    return high
