"""The event loop: arrivals, step ends and KV on the link, in integer nanoseconds, over the scheduler that serves.

What happens at one time happens in this order:

    1  steps end, in the order of the servers
    2  transfers of KV land, in the order in which they began
    3  requests arrive, in the order of their source
    4  transfers begin, in the order in which prompts were computed
    5  servers to which any of this happened, and which can plan a step, do so, in the order of the servers

So a request that arrives as a step ends is in the very next step, and a seat freed then is free for it.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from pycore.errors import InputError, StudioError
from pycore.serving.policies.disaggregated import Disaggregated
from pycore.serving.policies.disaggregated import Transfer as Moving
from pycore.serving.policies.router import Router
from pycore.serving.request import Request
from pycore.simulation.arrivals import OpenLoop, Traffic
from pycore.simulation.link import Link
from pycore.simulation.recorder import UNDER_WAY, Entry, record
from pycore.simulation.records import RequestRecord, Transfer
from pycore.simulation.server import Running

PROGRESS_EVERY = 2000
"""Steps between two reports of progress: a few hundredths of a second."""


class Stuck(StudioError):
    """Requests wait, nothing runs and nothing will happen: a scheduler that neither advances nor refuses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a run is: simulated time, steps so far, requests that came and that left."""

    now_ns: int
    steps: int
    arrived: int
    left: int


class Loop:
    """The state of one run; everything it touches belongs to it. `servers` stand in the order of the fleet's schedulers.

    `request_ns` adds up, from what the schedulers hold, the time that requests spent in the system (Little's law).
    """

    def __init__(self, fleet: Router | Disaggregated, traffic: Traffic, *, link: Link | None = None,
                 until_ns: int | None = None):
        self.fleet, self.traffic, self.link, self.until_ns = fleet, traffic, link, until_ns
        self.servers: tuple[Running, ...] = ()
        self.entries: dict[str, Entry] = {}
        self.now = self.request_ns = self.left = 0
        self.asked: dict[str, int] = {}  # KV that is ready and not yet on the link, since when
        self.moving: list[tuple[int, int, Moving]] = []  # (end, asked, transfer), in the order in which they began
        self.transfers: list[Transfer] = []
        self.coupled = isinstance(fleet, Disaggregated) or not isinstance(traffic, OpenLoop)

    # Time -----------------------------------------------------------------------------------------------------------

    def next_ns(self) -> int | None:
        """When something happens next; None when nothing will."""
        times = [due for server in self.servers if (due := server.due_ns) is not None]
        times += [end for end, _, _ in self.moving]
        arrival = self.traffic.next_arrival_ns(self.now)
        if arrival is not None:
            times.append(max(arrival, self.now))
        return min(times, default=None)

    def advance(self, now_ns: int) -> None:
        """Move the clock; every request that a scheduler holds has been in the system that much longer."""
        held = sum([len(scheduler.sequences) for scheduler in self.fleet.schedulers])
        self.request_ns += held * (now_ns - self.now)
        self.now = now_ns

    def horizon_ns(self, server: Running) -> int | None:
        """Up to when nothing is known to disturb a server: a hint that saves timing steps in vain."""
        times = [self.traffic.next_arrival_ns(self.now), self.until_ns]
        if self.coupled:
            times += [other.due_ns for other in self.servers if other is not server]
            times += [end for end, _, _ in self.moving]
        known = [time for time in times if time is not None]
        return max(min(known), self.now + 1) if known else None

    def run(self) -> Iterator[Progress]:
        """Run to the end, reporting now and then. Raises Stuck."""
        reported = 0
        while (then := self.next_ns()) is not None:
            if self.until_ns is not None and then > self.until_ns:
                self.cut(self.until_ns)
                return
            self.advance(then)
            self.turn()
            done = sum([len(server.steps) for server in self.servers])
            if done - reported >= PROGRESS_EVERY:
                reported = done
                yield Progress(now_ns=self.now, steps=done, arrived=len(self.entries), left=self.left)
        inside = [name for scheduler in self.fleet.schedulers for name in scheduler.sequences]
        if inside:
            raise Stuck(f"{len(inside)} requests wait and nothing happens any more; the first is {inside[0]}")

    def cut(self, until_ns: int) -> None:
        """Nothing more is taken or planned; the steps that have begun end."""
        for server in self.servers:
            server.interrupt(until_ns)
        while (dues := [due for server in self.servers if (due := server.due_ns) is not None]):
            self.advance(min(dues))
            for server in self.servers:
                if server.due_ns == self.now:
                    self.ended(server)

    def turn(self) -> None:
        """All that happens at the present time, in the order of the module's docstring."""
        for server in self.servers:
            if server.due_ns == self.now:
                self.ended(server)
        self.land()
        arrived = self.traffic.take(self.now)
        if arrived:
            self.interrupt()
            for request in arrived:
                self.arrive(request)
        if self.asked:
            self.begin_transfers()
        for server in self.servers:
            if server.plans_at(self.now):
                self.plan(server)

    def interrupt(self) -> None:
        """The servers are about to be looked at or changed: no stretch of steps may be ahead of the clock."""
        for server in self.servers:
            server.interrupt(self.now)

    # Servers --------------------------------------------------------------------------------------------------------

    def ended(self, server: Running) -> None:
        """A server's step ends."""
        for event in server.complete(self.fleet):
            if event.kind == "finished":
                self.gone(event.sequence_id)
            elif event.kind == "handed over":
                self.asked[event.sequence_id] = self.now
                self.entries[event.sequence_id].hold(self.now, ("KV in flight", None))

    def plan(self, server: Running) -> None:
        """Let a server plan; whom the policy gave up on is gone."""
        for plan in server.plan(self.now, self.horizon_ns(server)):
            for sequence_id in plan.refused:
                self.refused(self.entries[sequence_id])

    # Requests -------------------------------------------------------------------------------------------------------

    def arrive(self, request: Request) -> None:
        """A request enters, or is refused at the door. Raises InputError for an id that was there before."""
        if request.id in self.entries:
            raise InputError("id", request.id, "accepted: ids that differ from one another")
        entry = self.entries[request.id] = Entry(request)
        entry.sequence = self.fleet.add(request, self.now)
        if entry.sequence.over:
            self.refused(entry)
            return
        for server in self.servers:
            if request.id in server.scheduler.sequences:
                server.recorder.arrived(entry)
                server.changed = True

    def refused(self, entry: Entry) -> None:
        """It will never be served; the run counts it."""
        self.request_ns += entry.give_up(self.now, entry.sequence.reason) - self.now
        self.gone(entry.request.id)

    def gone(self, request_id: str) -> None:
        """A request left the system, one way or another."""
        self.left += 1
        self.traffic.on_finish(request_id, self.now)

    # KV on the link -------------------------------------------------------------------------------------------------

    def land(self) -> None:
        """Transfers that are over: their sequences decode from the goal's next step on."""
        landed = [item for item in self.moving if item[0] == self.now]
        if not landed:
            return
        self.interrupt()
        self.moving = [item for item in self.moving if item[0] != self.now]
        for _, _, moving in landed:
            self.fleet.arrived(moving, self.now)
            self.servers[moving.source].changed = self.servers[moving.goal].changed = True
            self.entries[moving.sequence_id].hold(self.now, UNDER_WAY)

    def begin_transfers(self) -> None:
        """Whatever can start to move now; the others are told why not."""
        self.interrupt()
        for moving in self.fleet.transfers(self.now):
            asked = self.asked.pop(moving.sequence_id)
            end = self.now + self.link.length_ns(moving.size_bytes)
            self.moving.append((end, asked, moving))
            self.transfers.append(Transfer(moving.sequence_id, moving.source, moving.goal, asked, self.now, end,
                                           moving.size_bytes))
        for held in self.fleet.held_back():
            self.entries[held.sequence_id].hold(self.now, (held.reason, held.blocker))

    # The end --------------------------------------------------------------------------------------------------------

    def close(self) -> int:
        """Close what is open; when the last step ended (a run cut while KV moved: when that was)."""
        for server in self.servers:
            server.recorder.close()
        ends = [server.free_ns for server in self.servers if server.steps]
        inside = any(scheduler.sequences for scheduler in self.fleet.schedulers)
        return max(ends + [self.now] * inside, default=0)

    def requests(self, makespan_ns: int) -> tuple[RequestRecord, ...]:
        """Requests in order of arrival."""
        return tuple([record(entry, ended_ns=max(self.now, makespan_ns)) for entry in self.entries.values()])
