"""A stage that is driven by a file of events: what each line makes of it, and whether it decides what the file says.

The scheduler decides again, from the same inputs; the tokens are the file's. What it decides is held against what the
file says was decided there: a law of its own, on every step.
"""

from collections.abc import Sequence
from typing import Any

from pycore.errors import InputError
from pycore.scenes.camera import Moment
from pycore.scenes.event_file import Header, Line, work
from pycore.scenes.film import Invariant
from pycore.scenes.laws import said as law
from pycore.scenes.stage import MOST_FRAMES, Setting, Stage
from pycore.scenes.toy import Toy
from pycore.scenes.words import counted
from pycore.serving.blocks import BlockPool
from pycore.serving.plan import Scheduled, StepPlan
from pycore.serving.request import Request
from pycore.serving.scheduler import Scheduler

ALIKE = "Decided alike"
MOST_BLOCK_STATES = 1_500_000  # blocks times pictures of one film
MOST_CELLS = 600_000  # tokens read back in its pictures
GUESS = -1


class Spellings(dict):
    """How token ids read; '#17' where the file does not say."""

    def __missing__(self, token: int) -> str:
        return "(guess)" if token == GUESS else f"#{token}"


class Words:
    """A vocabulary whose ids are the file's."""

    def __init__(self) -> None:
        self.words = Spellings()

    def text(self, ids: Sequence[int]) -> tuple[str, ...]:
        return tuple([self.words[one] for one in ids])


class Tape(Toy):
    """Cells are written as the plan says; what comes out is the file's business. Guesses that were accepted are known from
    what came out, those refused are not in the file."""

    def compute(self, item: Scheduled, text: Sequence[int]) -> None:
        for at in range(item.start, item.start + item.count):
            self.write(item, at, (text[at] if at < len(text) else GUESS, at, 0))


class Player(Stage):
    """A stage that is driven by a file. Pictures are taken from step `first` on, as many as a page can hold."""

    def __init__(self, header: Header, first: int):
        setting = Setting(blocks=header.blocks, block_size=header.block_size, policy=header.policy,
                          prefix_caching=header.prefix_caching, longest=header.limits.max_model_length,
                          sequences=header.limits.max_sequences, step_tokens=header.limits.max_batched_tokens,
                          preemption=header.preemption, host_blocks=header.host_blocks)
        pool = BlockPool(header.blocks, header.block_size, prefix_caching=header.prefix_caching)
        scheduler = Scheduler(header.made_policy(), pool, header.limits, preemption=header.preemption,
                              host_blocks=header.host_blocks)
        super().__init__(setting, scheduler=scheduler, toy=Tape(header.blocks, header.block_size, header.host_blocks))
        self.vocabulary, self.first, self.time_ns = Words(), first, 0
        self.skipped = 0
        self.alike: Invariant | None = None

    @property
    def now_ns(self) -> int:
        return self.time_ns

    def picture(self, moment: Moment) -> None:
        """Take it, or count it where it lies before the first step asked for, or is one too many."""
        most = min(MOST_FRAMES, max(1, MOST_BLOCK_STATES // self.setting.blocks))
        early = self.scheduler.steps < self.first
        if early or len(self.frames) >= most or self.read_back > MOST_CELLS and self.frames:
            self.skipped += 1
            return
        self.extra = (self.alike,) if self.alike and moment.kind == "step" else ()
        super().picture(moment)

    # Lines of the file ------------------------------------------------------------------------------------------------

    def play(self, line: Line) -> None:
        """One line. Raises InputError naming it."""
        try:
            getattr(self, f"line_{line.kind}")(line)
        except InputError as fault:
            raise fault if fault.field == "events" else line.fault(f"{fault.field}: {fault.accepted}", fault.value) from None
        except (ValueError, AssertionError) as fault:
            raise line.fault(f"what a scheduler takes at that point: {fault}") from None

    def line_words(self, line: Line) -> None:
        for token, text in line.table("words").items():
            if not token.isascii() or not token.isdecimal() or len(token) > 19 or not isinstance(text, str):
                raise line.fault("texts by token id", token)
            self.vocabulary.words[int(token)] = text[:200]

    def line_add(self, line: Line) -> None:
        prompt, self.time_ns = line.content.get("prompt"), line.whole("at", default=0)
        ids = list(line.numbers(prompt, least=1)) if isinstance(prompt, list) else None
        count = len(ids) if ids else line.whole("prompt", low=1, high=1 << 20)
        self.enter(Request(
            id=line.name("add"), arrival_ns=self.time_ns, prompt_tokens=count, output_tokens=line.whole("output", low=1),
            token_ids=tuple(ids) if ids else None, priority=line.whole("priority", low=-1 << 31, high=1 << 31, default=0),
            deadline_ns=line.whole("deadline") if "deadline" in line.content else None,
            predicted_output=line.whole("predicted") if "predicted" in line.content else None), ids or [0] * count)

    def line_fork(self, line: Line) -> None:
        self.fork(line.name("fork"), line.name("as"), line.whole("last") if "last" in line.content else None)

    def line_abort(self, line: Line) -> None:
        self.time_ns, name = line.whole("at", default=0), line.name("abort")
        if name not in self.scheduler.sequences:
            raise line.fault("a request that is under way", name)
        self.abort(name)

    def line_idle(self, line: Line) -> None:
        self.time_ns = line.whole("idle")
        plan = self.plan()
        if not plan.empty:
            raise line.fault("a moment at which nothing could run")

    def line_end(self, line: Line) -> None:
        """Nothing is left to do."""

    def line_step(self, line: Line) -> None:
        self.time_ns = line.whole("at", default=0)
        plan = self.plan(counts(line, "drafts") if "drafts" in line.content else None)
        if plan.empty:
            raise line.fault("a step at a point where something can run")
        self.alike = alike(plan, line.content.get("work"))
        tokens = came(line, plan, self.scheduler)
        self.execute(plan, {item.sequence_id: [*self.said[item.sequence_id].tokens, *tokens.get(item.sequence_id, ())[:-1]]
                            for item in plan.items})
        for name in strings(line, "dropped"):
            self.scheduler.abort(name, self.time_ns)
        self.time_ns = line.whole("end", default=self.time_ns)
        there = {name: said for name, said in tokens.items() if name in self.scheduler.sequences}
        self.took(plan, there, strings(line, "stopped"), branches(line))
        if line.content.get("dropped"):  # what those who failed had written is forgotten: the engine blanks free blocks
            pool = self.scheduler.pool
            pool.release(pool.take(pool.free))


def alike(plan: StepPlan, there: Any) -> Invariant:
    """Whether the plan is the one in the file."""
    here = work(plan)
    fault = ""
    if there is not None and here != there:
        pairs = zip(here, there if isinstance(there, list) else (), strict=False)
        one, other = next(((one, other) for one, other in pairs if one != other), (len(here), "another number of parts"))
        fault = f"The scheduler decides {one} here; the file says {other}"
    figures = f"{counted(len(here), 'sequence')} with the same positions and the same blocks"
    return law(ALIKE, "the steps decided here = the steps in the file", fault,
               "the file does not say what was decided" if there is None else figures)


def came(line: Line, plan: StepPlan, scheduler: Scheduler) -> dict[str, tuple[int, ...]]:
    """The tokens of a step's line. Raises InputError for those of others than the step's, or too many."""
    most = {item.sequence_id: item.drafts + 1 for item in plan.items if item.emits}
    found = {}
    for name, tokens in line.table("tokens").items():
        if name not in most or name not in scheduler.sequences:
            raise line.fault("tokens of sequences that this step gives one to", name)
        found[name] = line.numbers(tokens, least=1, most=most[name])
    return found


def strings(line: Line, key: str) -> tuple[str, ...]:
    """A list of names. Raises InputError."""
    value = line.content.get(key, [])
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise line.fault(f"{key} is a list of names", value)
    return tuple(value)


def counts(line: Line, key: str) -> dict[str, int]:
    """Counts by name. Raises InputError."""
    found = line.table(key)
    if not all(type(count) is int and 0 <= count <= MOST_FRAMES for count in found.values()):
        raise line.fault(f"{key}: counts by name", found)
    return found


def branches(line: Line) -> dict[str, dict[str, int]]:
    """Samples that part at this step, by their parents. Raises InputError."""
    found = line.table("branches")
    if not all(isinstance(children, dict) and all(type(token) is int and token >= 0 for token in children.values())
               for children in found.values()):
        raise line.fault("branches: tokens by new sample, by parent", found)
    return found
