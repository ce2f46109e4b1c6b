"""Defects found in a peer's scheduler (shared/ANCHORS.md 11.1), each as a test of ours.

Its cost-model defects (prefill linear in length, unknown hardware replaced, a mean used as a mode) are tested where costs
and workloads are made; here stands what the control plane has to get right for them.
"""

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
from serving_driving import POLICIES, drive, oracle, request, scheduler, text

from pycore.serving.policies.disaggregated import Disaggregated
from pycore.serving.policies.slo_aware import SloAware

ROOT = Path(__file__).resolve().parents[3]


def test_peer_recompute_keeps_generated_tokens_and_ends():
    """Peer: recompute set generated to 0, so two requests that do not fit together preempted each other for ever."""
    served = scheduler("fcfs", blocks=9, block_size=4, caching=False)
    run = drive(served, [request(name, 8, 20, seed=name) for name in range(2)], most_steps=200)
    preempted = run.sequences["1"]
    assert preempted.preemptions >= 1 and preempted.recomputed_tokens > 0
    assert [s.generated for s in run.sequences.values()] == [20, 20]
    again = next(plan for plan in run.plans if "1" in plan.prefilling and plan.prefill_chunks[0][0] > 8)
    generated_before = again.prefill_chunks[0][0] - 8
    assert generated_before > 0  # prompt and generated tokens are computed again, not the prompt alone


def test_peer_swap_costs_bytes_returns_and_leaks_no_host_block():
    """Peer: its swap mode livelocked, its delay was ignored and host blocks were never freed."""
    served = scheduler("fcfs", blocks=9, block_size=4, caching=False, preemption="swap", host_blocks=20, block_bytes=1000)
    run = drive(served, [request(name, 8, 20, seed=name) for name in range(2)], most_steps=200)
    out = [swap for plan in run.plans for swap in plan.swapped_out]
    back = [swap for plan in run.plans for swap in plan.swapped_in]
    assert out and [swap.size_bytes for swap in out] == [1000 * len(swap.device_blocks) for swap in out]
    assert [swap.sequence_id for swap in out] == [swap.sequence_id for swap in back]
    assert sum(plan.swap_bytes for plan in run.plans) == 2 * sum(swap.size_bytes for swap in out)
    assert served.memory.host.used == 0 and all(s.recomputed_tokens == 0 for s in run.sequences.values())


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(("size", "reason"), [((2000, 1), "model's 1000"), ((500, 1), "KV blocks"), ((100, 300), "KV blocks")])
def test_peer_an_oversize_request_is_refused_at_once_with_the_reason(policy, size, reason):
    """Peer: a prompt above the pool was scheduled, preempted and scheduled again for ever."""
    served = scheduler(policy, blocks=25, block_size=4, max_model_length=1000)
    sequence = served.add(request("big", *size), 7)
    assert sequence.status == "refused" and reason in sequence.reason and sequence.finished_ns == 7
    assert served.idle and served.schedule(8).empty


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("output", [1, 2, 8])
def test_peer_the_first_token_counts(policy, output):
    """Peer: the prefill's token was emitted and not counted, so N + 1 came out and TPOT was off by N / (N - 1)."""
    run = drive(scheduler(policy), [request("a", 6, output, seed=1)])
    sequence = run.sequences["a"]
    assert sequence.generated == output == len(run.plans) and len(sequence.token_times_ns()) == output
    assert run.engine.computed["a"] == 6 + output - 1  # the last token's keys and values are never needed


def test_peer_chunks_say_what_they_read_again():
    """Peer: chunked prefill never re-read its KV, and prefill was linear. Attention work must not depend on chunking."""
    def attended(budget):
        run = drive(scheduler("chunked", blocks=100, chunk_budget=budget), [request("a", 120, 1)], tokens=False)
        chunks = [chunk for plan in run.plans for chunk in plan.prefill_chunks]
        assert [start for _, start in chunks] == [sum(c for c, _ in chunks[:i]) for i in range(len(chunks))]
        return sum(start * count + count * (count + 1) // 2 for count, start in chunks)

    assert attended(8192) == attended(32) == attended(7) == 120 * 121 // 2


def test_peer_disaggregation_changes_something():
    """Peer: both phases shared one device and one step, so decodes stalled behind prompts as before."""
    asked = [request("talker", 4, 40), *(request(f"doc {i}", 100, 2, arrival=4 + i) for i in range(3))]
    fleet = Disaggregated([scheduler("fcfs", blocks=200, hands_over=True)], [scheduler("fcfs", blocks=200)])
    apart = _drive_fleet(fleet, asked)
    together = drive(scheduler("fcfs", blocks=200), asked, tokens=False)
    assert all(plan.prefill_tokens == 0 for plan in apart[1]) and all(plan.decode_count == 0 for plan in apart[0])
    stalled = [h for plan in together.plans for h in plan.held_back if h.sequence_id == "talker"]
    assert len(stalled) == 3 and all(h.reason == "behind prefill" for h in stalled)
    assert not any(h.sequence_id == "talker" for plan in apart[1] for h in plan.held_back)


def _drive_fleet(fleet, asked):
    plans = [[] for _ in fleet.schedulers]
    todo = sorted(asked, key=lambda r: r.arrival_ns)
    for clock in range(300):
        while todo and todo[0].arrival_ns <= clock:
            fleet.add(todo.pop(0), clock)
        for index in range(len(fleet.schedulers)):
            plan = fleet.schedule(index, clock)
            if not plan.empty:
                plans[index].append(plan)
                fleet.complete(index, plan, clock + 1)
        for transfer in fleet.transfers(clock + 1):
            fleet.arrived(transfer, clock + 1)
        fleet.check()
    assert fleet.idle and not todo
    return plans


def test_peer_what_is_dropped_stays_visible():
    """Peer: goodput was taken over completed requests only; 56 of 73 dropped ones were hidden."""
    served = scheduler(SloAware(shed=True), max_sequences=1)
    run = drive(served, [request(name, 4, 6, seed=0, deadline_ns=6, arrival=0) for name in range(8)])
    ended = {name: sequence.status for name, sequence in run.sequences.items()}
    dropped = [name for name, status in ended.items() if status == "refused"]
    assert len(ended) == 8 and 0 < len(dropped) < 8
    assert sorted(dropped) == sorted(name for plan in run.plans for name in plan.refused)
    assert all(run.sequences[name].reason for name in dropped)


def test_peer_the_cache_aware_policy_hits():
    """Peer: requests carried no prefix, so its cache-aware policy had a hit rate of 0 and equalled another policy."""
    asked = [request(f"{group}{i}", 32, 4, seed=group, arrival=i) for i in range(4) for group in (1, 2, 3)]

    def hits(policy):
        served = scheduler(policy, blocks=20, max_sequences=1)
        run = drive(served, asked)
        assert all(s.tokens == oracle(text(32, int(s.id[0])), 4) for s in run.sequences.values())
        return served.hit_tokens / served.asked_tokens

    assert hits("cache_aware") > hits("fcfs") > 0
    assert math.isclose(hits("cache_aware"), 9 * 28 / (12 * 32))  # all but the first of each group: 7 of 8 blocks


@pytest.mark.parametrize("policy", ["fcfs", "chunked"])
def test_peer_seats_and_batched_tokens_are_respected(policy):
    """Peer: its chunked policy ignored the batch size, its FCFS had no limit of tokens."""
    run = drive(scheduler(policy, blocks=200, max_sequences=3, max_batched_tokens=20),
                [request(name, 15, 5) for name in range(9)], tokens=False)
    assert max(plan.running for plan in run.plans) == 3 and max(plan.tokens for plan in run.plans) <= 20


PROGRAM = """
import sys
sys.path[:0] = [{tests!r}, {root!r}]
from hashlib import blake2b
from serving_driving import POLICIES, drive, request, scheduler
for name in POLICIES:
    served = scheduler(name, blocks=14, max_sequences=4, preemption="swap", host_blocks=6)
    asked = [request(f"r{{i}}", 5 + 3 * i % 17, 3 + i % 7, arrival=i // 2, seed=i % 3, priority=i % 2,
                     deadline_ns=9 * i, predicted_output=i % 5) for i in range(12)]
    run = drive(served, asked, actions=[(3, "fork", "r1"), (6, "abort", "r2")])
    seen = [(p.items, p.held_back, p.preempted, p.evicted, p.copies, p.swapped_out) for p in run.plans]
    print(name, len(seen), blake2b(repr(seen).encode()).hexdigest())
"""


def test_peer_results_do_not_differ_between_processes():
    """Peer: keys came from hash(str), which differs in each process."""
    program = PROGRAM.format(tests=str(Path(__file__).parent), root=str(ROOT))
    outputs = {subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True,
                              env=os.environ | {"PYTHONHASHSEED": seed}).stdout for seed in ("0", "1", "4242")}
    assert len(outputs) == 1 and len(outputs.pop().splitlines()) == len(POLICIES)
