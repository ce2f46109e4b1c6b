"""Several replicas behind a router: which scheduler gets a request. Each replica has its own pool, queue and steps.

A fleet is what a driver drives: `schedulers`, each with its own steps, and `add`, `schedule`, `complete`, `abort`,
`transfers`, `arrived`. A router never moves anything, so its `transfers` are none (disaggregated.py has some).
"""

from collections import OrderedDict
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
REMEMBERED_PREFIXES = 65_536


class Router:
    """Replicas and the rule by which a request finds one.

    round robin      in turn
    least loaded     fewest unfinished requests; the first of equals
    prefix affinity  where most of its prompt is cached, of equals the least loaded; where none is, where its first block
                     was sent last; else, or when that replica has more than `most_ahead` requests more than the least
                     loaded, the least loaded
    """

    def __init__(self, schedulers: Iterable[Scheduler], choice: Choice = "round robin", *, most_ahead: int = 32):
        self.schedulers, self.choice, self.most_ahead = tuple(schedulers), choice, most_ahead
        if not self.schedulers:
            raise InputError("replicas", 0, "at least one")
        if choice not in ("round robin", "least loaded", "prefix affinity"):
            raise InputError("router", choice, "round robin, least loaded or prefix affinity")
        self._next = 0
        self._places: dict[str, int] = {}  # where each request was sent; read lazily, so finished ones may stay
        self._homes: OrderedDict[Key, int] = OrderedDict()  # where each first block was sent last

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
        loads = [len(scheduler.sequences) for scheduler in self.schedulers]
        least = loads.index(min(loads))
        if self.choice == "least loaded":
            return least
        if self.choice == "round robin":
            self._next += 1
            return (self._next - 1) % len(loads)
        index = self._affine(request, loads, least)
        return index if loads[index] - loads[least] <= self.most_ahead else least

    def _affine(self, request: Request, loads: list[int], least: int) -> int:
        keys = _keys(request, self.schedulers[0].pool.block_size)
        if not keys:
            return least
        cached = [len(scheduler.pool.match(keys)) for scheduler in self.schedulers]
        best = self._homes.get(keys[0], least)
        if any(cached):
            most = max(cached)
            best = min((index for index, count in enumerate(cached) if count == most), key=loads.__getitem__)
        self._homes[keys[0]] = best
        self._homes.move_to_end(keys[0])
        if len(self._homes) > REMEMBERED_PREFIXES:
            self._homes.popitem(last=False)
        return best


def _keys(request: Request, block_size: int) -> tuple[Key, ...]:
    """Keys of the full blocks of a prompt."""
    if request.prefix_hashes is not None:
        return request.prefix_hashes[:request.prompt_tokens // block_size]
    return chained_keys(request.token_ids, block_size) if request.token_ids is not None else ()
