"""The stage: a scheduler, the toy that executes its plans, and a picture after each thing that happens.

The clock counts steps, a thousandth of a second each, so that policies that look at time have one; nothing waits for it.
"""

from collections.abc import Callable, Mapping
from collections.abc import Sequence as Many
from dataclasses import dataclass, field

from pycore.errors import InputError
from pycore.scenes.camera import Camera, Moment
from pycore.scenes.film import Film, Frame, Invariant, Text
from pycore.scenes.toy import WORDS, Toy
from pycore.scenes.words import counted, listed
from pycore.serving.blocks import BlockPool
from pycore.serving.events import Event
from pycore.serving.limits import Limits
from pycore.serving.plan import StepPlan
from pycore.serving.policies.contract import Policy
from pycore.serving.policies.named import BY_NAME
from pycore.serving.request import Request
from pycore.serving.scheduler import Preemption, Scheduler
from pycore.serving.sequence import Sequence

POLICIES: dict[str, Policy] = {name: BY_NAME[name]() for name in (
    "chunked", "fcfs", "decode-first", "sjf", "priority", "cache-aware")}  # a scene has no clock for slo-aware
STEP_NS = 1_000_000
MOST_FRAMES = 500
MOST_CELLS = 1_500_000  # tokens read back for the laws, over a whole film


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What the scheduler of a scene is made with."""

    blocks: int
    block_size: int
    policy: str = "chunked"
    prefix_caching: bool = True
    step_tokens: int = 16
    sequences: int = 8
    longest: int = 64
    preemption: Preemption = "recompute"
    host_blocks: int = 0
    draft_tokens: int = 0

    def scheduler(self) -> Scheduler:
        """Raises InputError."""
        pool = BlockPool(self.blocks, self.block_size, prefix_caching=self.prefix_caching)
        limits = Limits(max_sequences=self.sequences, max_batched_tokens=self.step_tokens, max_model_length=self.longest,
                        draft_tokens=self.draft_tokens)
        return Scheduler(POLICIES[self.policy], pool, limits, preemption=self.preemption, host_blocks=self.host_blocks)


class Vocabulary:
    """Words as token ids: the toy's own first, others as they come."""

    def __init__(self) -> None:
        self.words = list(WORDS)
        self.ids = {word: number for number, word in enumerate(WORDS)}

    def id(self, word: str) -> int:
        if word not in self.ids:
            self.ids[word] = len(self.words)
            self.words.append(word)
        return self.ids[word]

    def text(self, ids: Many[int]) -> tuple[str, ...]:
        words = self.words
        return tuple([words[one] for one in ids])


@dataclass(slots=True)
class Said:
    """One request as the scene keeps it: `tokens` are prompt and output; `sequence` as the scheduler keeps it."""

    sequence: Sequence
    prompt: int
    tokens: list[int] = field(default_factory=list)


class Stage:
    """Requests in, steps out; `frames` grow with each. `toy` may be a faulty one, `shorten` may cut keys (faults.py).

    `field`: which field of the question is named where a film gets too long.
    """

    def __init__(self, setting: Setting, *, scheduler: Scheduler | None = None, toy: Toy | None = None,
                 shorten: Callable[[int], int] = lambda key: key, field: str = "script"):
        self.setting, self.shorten, self.field = setting, shorten, field
        self.scheduler = scheduler or setting.scheduler()
        self.toy = toy or Toy(setting.blocks, setting.block_size, setting.host_blocks)
        self.vocabulary = Vocabulary()
        self.said: dict[str, Said] = {}
        self.frames: list[Frame] = []
        self.camera = Camera(self)
        self.step_number = 0
        self.read_back = 0  # cells that the laws have read so far
        self.extra: tuple[Invariant, ...] = ()  # laws of this stage alone, for the next picture
        self.wrote: tuple[tuple[str, int, int], ...] = ()  # (sequence, block, its holders then) of the last step
        self.waited: set[str] = set()  # who waited for a seat when the step was scheduled

    @property
    def now_ns(self) -> int:
        return self.step_number * STEP_NS

    # Events -----------------------------------------------------------------------------------------------------------

    def add(self, name: str, words: Many[str], output: int, *, priority: int = 0,
            hashes: tuple[int, ...] | None = None) -> Sequence:
        """A request arrives. Raises InputError for an id that an unfinished request has, an empty prompt, no output."""
        ids = [self.vocabulary.id(word) for word in words]
        request = Request(id=name, arrival_ns=self.now_ns, prompt_tokens=len(ids), output_tokens=output,
                          token_ids=None if hashes else tuple(ids), prefix_hashes=hashes, priority=priority,
                          predicted_output=output)
        return self.enter(request, ids)

    def enter(self, request: Request, ids: list[int]) -> Sequence:
        """A request arrives; `ids`: its prompt. Raises InputError for an id that an unfinished request has."""
        name = request.id
        sequence = self.scheduler.add(request, self.now_ns)
        self.said[name] = Said(sequence, len(ids), ids)
        refused = f": refused, {sequence.reason}" if sequence.over else ""
        self.picture(Moment(kind="refuse" if refused else "arrive", names=(name,), what=(
            f"{name} arrives: {counted(len(ids), 'prompt token')}, {request.output_tokens:,} to produce{refused}")))
        return sequence

    def fork(self, name: str, new: str, last_token: int | None = None) -> None:
        """Raises InputError. `last_token` takes the place of the copy's last one."""
        self.scheduler.fork(name, new, last_token)
        parent = self.said[name]
        child = self.said[new] = Said(self.scheduler.sequences[new], parent.prompt, list(parent.tokens))
        child.tokens[-1:] = child.tokens[-1:] if last_token is None else [last_token]
        self.toy.seeds[new] = child.sequence.serial
        shared = len(child.sequence.block_table)
        self.picture(Moment(kind="fork", names=(name, new), what=f"{new} forks from {name}" + (
            f" and shares its {counted(shared, 'block')}: nothing is copied until one of them writes" if shared else
            ": there is no seat for it, so it waits")))

    def abort(self, name: str) -> None:
        """Raises InputError for a request that is not under way."""
        sequence = self.scheduler.sequences.get(name)
        if sequence is None:
            raise InputError(self.field, f"abort {name}", "accepted: the name of a request that is not over at that point")
        held = len(sequence.block_table)
        self.scheduler.abort(name, self.now_ns)
        self.picture(Moment(kind="abort", names=(name,), what=f"{name} is aborted and gives {counted(held, 'block')} back"))

    def step(self) -> bool:
        """One step of everybody; False where the scheduler had nothing to run."""
        plan = self.plan()
        if plan.empty:
            return False
        texts = {name: said.tokens for name, said in self.said.items()}
        self.took(plan, {name: (token,) for name, token in self.execute(plan, texts).items()})
        return True

    def execute(self, plan: StepPlan, texts: Mapping[str, Many[int]]) -> dict[str, int]:
        """Let the toy do what a plan says, and note who else held the blocks that were written."""
        tokens, references = self.toy.run(plan, texts), self.scheduler.pool.references
        self.wrote = tuple((name, block, references[block]) for name, block in self.toy.wrote)
        return tokens

    def plan(self, drafts: Mapping[str, int] | None = None) -> StepPlan:
        """What the scheduler decides next."""
        self.waited = {sequence.id for sequence in self.scheduler.waiting if sequence.status == "waiting"}
        return self.scheduler.schedule(self.now_ns, drafts)

    def took(self, plan: StepPlan, tokens: Mapping[str, tuple[int, ...]], stopped: Many[str] = (),
             branches: Mapping[str, Mapping[str, int]] | None = None) -> tuple[Event, ...]:
        """A plan was executed, and these tokens came out: a picture of the step, before what ended in it is given back
        (guesses that were refused, sequences that finish), and one of that.

        `branches`: parent -> {new sample: its first token}: samples of one prompt part here.
        """
        self.step_number += 1
        moment = Moment.of(plan, self, tokens)
        for name, came in tokens.items():
            self.said[name].tokens += came
        before = bool(plan.finishing or stopped or plan.draft_tokens)
        if before:
            self.picture(moment)
        said = {name: came[0] if len(came) == 1 else came for name, came in tokens.items()}
        events = self.scheduler.complete(plan, self.now_ns, said, stopped, branches=branches)
        for parent, children in (branches or {}).items():
            for child, token in children.items():
                self._branch(parent, child, token)
        over = tuple(event.sequence_id for event in events if event.kind == "finished")
        if over:
            self.picture(Moment(kind="finish", names=over, finished=over, step=plan.step + 1, what=finished(over)))
        elif not before:
            self.picture(moment)
        return events

    def _branch(self, parent: str, child: str, token: int) -> None:
        text = self.said[parent]
        sequence = self.scheduler.sequences[child]
        self.said[child] = Said(sequence, text.prompt, [*text.tokens[:text.prompt], token])
        self.toy.seeds[child] = sequence.serial

    def run(self, steps: int) -> None:
        """At most so many steps."""
        for _ in range(steps):
            if not self.step():
                return

    def finish(self) -> None:
        """Steps until nobody is left, or nobody can advance. Raises InputError for a film that is too long."""
        while not self.scheduler.idle and self.step():
            pass

    # Pictures ---------------------------------------------------------------------------------------------------------

    def picture(self, moment: Moment) -> None:
        """Raises InputError for a film that is too long."""
        if len(self.frames) >= MOST_FRAMES or self.read_back > MOST_CELLS:
            raise InputError(self.field, f"{len(self.frames):,} pictures so far",
                             f"accepted: at most {MOST_FRAMES:,} pictures and {MOST_CELLS:,} tokens read back in them: "
                             "fewer or shorter requests")
        self.frames.append(self.camera.shoot(moment, self.frames[-1] if self.frames else None))

    def film(self, *, opens: int = 0, notes: tuple[str, ...] = ()) -> Film:
        """What was shot so far. `opens`: 0 means the last frame."""
        texts = tuple(Text(sequence=name, prompt=self.vocabulary.text(said.tokens[:said.prompt]),
                           output=self.vocabulary.text(said.tokens[said.prompt:]), status=said.sequence.status,
                           cached=said.sequence.cached_tokens, preemptions=said.sequence.preemptions)
                      for name, said in self.said.items())
        return Film(frames=tuple(self.frames), opens=opens or len(self.frames), block_size=self.setting.block_size,
                    blocks=self.setting.blocks, longest=self.setting.longest, policy=self.setting.policy, texts=texts,
                    notes=notes)


def finished(names: Many[str]) -> str:
    """'A and B finish and give their blocks back'."""
    verb = "finishes and gives its blocks back" if len(names) == 1 else "finish and give their blocks back"
    return f"{listed(names)} {verb}"
