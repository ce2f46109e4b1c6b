"""Drives a scheduler step by step with a fake engine whose tokens are a hash of everything read through the KV blocks.

The engine keeps what each physical block holds. A wrong block table, a block shared by mistake, a copy or swap left out
or made too late: each changes a context, so it changes tokens. The oracle is the same hash over the plain text.
"""

from collections import deque
from dataclasses import dataclass, field
from hashlib import blake2b

from pycore.serving.blocks import BlockPool
from pycore.serving.limits import Limits
from pycore.serving.policies.cache_aware import CacheAware
from pycore.serving.policies.chunked import Chunked
from pycore.serving.policies.decode_first import DecodeFirst
from pycore.serving.policies.fcfs import Fcfs
from pycore.serving.policies.priority import Priority
from pycore.serving.policies.sjf import Sjf
from pycore.serving.policies.slo_aware import SloAware
from pycore.serving.request import Request
from pycore.serving.scheduler import Scheduler

POLICIES = {
    "fcfs": Fcfs(), "decode_first": DecodeFirst(), "chunked": Chunked(), "sjf": Sjf(), "sjf chunks": Sjf(chunks=True),
    "cache_aware": CacheAware(window=4), "cache_aware patient": CacheAware(patience_ns=5), "slo_aware": SloAware(),
    "slo_aware shed": SloAware(shed=True, prefill_ns_per_token=1), "priority": Priority(),
    "priority mild": Priority(preemptive=False),
}
ARRIVAL_ORDER = ("fcfs", "decode_first", "chunked")


def next_token(context) -> int:
    """The fake model: a hash of the whole context."""
    return int.from_bytes(blake2b(repr(tuple(context)).encode(), digest_size=2).digest(), "big")


def oracle(prompt, count: int) -> list[int]:
    """What the model says without any scheduler."""
    context = list(prompt)
    for _ in range(count):
        context.append(next_token(context))
    return context[len(prompt):]


def text(length: int, seed: int = 0) -> tuple[int, ...]:
    """A prompt of so many token ids; equal seeds are prefixes of each other."""
    return tuple((seed * 7919 + i * 31) % 997 for i in range(length))


def request(name, prompt=8, output=4, *, arrival=0, seed=None, **more) -> Request:
    """A request of `prompt` tokens: with token ids from `text` where a seed is given."""
    ids = None if seed is None else text(prompt, seed)
    return Request(id=str(name), arrival_ns=arrival, prompt_tokens=prompt, output_tokens=output, token_ids=ids, **more)


def scheduler(policy="chunked", blocks=64, *, block_size=4, watermark=0.0, caching=True, null_block=False,
              preemption="recompute", host_blocks=0, block_bytes=0, hands_over=False, **limits) -> Scheduler:
    """A scheduler with small defaults."""
    pool = BlockPool(blocks, block_size, watermark=watermark, prefix_caching=caching, null_block=null_block)
    policy = POLICIES[policy] if isinstance(policy, str) else policy
    return Scheduler(policy, pool, Limits(**limits), preemption=preemption, host_blocks=host_blocks,
                     block_bytes=block_bytes, hands_over=hands_over)


@dataclass
class Engine:
    """Executes plans on token ids. `texts` is what each sequence consists of so far: prompt, then tokens out."""

    block_size: int
    texts: dict[str, list[int]] = field(default_factory=dict)
    device: dict[int, list[int]] = field(default_factory=dict)
    host: dict[int, list[int]] = field(default_factory=dict)
    computed: dict[str, int] = field(default_factory=dict)  # tokens computed for each sequence, repeated ones again

    def run(self, plan) -> dict[str, int]:
        """One step: moves, then writes, then reads. Returns the tokens of those that emit."""
        for swap in plan.swapped_out:
            for device, host in zip(swap.device_blocks, swap.host_blocks, strict=True):
                self.host[host] = list(self.device[device])
        for source, target in plan.copies:
            self.device[target] = list(self.device[source])
        for swap in plan.swapped_in:
            for device, host in zip(swap.device_blocks, swap.host_blocks, strict=True):
                self.device[device] = list(self.host[host])
        items = plan.items
        self._write(items)
        return {item.sequence_id: next_token(self._context(item)) for item in items if item.emits}

    def drafts(self) -> dict[str, int] | None:
        """How many guesses there are, by id; None: as many as the limits allow."""
        return None

    def after(self, served: Scheduler) -> None:
        """Look at a scheduler whose step has just completed."""

    def _write(self, items) -> None:
        size = self.block_size
        writers: dict[int, str] = {}
        for item in items:
            for position in range(item.start, item.start + item.count):
                block = item.block_table[position // size]
                assert writers.setdefault(block, item.sequence_id) == item.sequence_id, f"two write block {block}"
                cells = self.device.setdefault(block, [-1] * size)
                cells[position % size] = self.texts[item.sequence_id][position]
            self.computed[item.sequence_id] = self.computed.get(item.sequence_id, 0) + item.count
        for item in items:
            for block in item.block_table:
                assert writers.get(block, item.sequence_id) == item.sequence_id, f"block {block} is written while read"

    def _context(self, item) -> list[int]:
        end, size = item.start + item.count, self.block_size
        context = [self.device[item.block_table[at // size]][at % size] for at in range(end)]
        assert context == self.texts[item.sequence_id][:end], f"{item.sequence_id} reads somebody else's tokens"
        return context


@dataclass
class Run:
    """What a drive saw."""

    sequences: dict = field(default_factory=dict)
    plans: list = field(default_factory=list)
    events: list = field(default_factory=list)
    engine: Engine | None = None


def drive(served: Scheduler, requests, *, actions=(), stops=None, tokens=True, engine=None,
          most_steps=20_000) -> Run:
    """Run to the end: requests arrive at step `arrival_ns`, time counts steps, every step is checked.

    actions: (step, "abort" | "fork", id). stops: id -> number of tokens after which the model stops by itself.
    """
    run = Run(engine=engine or Engine(served.pool.block_size))
    todo = deque(sorted(requests, key=lambda request: request.arrival_ns))
    actions = deque(sorted(actions))
    flight, clock, stops = deque(), 0, stops or {}
    while todo or not served.idle:
        assert clock < most_steps, "no end in sight"
        while todo and todo[0].arrival_ns <= clock:
            _add(served, todo.popleft(), run, clock)
        while actions and actions[0][0] <= clock and not flight:
            _act(served, actions.popleft(), run, clock)
        plan = served.schedule(clock, run.engine.drafts()) if len(flight) < served.limits.steps_in_flight else None
        if plan is not None and not plan.empty:
            _note(served, plan, run)
            flight.append(plan)
            if len(flight) < served.limits.steps_in_flight:
                clock += 1
                continue
        elif not flight:
            assert served.idle or plan is None, f"nothing to do for {[s.id for s in served.sequences.values()]}"
            assert todo or served.idle, "stuck"
        clock += 1
        if flight:
            _finish(served, flight.popleft(), run, clock, stops, tokens)
    for sequence in run.sequences.values():
        assert sequence.over, f"{sequence.id} was left behind {sequence.status}"
    return run


def _add(served, request, run, clock) -> None:
    run.sequences[request.id] = served.add(request, clock)
    ids = request.token_ids or tuple(ord(letter) for letter in request.id) + (0,) * request.prompt_tokens
    run.engine.texts[request.id] = list(ids[:request.prompt_tokens])


def _act(served, action, run, clock) -> None:
    _, kind, name = action
    sequence = served.sequences.get(name)
    if kind == "abort":
        assert served.abort(name, clock) == (sequence is not None)
    elif sequence is not None and f"{name}+" not in run.sequences:
        run.sequences[f"{name}+"] = served.fork(name, f"{name}+")
        run.engine.texts[f"{name}+"] = list(run.engine.texts[name])


def _note(served, plan, run) -> None:
    served.check()
    run.plans.append(plan)
    items = plan.items
    names = [item.sequence_id for item in items]
    assert len(set(names)) == len(names), "a sequence advances twice in one step"
    assert plan.tokens == sum(item.count for item in items)
    assert all(item.count == 1 + item.drafts for item in items if item.decode)
    assert plan.decode_context == sum(item.start + 1 for item in items if item.decode) == sum(plan.decode_contexts())
    assert plan.decode_longest == max(plan.decode_contexts(), default=0)
    assert plan.tokens <= served.limits.max_batched_tokens and plan.running <= served.limits.max_sequences
    held = {hold.sequence_id for hold in plan.held_back}
    live = {name for name, sequence in served.sequences.items()}
    assert held | set(names) >= live, f"no reason is given for {live - held - set(names)}"


def _finish(served, plan, run, clock, stops, tokens) -> None:
    before = plan.items
    out = run.engine.run(plan)
    assert plan.items == before
    said = {name: token if isinstance(token, tuple) else (token,) for name, token in out.items() if name in served.sequences}
    left = {name: stops.get(name, 10**9) - served.sequences[name].generated for name in said}
    said = {name: given[:max(1, left[name])] for name, given in said.items()}
    for name, given in said.items():
        run.engine.texts[name] += given
    stopped = [name for name, given in said.items() if len(given) >= left[name]]
    if tokens:
        run.events += served.complete(plan, clock, out | said, stopped)
    else:
        run.events += served.complete(plan, clock, None, stopped, accepted={name: len(given) - 1 for name, given in said.items()})
    served.check()
    run.engine.after(served)
