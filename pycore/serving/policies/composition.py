"""Three ways to compose a step, shared by policies that differ in whom they admit next."""

from collections.abc import Callable, Iterable

from pycore.serving.sequence import Sequence
from pycore.serving.step import Step

Order = Callable[[], Iterable[Sequence]]


def prefill_first(step: Step, order: Order | None = None) -> None:
    """Prompts go first and whole; decodes stand still in a step that computes prompts (vLLM before chunked prefill)."""
    step.continue_prefills()
    _admit(step, order, whole=True)
    if not step.parts:
        step.decode()


def decode_first(step: Step, order: Order | None = None) -> None:
    """Decodes go first; whole prompts join them when they fit into what the step has left."""
    step.decode()
    step.continue_prefills()
    _admit(step, order, whole=True)


def chunked(step: Step, order: Order | None = None) -> None:
    """Decodes go first; prompts are cut so that they fill the step's token budget (Sarathi-Serve, OSDI 2024; vLLM v1)."""
    step.limit(step.limits.step_tokens)
    step.decode()
    step.continue_prefills()
    _admit(step, order, whole=False)


def _admit(step: Step, order: Order | None, *, whole: bool) -> None:
    if step.may_admit:  # the order may cost a sort: ask for it only when somebody could get in
        step.admit_in_order(None if order is None else order(), whole=whole)
