"""The event loop: what happens at one time, that time is whole, that skipping ahead changes nothing, that runs repeat."""

import subprocess
import sys
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from metric_runs import MS, Linear, engine, requests, simulated
from random_runs import MODEL_LENGTH, drawn

from pycore.errors import InputError
from pycore.serving.policies.chunked import Chunked
from pycore.serving.policies.fcfs import Fcfs
from pycore.serving.policies.sjf import Sjf
from pycore.serving.request import Request
from pycore.simulation.arrivals import Chain, ClosedLoop, OpenLoop
from pycore.simulation.link import Link
from pycore.simulation.loop import Loop, Progress, Stuck
from pycore.simulation.records import DECODE, PREFILL, SWAP_IN, SWAP_OUT, Result, span_bounds, token_times
from pycore.simulation.run import Setup, run, steps
from pycore.simulation.selfcheck import selfcheck
from pycore.simulation.server import Running

ROOT = Path(__file__).resolve().parents[3]
SIZES = {"prompt_tokens": 100, "output_tokens": 5}
FLAT = Linear(step=MS, prompt=0, decode=0)


def ask(name, at=0, **changes):
    return Request(id=name, arrival_ns=at, **(SIZES | changes))


def one_run(*asked, policy=None, cost=FLAT, traffic=None, **options):
    setup_options = {key: options.pop(key) for key in ("until_ns", "router") if key in options}
    count = options.pop("replicas", 1)
    setup = Setup(engines=(engine(policy or Chunked(), cost=cost, **options),) * count, **setup_options)
    return run(setup, traffic or OpenLoop(asked))


def by_id(result):
    return {request.id: request for request in result.requests}


# ------------------------------------------------------------------------------------------ what happens at one time


def test_a_request_that_arrives_as_a_step_ends_is_in_the_next():
    early, late = by_id(one_run(ask("a"), ask("b", 2 * MS)))["b"], by_id(one_run(ask("a"), ask("b", 2 * MS + 1)))["b"]
    assert early.first_scheduled_ns == early.queued_ns == 2 * MS and early.gaps == ()
    assert late.queued_ns == late.first_scheduled_ns == 3 * MS
    assert [gap.reason for gap in late.gaps] == ["step under way"] and late.gaps[0].length_ns == MS - 1


def test_a_seat_that_falls_free_is_taken_by_who_arrives_then():
    """'a' finishes at 5 ms; 'b' arrives at that very time: the end comes before the arrival."""
    found = by_id(one_run(ask("a"), ask("b", 5 * MS), limits={"max_sequences": 1}))
    assert found["a"].finished_ns == found["b"].first_scheduled_ns == 5 * MS and not found["b"].gaps


def test_requests_of_one_time_keep_the_order_of_their_source():
    names = ["c", "a", "b"]
    result = one_run(*(ask(name) for name in names), limits={"max_sequences": 1})
    assert [request.id for request in result.requests] == names
    begun = [by_id(result)[name].first_scheduled_ns for name in names]
    assert begun == [0, 5 * MS, 10 * MS]


def test_a_closed_user_without_pause_is_served_by_the_next_step():
    asked = tuple(ask(str(index)) for index in range(3))
    result = one_run(traffic=ClosedLoop([Chain(requests=asked, think_ns=(0, 7))]))
    first, second, third = result.requests
    assert second.arrival_ns == first.finished_ns and second.gaps == ()
    assert third.arrival_ns == second.finished_ns + 7 == third.first_scheduled_ns
    assert result.makespan_ns == 15 * MS + 7


def test_servers_plan_in_order_and_share_nothing():
    """Two replicas in turn: each serves every other request as if alone."""
    asked = [ask(str(index), index * MS // 3) for index in range(20)]
    both = one_run(*asked, replicas=2)
    for number in (0, 1):
        alone = one_run(*asked[number::2])
        served = [request for request in both.requests if int(request.id) % 2 == number]
        assert [request.finished_ns for request in served] == [request.finished_ns for request in alone.requests]
        assert both.servers[number].steps == alone.servers[0].steps


def test_a_second_id_is_refused():
    with pytest.raises(InputError, match="differ from one another"):
        one_run(ask("a"), ask("a", 50 * MS))


# --------------------------------------------------------------------------------------------------------- the clock


def test_times_are_whole_and_steps_do_not_overlap():
    result = simulated(200, policy=Fcfs())
    for step, following in pairwise(result.servers[0].steps):
        assert isinstance(step.start_ns, int) and step.start_ns < step.end_ns <= following.start_ns
    assert result.makespan_ns == max(request.finished_ns for request in result.requests) == result.servers[0].steps[-1].end_ns


def test_a_request_of_n_tokens_emits_n_and_has_n_minus_one_gaps():
    """sched-sim 0.2.1 does not count the first token: N + 1 come out, and the pace is wrong by N / (N - 1)."""
    result = one_run(ask("a", output_tokens=8))
    only = result.requests[0]
    times = token_times(result, only)
    assert only.generated_tokens == len(times) == 8 and times[0] == only.first_token_ns == MS
    assert only.tpot_ns == (times[-1] - times[0]) / 7 == MS


def test_an_idle_server_waits_for_the_next_arrival():
    result = one_run(ask("a"), ask("b", 10**12))
    assert by_id(result)["b"].first_token_ns == 10**12 + MS
    assert len(result.servers[0].steps) == 10


def test_a_run_can_be_cut():
    """What has begun by then ends, nothing else begins; those inside are unfinished, and the laws still hold."""
    whole = simulated(100, rate=50.0)
    cut = run(Setup(engines=(engine(Chunked()),), until_ns=300 * MS), OpenLoop(requests(100, 50.0, 1)))
    assert cut.servers[0].steps == tuple(step for step in whole.servers[0].steps if step.start_ns <= 300 * MS)
    assert cut.makespan_ns == cut.servers[0].steps[-1].end_ns > 300 * MS
    assert any(not request.finished for request in cut.requests) and any(request.finished for request in cut.requests)
    assert {request.id for request in cut.requests} == {one.id for one in requests(100, 50.0, 1) if one.arrival_ns <= 300 * MS}
    assert not [check for check in selfcheck(cut) if not check.holds]


@given(st.integers(0, 10**9), st.integers(1, 60 * MS))
@settings(max_examples=60)
def test_a_run_cut_anywhere_keeps_every_law(seed, until_ns):
    setup, traffic = drawn(seed)
    assert not [check for check in selfcheck(run(replace(setup, until_ns=until_ns), traffic)) if not check.holds]


def test_a_scheduler_that_neither_advances_nor_refuses_is_told_apart_from_a_result():
    class Never(Chunked):
        def compose(self, step):
            """Nobody advances."""

    with pytest.raises(Stuck, match="1 requests wait and nothing happens"):
        one_run(ask("a"), policy=Never())


@pytest.mark.parametrize("late", [1 << 63, 1 << 70])
def test_a_run_longer_than_the_clock_is_refused(late):
    """A request in a million seconds, ten thousand of them: 317 years do not fit into 64 bits of nanoseconds."""
    with pytest.raises(InputError, match="292 years"):
        one_run(ask("a"), ask("b", late))
    assert by_id(one_run(ask("a"), ask("b", 1 << 62)))["b"].finished


def test_progress_comes_on_the_way_and_the_result_last():
    setup = Setup(engines=(engine(Chunked()),), seed=9)
    *reports, result = steps(setup, OpenLoop(requests(400, 20.0, 1, output=200)))
    assert len(reports) > 3 and all(isinstance(report, Progress) for report in reports)
    assert [report.now_ns for report in reports] == sorted(report.now_ns for report in reports)
    assert reports[-1].left <= reports[-1].arrived <= 400
    assert isinstance(result, Result) and result.seed == 9 and result.policy == "chunked"


def test_a_run_that_is_abandoned_leaves_nothing_behind():
    generator = steps(Setup(engines=(engine(Chunked()),)), OpenLoop(requests(400, 20.0, 1, output=200)))
    assert isinstance(next(generator), Progress)
    generator.close()
    assert simulated(30) == simulated(30)


# --------------------------------------------------------------------------------------------- any scene, every law


@given(st.integers(0, 10**9))
@settings(max_examples=150)
def test_any_scene_keeps_every_law(seed):
    setup, traffic = drawn(seed)
    result = run(setup, traffic)
    assert not [check for check in selfcheck(result) if not check.holds]
    for request in result.requests:
        if request.dropped:
            assert request.dropped.startswith("shed") and not request.finished
            continue
        assert request.finished and request.generated_tokens == min(request.output_tokens, MODEL_LENGTH - request.prompt_tokens)
        tiles = sorted([(gap.start_ns, gap.end_ns) for gap in request.gaps] + [span_bounds(result, span) for span in request.spans])
        assert tiles[0][0] == request.arrival_ns and tiles[-1][1] == request.finished_ns
        assert all(before[1] == after[0] for before, after in pairwise(tiles))


@given(st.integers(0, 10**9))
@settings(max_examples=100)
def test_skipping_ahead_changes_nothing(seed):
    """Quiet stretches timed at once give the run that single steps give, but for the names of reasons inside them."""
    def without_gaps(result):
        return replace(result, requests=tuple(replace(request, gaps=()) for request in result.requests))

    ahead = run(*drawn(seed))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Running, "look_ahead", lambda *_: False)
        single = run(*drawn(seed))
    assert without_gaps(ahead) == without_gaps(single)


@given(st.integers(0, 10**9))
@settings(max_examples=25)
def test_same_input_same_run(seed):
    assert run(*drawn(seed)) == run(*drawn(seed))


def test_same_input_same_run_in_any_process():
    """sched-sim 0.2.1 hashes text, so its cache-aware runs differ from process to process."""
    code = ("import sys, hashlib; sys.path[:0] = ['tests/pycore/simulation']; from random_runs import drawn; "
            "from pycore.simulation.run import run; "
            "print(hashlib.sha256(repr([run(*drawn(seed)) for seed in range(30)]).encode()).hexdigest())")
    digests = {subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True,
                              env={"PYTHONHASHSEED": seed}).stdout for seed in ("0", "1", "12345")}
    assert len(digests) == 1 and len(next(iter(digests))) == 65


def test_skipping_ahead_is_what_makes_it_fast():
    """Most steps of a calm run are never planned one by one."""
    planned = []
    original = Running.begin
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Running, "begin", lambda self, *begun: (planned.append(1), original(self, *begun))[1])
        result = run(Setup(engines=(engine(Chunked()),)), OpenLoop(requests(200, 2.0, 1, output=200)))
    assert len(planned) < len(result.servers[0].steps) / 5


# ---------------------------------------------------------------------------------------------- pools apart, replicas


def apart(*asked, prefill=1, decode=1, link=None, **options):
    one = engine(Chunked(), cost=FLAT, block_bytes=1_000_000, **options)
    return run(Setup(engines=(one,) * (prefill + decode), prefill=prefill, link=link or Link(bytes_per_s=1e9)), OpenLoop(asked))


def test_kv_moves_over_the_link_and_queues_there():
    """Seven blocks of 1 MB at 1 GB/s take 7 ms; two prompts ready at one time go one after the other."""
    result = apart(ask("a"), ask("b"))
    first, second = result.transfers
    assert (first.asked_ns, first.start_ns, first.end_ns, first.size_bytes) == (MS, MS, 8 * MS, 7_000_000)
    assert (second.asked_ns, second.start_ns, second.end_ns) == (MS, 8 * MS, 15 * MS)
    waited = by_id(result)["b"].gaps
    assert [(gap.reason, gap.behind) for gap in waited[:2]] == [("KV in flight", "a"), ("KV in flight", None)]
    assert {span.kind for span in by_id(result)["a"].spans if span.server == 1} == {DECODE}
    assert {span.kind for span in by_id(result)["a"].spans if span.server == 0} == {PREFILL}
    assert [server.role for server in result.servers] == ["prefill", "decode"]


def test_latency_of_the_link_is_paid_by_each_transfer():
    result = apart(ask("a"), link=Link(bytes_per_s=1e9, latency_ns=123))
    assert result.transfers[0].end_ns == 8 * MS + 123


def test_more_prefill_servers_read_more_prompts_at_once():
    asked = [ask(str(index), prompt_tokens=2000) for index in range(8)]
    cost = Linear(step=MS, prompt=10_000, decode=0)
    slow, fast = (run(Setup(engines=(engine(Chunked(), cost=cost, block_bytes=1000),) * (count + 1), prefill=count,
                            link=Link(bytes_per_s=1e12)), OpenLoop(asked)) for count in (1, 4))
    last = [max(request.first_token_ns for request in result.requests) for result in (slow, fast)]
    assert 3.5 < last[0] / last[1] < 4.5


@pytest.mark.parametrize("changes, said", [
    ({"prefill": 1}, "need a link"), ({"prefill": 2, "link": Link(bytes_per_s=1e9)}, "prefill"), ({"prefill": -1}, "prefill"),
])
def test_impossible_setups_are_refused(changes, said):
    with pytest.raises(InputError, match=said):
        Setup(engines=(engine(Chunked()),) * 2, **changes)
    with pytest.raises(InputError, match="at least one"):
        Setup(engines=())


@pytest.mark.parametrize("speed", [0.0, -1.0, float("inf"), float("nan")])
def test_a_link_needs_a_bandwidth(speed):
    with pytest.raises(InputError, match="bandwidth above 0"):
        Link(bytes_per_s=speed)


def test_swapping_takes_the_time_that_the_bytes_need():
    result = simulated(400, rate=25.0, blocks=260, preemption="swap", host_blocks=500, block_bytes=1 << 20,
                       swap_bytes_per_s=1e9, limits={"reserve_known": False})
    moved = [(span, request) for request in result.requests for span in request.spans if span.kind in (SWAP_IN, SWAP_OUT)]
    assert moved
    for span, _ in moved:
        step = result.servers[0].steps[span.step]
        assert step.length_ns > span.tokens // 16 * (1 << 20) / 1e9 * 1e9 * 0.999
    with pytest.raises(InputError, match="the host's bandwidth"):
        engine(Chunked(), preemption="swap", host_blocks=10, block_bytes=1 << 20)


def test_with_two_steps_in_flight_a_seat_is_refilled_one_step_later():
    """'a' ends at 5 ms while 'b' decodes on; the step that begins then was planned when 'a' still had its seat."""
    asked = [ask("a"), ask("b", output_tokens=9), ask("c")]
    first = [by_id(one_run(*asked, limits={"max_sequences": 2, "steps_in_flight": count}))["c"].first_token_ns for count in (1, 2)]
    assert first == [6 * MS, 7 * MS]


def test_a_long_queue_is_served_in_the_policys_order():
    asked = [ask(str(index), output_tokens=10 - index, predicted_output=10 - index) for index in range(8)]
    result = one_run(*asked, policy=Sjf(), limits={"max_sequences": 1})
    order = sorted(result.requests, key=lambda request: request.first_scheduled_ns)
    assert [request.id for request in order] == ["7", "6", "5", "4", "3", "2", "1", "0"]


def test_littles_law_is_added_up_by_the_loop_not_by_the_records():
    loop = Setup(engines=(engine(Chunked(), cost=FLAT),)).loop(OpenLoop([ask("a"), ask("b", MS // 2)]))
    assert isinstance(loop, Loop)
    for _ in loop.run():
        pass
    # a: 0 to 5 ms; b: 0.5 ms to 6 ms
    assert loop.request_ns == 5 * MS + (6 * MS - MS // 2)


def test_time_to_simulate_grows_with_steps_and_no_faster(capsys):
    """1x, 2x, 4x of one load: microseconds a step stay within a factor of two (CPU time, the best of three rounds, since
    a neighbour on the machine slows one or the other)."""
    found = []
    for times in (1, 2, 4):
        asked, took = requests(400 * times, 8.0, 1, output=150), []
        for _ in range(3):
            begun = time.process_time()
            result = run(Setup(engines=(engine(Chunked(), blocks=4000),)), OpenLoop(asked))
            took.append(time.process_time() - begun)
        found.append((len(result.servers[0].steps), min(took)))
    with capsys.disabled():
        print("\n" + ", ".join(f"{steps:,} steps: {1e6 * seconds / steps:.1f} us each" for steps, seconds in found))
    each = [seconds / steps for steps, seconds in found]
    assert max(each) < 2 * min(each) and found[2][0] > 3.5 * found[0][0]
