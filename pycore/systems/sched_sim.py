"""sched-sim: the scheduler that serves, under a simulated clock. The answer, and how the core composes it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pycore.errors import InputError, InvalidQuery, UnknownName
from pycore.ledger import Term, terms_in
from pycore.nouns import Deployment
from pycore.roofline.evidence import ends
from pycore.roofline.question import tokens_a_step
from pycore.serving.limits import Limits
from pycore.simulation.draws import Scaled, factors
from pycore.simulation.generate import Generated, generate
from pycore.simulation.goodput import Slo
from pycore.simulation.knee import Bend, bend, point
from pycore.simulation.link import Link
from pycore.simulation.metrics import Metrics, measure
from pycore.simulation.records import Result
from pycore.simulation.run import Setup
from pycore.simulation.run import steps as simulate
from pycore.simulation.scene import Scene, engine, scene
from pycore.simulation.selfcheck import Check, selfcheck
from pycore.simulation.spoken import spoken
from pycore.simulation.traces.trace import Trace
from pycore.simulation.workload import Workload, parse
from pycore.systems import infersize
from pycore.systems.sched_sim_question import (
    COSTS,
    ENGINES,
    LABELS,
    PRESET_NAMES,
    ROUTERS,
    SCHEDULERS,
    Query,
    own_name,
    own_trace,
    policies,
    pools,
)

__all__ = ["COSTS", "ENGINES", "LABELS", "PRESET_NAMES", "ROUTERS", "SCHEDULERS", "Answer", "Progress", "Query", "Run",
           "answer", "policies", "steps"]

OWN_NAMES = {"gpu": "hardware", "sequences": "max_sequences"}  # infersize's fields as this question calls them
RATE_FACTORS = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0)
CHUNKS = (64, 128, 256, 512, 1024, 2048, 4096, 8192)
CONTEXT = 8192  # what the pool's size hardly depends on


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a long answer is."""

    stage: str
    fraction: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One policy on the trace. `checks`: the laws that the run was held against."""

    policy: str
    label: str
    result: Result
    metrics: Metrics
    checks: tuple[Check, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPoint:
    """One policy at one point of a sweep. `at`: requests/s offered, or tokens of the chunk budget."""

    policy: str
    at: float
    rate_per_s: float
    metrics: Metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """One policy with every step `factor` as long as the cost model says."""

    policy: str
    factor: float
    metrics: Metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Everything that follows from a Query; `runs` in the order of the policies, the question's own first.

    `workload_text` is the line that gives the workload again, `workload_words` says the same to a reader. `bends`: by
    policy, where a rate sweep turns.
    """

    query: Query
    scene: Scene
    workload_text: str
    workload_words: str
    runs: tuple[Run, ...]
    sweep: tuple[SweepPoint, ...] = ()
    bends: tuple[tuple[str, Bend], ...] = ()
    draws: tuple[Draw, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def terms(self) -> tuple[Term, ...]:
        """The scene's terms, then each run's."""
        return (self.scene.blocks, *(term for run in self.runs for term in terms_in(run.metrics)))


def machine(query: Query) -> Deployment:
    """The deployment of one replica. Raises InvalidQuery, with this question's own field names."""
    asked = infersize.Query(
        model=query.model, quant=query.quant, gpu=query.hardware, count=query.count, tp=query.tp, engine=query.engine,
        sequences=query.max_sequences, max_batched_tokens=query.max_batched_tokens, context=CONTEXT, prompt=1024, output=256)
    try:
        return infersize.resolve(asked)
    except InvalidQuery as found:
        raise InvalidQuery([type(fault)(OWN_NAMES.get(fault.field, fault.field), fault.value, fault.accepted,
                                        fault.suggestions) for fault in found.errors]) from None


def requests(query: Query, factor: float = 1.0) -> Generated:
    """The workload's requests, or those of the trace, at `factor` times their rate. Raises InputError."""
    if query.trace.strip():
        return drawn(query, parse(f"replay trace=trace speed={factor:g}"), {"trace": own_trace(query)})
    workload = parse(PRESET_NAMES.get(query.workload, query.workload), seed=query.seed)
    if factor != 1.0:
        workload = workload.at_rate((workload.speed if workload.arrivals == "replay" else workload.rate) * factor)
    if query.limit:
        workload = replace(workload, requests=min(query.limit, workload.requests or query.limit))
    return drawn(query, workload)


def drawn(query: Query, workload: Workload, traces: Mapping[str, Trace] | None = None) -> Generated:
    """The requests of a workload. Where it names no time to first token, the question's target is their deadline."""
    asked = replace(workload, ttft=query.slo_ttft_ms / 1000 or None) if workload.ttft is None else workload
    return replace(generate(asked, block_size=query.block_size, traces=traces), workload=workload)


def targets(query: Query, workload: Workload) -> Slo:
    """What goodput counts: the objectives of the workload's line, else those of the question."""
    ttft = query.slo_ttft_ms / 1000 or None if workload.ttft is None else workload.ttft
    return Slo(ttft_s=ttft, tpot_s=query.slo_tpot_ms / 1000 or None if workload.tpot is None else workload.tpot)


def limits(query: Query, deployment: Deployment) -> Limits:
    """What one step may hold."""
    return Limits(max_sequences=query.max_sequences, max_batched_tokens=tokens_a_step(deployment),
                  max_model_length=deployment.model.max_context, chunk_budget=query.chunk_budget,
                  steps_in_flight=query.steps_in_flight)


def steps(query: Query) -> Iterator[Progress | Answer]:
    """Progress while policies run one after the other, then the Answer.

    Raises InvalidQuery, InputError, NotKnown; Stuck where a policy neither advances nor refuses.
    """
    names, deployment = policies(query), machine(query)
    found = scene(deployment, cost=query.cost, custom=query.custom_cost, overhead_us=query.overhead_us,
                  kv_blocks=query.kv_blocks, block_size=query.block_size, max_sequences=query.max_sequences,
                  link_gb_s=query.link_gb_s)
    generated = requests(query)
    if query.request and query.request not in {one.id for one in generated.requests}:
        raise UnknownName("request", query.request, f"accepted: the id of one of {len(generated.requests):,} requests",
                          tuple(one.id for one in generated.requests[:3]))
    runs: list[Run] = []
    for index, name in enumerate(names):
        for item in one_run(query, found, generated, name):
            if isinstance(item, Run):
                runs.append(item)
            else:
                share = min(1.0, item.left / max(1, len(generated.requests)))
                yield Progress(stage=f"{LABELS[name]}: {item.left:,} of {len(generated.requests):,} requests",
                               fraction=(index + share) / len(names))
    words = spoken(generated.workload, len(generated.requests), own_name(query))
    whole = Answer(query=query, scene=found, workload_text=generated.workload.text, workload_words=words, runs=tuple(runs),
                   notes=said(query, found, generated, runs))
    if query.sweep != "none" or query.draws:
        yield whole
        whole = yield from more(query, whole, generated)
    yield whole


def said(query: Query, found: Scene, generated: Generated, runs: Sequence[Run]) -> tuple[str, ...]:
    """What a reader of the runs must know, in sentences: what the trace's reader did, answers that were cut, policies
    that had more hardware than others, step times beyond what they were measured on."""
    return (*generated.notes, *cut_short(runs, found), *hardware(query, runs), *beyond(found, runs))


def cut_short(runs: Sequence[Run], found: Scene) -> tuple[str, ...]:
    """Answers that end at the model's length."""
    short = [one.output_tokens - one.generated_tokens for one in runs[0].result.requests
             if one.finished and one.generated_tokens < one.output_tokens]
    if not short:
        return ()
    return (f"{len(short):,} {'answer ends' if len(short) == 1 else 'answers end'} at the model's "
            f"{found.deployment.model.max_context:,} tokens, {sum(short):,} tokens before what was asked for",)


def hardware(query: Query, runs: Sequence[Run]) -> tuple[str, ...]:
    """Policies that ran on more devices than others, and how to give all the same."""
    apart = next((run for run in runs if run.policy == "disaggregated"), None)
    if apart is None:
        return ()
    servers, devices = len(apart.result.servers), sum(server.devices for server in apart.result.servers)
    notes = []
    others = {sum(server.devices for server in run.result.servers) for run in runs if run is not apart}
    if others - {devices}:
        notes.append(f"{LABELS['disaggregated']} ran on {devices} devices, the other policies on {min(others)}: "
                     f"replicas {servers} gives them the same hardware")
    if query.replicas not in (1, servers):
        notes.append(f"{LABELS['disaggregated']} takes its number of engines from prefill : decode "
                     f"({query.prefill_share}), not from replicas")
    return tuple(notes)


def beyond(found: Scene, runs: Sequence[Run]) -> tuple[str, ...]:
    """Where a run left what its step times were measured on, in sentences."""
    longest = sequences = tokens = 0
    for run in runs:
        longest = max([longest, *(one.prompt_tokens + one.generated_tokens for one in run.result.requests
                                  if one.first_scheduled_ns is not None)])
        for server in run.result.servers:
            for step in server.steps:
                sequences = max(sequences, step.decode_sequences + step.prefill_sequences)
                tokens = max(tokens, step.decode_sequences + step.prefill_tokens)
    return tuple(f"Step times: {one}" for one in found.cost.limits_passed(longest, sequences, tokens))


def more(query: Query, whole: Answer, generated: Generated) -> Iterator[Progress]:
    """Progress of sweep and draws, then (as the generator's value) the Answer with them."""
    points, drawn = [], []
    places = list(sweep_places(query, whole.scene, generated))
    low, high = ends("tpot", query.engine, whole.scene.deployment.accelerator, True)
    trials = [(run.policy, factor) for factor in factors(query.draws, low, high, query.seed) for run in whole.runs]
    total = len(places) + len(trials)
    for index, (name, at, asked, load, rate) in enumerate(places):
        yield Progress(stage=f"sweep: point {index + 1} of {len(places)}", fraction=index / total)
        *_, run = one_run(asked, whole.scene, load, name)
        points.append(SweepPoint(policy=name, at=at, rate_per_s=rate, metrics=run.metrics))
    for index, (name, factor) in enumerate(trials):
        yield Progress(stage=f"draw {index + 1} of {len(trials)}", fraction=(len(places) + index) / total)
        slower = replace(whole.scene, cost=Scaled(whole.scene.cost, factor))
        *_, run = one_run(query, slower, generated, name)
        drawn.append(Draw(policy=name, factor=factor, metrics=run.metrics))
    bends = tuple((run.policy, bend([point(one.rate_per_s, one.metrics) for one in points if one.policy == run.policy]))
                  for run in whole.runs) if query.sweep == "rate" else ()
    notes = unswept(points, generated) if query.sweep == "rate" else ()
    return replace(whole, notes=(*whole.notes, *notes), sweep=tuple(points), bends=bends, draws=tuple(drawn))


def sweep_places(query: Query, found: Scene, generated: Generated) -> Iterator[tuple[str, float, Query, Generated, float]]:
    """(policy, what is swept, question, requests, requests/s) of every point. Raises InputError where nothing can be."""
    names, own = policies(query), offered(generated)
    if query.sweep == "chunk":
        if "chunked" not in names:
            raise InputError("sweep", "chunk", "accepted with chunked among the policies: the others have no chunk budget")
        for size in CHUNKS:
            yield "chunked", size, replace(query, chunk_budget=size), generated, own or 0.0
    if query.sweep == "rate":
        if own is None:
            raise InputError("sweep", "rate", "accepted: a workload whose requests arrive apart, at a rate")
        for factor in RATE_FACTORS:
            try:
                load = requests(query, factor)
            except InputError:  # slower or faster than a workload goes: `unswept` says so
                continue
            for name in names:
                yield name, own * factor, query, load, own * factor


def unswept(points: Sequence[SweepPoint], generated: Generated) -> tuple[str, ...]:
    """Rates of a sweep that the workload does not go to, in a sentence."""
    swept, own = {one.at for one in points}, offered(generated)
    left = [own * factor for factor in RATE_FACTORS if own * factor not in swept]
    named = ", ".join(f"{rate:,.6g}" for rate in left)
    return (f"Not swept, since no workload goes there: {named} requests/s",) if left else ()


def offered(generated: Generated) -> float | None:
    """Requests/s that arrive: of the process, or the mean of what is replayed; None where there is no rate."""
    if generated.workload.uses("rate"):
        return generated.workload.rate
    times = [request.arrival_ns for request in generated.requests]
    lasted = max(times, default=0) - min(times, default=0)
    return None if generated.chains or not lasted else (len(times) - 1) / lasted * 1e9


def one_run(query: Query, found: Scene, generated: Generated, name: str) -> Iterator[Any]:
    """Progress of one policy's run, then its Run."""
    last = None
    for item in simulate(setup(query, found, name), generated.traffic()):
        if not isinstance(item, Result):
            yield (last := item)
    metrics = measure(item, targets(query, generated.workload), tdp_w=found.deployment.accelerator.tdp_w)
    if last is not None:
        yield last  # a long run takes seconds to be measured: who waits may ask for something else in between
    yield Run(policy=name, label=LABELS[name], result=item, metrics=metrics, checks=selfcheck(item))


def setup(query: Query, found: Scene, name: str) -> Setup:
    """The servers of one policy. Raises InputError."""
    one = engine(found, name, limits=limits(query, found.deployment), prefix_caching=query.prefix_cache,
                 preemption=query.preemption, block_size=query.block_size)
    if name != "disaggregated":
        return Setup(engines=(one,) * query.replicas, router=query.router.replace("-", " "), seed=query.seed)
    prefill, decode = pools(query.prefill_share)
    if not found.link_bytes_per_s:
        raise InputError("link_gb_s", 0, "no source says how two of these cards are joined; accepted: a bandwidth above 0")
    return Setup(engines=(one,) * (prefill + decode), prefill=prefill, link=Link(bytes_per_s=found.link_bytes_per_s),
                 seed=query.seed)


def answer(query: Query) -> Answer:
    """The whole answer."""
    *_, last = steps(query)
    return last
