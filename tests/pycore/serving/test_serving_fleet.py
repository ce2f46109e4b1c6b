"""Several schedulers together: replicas behind a router, and prefill and decode apart."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from serving_driving import Engine, oracle, request, scheduler
from test_serving_laws import requests

from pycore.errors import InputError
from pycore.serving.handover import move, reserve
from pycore.serving.policies.disaggregated import Disaggregated
from pycore.serving.policies.router import Router


class FleetEngines:
    """One fake engine a scheduler; a transfer copies what it says from one to the other."""

    def __init__(self, fleet):
        self.fleet = fleet
        self.engines = [Engine(scheduler.pool.block_size) for scheduler in fleet.schedulers]
        self.texts = {}
        for engine in self.engines:
            engine.texts = self.texts

    def carry(self, transfer):
        source, goal = self.fleet.schedulers[transfer.source], self.fleet.schedulers[transfer.goal]
        read, written = source.sequences[transfer.sequence_id].block_table, goal.arriving[transfer.sequence_id]
        kept = len(written) - transfer.blocks
        for here, there in zip(read[kept:], written[kept:], strict=True):
            self.engines[transfer.goal].device[there] = list(self.engines[transfer.source].device[here])


def drive_fleet(fleet, asked, *, link_steps=1, aborts=(), most_steps=3000):
    """All schedulers step in turn; a transfer takes `link_steps` rounds."""
    engines, sequences, moving, clock = FleetEngines(fleet), {}, [], 0
    todo = sorted(asked, key=lambda r: r.arrival_ns)
    while todo or not fleet.idle:
        assert clock < most_steps, "no end in sight"
        while todo and todo[0].arrival_ns <= clock:
            item = todo.pop(0)
            engines.texts[item.id] = list(item.token_ids)
            sequences[item.id] = fleet.add(item, clock)
        for when, name in aborts:
            if when == clock:
                fleet.abort(name, clock)
        for index in range(len(fleet.schedulers)):
            plan = fleet.schedule(index, clock)
            if not plan.empty:
                out = engines.engines[index].run(plan)
                for name, token in out.items():
                    engines.texts[name].append(token)
                fleet.complete(index, plan, clock + 1, out)
        clock += 1
        moving += [(clock + link_steps, transfer) for transfer in fleet.transfers(clock)]
        for when, transfer in moving:
            if when == clock and fleet.schedulers[transfer.source].sequences.get(transfer.sequence_id):
                if transfer.sequence_id in fleet.schedulers[transfer.goal].arriving:
                    engines.carry(transfer)
                fleet.arrived(transfer, clock)
        fleet.check()
    return sequences


def two_pools(ratio=(1, 1), *, blocks=(40, 40), **options):
    prefill = [scheduler("fcfs", blocks=blocks[0], hands_over=True, **options) for _ in range(ratio[0])]
    return Disaggregated(prefill, [scheduler("chunked", blocks=blocks[1], **options) for _ in range(ratio[1])])


@settings(max_examples=80)
@given(data=st.data())
def test_apart_or_together_the_tokens_are_the_same(data):
    ratio = data.draw(st.sampled_from([(1, 1), (2, 1), (1, 2), (2, 3)]))
    fleet = two_pools(ratio, blocks=(data.draw(st.integers(6, 20)), data.draw(st.integers(6, 20))),
                      max_sequences=data.draw(st.integers(1, 5)), watermark=data.draw(st.sampled_from([0.0, 0.2])),
                      caching=data.draw(st.booleans()), max_batched_tokens=data.draw(st.integers(1, 30)))
    aborts = data.draw(st.lists(st.tuples(st.integers(0, 15), st.integers(0, 8).map(str)), max_size=3))
    sequences = drive_fleet(fleet, data.draw(requests()), link_steps=data.draw(st.integers(0, 6)), aborts=aborts)
    for sequence in sequences.values():
        assert sequence.over and sequence.tokens == oracle(sequence.request.token_ids, sequence.generated)
        assert len(sequence.token_times_ns()) == sequence.generated
        assert sequence.status != "finished" or sequence.generated == sequence.target
    assert all(served.check().used == 0 for served in fleet.schedulers)


def test_keys_and_values_queue_for_the_link_and_say_behind_whom():
    fleet = two_pools(max_batched_tokens=64)
    for name in range(3):
        fleet.add(request(name, 8, 4, seed=name))
    plan = fleet.schedule(0, 0)
    assert fleet.complete(0, plan, 1)[-1].kind == "handed over"
    first, = fleet.transfers(1)
    assert (first.sequence_id, first.tokens, first.blocks, first.source, first.goal) == ("0", 8, 2, 0, 1)
    assert fleet.transfers(2) == ()  # one at a time on a link
    assert [(h.sequence_id, h.reason, h.blocker) for h in fleet.held_back()] == [
        ("0", "KV in flight", None), ("1", "KV in flight", "0"), ("2", "KV in flight", "0")]
    assert fleet.schedulers[0].check().used == 6  # the source keeps its blocks until they have arrived
    assert fleet.arrived(first, 5) and not fleet.arrived(first, 5)
    assert fleet.schedulers[0].check().used == 4 and fleet.schedulers[1].check().used == 2
    assert fleet.schedule(1, 5).items[0].start == 8


def test_a_full_decode_pool_stops_the_link_and_then_the_prompts():
    fleet = two_pools(blocks=(6, 5), max_batched_tokens=8, max_sequences=8)
    for name in range(6):
        fleet.add(request(name, 8, 6, seed=name))
    for clock in range(3):
        fleet.complete(0, fleet.schedule(0, clock), clock + 1)
    moved = []
    while started := fleet.transfers(3):
        moved += [transfer.sequence_id for transfer in started if fleet.arrived(transfer, 3)]
    assert moved == ["0", "1"] and fleet.schedulers[1].pool.free == 1
    assert [(h.sequence_id, h.reason) for h in fleet.held_back()] == [("2", "no blocks")]
    fleet.complete(0, fleet.schedule(0, 3), 4)
    fleet.complete(0, fleet.schedule(0, 4), 5)  # the last two prompts that the six blocks hold
    assert fleet.schedule(0, 5).empty and fleet.transfers(5) == ()
    assert [h.blocker for h in fleet.held_back()] == [None, "2", "2"]


def test_nobody_overtakes_one_that_finds_no_room_at_the_goal():
    fleet = two_pools((2, 1), blocks=(40, 6), max_batched_tokens=64)
    for name, prompt in (("first", 12), ("small", 4), ("big", 12), ("tiny", 2)):
        fleet.add(request(name, prompt, 6))
    for index in (0, 1):
        fleet.complete(index, fleet.schedule(index, 0), 1)
    first, = fleet.transfers(1)
    assert (first.sequence_id, first.source) == ("first", 0)
    fleet.arrived(first, 2)
    assert fleet.transfers(2) == ()  # big needs four blocks; small would fit, but big was computed before it
    assert [(h.sequence_id, h.reason) for h in fleet.held_back()][0] == ("big", "no blocks")


def test_those_preempted_at_the_goal_come_back_before_new_ones_are_sent():
    goal = scheduler("chunked", blocks=5, max_sequences=4)
    for name in range(2):
        goal.add(request(name, 8, 4))
    while not goal.queue:
        goal.complete(goal.schedule(0), 1)
    goal.abort("0")
    source = scheduler("fcfs", hands_over=True)
    sequence = source.add(request("new", 4, 4))
    source.complete(source.schedule(0), 1)
    assert goal.pool.free == 5 and reserve(goal, sequence) is None
    goal.complete(goal.schedule(0), 1)
    assert reserve(goal, sequence) == (1, 0)


def test_what_only_a_sequence_itself_could_find_again_is_forgotten_when_it_moves():
    """Private keys count from a scheduler's serial numbers; at the goal the same number is somebody else's."""
    source = scheduler("fcfs", blocks=6, hands_over=True, max_batched_tokens=8, reserve_known=False)
    goal = scheduler("chunked")
    for name, prompt in (("a", 16), ("b", 16)):
        source.add(request(name, prompt, 4))
    for _ in range(3):
        source.complete(source.schedule(0), 1)
    assert source.schedule(0).preempted == ("b",)  # no block for its second half while "a" waits for the link
    source.abort("a")
    while source.running or source.queue:
        source.complete(source.schedule(0), 1)
    sequence = source.sequences["b"]
    assert sequence.preemptions and sequence.keys
    reserve(goal, sequence)
    move(source, goal, sequence)
    assert sequence.keys == [] and sequence.serial == 1


def test_prefixes_that_the_goal_holds_are_not_sent_again():
    fleet = two_pools()
    drive_fleet(fleet, [request("a", 16, 3, seed=1)])
    fleet.add(request("b", 16, 3, seed=1))
    fleet.complete(0, fleet.schedule(0, 0), 1)
    transfer, = fleet.transfers(1)
    assert (transfer.blocks, transfer.tokens) == (0, 0)


def test_a_request_that_no_decode_pool_can_hold_is_refused():
    sequence = two_pools(blocks=(40, 4)).add(request("long", 10, 30), 3)
    assert sequence.status == "refused" and "pool has 4" in sequence.reason


@pytest.mark.parametrize(("prefill", "decode"), [(0, 1), (1, 0)])
def test_both_kinds_of_pool_are_needed(prefill, decode):
    with pytest.raises(InputError, match="one of each kind"):
        two_pools((prefill, decode))


def test_pools_of_the_wrong_kind_are_refused():
    with pytest.raises(InputError, match="True for prefill"):
        Disaggregated([scheduler()], [scheduler()])


def placed(choice, asked, replicas=3, **options):
    fleet = Router([scheduler("chunked", blocks=60, **options) for _ in range(replicas)], choice)
    for item in asked:
        fleet.add(item)
    return [fleet.place(item.id) for item in asked], fleet


def test_round_robin_goes_in_turn():
    assert placed("round robin", [request(i) for i in range(5)])[0] == [0, 1, 2, 0, 1]


def test_least_loaded_counts_what_is_unfinished():
    places, fleet = placed("least loaded", [request(i) for i in range(4)])
    assert places == [0, 1, 2, 0]
    fleet.abort("1")
    fleet.add(request("next"))
    assert fleet.place("next") == 1


def test_prefix_affinity_keeps_a_prefix_in_one_place():
    places, fleet = placed("prefix affinity", [request(f"{i}", 16, 2, seed=i) for i in range(3)])
    assert places == [0, 1, 2]
    for again in range(5):
        drive_fleet_alone(fleet)
        for seed in (2, 0, 1):
            fleet.add(request(f"{seed} {again}", 16, 2, seed=seed))
            assert fleet.place(f"{seed} {again}") == seed
    assert placed("prefix affinity", [request(i) for i in range(3)])[0] == [0, 1, 2]  # nothing to be near to


def test_prefix_affinity_takes_the_least_loaded_of_equals():
    """Both replicas hold the prefix: the second request of it goes where nobody is, not to the first replica again."""
    fleet = Router([scheduler(), scheduler()], "prefix affinity")
    for replica, name in zip(fleet.schedulers, "ab", strict=True):
        replica.add(request(name, 16, 2, seed=1))
    drive_fleet_alone(fleet)
    for name in "cdef":
        fleet.add(request(name, 16, 2, seed=1))
    assert [fleet.place(name) for name in "cdef"] == [0, 1, 0, 1]


def drive_fleet_alone(fleet):
    while not fleet.idle:
        for index in range(len(fleet.schedulers)):
            plan = fleet.schedule(index, 0)
            if not plan.empty:
                fleet.complete(index, plan, 1)


def test_prefix_affinity_gives_way_to_a_crowd():
    """A first prompt that everybody shares must not send everybody to one replica while the others stand idle."""
    fleet = Router([scheduler(), scheduler()], "prefix affinity")
    fleet.add(request("first", 16, 2, seed=1))
    drive_fleet_alone(fleet)
    for number in range(40):
        fleet.add(request(number, 16, 2, seed=1))
    places = [fleet.place(str(number)) for number in range(40)]
    assert places[0] == 0 and abs(places.count(0) - places.count(1)) <= 8


def test_prefix_affinity_counts_blocks():
    """One replica holds 3 blocks of the prompt; it keeps winning until it has 3 blocks more to read or to hold."""
    fleet = Router([scheduler(blocks=200), scheduler(blocks=200)], "prefix affinity")
    fleet.schedulers[1].add(request("first", 13, 1, seed=1))
    drive_fleet_alone(fleet)
    size = fleet.schedulers[0].pool.block_size
    assert size == 4 and len(fleet.schedulers[1].pool.cache.nodes) == 3
    fleet.schedulers[1].add(request("load", 11, 1, seed=9))
    fleet.add(request("near", 13, 1, seed=1))
    assert fleet.place("near") == 1  # there 11 + 13 - 12 tokens, 3 blocks; here 13, 4 blocks
    fleet.add(request("far", 13, 1, seed=1))
    assert fleet.place("far") == 0  # there 25 tokens, 7 blocks; here still 4


@settings(max_examples=40)
@given(data=st.data())
def test_behind_a_router_every_request_ends_with_its_own_tokens(data):
    choice = data.draw(st.sampled_from(["round robin", "least loaded", "prefix affinity"]))
    fleet = Router([scheduler("chunked", blocks=16) for _ in range(data.draw(st.integers(1, 3)))], choice)
    for sequence in drive_fleet(fleet, data.draw(requests())).values():
        assert sequence.status == "refused" or sequence.tokens == oracle(sequence.request.token_ids, sequence.target)


def test_ids_are_unique_across_a_fleet():
    for fleet in (Router([scheduler(), scheduler()]), two_pools()):
        fleet.add(request("a"))
        with pytest.raises(InputError, match="no unfinished"):
            fleet.add(request("a"))
