"""Speculation step by step: every guess with both models' chances, the draw and the verdict; newest step first."""

from dataclasses import dataclass
from typing import Any

from pycore.scenes.drafting import Guess, Step
from pycore.units import significant
from studios.explain import Ledger, Number, help_field, plain
from studios.marks import percent
from studios.mini_infer.waste import share

MOST = 6  # steps drawn at a time
STYLES = {"accepted": "accepted", "rejected": "rejected", "not reached": "unread"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """One guess."""

    token: str = help_field("the guessed token")
    style: str = help_field("'accepted', 'rejected' or 'unread'")
    says: str = help_field("the verdict")
    p: str = help_field("chance under the target, as a percentage")
    q: str = help_field("chance under the draft, as a percentage")
    draw: str = help_field("where the draw fell on the line from 0 to 1, or ''")
    chance: str = help_field("the chance to be kept, as a percentage of that line")
    title: str = help_field("all of it in words")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fall:
    """One step."""

    number: int = help_field("of the step")
    here: bool = help_field("whether it is the one the frame shows")
    drafts: tuple[Draft, ...] = help_field("the guesses")
    last: str = help_field("the target's own token")
    source: str = help_field("why it is there: 'resampled' or 'bonus'")
    title: str = help_field("how it was drawn")
    says: str = help_field("what the step kept and what it computed for nothing")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cascade:
    """The steps up to the frame, and what many steps measured."""

    falls: tuple[Fall, ...] = help_field("the newest few, newest first")
    before: str = help_field("how many steps came before those, or ''")
    text: tuple[tuple[str, str], ...] = help_field("(kind, tokens): 'prompt', 'draft' or 'own', in order")
    figures: tuple[tuple[str, Number], ...] = help_field("(what, figure) of many steps")
    says: str = help_field("how measured and closed form stand beside each other")
    rows: tuple[tuple[int, str, str], ...] = help_field("(draft length, tokens a step by the closed form, as measured)")
    worth: str = help_field("whether it pays on the card, in one sentence")
    where: str = help_field("the models, the card and the load that this is about")
    gains: tuple[tuple[str, Number], ...] = help_field("(what, figure) on the card")
    batches: tuple[tuple[int, str, bool], ...] = help_field("(sequences decoded together, speed-up, whether they fit)")


def cascade(answer: Any, ledger: Ledger) -> Cascade:
    """The steps up to the one that is shown."""
    found, frame = answer.waterfall, answer.number
    steps = found.steps[:frame]
    ledger.section("Acceptance")
    figures = numbered(ledger, (
        ("accepted, of the guesses looked at", found.acceptance, chance), ("the same, exactly", found.exact, chance),
        ("tokens a step, measured", found.measured, None), ("tokens a step, closed form", found.expected, None),
        ("computed for nothing", found.wasted_share, share)))
    ledger.section("On the card")
    worth = answer.break_even.speculation
    gains = numbered(ledger, on_card(answer.query.batch, worth, answer.break_even.most))
    return Cascade(
        falls=tuple(fall(one, one.number == frame) for one in reversed(steps[-MOST:])), text=text(found, steps),
        before=before(len(steps) - MOST), figures=figures,
        says=beside(found), rows=tuple((one.draft_tokens, significant(one.expected), significant(one.measured.value))
                                       for one in found.curve),
        worth=worth.verdict, where=where(answer), gains=gains,
        batches=tuple((batch, significant(gain, 3), batch <= answer.break_even.most.value)
                      for batch, gain in answer.break_even.batches))


def on_card(batch: int, worth: Any, most: Any) -> tuple[tuple[str, Any, Any], ...]:
    """(what, term, how it is written) on the card; nothing of batches that do not fit."""
    slow = worth.slowdown_batch
    here = (("speed-up at this batch", worth.speedup, None), ("time per token with the draft", worth.tpot_s, None),
            ("best draft length", worth.best_length, None),
            ("break-even acceptance, closed form", worth.break_even_acceptance, chance)) if batch <= most.value else ()
    late = (("slower from this batch on", slow, None),) if slow is not None and slow.value <= most.value else ()
    return (("sequences that fit", most, None), *here, *late)


def numbered(ledger: Ledger, rows: tuple[tuple[str, Any, Any], ...]) -> tuple[tuple[str, Number], ...]:
    """(what, figure) of those terms that have a value."""
    return tuple((what, ledger.number(term, write)) for what, term, write in rows if term is not None)


def where(answer: Any) -> str:
    """The models, the card and the load."""
    query, deployment = answer.query, answer.break_even.deployment
    return plain(f"{deployment.model.name} with {query.draft_model} as its draft on {deployment.accelerator.name}, "
                 f"{query.batch:,} sequences of {query.context:,} tokens, {query.draft_tokens} draft tokens a step, at the "
                 "tokens a step measured above")


def before(count: int) -> str:
    """What is no longer drawn."""
    return "" if count < 1 else "One step came before: undo shows it" if count == 1 else (
        f"{count:,} steps came before: undo shows them")


def falls(step: Step) -> str:
    """A step in one sentence."""
    kept = f"{step.accepted} of {len(step.guesses)} guesses kept"
    how = "one drawn anew" if step.source == "resampled" else "one on top"
    return f"Step {step.number}: {kept}, then {how}: {plain(' '.join(step.tokens), 120)}"


def beside(found: Any) -> str:
    """Measured against closed form, in words."""
    off = abs(found.measured.value - found.expected.value) / found.expected.value
    return (f"At {found.draft_tokens} draft tokens they differ by {share(100 * off)}. The closed form takes every guess "
            "for as likely as the last; in a text some places are easy and some are not.")


def chance(value: float) -> str:
    return f"{value:.3f}"


def fall(step: Step, here: bool) -> Fall:
    """One step."""
    wasted = f", {step.wasted:,} computed for nothing and rolled back" if step.wasted else ", none rolled back"
    how = ("drawn from what the target gives more than the draft" if step.source == "resampled"
           else "on top: every guess was kept")
    return Fall(number=step.number, here=here, drafts=tuple(map(draft, step.guesses)),
                last=plain(step.last, 24), source=step.source, title=f"{step.last}: {how}, chance {chance(step.chance)}",
                says=f"{step.accepted} of {len(step.guesses)} kept, + 1; KV of {step.computed} positions{wasted}")


def draft(guess: Guess) -> Draft:
    """One guess."""
    says = {"accepted": "✓ accepted", "rejected": "✗ rejected", "not reached": "not reached"}[guess.verdict]
    drawn = "nobody looked at it" if guess.draw is None else (
        f"draw {chance(guess.draw)} {'<' if guess.verdict == 'accepted' else '≥'} {chance(guess.chance)}")
    return Draft(token=plain(guess.token, 24), style=STYLES[guess.verdict], says=says, p=percent(guess.p, 1),
                 q=percent(guess.q, 1), draw="" if guess.draw is None else percent(guess.draw, 1),
                 chance=percent(guess.chance, 1),
                 title=f"{guess.token}: target p = {chance(guess.p)}, draft q = {chance(guess.q)}, kept with chance "
                       f"min(1, p/q) = {chance(guess.chance)}; {drawn}")


def text(found: Any, steps: tuple[Step, ...]) -> tuple[tuple[str, str], ...]:
    """The text so far, in pieces by who wrote them."""
    whole = sum(len(step.tokens) for step in found.steps)
    pieces = [("prompt", " ".join(found.text[:len(found.text) - whole]))]
    for step in steps:
        pieces += [("draft", " ".join(step.tokens[:-1]))] * (len(step.tokens) > 1) + [("own", step.tokens[-1])]
    return tuple((kind, plain(words)) for kind, words in pieces)
