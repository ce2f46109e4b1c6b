"""Several replicas behind a router: which scheduler gets a request. Each replica has its own pool, queue and steps.

A fleet is what a driver drives: `schedulers`, each with its own steps, and `add`, `schedule`, `complete`, `abort`,
`transfers`, `arrived`. A router never moves anything, so its `transfers` are none (disaggregated.py has some).
"""

from collections.abc import Iterable, Mapping
from typing import Literal

from pycore.errors import InputError
from pycore.serving.events import Event
from pycore.serving.plan import StepPlan
from pycore.serving.prefix import Key, chained_keys
from pycore.serving.request import Request
from pycore.serving.scheduler import Scheduler
from pycore.serving.sequence import Sequence

Choice = Literal["round robin", "least loaded", "prefix affinity"]


class Router:
    """Replicas and the rule by which a request finds one.

    round robin      in turn
    least loaded     fewest unfinished requests; the first of equals
    prefix affinity  fewest blocks to read and to hold: those of prompts that wait or are being read there, those of its
                     own prompt that are not cached there, and those in use; of equals the fewest unfinished requests, then
                     the first. A cached prefix draws a request in by what it saves, and a crowd keeps it away by what it
                     costs (the cost of NVIDIA Dynamo's KV router, docs.nvidia.com/dynamo, "Routing Concepts", both
                     weights 1)
    """

    def __init__(self, schedulers: Iterable[Scheduler], choice: Choice = "round robin"):
        self.schedulers, self.choice = tuple(schedulers), choice
        if not self.schedulers:
            raise InputError("replicas", 0, "at least one")
        if choice not in ("round robin", "least loaded", "prefix affinity"):
            raise InputError("router", choice, "round robin, least loaded or prefix affinity")
        self._next = 0
        self._places: dict[str, int] = {}  # where each request was sent; read lazily, so finished ones may stay

    @property
    def idle(self) -> bool:
        return all(scheduler.idle for scheduler in self.schedulers)

    def add(self, request: Request, now_ns: int | None = None) -> Sequence:
        """Route a request. Raises InputError for an id in use on any replica."""
        if self._holder(request.id) is not None:
            raise InputError("id", request.id, "an id that no unfinished request has")
        index = self._choose(request)
        self._places[request.id] = index
        return self.schedulers[index].add(request, now_ns)

    def place(self, sequence_id: str) -> int | None:
        """Index of the replica that a request was sent to."""
        return self._places.get(sequence_id)

    def schedule(self, index: int, now_ns: int) -> StepPlan:
        return self.schedulers[index].schedule(now_ns)

    def complete(self, index: int, plan: StepPlan, now_ns: int, tokens: Mapping[str, int] | None = None,
                 stopped: Iterable[str] = ()) -> tuple[Event, ...]:
        """See Scheduler.complete."""
        return self.schedulers[index].complete(plan, now_ns, tokens, stopped)

    def abort(self, sequence_id: str, now_ns: int | None = None) -> bool:
        holder = self._holder(sequence_id)
        return holder is not None and holder.abort(sequence_id, now_ns)

    def transfers(self, now_ns: int) -> tuple:
        return ()

    def check(self) -> None:
        """Every replica's check. Raises AssertionError."""
        for scheduler in self.schedulers:
            scheduler.check()

    def _holder(self, sequence_id: str) -> Scheduler | None:
        index = self._places.get(sequence_id)
        holder = None if index is None else self.schedulers[index]
        return holder if holder is not None and sequence_id in holder.sequences else None

    def _choose(self, request: Request) -> int:
        if self.choice == "round robin":
            self._next += 1
            return (self._next - 1) % len(self.schedulers)
        costs = [(0, len(scheduler.sequences)) for scheduler in self.schedulers]
        if self.choice == "prefix affinity":
            keys = _keys(request, self.schedulers[0].pool.block_size)
            costs = [(_blocks(scheduler, request, keys), load) for scheduler, (_, load)
                     in zip(self.schedulers, costs, strict=True)]
        return costs.index(min(costs))


def _blocks(scheduler: Scheduler, request: Request, keys: tuple[Key, ...]) -> int:
    """Blocks that a replica would have to read and to hold with this request."""
    pool = scheduler.pool
    cached = len(pool.match(keys)) * pool.block_size if keys else 0
    return pool.blocks_for(scheduler.unread_tokens + request.prompt_tokens - cached) + pool.used


def _keys(request: Request, block_size: int) -> tuple[Key, ...]:
    """Keys of the full blocks of a prompt."""
    if request.prefix_hashes is not None:
        return request.prefix_hashes[:request.prompt_tokens // block_size]
    return chained_keys(request.token_ids, block_size) if request.token_ids is not None else ()
