"""Pool, prefix cache, requests and limits: the rules in the small."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from serving_driving import drive, request, scheduler, text

from pycore.errors import InputError
from pycore.serving.blocks import BlockPool
from pycore.serving.limits import Limits
from pycore.serving.prefix import chained_keys
from pycore.serving.request import Request
from pycore.serving.step import Step


def test_blocks_freed_longest_ago_are_taken_first_and_lose_their_content():
    pool = BlockPool(4, 16)
    table = pool.take(3)
    for index, key in enumerate((101, 102, 103)):
        assert pool.register(key, table, index) == table[index]
    pool.release(table)
    assert pool.census().cached == 3 and pool.free == 4
    assert pool.match((101, 102, 103)) == table
    taken = pool.take(2)  # the blank one, then the tail of the chain
    assert taken == [3, table[2]] and pool.take_evicted() == (table[2],) and pool.take_evicted() == ()
    assert pool.match((101, 102, 103)) == table[:2]
    pool.release(taken)
    pool.check([])


def test_a_held_block_keeps_its_content_and_counts_its_holders():
    pool = BlockPool(3, 16)
    table = pool.take(1)
    pool.register(7, table, 0)
    pool.release(table)
    pool.hold(table[0])
    pool.hold(table[0])
    assert pool.census().shared == 1 and pool.free == 2
    pool.take(2)
    assert pool.match((7,)) == table
    with pytest.raises(AssertionError, match="holders"):
        pool.check([table])
    pool.release(table)
    pool.release(table)
    with pytest.raises(AssertionError, match="more often"):
        pool.release(table)


def test_a_block_that_others_continue_is_never_evicted():
    pool = BlockPool(4)
    table = pool.take(2)
    pool.register(1, table, 0)
    pool.register(2, table, 1)
    with pytest.raises(AssertionError, match="continue it"):
        pool.cache.evict(table[0])
    assert pool.cache.evict(table[1]) and pool.cache.evict(table[0]) and not pool.cache.evict(table[0])


def test_the_null_block_is_never_handed_out():
    pool = BlockPool(2588, null_block=True)
    assert pool.total == 2587 and 0 not in pool.take(pool.total)
    with pytest.raises(InputError, match="at least 2"):
        BlockPool(1, null_block=True)


@given(st.lists(st.integers(0, 3), max_size=30), st.lists(st.integers(0, 3), max_size=30), st.integers(1, 5))
def test_equal_keys_mean_equal_prefixes(first, second, size):
    one, two = chained_keys(tuple(first), size), chained_keys(tuple(second), size)
    assert len(one) == len(first) // size
    for index, (a, b) in enumerate(zip(one, two, strict=False)):
        assert (a == b) == (first[:(index + 1) * size] == second[:(index + 1) * size])


@pytest.mark.parametrize(("prompt", "hit"), [(33, 32), (32, 16), (17, 16), (16, 0)])
def test_hits_are_full_blocks_and_leave_one_token_to_compute(prompt, hit):
    served = scheduler(blocks=20, block_size=16)
    first = drive(served, [request("first", 48, 1, seed=1)])
    second = drive(served, [request("second", prompt, 1, seed=1)], engine=first.engine)
    assert second.sequences["second"].cached_tokens == hit
    assert (served.asked_tokens, served.hit_tokens) == (48 + prompt, hit)
    assert second.plans[0].prefill_chunks == ((prompt - hit, hit),)


def test_generated_tokens_are_cached_too_so_the_next_turn_hits_them():
    served = scheduler(blocks=40, block_size=4)
    first = drive(served, [request("turn 1", 10, 7, seed=1)])
    so_far = text(10, 1) + tuple(first.sequences["turn 1"].tokens)
    turn = Request(id="turn 2", arrival_ns=0, prompt_tokens=len(so_far) + 3, output_tokens=2, token_ids=so_far + (1, 2, 3))
    second = drive(served, [turn], engine=first.engine)
    assert second.sequences["turn 2"].cached_tokens == 16  # 10 + 7 - 1 computed: four blocks of four


def test_given_hashes_share_prefixes_without_text_and_may_cover_what_is_generated():
    served = scheduler(blocks=40, block_size=4)
    asked = [Request(id="a", arrival_ns=0, prompt_tokens=9, output_tokens=8, prefix_hashes=(11, 12, 13, 14)),
             Request(id="b", arrival_ns=50, prompt_tokens=20, output_tokens=1, prefix_hashes=(11, 12, 13, 14, 15)),
             Request(id="c", arrival_ns=60, prompt_tokens=20, output_tokens=1, prefix_hashes=(11, 99))]
    sequences = [served.add(r) for r in asked[:1]]
    while not served.idle:
        served.complete(served.schedule(0), 1)
    for other in asked[1:]:
        sequences.append(served.add(other))
        while not served.idle:
            served.complete(served.schedule(0), 1)
    assert [s.cached_tokens for s in sequences] == [0, 16, 4]


def test_two_that_compute_the_same_prefix_at_once_end_with_one_copy_of_it():
    served = scheduler(blocks=40, block_size=4, max_batched_tokens=100)
    for name in "ab":
        served.add(request(name, 12, 5, seed=1))
    served.complete(served.schedule(0), 1)
    assert served.check().shared == 3
    assert served.sequences["a"].block_table[:3] == served.sequences["b"].block_table[:3]


def test_a_fork_shares_every_block_until_one_of_the_two_writes():
    served = scheduler(blocks=40, block_size=4)
    parent = served.add(request("p", 10, 6, seed=1))
    plan = served.schedule(0)
    served.complete(plan, 1, {"p": 5})
    child = served.fork("p", "c")
    assert served.check().shared == 3 and child.tokens == [5] and child.block_table == parent.block_table
    plan = served.schedule(1)
    (source, target), = plan.copies
    assert source == plan.items[0].block_table[2] or source == plan.items[1].block_table[2]
    assert {item.block_table[2] for item in plan.items} == {source, target}
    served.complete(plan, 2, {"p": 6, "c": 7})
    assert served.check().shared == 2 and served.schedule(2).copies == ()


def test_a_sequence_is_not_swapped_in_and_out_in_one_step():
    served = scheduler("fcfs", preemption="swap", host_blocks=8, max_batched_tokens=6)
    sequence = served.add(request("half", 12, 4))
    served.complete(served.schedule(0), 1)
    step = Step(served, 1)
    assert step.candidates() == [sequence]
    step.preempt(sequence)
    assert step.plan().swapped_out[0].host_blocks == (0, 1) and sequence.status == "swapped"
    step = Step(served, 2)
    assert step.admit(sequence) and step.candidates() == []
    assert served.memory.host.free == 6  # swaps out of this step must not take what is still to be read
    assert step.plan().swapped_in[0].host_blocks == (0, 1) and served.memory.host.free == 8


def test_without_a_free_seat_a_fork_waits():
    served = scheduler(max_sequences=1)
    run = drive(served, [request("0", 10, 6, seed=1)], actions=[(2, "fork", "0")])
    assert run.sequences["0+"].generated == 6 and run.sequences["0+"].first_scheduled_ns is not None


@pytest.mark.parametrize(("field", "values"), [
    ("prompt_tokens", {"prompt_tokens": 0}), ("output_tokens", {"output_tokens": 0}), ("token_ids", {"token_ids": (1,)})])
def test_a_request_that_makes_no_sense_names_its_field(field, values):
    with pytest.raises(InputError) as caught:
        Request(**{"id": "x", "arrival_ns": 0, "prompt_tokens": 3, "output_tokens": 1} | values)
    assert caught.value.field == field


@pytest.mark.parametrize("values", [{"max_sequences": 0}, {"chunk_budget": 0}, {"max_batched_tokens": -1},
                                    {"max_model_length": 0}, {"steps_in_flight": 3}])
def test_limits_that_make_no_sense_name_their_field(values):
    with pytest.raises(InputError) as caught:
        Limits(**values)
    assert caught.value.field == next(iter(values))


@pytest.mark.parametrize("values", [{"blocks": 0}, {"blocks": 4, "block_size": 0}, {"blocks": 4, "watermark": 1.0}])
def test_a_pool_that_makes_no_sense_is_refused(values):
    with pytest.raises(InputError):
        BlockPool(**values)


def test_misuse_of_the_scheduler_is_named():
    with pytest.raises(InputError, match="host blocks"):
        scheduler(preemption="swap")
    with pytest.raises(InputError, match="recompute or swap"):
        scheduler(preemption="pray")
    served = scheduler()
    served.add(request("a", 4, 4, seed=0))
    with pytest.raises(InputError, match="no unfinished request"):
        served.add(request("a", 4, 4))
    plan = served.schedule(0)
    with pytest.raises(ValueError, match="complete one first"):
        served.schedule(0)
    with pytest.raises(InputError, match="between two steps"):
        served.fork("a", "b")
    with pytest.raises(ValueError, match="no token for a"):
        served.complete(plan, 1, {})
    served.complete(plan, 1, {"a": 3})
    with pytest.raises(ValueError, match="order"):
        served.complete(plan, 1)
    assert not served.abort("nobody") and served.abort("a") and served.idle
