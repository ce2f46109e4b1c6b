"""The engine: a scheduler says what a step computes, the model computes it, tokens are chosen and told to the scheduler.

It has no thread, no clock of its own and no text: `add` and `abort` between steps, `step` until `idle`. Where a step
fails, those who took part in it end with an error, and nothing that it wrote can be found again; others go on.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import torch

from pycore.errors import InputError
from pycore.serving.blocks import BlockPool
from pycore.serving.limits import Limits
from pycore.serving.plan import StepPlan
from pycore.serving.policies.chunked import Chunked
from pycore.serving.policies.contract import Policy
from pycore.serving.scheduler import Preemption, Scheduler
from runtime.mini_infer.acceptance import NO_GUESS, Guess, accepted, finite
from runtime.mini_infer.cache import Cache
from runtime.mini_infer.generation import Finish, Generation, Live, Output, Told, lives
from runtime.mini_infer.model import Model
from runtime.mini_infer.sampling import Choice, Sampling
from runtime.mini_infer.speculation import Speculation
from runtime.mini_infer.step import run, without_guesses
from runtime.mini_infer.usage import Statistics, Usage


class Engine:
    """A model, the blocks of its scheduler's pool, and everybody under way. One step at a time, from one thread.

    `clock` gives integer nanoseconds. `last_plan` is the plan of the last step that ran. Raises InputError for a
    scheduler that lets texts grow beyond the model's context, keeps several steps in flight, or hands sequences over.
    """

    def __init__(self, model: Model, scheduler: Scheduler, *, cache: Cache | None = None,
                 speculation: Speculation | None = None, draft_cache: Cache | None = None,
                 clock: Callable[[], int] = time.perf_counter_ns):
        limits, context = scheduler.limits, model.configuration.context
        if limits.max_model_length > context:
            raise InputError("max_model_length", limits.max_model_length, f"at most the model's context, {context}")
        if limits.steps_in_flight != 1 or scheduler.hands_over:
            raise InputError("scheduler", "asynchronous or handing over", "one step at a time, and no other pool")
        if limits.draft_tokens and speculation is None:
            raise InputError("draft_tokens", limits.draft_tokens, "0 without speculation")
        host = scheduler.memory.host
        self.model, self.scheduler, self.clock = model, scheduler, clock
        self.cache = cache or Cache(model.configuration, len(scheduler.pool.references), scheduler.pool.block_size,
                                    host_blocks=len(host.references) if host else 0, dtype=model.dtype, device=model.device)
        self.live: dict[str, Live] = {}
        self.last_plan: StepPlan | None = None
        self.speculation = speculation
        self.drafter = speculation.drafter(model, scheduler, draft_cache) if speculation else None
        self._finished: Counter[str] = Counter()
        self._output_tokens = self._preemptions = self._drafted = self._accepted = self._wasted = 0

    @classmethod
    def of(cls, model: Model, *, blocks: int, block_size: int = 16, policy: Policy | None = None,
           limits: Limits | None = None, prefix_caching: bool = True, preemption: Preemption = "recompute",
           host_blocks: int = 0, speculation: Speculation | None = None,
           clock: Callable[[], int] = time.perf_counter_ns) -> "Engine":
        """An engine with a scheduler of its own: chunked prefill up to the model's context, where nothing else is said."""
        pool = BlockPool(blocks, block_size, prefix_caching=prefix_caching)
        limits = limits or Limits(max_model_length=model.configuration.context)
        if speculation is not None:
            limits = replace(limits, draft_tokens=speculation.tokens)
        scheduler = Scheduler(policy or Chunked(), pool, limits, preemption=preemption, host_blocks=host_blocks)
        return cls(model, scheduler, speculation=speculation, clock=clock)

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
        if self._taken() & {generation.id, *generation.ids()}:
            raise InputError("id", generation.id, "an id that nobody under way has")
        first = lives(generation, banned)
        first.sequence = self.scheduler.add(generation.request(self.clock()))
        if first.sequence.over:
            raise InputError("prompt", f"{len(generation.prompt)} tokens", first.sequence.reason)
        self.live[first.id] = first

    def _taken(self) -> set[str]:
        """Ids of all requests under way and of all their samples."""
        under_way = [one for live in self.live.values() for one in (live, *live.others)]
        return {one.id for one in under_way} | {one.request for one in under_way}

    def fork(self, sequence_id: str, new_id: str, sampling: Sampling | None = None,
             stop_when: Callable[[int], bool] | None = None) -> None:
        """A second continuation of what a request has so far, sharing its blocks until one of them writes.

        `sampling` should have a seed of its own: with the same seed the random stream starts anew. Raises InputError.
        """
        if new_id in self._taken():
            raise InputError("new_id", new_id, "an id that nobody under way has")
        sequence = self.scheduler.fork(sequence_id, new_id)
        parent = self.live[sequence_id]
        new = replace(parent.generation, id=new_id, samples=1, sampling=sampling or parent.generation.sampling,
                      stop_when=stop_when)
        self.live[new_id] = Live(generation=new, sampler=parent.sampler.twin(new.sampling, new.prompt),
                                 tokens=list(parent.tokens), request=new_id, sequence=sequence)

    def abort(self, sequence_id: str) -> bool:
        """Drop a request with all its samples, or one sample ("id/1"); blocks are free at once. False when it is not under
        way. Nothing comes out for it any more."""
        found = [live for live in self.live.values() if sequence_id in (live.id, live.request)]
        for live in found:
            del self.live[live.id]
            self.scheduler.abort(live.id, self.clock())
            self._finished["aborted"] += 1 + len(live.others)
        return bool(found) or self._abort_before_its_first_token(sequence_id)

    def _abort_before_its_first_token(self, sample_id: str) -> bool:
        for live in self.live.values():
            left = tuple(other for other in live.others if other.id != sample_id)
            if len(left) < len(live.others):
                live.others = left
                self._finished["aborted"] += 1
                return True
        return False

    def usage(self, sequence_id: str) -> Usage:
        """What a sample under way took so far. Raises KeyError for one that is not."""
        return self.live[sequence_id].usage()

    def statistics(self) -> Statistics:
        """The engine as it stands; call it between two steps. O(1)."""
        scheduler, pool = self.scheduler, self.scheduler.pool
        return Statistics(
            running=len(scheduler.running), waiting=len(scheduler.queue), blocks=pool.total, blocks_used=pool.used,
            blocks_cached=pool.cached, prompt_tokens=scheduler.asked_tokens, cached_tokens=scheduler.hit_tokens,
            output_tokens=self._output_tokens, preemptions=self._preemptions, steps=scheduler.steps,
            drafted=self._drafted, accepted=self._accepted, wasted=self._wasted, finished=dict(self._finished))

    def step(self) -> tuple[Output, ...]:
        """Compute one step; what came out of it. Empty where nothing could run (nobody waits, or the policy holds back)."""
        plan = self.scheduler.schedule(self.clock(), self._drafts())
        refused = self._over(plan.refused, "refused", "the policy gave up on it")
        if plan.empty:
            return refused
        self.last_plan = plan
        self._preemptions += len(plan.preempted)
        try:
            choices, guesses = self._computed(plan)
        except Exception as error:  # out of memory, most likely; whatever it is, the scheduler must not wait for this step
            taking_part = {item.sequence_id for item in plan.items}
            taking_part |= {swap.sequence_id for swap in plan.swapped_in + plan.swapped_out}
            return refused + self._failed(plan, taking_part, f"the step failed: {error}")
        return refused + self._completed(plan, choices, guesses)

    def _drafts(self) -> Mapping[str, int] | None:
        """How many guesses there are for those who decode."""
        if self.drafter is None:
            return None
        if self.drafter.silent:
            self.drafter.blank(list(self.scheduler.pool.queue))
        return self.drafter.counts({one.id: self.live[one.id].tokens for one in self.scheduler.speculating.values()})

    def _computed(self, plan: StepPlan) -> tuple[dict[str, tuple[Choice, ...]], dict[str, Guess]]:
        """A step's tokens by id (none where logits are not finite), and what was guessed of them."""
        texts = {name: live.tokens for name, live in self.live.items()}
        if self.drafter is None:
            return self._chosen(*run(self.model, self.cache, plan, texts), {}), {}
        guesses = self.drafter.guess(plan, texts, {name: live.sampler for name, live in self.live.items()})
        names, logits = run(self.model, self.cache, plan, texts, {name: guess.tokens for name, guess in guesses.items()})
        if guesses and not all(finite(logits)):
            logits = self._without_the_infinite(plan, texts, names, logits, guesses)
        choices = self._chosen(names, logits, guesses)
        self.drafter.settle(plan, texts, {name: len(said) for name, said in choices.items()})
        return choices, guesses

    def _without_the_infinite(self, plan: StepPlan, texts: Mapping[str, list[int]], names: tuple[str, ...],
                              logits: torch.Tensor, guesses: dict[str, Guess]) -> torch.Tensor:
        """Logits of a step in which those whose guesses gave something that is not finite have no guesses."""
        parts = dict(zip(names, logits.split([1 + len(guesses.get(name, NO_GUESS).tokens) for name in names]), strict=True))
        again = [name for name in names if len(parts[name]) > 1 and not all(finite(parts[name]))]
        if again:
            parts.update(zip(again, without_guesses(self.model, self.cache, plan, texts, again)[:, None], strict=True))
            guesses.update(dict.fromkeys(again, NO_GUESS))
        return torch.cat([parts[name] for name in names])

    def _chosen(self, names: tuple[str, ...], logits: torch.Tensor, guesses: Mapping[str, Guess]
                ) -> dict[str, tuple[Choice, ...]]:
        """Tokens for each of these by its rows of logits, and for the samples that part from it here by the same row."""
        rows, samplers, asked, at = [], [], [], 0
        for name in names:
            guess = guesses.get(name, NO_GUESS)
            for one in (self.live[name], *self.live[name].others):
                rows += range(at, at + 1 + len(guess.tokens))
                samplers.append(one.sampler)
                asked.append((one.id, guess))
            at += 1 + len(guess.tokens)
        if len(rows) > at:
            logits = logits[rows]
        found = accepted(samplers, [guess for _, guess in asked], logits)
        return {name: said for (name, _), said in zip(asked, found, strict=True)}

    def _completed(self, plan: StepPlan, found: dict[str, tuple[Choice, ...]], guesses: Mapping[str, Guess]
                   ) -> tuple[Output, ...]:
        """Tell the scheduler what came out, and everybody what became of them."""
        broken = self._drop([name for name in found if name in self.live and not found[name]], "its logits are not finite")
        told = [one.take(found[one.id], self.live[name].sequence.target)
                for name in found if name in self.live for one in (self.live[name], *self.live[name].others)]
        tokens = {one.id: one.tokens for one in told if one.live.sequence is not None}
        branches: dict[str, dict[str, int]] = {}
        for one in told:
            if one.live.sequence is None and one.finish is None:
                branches.setdefault(one.live.request, {})[one.id] = one.tokens[0]
        for one in told:
            self._count(one, found[one.id], guesses.get(one.id, NO_GUESS))
        self.scheduler.complete(plan, self.clock(), tokens, [one.id for one in told if one.finish in ("stop", "error")],
                                branches=branches)
        if broken:
            self._scrub()
        for one in told:
            self._settle(one)
        failed_first = sorted(told, key=lambda one: one.finish != "error")
        return broken + tuple(output for one in failed_first for output in one.outputs())

    def _count(self, told: Told, came: tuple[Choice, ...], guess: Guess) -> None:
        """Guesses, those that became text, and positions computed for the others."""
        drafted, kept = len(guess.tokens), len(told.tokens)
        right = min(kept, len(came) - 1)
        told.live.drafted, told.live.accepted = told.live.drafted + drafted, told.live.accepted + right
        self._drafted, self._accepted = self._drafted + drafted, self._accepted + right
        self._wasted += 1 + drafted - kept

    def _settle(self, told: Told) -> None:
        """What the engine keeps of a sample after a step."""
        live = told.live
        self._output_tokens += len(told.tokens)
        live.others = ()
        if told.finish is not None:
            self._finished[told.finish] += 1
            self.live.pop(live.id, None)
        elif live.sequence is None:
            live.sequence, self.live[live.id] = self.scheduler.sequences[live.id], live

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
        lost = [self.live.pop(name) for name in names if name in self.live]
        self._finished.update(finish for live in lost for _ in (live, *live.others))
        return tuple(Output(id=one.id, sample=one.sample, finish=finish, reason=reason, usage=live.usage())
                     for live in lost for one in (live, *live.others))

    def _scrub(self) -> None:
        """Forget what free blocks hold: those who failed have just left theirs there, for others to find."""
        pool = self.scheduler.pool
        free = pool.take(pool.free)
        with torch.inference_mode():
            self.cache.blank(free)
            if self.drafter is not None:
                self.drafter.blank(free)
        pool.release(free)
