"""The event loop: arrivals, step ends and KV on the link, in integer nanoseconds, over the scheduler that serves.

    *_, result = steps(Setup(engines=(engine,)), traffic)      progress on the way, the Result last
    result = run(Setup(engines=(engine,)), traffic)

What happens at one time happens in this order: (1) steps end, in the order of the servers; (2) transfers of KV land, in
the order in which they were asked for; (3) requests arrive, in the order of their source; (4) servers that can plan a
step do so, in the order of the servers. So a request that arrives as a step ends is in the very next step, a freed seat
is free for it, and nothing depends on a heap's whim or on the order of a set: same input, same run, on every machine.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from pycore.errors import InputError, StudioError
from pycore.serving.request import Request
from pycore.simulation.arrivals import Traffic
from pycore.simulation.recorder import Entry, record
from pycore.simulation.records import RequestRecord, Result
from pycore.simulation.server import Engine, Running

PROGRESS_EVERY = 1000
"""Steps between two reports of progress: a few hundredths of a second."""


class Stuck(StudioError):
    """Requests wait, nothing runs and nothing will happen: a scheduler that neither advances nor refuses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a run is: simulated time, steps so far, requests that came and that left, those in the system."""

    now_ns: int
    steps: int
    arrived: int
    left: int

    @property
    def inside(self) -> int:
        return self.arrived - self.left


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What is simulated: one engine a replica. `until_ns`: the run is cut there (nothing new is taken or planned)."""

    engines: tuple[Engine, ...]
    until_ns: int | None = None
    seed: int | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self):
        if not self.engines:
            raise InputError("replicas", 0, "accepted: at least one engine")


class Loop:
    """The state of one run; everything it touches belongs to it."""

    def __init__(self, setup: Setup, traffic: Traffic):
        self.setup, self.traffic = setup, traffic
        self.entries: dict[str, Entry] = {}
        self.order: list[Entry] = []
        self.servers = tuple(Running(engine, number, self.entries, name=f"replica {number + 1}")
                             for number, engine in enumerate(setup.engines))
        self.now = self.request_ns = self.left = 0

    # Time -------------------------------------------------------------------------------------------------------

    def next_ns(self) -> int | None:
        """When something happens next; None when nothing will."""
        times = [due for server in self.servers if (due := server.due_ns) is not None]
        arrival = self.traffic.next_arrival_ns(self.now)
        if arrival is not None:
            times.append(max(arrival, self.now))
        return min(times, default=None)

    def advance(self, now_ns: int) -> None:
        """Move the clock; every request that a scheduler holds has been in the system that much longer."""
        held = sum([len(server.scheduler.sequences) for server in self.servers])
        self.request_ns += held * (now_ns - self.now)
        self.now = now_ns

    def turn(self) -> None:
        """All that happens at the present time, in the order of the module's docstring."""
        now, ended = self.now, []
        for server in self.servers:
            while server.due_ns == now:
                ended.append(server)
                for event in server.complete(now):
                    if event.kind == "finished":
                        self.gone(event.sequence_id)
        arrived = self.traffic.take(now)
        for request in arrived:
            self.arrive(request)
        horizon = self.horizon_ns()
        for server in self.servers:
            if server in ended or server.idle:
                self.plan(server, horizon)

    def horizon_ns(self) -> int | None:
        """Up to when the next arrival will not disturb a server: a hint that saves timing steps in vain."""
        ends = [end for end in (self.traffic.next_arrival_ns(self.now), self.setup.until_ns) if end is not None]
        return max(min(ends), self.now + 1) if ends else None

    # Requests ---------------------------------------------------------------------------------------------------

    def arrive(self, request: Request) -> None:
        """A request enters, or is refused at the door."""
        if request.id in self.entries:
            raise InputError("id", request.id, "accepted: ids that differ from one another")
        entry = self.entries[request.id] = Entry(request)
        self.order.append(entry)
        server = self.servers[0]
        server.interrupt(self.now)
        sequence = server.scheduler.add(request, self.now)
        entry.sequences.append(sequence)
        if sequence.status == "refused":
            self.refused(entry, sequence.reason)
        else:
            server.recorder.arrived(entry)

    def refused(self, entry: Entry, reason: str) -> None:
        """It will never be served; the run counts it."""
        entry.settle(self.now)
        entry.dropped, entry.dropped_ns = reason, self.now
        self.gone(entry.request.id)

    def gone(self, request_id: str) -> None:
        """A request left the system, one way or another."""
        self.left += 1
        self.traffic.on_finish(request_id, self.now)

    def plan(self, server: Running, horizon_ns: int | None) -> None:
        """Let a server plan; whom the policy gave up on is gone."""
        for plan in server.plan(self.now, horizon_ns):
            for sequence_id in plan.refused:
                entry = self.entries[sequence_id]
                self.refused(entry, entry.sequences[-1].reason)

    # The run ----------------------------------------------------------------------------------------------------

    def run(self) -> Iterator[Progress]:
        """Run to the end, reporting now and then."""
        reported = 0
        while (then := self.next_ns()) is not None:
            if self.setup.until_ns is not None and then > self.setup.until_ns:
                self.cut(self.setup.until_ns)
                break
            self.advance(then)
            self.turn()
            done = sum([len(server.steps) for server in self.servers])
            if done - reported >= PROGRESS_EVERY:
                reported = done
                yield Progress(now_ns=self.now, steps=done, arrived=len(self.order), left=self.left)
        inside = [entry.request.id for entry in self.order if not over(entry)]
        if inside and self.setup.until_ns is None:
            raise Stuck(f"{len(inside)} requests wait and nothing happens any more; the first is {inside[0]}")

    def cut(self, until_ns: int) -> None:
        """Stop the clock: a step that has begun is the last of its server."""
        self.advance(until_ns)
        for server in self.servers:
            server.interrupt(until_ns)

    def result(self) -> Result:
        """The records of the run."""
        for server in self.servers:
            server.recorder.close()
        makespan = max([server.free_ns for server in self.servers if server.steps], default=0)
        return Result(
            policy=self.setup.engines[0].policy.name, requests=self.records(makespan),
            servers=tuple(server.record() for server in self.servers), makespan_ns=makespan,
            request_ns=self.request_ns, seed=self.setup.seed, notes=self.setup.notes)

    def records(self, makespan_ns: int) -> tuple[RequestRecord, ...]:
        """Requests in order of arrival."""
        return tuple([record(entry, ended_ns=max(self.now, makespan_ns)) for entry in self.order])


def over(entry: Entry) -> bool:
    """Whether a request has left the system."""
    return entry.dropped is not None or bool(entry.sequences) and entry.sequences[-1].over


def steps(setup: Setup, traffic: Traffic) -> Iterator[Progress | Result]:
    """Progress on the way, the Result last. Raises InputError for two requests of one id, Stuck, and what cost models
    and traffic raise."""
    loop = Loop(setup, traffic)
    yield from loop.run()
    yield loop.result()


def run(setup: Setup, traffic: Traffic) -> Result:
    """The whole run at once."""
    *_, result = steps(setup, traffic)
    return result
