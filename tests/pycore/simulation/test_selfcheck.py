"""The laws hold on runs of every kind, and each catches the fault that it is there for."""

from dataclasses import replace

import pytest
from metric_runs import MS, by_hand, engine, requests, simulated

from pycore.serving.policies.cache_aware import CacheAware
from pycore.serving.policies.chunked import Chunked
from pycore.serving.policies.decode_first import DecodeFirst
from pycore.serving.policies.fcfs import Fcfs
from pycore.serving.policies.priority import Priority
from pycore.serving.policies.sjf import Sjf
from pycore.serving.policies.slo_aware import SloAware
from pycore.simulation.arrivals import OpenLoop
from pycore.simulation.link import Link
from pycore.simulation.records import Gap, Result, Span
from pycore.simulation.run import Setup, run
from pycore.simulation.selfcheck import selfcheck

TIGHT = {"count": 500, "rate": 25.0, "blocks": 260}
SWAP = {"preemption": "swap", "host_blocks": 500, "block_bytes": 1 << 20, "swap_bytes_per_s": 1e10}
RUNS = {
    "roomy": {}, "prompts first": {"policy": Fcfs()}, "overloaded": {"rate": 300.0},
    "tight": TIGHT | {"limits": {"reserve_known": False}},
    "tight, swapping": TIGHT | SWAP | {"limits": {"reserve_known": False}},
    "two steps in flight": {"limits": {"steps_in_flight": 2}},
    "two steps in flight, tight": TIGHT | {"limits": {"steps_in_flight": 2, "reserve_known": False}},
    "one seat": {"rate": 5.0, "limits": {"max_sequences": 1}},
    "prompts refused": {"blocks": 60},
}


@pytest.mark.parametrize("name", RUNS)
def test_all_laws_hold(name):
    result = simulated(**RUNS[name])
    broken = {check.name: (check.left, check.right, check.fault) for check in selfcheck(result) if not check.holds}
    assert not broken
    if "tight" in name:
        assert sum(request.preemptions for request in result.requests) > 0, "the run does what its name says"
    if "refused" in name:
        assert any(request.dropped for request in result.requests)


def sharing(count: int, rate: float, seed: int) -> list:
    """Requests in seven families that share 15 blocks, with deadlines, priorities and a predicted length."""
    made = []
    for index, one in enumerate(requests(count, rate, seed)):
        hashes = [(index % 7 if block < 15 else 100 + index) * 10_000 + block
                  for block in range((one.prompt_tokens + one.output_tokens) // 16)]
        made.append(replace(one, prefix_hashes=tuple(hashes), deadline_ns=one.arrival_ns + 60 * MS, priority=index % 3,
                            predicted_output=one.output_tokens))
    return made


POLICIES = (Fcfs(), Chunked(), DecodeFirst(), Sjf(), Priority(), CacheAware(), SloAware(prefill_ns_per_token=10_000, shed=True))


@pytest.mark.parametrize("in_flight", [1, 2])
@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_laws_hold_for_every_policy_with_shared_prefixes_and_a_small_pool(policy, in_flight):
    one = engine(policy, blocks=230, limits={"reserve_known": False, "steps_in_flight": in_flight})
    result = run(Setup(engines=(one,)), OpenLoop(sharing(300, 70.0, 3)))
    assert [(check.name, check.fault) for check in selfcheck(result) if not check.holds] == []
    assert sum(request.cached_tokens for request in result.requests) > 10_000
    assert sum(request.preemptions for request in result.requests) > 0
    assert policy.name != "slo_aware" or any(request.dropped for request in result.requests)


def test_laws_hold_where_prefill_and_decode_are_apart():
    engines = tuple(engine(Chunked(), blocks=blocks, block_bytes=1 << 20) for blocks in (800, 300, 300))
    result = run(Setup(engines=engines, prefill=1, link=Link(bytes_per_s=2e10)), OpenLoop(sharing(200, 40.0, 3)))
    assert [(check.name, check.fault) for check in selfcheck(result) if not check.holds] == []
    assert len(result.transfers) > 100


def test_laws_hold_over_replicas():
    engines = (engine(Chunked()), engine(Chunked(), blocks=500))
    result = run(Setup(engines=engines, seed=1), OpenLoop(requests(200, 30.0, 4)))
    assert all(check.holds for check in selfcheck(result))


def test_by_hand():
    checks = {check.name: check for check in selfcheck(by_hand())}
    assert all(check.holds for check in checks.values())
    assert checks["Requests"].says == "3 = 2 + 1 + 0"
    assert checks["Little's law"].left == 60 * MS + 5 * MS, "a was there for 35 ms, b for 30, c for none"
    assert checks["Tokens out"].says == "5 tokens"
    assert checks["Tokens computed"].says == "37 = 53 − 16 + 0"


def changed(result: Result, index: int, **changes) -> Result:
    requests = list(result.requests)
    requests[index] = replace(requests[index], **changes)
    return replace(result, requests=tuple(requests))


def step_changed(result: Result, index: int, **changes) -> Result:
    steps = list(result.servers[0].steps)
    steps[index] = steps[index]._replace(**changes)
    return replace(result, servers=(replace(result.servers[0], steps=tuple(steps)),))


FAULTS = {
    "a request twice": (lambda r: changed(r, 1, id="a"), {"Requests"}),
    "a request both finished and dropped": (lambda r: changed(r, 0, dropped="lost"), {"Requests"}),
    "the loop lost a request": (lambda r: replace(r, request_ns=r.request_ns - 30 * MS), {"Little's law"}),
    "a gap without reason": (lambda r: changed(r, 0, gaps=()), {"Time"}),
    "two things at once": (lambda r: changed(r, 0, gaps=(Gap(11 * MS, 32 * MS, "policy"),)), {"Time"}),
    "a token lost": (lambda r: changed(r, 0, generated_tokens=2), {"Tokens out", "Tokens computed"}),
    "a token too many": (lambda r: changed(r, 0, output_tokens=2), {"Tokens out"}),
    "a token twice": (lambda r: step_changed(r, 1, emitted=2), {"Tokens out"}),
    "a hit counted that was computed": (lambda r: changed(r, 1, cached_tokens=20), {"Tokens computed"}),
    "generated tokens forgotten by a preemption": (lambda r: changed(r, 0, computed_tokens=20), {"Tokens computed"}),
    "prompt tokens that no request had": (lambda r: step_changed(r, 2, prefill_tokens=15), {"Steps"}),
    "work in the wrong step": (lambda r: changed(r, 1, spans=(Span("prefill", 0, 1, 1, 14, 1), r.requests[1].spans[1])),
                               {"Steps", "Time"}),
    "a leaked block": (lambda r: step_changed(r, 3, blocks_free=5), {"Blocks"}),
    "a block lent twice": (lambda r: step_changed(r, 3, blocks_used=12, blocks_free=-2), {"Blocks"}),
    "scheduled before it came": (lambda r: changed(r, 1, queued_ns=4 * MS), {"Order"}),
    "steps overlap": (lambda r: step_changed(r, 1, start_ns=9 * MS), {"Order", "Time"}),
}


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_is_caught_by_its_law(name):
    fault, caught = FAULTS[name]
    assert {check.name for check in selfcheck(fault(by_hand())) if not check.holds} == caught


def test_a_fault_names_its_place():
    fault = {check.name: check for check in selfcheck(changed(by_hand(), 0, gaps=()))}["Time"].fault
    assert fault == "a: nothing is known from 12000000 ns"
    fault = {check.name: check for check in selfcheck(step_changed(by_hand(), 3, blocks_free=5))}["Blocks"].fault
    assert fault == "one, step 3: 4 used + 0 cached + 5 free of 10"
