"""A simulated run: what is simulated (`Setup`), and the two ways to run it.

    *_, result = steps(Setup(engines=(engine,)), traffic)      progress on the way, the Result last
    result = run(Setup(engines=(engine,)), traffic)

`loop` says in which order things happen at one time. Two runs of equal input are equal, in any process on any machine:
times are integers, and nothing depends on a hash, a clock or the order of a set.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from pycore.errors import InputError
from pycore.serving.policies.disaggregated import Disaggregated
from pycore.serving.policies.router import Choice, Router
from pycore.simulation.arrivals import Traffic
from pycore.simulation.link import Link
from pycore.simulation.loop import Loop, Progress
from pycore.simulation.records import Result
from pycore.simulation.server import Engine, Running

SUMMED = ("waits with more than 64 changes of reason are summed by reason but for the end: how long each reason held is "
          "exact, when is not")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What is simulated: one engine a replica, behind a router; or, with `prefill` above 0, that many engines that read
    prompts and the rest that decode, with KV moving over `link`. `until_ns`: the run is cut there."""

    engines: tuple[Engine, ...]
    router: Choice = "round robin"
    prefill: int = 0
    link: Link | None = None
    until_ns: int | None = None
    seed: int | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self):
        if not self.engines:
            raise InputError("replicas", 0, "accepted: at least one engine")
        if not 0 <= self.prefill < len(self.engines):
            raise InputError("prefill", self.prefill, f"accepted: 0 to {len(self.engines) - 1} of the engines")
        if self.prefill and (self.link is None or not all(engine.block_bytes for engine in self.engines)):
            raise InputError("link", "none", "apart, prefill and decode need a link and the size of a block in bytes")

    @property
    def policy(self) -> str:
        """The policy's name, as a result carries it."""
        return "disaggregated" if self.prefill else self.engines[0].policy.name

    def names(self) -> list[tuple[str, str]]:
        """Name and role of each server."""
        if self.prefill:
            return [(f"prefill {number + 1}", "prefill") if number < self.prefill else
                    (f"decode {number + 1 - self.prefill}", "decode") for number in range(len(self.engines))]
        return [(f"replica {number + 1}", "both") for number in range(len(self.engines))]

    def loop(self, traffic: Traffic) -> Loop:
        """Fresh servers, ready to run."""
        schedulers = [engine.scheduler(hands_over=number < self.prefill) for number, engine in enumerate(self.engines)]
        if self.prefill:
            fleet: Router | Disaggregated = Disaggregated(schedulers[:self.prefill], schedulers[self.prefill:])
        else:
            fleet = Router(schedulers, self.router)
        loop = Loop(fleet, traffic, link=self.link, until_ns=self.until_ns)
        loop.servers = tuple(
            Running(engine, number, loop.entries, schedulers[number], name=name, role=role)
            for number, (engine, (name, role)) in enumerate(zip(self.engines, self.names(), strict=True)))
        return loop


def steps(setup: Setup, traffic: Traffic) -> Iterator[Progress | Result]:
    """Progress on the way, the Result last. Raises InputError for two requests of one id and for a run that outlasts
    the clock (2^63 ns), Stuck, and what cost models and traffic raise."""
    loop = setup.loop(traffic)
    try:
        yield from loop.run()
    except OverflowError:  # the times of tokens are kept as 64-bit numbers
        raise InputError("workload", "it lasts longer than the clock counts", "accepted: a run of at most 292 years "
                         "(2^63 ns): requests, pauses and steps closer together") from None
    makespan = loop.close()
    notes = setup.notes + (SUMMED,) * any(server.recorder.ledger.summed for server in loop.servers)
    yield Result(policy=setup.policy, requests=loop.requests(makespan), transfers=tuple(loop.transfers),
                 servers=tuple(server.record() for server in loop.servers), makespan_ns=makespan,
                 request_ns=loop.request_ns, seed=setup.seed, notes=notes)


def run(setup: Setup, traffic: Traffic) -> Result:
    """The whole run at once."""
    *_, result = steps(setup, traffic)
    return result
