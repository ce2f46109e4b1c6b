"""The engine: a scheduler says what a step computes, the model computes it, tokens are chosen and told to the scheduler.

It has no thread, no clock of its own and no text: `add` and `abort` between steps, `step` until `idle`. Where a step
fails, those who took part in it end with an error, and nothing that it wrote can be found again; others go on.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

import torch

from pycore.errors import InputError
from pycore.serving.blocks import BlockPool
from pycore.serving.events import Event
from pycore.serving.limits import Limits
from pycore.serving.plan import StepPlan
from pycore.serving.policies.chunked import Chunked
from pycore.serving.policies.contract import Policy
from pycore.serving.request import Request
from pycore.serving.scheduler import Preemption, Scheduler
from runtime.mini_infer.cache import Cache
from runtime.mini_infer.model import Model
from runtime.mini_infer.sampling import Choice, Sampler, Sampling, choose
from runtime.mini_infer.step import run

Finish = Literal["stop", "length", "aborted", "refused", "error"]
GREEDY = Sampling(temperature=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """What a client asks for, in tokens. `end`: tokens that end it, unless `ignore_end` or before `min_tokens`.

    `stop_when` is told every token that came and says whether it was the last: for stops that only text can see.
    `priority`, `deadline_ns` and `predicted_output` are for policies (pycore/serving/request.py).
    Raises InputError for counts that make no sense (Request's own checks come with `add`).
    """

    id: str
    prompt: tuple[int, ...]
    max_tokens: int = 16
    min_tokens: int = 0
    end: tuple[int, ...] = ()
    ignore_end: bool = False
    sampling: Sampling = GREEDY
    stop_when: Callable[[int], bool] | None = None
    priority: int = 0
    deadline_ns: int | None = None
    predicted_output: int | None = None

    def __post_init__(self):
        if self.max_tokens < 1:
            raise InputError("max_tokens", self.max_tokens, "at least 1")
        if not 0 <= self.min_tokens <= self.max_tokens:
            raise InputError("min_tokens", self.min_tokens, f"from 0 to max_tokens, {self.max_tokens}")

    def request(self, arrival_ns: int) -> Request:
        """It as the control plane sees it. Raises InputError."""
        return Request(id=self.id, arrival_ns=arrival_ns, prompt_tokens=len(self.prompt), output_tokens=self.max_tokens,
                       token_ids=self.prompt, priority=self.priority, deadline_ns=self.deadline_ns,
                       predicted_output=self.predicted_output)


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """One thing that came out for one request: a token, the end, or both. `reason` says more of an end."""

    id: str
    choice: Choice | None = None
    finish: Finish | None = None
    reason: str = ""


@dataclass(slots=True, kw_only=True, eq=False)
class Live:
    """A request under way: `tokens` are prompt and output so far."""

    generation: Generation
    sampler: Sampler
    tokens: list[int]

    def ended_by(self, token: int) -> bool:
        """Take the next token; whether it is the last. Told to `stop_when` in any case."""
        self.tokens.append(token)
        self.sampler.said_now(token)
        asked, enough = self.generation, self.sampler.count >= self.generation.min_tokens
        told = asked.stop_when is not None and asked.stop_when(token)
        return enough and (told or not asked.ignore_end and token in asked.end)


class Engine:
    """A model, the blocks of its scheduler's pool, and everybody under way. One step at a time, from one thread.

    `clock` gives integer nanoseconds. `last_plan` is the plan of the last step that ran. Raises InputError for a
    scheduler that lets texts grow beyond the model's context, keeps several steps in flight, or hands sequences over.
    """

    def __init__(self, model: Model, scheduler: Scheduler, *, cache: Cache | None = None,
                 clock: Callable[[], int] = time.perf_counter_ns):
        limits, context = scheduler.limits, model.configuration.context
        if limits.max_model_length > context:
            raise InputError("max_model_length", limits.max_model_length, f"at most the model's context, {context}")
        if limits.steps_in_flight != 1 or scheduler.hands_over:
            raise InputError("scheduler", "asynchronous or handing over", "one step at a time, and no other pool")
        host = scheduler.memory.host
        self.model, self.scheduler, self.clock = model, scheduler, clock
        self.cache = cache or Cache(model.configuration, len(scheduler.pool.references), scheduler.pool.block_size,
                                    host_blocks=len(host.references) if host else 0, dtype=model.dtype, device=model.device)
        self.live: dict[str, Live] = {}
        self.last_plan: StepPlan | None = None

    @classmethod
    def of(cls, model: Model, *, blocks: int, block_size: int = 16, policy: Policy | None = None,
           limits: Limits | None = None, prefix_caching: bool = True, preemption: Preemption = "recompute",
           host_blocks: int = 0, clock: Callable[[], int] = time.perf_counter_ns) -> "Engine":
        """An engine with a scheduler of its own: chunked prefill up to the model's context, where nothing else is said."""
        pool = BlockPool(blocks, block_size, prefix_caching=prefix_caching)
        limits = limits or Limits(max_model_length=model.configuration.context)
        scheduler = Scheduler(policy or Chunked(), pool, limits, preemption=preemption, host_blocks=host_blocks)
        return cls(model, scheduler, clock=clock)

    @property
    def idle(self) -> bool:
        """Nobody is under way."""
        return self.scheduler.idle

    def add(self, generation: Generation) -> None:
        """Let a request in. Raises InputError for one that can never run: an id in use, no prompt, tokens that the model
        does not have, more than its context or the whole pool holds."""
        size = self.model.configuration.vocabulary
        for name, tokens in (("prompt", generation.prompt), ("end", generation.end)):
            wrong = next((token for token in tokens if not 0 <= token < size), None)
            if wrong is not None:
                raise InputError(name, wrong, f"token ids from 0 to {size - 1}")
        banned = () if generation.ignore_end else generation.end
        if generation.min_tokens and len(set(banned)) == size:
            raise InputError("min_tokens", generation.min_tokens, "0 where every token is an end")
        sequence = self.scheduler.add(generation.request(self.clock()))
        if sequence.over:
            raise InputError("prompt", f"{len(generation.prompt)} tokens", sequence.reason)
        sampler = Sampler(generation.sampling, generation.prompt, banned=banned, least=generation.min_tokens)
        self.live[generation.id] = Live(generation=generation, sampler=sampler, tokens=list(generation.prompt))

    def fork(self, sequence_id: str, new_id: str, sampling: Sampling | None = None,
             stop_when: Callable[[int], bool] | None = None) -> None:
        """A second continuation of what a request has so far, sharing its blocks until one of them writes.

        `sampling` should have a seed of its own: with the same seed the random stream starts anew. Raises InputError.
        """
        self.scheduler.fork(sequence_id, new_id)
        parent = self.live[sequence_id]
        old = parent.generation
        new = Generation(id=new_id, prompt=old.prompt, max_tokens=old.max_tokens, min_tokens=old.min_tokens, end=old.end,
                         ignore_end=old.ignore_end, sampling=sampling or old.sampling, stop_when=stop_when,
                         priority=old.priority, deadline_ns=old.deadline_ns, predicted_output=old.predicted_output)
        self.live[new_id] = Live(generation=new, sampler=parent.sampler.twin(new.sampling, new.prompt),
                                 tokens=list(parent.tokens))

    def abort(self, sequence_id: str) -> bool:
        """Drop a request wherever it is; its blocks are free at once. False when it is not under way."""
        self.live.pop(sequence_id, None)
        return self.scheduler.abort(sequence_id, self.clock())

    def step(self) -> tuple[Output, ...]:
        """Compute one step; what came out of it. Empty where nothing could run (nobody waits, or the policy holds back)."""
        plan = self.scheduler.schedule(self.clock())
        refused = self._over(plan.refused, "refused", "the policy gave up on it")
        if plan.empty:
            return refused
        self.last_plan = plan
        try:
            names, logits = run(self.model, self.cache, plan, {name: live.tokens for name, live in self.live.items()})
            choices = dict(zip(names, choose([self.live[name].sampler for name in names], logits), strict=True))
        except Exception as error:  # out of memory, most likely; whatever it is, the scheduler must not wait for this step
            taking_part = {item.sequence_id for item in plan.items}
            taking_part |= {swap.sequence_id for swap in plan.swapped_in + plan.swapped_out}
            return refused + self._failed(plan, taking_part, f"the step failed: {error}")
        return refused + self._completed(plan, choices)

    def _completed(self, plan: StepPlan, found: dict[str, Choice | None]) -> tuple[Output, ...]:
        """Tell the scheduler what came out, and everybody what became of them."""
        choices = {name: choice for name, choice in found.items() if choice is not None}
        broken = dict.fromkeys(found.keys() - choices.keys(), "its logits are not finite")
        stopped = []
        for name, choice in choices.items():
            try:
                if self.live[name].ended_by(choice.token):
                    stopped.append(name)
            except Exception as error:  # what the client handed in must not stop the others
                broken[name] = f"its stop_when failed: {error!r}"
        errors = tuple(output for name, reason in broken.items() for output in self._drop((name,), reason))
        choices = {name: choice for name, choice in choices.items() if name not in broken}
        tokens = {name: choice.token for name, choice in choices.items()}
        events = self.scheduler.complete(plan, self.clock(), tokens, stopped)
        if broken:
            self._scrub()
        ends = {event.sequence_id: self._finish(event, stopped) for event in events if event.kind == "finished"}
        for name in ends:
            del self.live[name]
        return errors + tuple(Output(id=name, choice=choice, finish=ends.get(name)) for name, choice in choices.items())

    @staticmethod
    def _finish(event: Event, stopped: Iterable[str]) -> Finish:
        """A token that ends a text ends it also where it was the last one allowed."""
        return "stop" if event.sequence_id in stopped else "length"

    def _failed(self, plan: StepPlan, names: Iterable[str], reason: str) -> tuple[Output, ...]:
        outputs = self._drop(names, reason)
        self.scheduler.complete(plan, self.clock(), {})
        self._scrub()
        return outputs

    def _drop(self, names: Iterable[str], reason: str) -> tuple[Output, ...]:
        for name in names:
            self.scheduler.abort(name, self.clock())
        return self._over(sorted(names), "error", reason)

    def _over(self, names: Iterable[str], finish: Finish, reason: str) -> tuple[Output, ...]:
        for name in names:
            self.live.pop(name, None)
        return tuple(Output(id=name, finish=finish, reason=reason) for name in names)

    def _scrub(self) -> None:
        """Forget what free blocks hold: those who failed have just left theirs there, for others to find."""
        pool = self.scheduler.pool
        free = pool.take(pool.free)
        with torch.inference_mode():
            self.cache.blank(free)
        pool.release(free)
