"""mini-infer's page: the control plane driven by hand, every block of it on show. The answer, and how it is composed."""

import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace

from pycore.errors import InputError, InvalidQuery
from pycore.ledger import Term, terms_in
from pycore.nouns import Deployment
from pycore.roofline.question import question
from pycore.scenes import conversations, museum, recorded, script, waste, waterfall
from pycore.scenes.conversations import PRESETS, Conversation
from pycore.scenes.faults import FAULTS, Fault
from pycore.scenes.film import BlockState, Film, Frame, Invariant, Table, TreeNode, Work
from pycore.scenes.museum import Exhibit
from pycore.scenes.waste import Comparison
from pycore.scenes.waterfall import Waterfall
from pycore.speculative import Speculation, speculate
from pycore.speculative.steps import TABLE_BATCHES, StepCosts, roofline_step
from pycore.systems import infersize
from pycore.systems.mini_infer_question import SCENES, SCRIPT, Query, setting
from pycore.vram.capacity import capacity
from pycore.vram.draft import beside
from pycore.vram.plan import memory

__all__ = ["FAULTS", "PRESETS", "SCENES", "SCRIPT", "Answer", "BlockState", "BreakEven", "Comparison", "Conversation",
           "Exhibit", "Fault", "Film", "Frame", "Invariant", "Progress", "Query", "Table", "TreeNode", "Waterfall", "Work",
           "answer", "film", "steps"]

LINES_HALF_WAY = 500
OWN_NAMES = {"sequences": "batch"}  # infersize's fields as this question calls them


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a long answer is. How long a file is shows only at its end, so the fraction nears 1 without reaching it."""

    stage: str
    fraction: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakEven:
    """What the measured acceptance is worth on a card. `batches`: (sequences decoded together, speed-up); below 1 it slows.

    `speculation` holds the terms, and the batch where it begins to slow down (None up to 4,096). `most`: how many
    sequences of that context fit beside the weights of both models. `batches` goes on beyond it.
    """

    deployment: Deployment
    speculation: Speculation
    batches: tuple[tuple[int, float], ...]
    most: Term


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Answer:
    """Everything that follows from a Query. `number`: the frame that is shown, from 1; `count`: how many there are.

    film, frame    the scene and the picture; of the museum the broken engine's (the right one's where `broken` is no).
                   None in recorded as long as no file is given. In speculation picture n is step n of `waterfall`
    waste          paged against contiguous at this frame (blocks, radix, recorded)
    conversation, waterfall and break_even, exhibit   of the scenes radix, speculation and museum; None elsewhere
    """

    query: Query
    number: int
    count: int
    film: Film | None = None
    frame: Frame | None = None
    waste: Comparison | None = None
    conversation: Conversation | None = None
    waterfall: Waterfall | None = None
    break_even: BreakEven | None = None
    exhibit: Exhibit | None = None
    notes: tuple[str, ...] = ()

    @property
    def terms(self) -> tuple[Term, ...]:
        """Every term of the answer once, in the order of its parts."""
        parts = (self.conversation, *(self.waste.allocations if self.waste else ()), self.waste, self.waterfall,
                 self.break_even and self.break_even.speculation, self.break_even)
        found: dict[tuple, Term] = {}
        for part in parts:
            for one in terms_in(part) if part else ():
                for each in one.walk():
                    found.setdefault((each.name, each.value, each.line), each)
        return tuple(found.values())


def film(query: Query) -> Film | None:
    """The scene's pictures; they do not depend on `frame`, and are kept. Raises InputError, InvalidQuery."""
    if query.scene == "blocks":
        return script.film(query.script, setting(query))
    if query.scene == "radix":
        return conversation(query).film
    if query.scene == "museum":
        found = museum.exhibit(query.fault)
        return found.wrong if query.broken else found.right
    if query.scene == "recorded":
        return recorded.filming.whole(query.events, query.first_step) if query.events.strip() else None
    return waterfall_of(query).film


def conversation(query: Query) -> Conversation:
    """The prompts of the scene radix, asked. Raises InputError."""
    text = query.prompts if query.prompts.strip() else PRESETS[query.conversation]
    return conversations.conversation(text, query.tokenizer, query.answer_tokens, query.together,
                                      setting(query))


def waterfall_of(query: Query) -> Waterfall:
    """The scene speculation; it does not depend on `frame`."""
    return waterfall.waterfall(draft_tokens=query.draft_tokens, similarity=query.similarity, temperature=query.temperature,
                               seed=query.seed, steps=query.steps, block_size=query.block_size)


@functools.lru_cache(maxsize=8)
def break_even(query: Query) -> BreakEven:
    """What the tokens a step that were measured are worth on the question's card, and how many sequences fit on it. Kept,
    since no frame changes it. Raises InputError for a context beyond either model's, InvalidQuery, NotKnown."""
    asked = infersize.Query(model=query.model, gpu=query.gpu, draft_model=query.draft_model, sequences=query.batch,
                            context=query.context, prompt=query.context // 2, output=query.context // 2)
    try:
        deployment = infersize.resolve(asked)
    except InvalidQuery as found:
        for fault in found.errors:
            fault.field = OWN_NAMES.get(fault.field, fault.field)
        raise
    for model in (deployment.model, deployment.draft):
        if query.context > model.max_context:
            raise InputError("context", query.context, f"accepted: at most the {model.max_context:,} tokens that "
                                                       f"{model.name} was made for")
    found, plan = waterfall_of(query), memory(deployment)
    measured = {rung.draft_tokens: rung.measured for rung in found.curve}
    most = capacity(deployment, plan).max_sequences
    target, proposer = question(deployment), question(beside(deployment))
    costs = StepCosts(roofline_step(target.step, target.load.context), roofline_step(proposer.step, target.load.context),
                      lambda _, length: measured[length].value)
    return BreakEven(
        deployment=deployment, most=most,
        batches=tuple((batch, costs.speedup(found.acceptance.value, query.draft_tokens, batch)) for batch in TABLE_BATCHES),
        speculation=speculate(deployment, plan, acceptance=found.acceptance.value, draft_length=query.draft_tokens,
                              measured=measured, most=most))


def steps(query: Query) -> Iterator[Progress | Answer]:
    """The Answer; before it, progress where a file is played. Raises InvalidQuery, InputError, UnknownName, NotKnown."""
    if query.scene == "speculation":
        found = waterfall_of(query)
        frame = found.film.frame(query.frame)
        yield Answer(query=query, number=frame.number, count=len(found.steps), film=found.film, frame=frame, waterfall=found,
                     break_even=break_even(replace(query, frame=0)))
        return
    if query.scene == "recorded" and query.events.strip():
        for line in recorded.filming(query.events, query.first_step):
            yield Progress(stage=f"line {line:,} of the file", fraction=line / (line + LINES_HALF_WAY))
    whole = film(query)
    if whole is None:
        yield Answer(query=query, number=0, count=0, notes=("No file is given yet.",))
        return
    frame = whole.frame(query.frame)
    yield Answer(
        query=query, number=frame.number, count=len(whole.frames), film=whole, frame=frame, notes=whole.notes,
        waste=waste.compared(whole, frame, query.model) if query.scene != "museum" else None,
        conversation=conversation(query) if query.scene == "radix" else None,
        exhibit=museum.exhibit(query.fault) if query.scene == "museum" else None)


def answer(query: Query) -> Answer:
    """The whole answer. Raises what `steps` raises."""
    *_, last = steps(query)
    return last
