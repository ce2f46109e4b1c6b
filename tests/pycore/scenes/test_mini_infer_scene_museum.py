"""Scene (d): each fault spoils what it is said to spoil, is caught by the law that is named, and is gone when it is off."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scenes_driving import continued, scripts, settings_of_stages, staged

from pycore.scenes import laws
from pycore.scenes.faults import COLLIDING, FAULTS, NeverCopies, NeverEvicts, shortened, with_memory, with_pool
from pycore.scenes.museum import exhibit
from pycore.scenes.stage import Setting, Stage, Vocabulary
from pycore.serving.prefix import chained_keys
from pycore.systems.mini_infer import Query, answer


@pytest.mark.parametrize("name", FAULTS)
def test_the_named_law_is_the_first_to_fail(name):
    found = exhibit(name)
    assert found.breaks[0][0] == found.fault.law == found.law.name and found.caught == found.breaks[0][1]
    before = found.wrong.frames[:found.caught - 1]
    assert all(frame.holds for frame in before) and not found.wrong.frame(found.caught).holds
    assert found.wrong.opens == found.caught


@pytest.mark.parametrize("name", FAULTS)
def test_the_right_engine_holds_every_law_and_says_what_the_toy_says(name):
    found = exhibit(name)
    assert found.right.first_broken() is None and not found.right.notes
    vocabulary = Vocabulary()
    for text in found.right.texts:
        ids = [vocabulary.id(word) for word in text.prompt]
        forked = text.sequence == "B" and name in ("no-copy-on-write", "freed-while-shared")  # it says something of its own
        assert forked or text.output == vocabulary.text(continued(ids, len(text.output)))


@pytest.mark.parametrize("name", FAULTS)
def test_the_fault_shows_in_the_text_no_sooner_than_it_is_caught(name):
    found = exhibit(name)
    spoilt = [one for one in found.outputs if one.differs_at is not None]
    assert spoilt, "nobody would notice"
    assert found.diverges is None or found.diverges >= found.caught
    for one in spoilt:
        assert one.right[:one.differs_at] == one.wrong[:one.differs_at] and one.right != one.wrong
    if found.diverges is None:  # it stands still: what came out so far is right
        assert all(one.wrong == one.right[:len(one.wrong)] for one in spoilt) and found.wrong.notes


def test_a_leak_ends_in_a_request_that_never_runs():
    found = exhibit("never-evicted")
    assert [one.wrong for one in found.outputs if one.sequence == "C"] == [()]
    assert any("C never" in note for note in found.wrong.notes)


def test_the_colliding_prompts_collide_in_short_keys_and_in_no_others():
    vocabulary = Vocabulary()
    one, other = (chained_keys(tuple(map(vocabulary.id, words)), 4) for _, words in COLLIDING)
    assert shortened(one[0]) == shortened(other[0]) and one[0] != other[0]
    assert shortened(one[1]) != shortened(other[1])


def test_a_hit_that_must_not_be_is_the_whole_of_the_collision():
    found = exhibit("hash-collision")
    assert [text.cached for text in found.wrong.texts] == [0, 4] and [text.cached for text in found.right.texts] == [0, 0]


@pytest.mark.parametrize("name", FAULTS)
def test_the_question_shows_either_side(name):
    broken, repaired = answer(Query(scene="museum", fault=name)), answer(Query(scene="museum", fault=name, broken=False))
    assert broken.film is broken.exhibit.wrong and repaired.film is repaired.exhibit.right
    assert broken.number == broken.exhibit.caught and repaired.frame.holds


@settings(max_examples=25, deadline=None)
@given(scripts(), settings_of_stages, st.lists(st.integers(0, 1000), min_size=2, max_size=6))
def test_copies_left_out_are_always_seen_when_two_write_into_one_block(text, setting, acts):
    """Not only on the exhibit: whenever a right engine would have copied, the law fails on the one that does not."""
    def broken(setting: Setting) -> Stage:
        return with_memory(NeverCopies)(setting)

    if setting.host_blocks:
        return  # this memory has no host
    right, wrong = staged(text, setting, acts), staged(text, setting, acts, stage=broken(setting))
    copied = next((frame.number for frame in right.frames if frame.copies), None)
    seen = next((frame.number for frame in wrong.frames
                 if any(law.name == laws.ALONE and not law.holds for law in frame.invariants)), None)
    assert seen == copied


@settings(max_examples=25, deadline=None)
@given(scripts(), st.integers(6, 14))
def test_a_leak_is_seen_as_soon_as_a_cached_block_is_let_go(text, blocks):
    setting = Setting(blocks=blocks, block_size=2, longest=40)
    stage = with_pool(NeverEvicts)(setting)
    staged_until(stage, text)
    for frame in stage.frames:
        lost = blocks - len(frame.free) - frame.used
        conserved = next(law for law in frame.invariants if law.name == laws.CONSERVED)
        assert conserved.holds == (not lost)


def staged_until(stage: Stage, text: str) -> None:
    """Play a script for at most sixty steps: an engine that leaks may never come to rest."""
    from pycore.scenes import script

    for event in script.parse(text):
        script.play(stage, event)
    stage.run(60)
