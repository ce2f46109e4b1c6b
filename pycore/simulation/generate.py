"""From a workload to its requests. Each kind of draw has its own stream of random numbers, so changing the answers'
lengths leaves the arrivals as they are."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from math import exp
from random import Random

from pycore.errors import InputError, UnknownName
from pycore.serving.request import Request
from pycore.simulation import arrivals
from pycore.simulation.arrivals import Chain, ClosedLoop, OpenLoop, Traffic, microseconds, standard_normal, unit_exponential
from pycore.simulation.lengths import Empirical, rows_sampler
from pycore.simulation.traces import samples
from pycore.simulation.traces.trace import Trace
from pycore.simulation.workload import Prefix, Workload

ARRIVALS, PROMPTS, OUTPUTS, PREFIXES, PAUSES, PREDICTIONS, PRIORITIES = range(7)
STREAMS = 16  # room for more kinds of draws: seeds of different workloads never meet
SHARED, OWN = 1 << 61, 1 << 62  # identifiers of blocks: of shared texts, of conversations
NEVER = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    """A workload's requests, ready to run any number of times.

    `requests` in order of number; where `chains` is not empty they wait for one another and `arrival_ns` counts only for
    the first of each chain. `notes`: what a trace's reader did.
    """

    workload: Workload
    requests: tuple[Request, ...]
    chains: tuple[Chain, ...] = ()
    notes: tuple[str, ...] = ()

    def traffic(self) -> Traffic:
        """A fresh run's arrivals."""
        return ClosedLoop(self.chains) if self.chains else OpenLoop(self.requests)


def generate(workload: Workload, *, block_size: int = 16, traces: Mapping[str, Trace] | None = None) -> Generated:
    """The requests of a workload; `block_size` is that of the pool whose prefixes they may share.

    `traces` are looked up first, then the samples. The same workload gives the same requests in every process and in
    CPython and Pyodide alike. Raises InputError, UnknownName for a trace that is not there.
    """
    if block_size < 1:
        raise InputError("block_size", block_size, "accepted: a whole number of tokens from 1")
    if workload.arrivals == "replay":
        return replayed(workload, block_size, traces or {})
    draft = Draft(workload, block_size, traces or {})
    if workload.arrivals != "closed" and workload.turns == 1:
        times = islice(times_ns(workload), workload.requests)
        return Generated(workload=workload, requests=tuple(
            draft.request(index, time, session=index, past=0) for index, time in enumerate(times)))
    return chained(workload, draft)


def stream(workload: Workload, kind: int) -> Random:
    """The random numbers of one kind of draw."""
    return Random(workload.seed * STREAMS + kind)


def times_ns(workload: Workload) -> Iterator[int]:
    """Arrivals of an open process."""
    rng = stream(workload, ARRIVALS)
    makers: dict[str, Callable[[], Iterator[int]]] = {
        "poisson": lambda: arrivals.poisson(workload.rate, rng),
        "gamma": lambda: arrivals.gamma(workload.rate, workload.cv, rng),
        "deterministic": lambda: arrivals.deterministic(workload.rate),
        "onoff": lambda: arrivals.on_off(workload.rate, workload.on, workload.off, rng),
        "batch": arrivals.batch}
    return makers[workload.arrivals]()


def trace_named(name: str, traces: Mapping[str, Trace], seed: int) -> Trace:
    """A trace given, else a sample. Raises UnknownName."""
    if name in traces:
        return traces[name]
    try:
        return samples.sample(name, seed)
    except UnknownName:
        raise UnknownName("workload", name, "accepted traces: " + ", ".join((*traces, *samples.names()))) from None


def replayed(workload: Workload, block_size: int, traces: Mapping[str, Trace]) -> Generated:
    """The rows of a trace, the first `requests` of them."""
    trace = trace_named(workload.trace, traces, workload.seed)
    requests = trace.requests(block_size, workload.speed)[:workload.requests or len(trace)]
    extras = Extras(workload)
    given = {name for name, _ in trace.extras}
    return Generated(workload=workload, notes=trace.notes,
                     requests=tuple(extras.added(request, given) for request in requests))


class Extras:
    """What a workload adds to every request: deadline, prediction, priority."""

    def __init__(self, workload: Workload):
        self.workload = workload
        self.predictions, self.priorities = stream(workload, PREDICTIONS), stream(workload, PRIORITIES)
        kind, _, sigma = workload.predict.partition(":")
        self.sigma = float(sigma) if kind == "noise" else None

    def of(self, arrival_ns: int, output: int) -> dict[str, int | None]:
        """Fields of a request."""
        workload = self.workload
        due = None if workload.ttft_ns is None else arrival_ns + workload.ttft_ns
        predicted = output if workload.predict == "exact" else None
        if self.sigma is not None:
            predicted = max(1, round(output * exp(self.sigma * standard_normal(self.predictions))))
        urgent = workload.urgent and self.priorities.random() < workload.urgent
        return {"deadline_ns": due, "predicted_output": predicted, "priority": 0 if urgent or not workload.urgent else 1}

    def added(self, request: Request, given: set[str]) -> Request:
        """A trace's request with what the trace does not say itself."""
        fields = {name: value for name, value in self.of(request.arrival_ns, request.output_tokens).items()
                  if name not in given}
        return Request(id=request.id, arrival_ns=request.arrival_ns, prompt_tokens=request.prompt_tokens,
                       output_tokens=request.output_tokens, token_ids=request.token_ids,
                       prefix_hashes=request.prefix_hashes,
                       **{name: getattr(request, name) for name in ("deadline_ns", "predicted_output", "priority")
                          if name in given}, **fields)


class Draft:
    """Draws one request after the other."""

    def __init__(self, workload: Workload, block_size: int, traces: Mapping[str, Trace]):
        self.workload, self.block_size = workload, block_size
        self.lengths = pair_sampler(workload, traces)
        self.prefixes, self.extras, self.long = stream(workload, PREFIXES), Extras(workload), dict(
            (place - 1, size) for size, place in workload.long)
        self.shared: dict[int, tuple[int, int]] = {}  # conversation -> (shared tokens in front, which text)

    def request(self, index: int, arrival_ns: int, *, session: int, past: int) -> Request:
        """The next request: number `index` of all, with `past` tokens of its conversation before it."""
        prompt, output = self.lengths()
        prompt = self.long.get(index, prompt)
        if session not in self.shared:
            self.shared[session] = shared_text(self.workload.prefix, self.prefixes)
        front, which = self.shared[session]
        prompt += past or front
        return Request(id=str(index + 1), arrival_ns=arrival_ns, prompt_tokens=prompt, output_tokens=output,
                       prefix_hashes=self.hashes(session, front, which, prompt + output),
                       **self.extras.of(arrival_ns, output))

    def hashes(self, session: int, front: int, which: int, known: int) -> tuple[int, ...] | None:
        """One identifier a block: of the shared text's full blocks, then (in conversations) of the conversation's."""
        common = [SHARED + (which << 32) + block for block in range(front // self.block_size)]
        if self.workload.turns > 1:
            common += [OWN + (session << 32) + block for block in range(len(common), known // self.block_size)]
        return tuple(common) or None


def pair_sampler(workload: Workload, traces: Mapping[str, Trace]) -> Callable[[], tuple[int, int]]:
    """Draws (prompt, output). Of one and the same trace, rows are drawn whole."""
    prompts, outputs = stream(workload, PROMPTS), stream(workload, OUTPUTS)
    asked = (workload.prompt, workload.output)
    rows = [trace_named(one.trace, traces, workload.seed).pairs if isinstance(one, Empirical) else None for one in asked]
    if rows[0] is not None and asked[0] == asked[1]:
        return rows_sampler(rows[0], prompts)
    made = []
    for place, (one, pairs, rng) in enumerate(zip(asked, rows, (prompts, outputs), strict=True)):
        if pairs is None:
            made.append(one.sampler(rng))
        else:
            made.append(column_sampler(rows_sampler(pairs, rng), place))
    prompt, output = made
    return lambda: (prompt(), output())


def column_sampler(draw: Callable[[], tuple[int, int]], place: int) -> Callable[[], int]:
    """One column of whole rows."""
    return lambda: draw()[place]


def shared_text(prefix: Prefix | None, rng: Random) -> tuple[int, int]:
    """(tokens, which text) in front of a conversation; (0, 0) for none."""
    if prefix is None or rng.random() >= prefix.share:
        return 0, 0
    return prefix.tokens, int(rng.random() * prefix.texts)


def chained(workload: Workload, draft: Draft) -> Generated:
    """Users of a closed loop, or conversations that begin with an open process: requests that wait for one another."""
    chains = workload.users if workload.arrivals == "closed" else -(-workload.requests // workload.turns)
    pauses, closed = stream(workload, PAUSES), workload.arrivals == "closed"
    opens = [pause_ns(workload, pauses) for _ in range(chains)] if closed else list(islice(times_ns(workload), chains))
    members: list[list[Request]] = [[] for _ in range(chains)]
    think: list[list[int]] = [[] for _ in range(chains)]
    every = []
    for index in range(workload.requests):
        chain, place = (index % chains, index // chains) if closed else divmod(index, workload.turns)
        turn, mine = place % workload.turns, members[chain]
        past = mine[-1].prompt_tokens + mine[-1].output_tokens if turn else 0
        session = chain + chains * (place // workload.turns)
        request = draft.request(index, opens[chain] if not mine else 0, session=session, past=past)
        if mine:
            think[chain].append(pause_ns(workload, pauses))
        mine.append(request)
        every.append(request)
    return Generated(workload=workload, requests=tuple(every), chains=tuple(
        Chain(requests=tuple(mine), think_ns=tuple(pause)) for mine, pause in zip(members, think, strict=True) if mine))


def pause_ns(workload: Workload, rng: Random) -> int:
    """How long a user thinks: exponential with mean `think`."""
    return microseconds(unit_exponential(rng) * workload.think)


def totals(requests: Sequence[Request]) -> tuple[int, int]:
    """(prompt, output) tokens of all requests."""
    return sum(request.prompt_tokens for request in requests), sum(request.output_tokens for request in requests)
