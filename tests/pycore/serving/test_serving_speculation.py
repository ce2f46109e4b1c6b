"""Speculation in the plan: whatever is guessed, rightly or wrongly, no token, block or cached prefix is other than without."""

from dataclasses import dataclass, field, replace
from hashlib import blake2b

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from serving_driving import POLICIES, Engine, drive, next_token, oracle, request, scheduler
from test_serving_laws import actions, requests
from test_serving_laws import engines as plain_engines

from pycore.errors import InputError
from pycore.serving.limits import Limits
from pycore.serving.prefix import chain

SETTINGS = settings(max_examples=25, deadline=None)


@dataclass
class Guesser(Engine):
    """Computes guesses as well: `rightness` of 16 are what the model says, by a hash of where they stand."""

    rightness: int = 12
    counted: bool = False  # it says beforehand how many guesses it has
    guesses: dict[str, tuple[int, ...]] = field(default_factory=dict)
    drafted: int = 0
    accepted: int = 0

    def drafts(self):
        return {name: len(text) * 7 % 6 for name, text in self.texts.items()} if self.counted else None

    def run(self, plan):
        asked = {item.sequence_id: item for item in plan.items if item.drafts}
        known = {name: len(self.texts[name]) for name in asked}
        for name, item in asked.items():
            assert item.start == known[name] - 1 and item.count == 1 + item.drafts and item.emits and item.decode
            for _ in range(item.drafts):
                self.texts[name].append(self._guess(name))
        out = super().run(plan)
        for name, item in asked.items():
            out[name] = self._kept(item, known[name])
            self.drafted, self.accepted = self.drafted + item.drafts, self.accepted + len(out[name]) - 1
            del self.texts[name][known[name]:]
        return out

    def _guess(self, name: str) -> int:
        text = self.texts[name]
        coin = blake2b(f"{name} {len(text)}".encode(), digest_size=1).digest()[0] % 16
        return next_token(text) if coin < self.rightness else next_token(text) + 1

    def _kept(self, item, known: int) -> tuple[int, ...]:
        kept = []
        for place in range(1 + item.drafts):
            token = next_token(self._context(replace(item, count=1 + place)))
            kept.append(token)
            if place < item.drafts and self.texts[item.sequence_id][known + place] != token:
                break
        return tuple(kept)

    def after(self, served):
        """What can be found in the prefix cache is what the blocks hold: nothing rejected was ever entered."""
        for key, node in served.pool.cache.nodes.items():
            if isinstance(key, int):
                assert key == chain(node.parent.key if node.parent else None, tuple(self.device[node.block]))
        for sequence in served.sequences.values():
            assert sequence.drafted == 0


@st.composite
def engines(draw, **fixed):
    return draw(plain_engines(steps_in_flight=1)) | {"draft_tokens": draw(st.integers(1, 6))} | fixed


def guesser(draw, served) -> Guesser:
    return Guesser(served.pool.block_size, rightness=draw(st.sampled_from([0, 8, 14, 16])), counted=draw(st.booleans()))


@pytest.mark.parametrize("policy", POLICIES)
@SETTINGS
@given(data=st.data())
def test_every_request_ends_with_the_tokens_it_would_have_alone(policy, data):
    served = scheduler(policy, **data.draw(engines()))
    stops = data.draw(st.dictionaries(st.integers(0, 8).map(str), st.integers(1, 6), max_size=3))
    run = drive(served, data.draw(requests()), actions=data.draw(actions()), stops=stops, engine=guesser(data.draw, served))
    for sequence in run.sequences.values():
        assert sequence.tokens == oracle(sequence.request.token_ids, len(sequence.tokens))
        assert sequence.generated == len(sequence.tokens) == len(sequence.token_times_ns())
        assert sequence.token_times_ns() == sorted(sequence.token_times_ns())
        if sequence.status == "finished":
            assert sequence.generated == min(sequence.target, max(1, stops.get(sequence.id, 10**9)))
            assert sequence.token_times_ns()[-1] == sequence.finished_ns
            assert sequence.token_times_ns()[0] == sequence.first_token_ns
        else:
            assert sequence.reason
    for plan in run.plans:
        assert plan.tick < 0 and plan.draft_tokens == sum(item.drafts for item in plan.items)
    census = served.check()
    assert census.used == 0 and census.cached + census.blank == census.total
    assert served.memory.host is None or served.memory.host.used == 0


@pytest.mark.parametrize("policy", POLICIES)
@SETTINGS
@given(data=st.data())
def test_guesses_hold_up_nobody(policy, data):
    """Where all guesses are wrong, every step is what it is without speculation, but for the guesses in it."""
    options, asked = data.draw(engines(caching=False)), data.draw(requests())

    def steps(draft_tokens: int):
        served = scheduler(policy, **options | {"draft_tokens": draft_tokens})
        run = drive(served, asked, engine=Guesser(served.pool.block_size, rightness=0))
        plans = [(sorted((item.sequence_id, item.start, item.count - item.drafts) for item in plan.items), plan.preempted,
                  plan.refused, plan.decode_count, plan.decode_context, plan.decode_longest, plan.waiting, plan.running,
                  sorted((held.sequence_id, held.reason) for held in plan.held_back)) for plan in run.plans]
        return plans, run.events

    assert steps(options["draft_tokens"]) == steps(0)


@pytest.mark.parametrize("policy", ["fcfs", "chunked", "priority"])
@SETTINGS
@given(data=st.data())
def test_counts_without_tokens_move_a_simulator_alike(policy, data):
    """A driver without token ids says how many guesses were accepted, and gets the same steps."""
    options, asked, acted = data.draw(engines(caching=False)), data.draw(requests()), data.draw(actions())
    rightness = data.draw(st.integers(0, 16))

    def steps(tokens: bool):
        served = scheduler(policy, **options)
        run = drive(served, asked, actions=acted, tokens=tokens, engine=Guesser(served.pool.block_size, rightness=rightness))
        return [plan.items for plan in run.plans], run.events

    assert steps(True) == steps(False)


@pytest.mark.parametrize("policy", POLICIES)
@SETTINGS
@given(data=st.data())
def test_work_is_conserved(policy, data):
    """Every kept token is computed once, again only after a preemption; beyond that only what was guessed in vain."""
    served = scheduler(policy, **data.draw(engines()))
    run = drive(served, data.draw(requests(shared=False)), engine=guesser(data.draw, served))
    ended = [sequence for sequence in run.sequences.values() if sequence.status == "finished"]
    needed = sum(sequence.prompt_tokens + sequence.generated - 1 + sequence.recomputed_tokens for sequence in ended)
    assert sum(run.engine.computed.values()) == needed + run.engine.drafted - run.engine.accepted


def test_right_guesses_save_steps_and_the_schedule_is_known():
    served = scheduler(blocks=16, draft_tokens=3)
    run = drive(served, [request("a", 6, 10, seed=0)], engine=Guesser(4, rightness=16))
    assert [(item.start, item.count, item.drafts) for plan in run.plans for item in plan.items] == [
        (0, 6, 0), (6, 4, 3), (10, 4, 3), (14, 1, 0)]
    assert [plan.tokens for plan in run.plans] == [6, 4, 4, 1] and [plan.draft_tokens for plan in run.plans] == [0, 3, 3, 0]
    assert [plan.blocks_used for plan in run.plans] == [2, 3, 4, 4]


def test_rejected_positions_give_their_blocks_back_and_are_not_found():
    served = scheduler(blocks=16, draft_tokens=7)
    sequence = served.add(request("a", 6, 12, seed=0), 0)
    engine = Guesser(4, texts={"a": list(sequence.request.token_ids)}, rightness=0)
    for step, used in ((0, 2), (1, 2), (2, 2), (3, 3)):
        plan = served.schedule(step)
        if step:
            assert served.pool.used == 4 and plan.draft_tokens == 7
        said = engine.run(plan)["a"]
        said = said if isinstance(said, tuple) else (said,)
        engine.texts["a"] += said
        served.complete(plan, step, {"a": said})
        engine.after(served)
        assert served.check().used == used and len(said) == 1 and sequence.computed == 6 + step
        assert len(served.pool.cache) == sequence.computed // 4


def test_a_stop_among_accepted_guesses_ends_there():
    served = scheduler(blocks=16, draft_tokens=5)
    run = drive(served, [request("a", 6, 12, seed=0)], stops={"a": 3}, engine=Guesser(4, rightness=16))
    sequence = run.sequences["a"]
    assert sequence.reason == "stop" and sequence.generated == 3 and len(run.plans) == 2
    assert len(served.pool.cache) == 2  # two full blocks are known; the guesses after the stop are in none of them
    run.engine.after(served)


def test_the_last_token_allowed_is_never_guessed_past():
    served = scheduler(blocks=16, draft_tokens=8)
    run = drive(served, [request("a", 6, 4, seed=0), request("b", 6, 1, seed=1), request("c", 6, 2, seed=2)],
                engine=Guesser(4, rightness=16))
    assert {name: sequence.generated for name, sequence in run.sequences.items()} == {"a": 4, "b": 1, "c": 2}
    assert [item.drafts for item in run.plans[1].items] == [2, 0]


def test_an_abort_while_guesses_are_under_way_frees_everything():
    served = scheduler(blocks=16, draft_tokens=5)
    for name in ("a", "b"):
        served.add(request(name, 6, 12, seed=0), 0)
    plan = served.schedule(0)
    served.complete(plan, 1, {"a": 5, "b": 5})
    plan = served.schedule(1)
    assert plan.draft_tokens == 10
    assert served.abort("a", 2)
    served.check()
    with pytest.raises(ValueError, match="gives from 1 to 6"):
        served.complete(plan, 3, {"b": tuple(range(7))})
    with pytest.raises(ValueError, match="gives from 1 to 6"):
        served.complete(plan, 3, {"b": ()})
    served.complete(plan, 3, {"b": (1, 2)})
    assert served.check().used == 2 and served.sequences["b"].tokens == [5, 1, 2]
    plan = served.schedule(4, {"b": 0})
    with pytest.raises(ValueError, match="nothing was guessed"):
        served.complete(plan, 5, {"b": (1, 2)})
    served.complete(plan, 5, {"b": 7})
    assert served.abort("b") and served.check().used == 0


def test_prompts_come_before_guesses_and_waiting_sequences_before_their_blocks():
    served = scheduler(blocks=8, draft_tokens=6, max_batched_tokens=10, caching=False)
    served.add(request("a", 4, 12), 0)
    served.complete(served.schedule(0), 1)
    served.add(request("b", 24, 2), 1)
    plan = served.schedule(1)
    assert [(item.sequence_id, item.count, item.drafts) for item in plan.items] == [("a", 1, 0), ("b", 9, 0)]
    served.complete(plan, 2)
    assert [item.drafts for item in served.schedule(2).items] == [0, 0]


def test_forks_share_no_block_that_is_guessed_into():
    served = scheduler(blocks=32, draft_tokens=3)
    run = drive(served, [request("a", 6, 16, seed=0)], actions=[(2, "fork", "a"), (3, "fork", "a+")],
                engine=Guesser(4, rightness=8))
    assert {tuple(sequence.tokens) for sequence in run.sequences.values()} == {tuple(oracle(run.sequences["a"].request.token_ids, 16))}
    assert sum(len(plan.copies) for plan in run.plans) >= 1


def test_speculation_is_off_unless_asked_for_and_refused_where_it_cannot_be():
    assert Limits().draft_tokens == 0
    for wrong in ({"draft_tokens": -1}, {"draft_tokens": 1, "steps_in_flight": 2}):
        with pytest.raises(InputError, match="draft tokens"):
            Limits(**wrong)
    with pytest.raises(InputError, match="draft tokens"):
        scheduler(draft_tokens=2, hands_over=True)
