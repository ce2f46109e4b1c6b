"""Scene (a): whatever the script, every law holds in every frame, every text is the toy's own, every count is recounted."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scenes_driving import continued, right_texts, scripts, settings_of_stages, slots, staged, whole

from pycore.errors import InputError
from pycore.scenes import script, waste
from pycore.scenes.stage import Setting, Stage
from pycore.scenes.toy import WORDS
from pycore.systems.mini_infer import Query, answer
from pycore.systems.mini_infer_question import SCRIPT

SMALL = Setting(blocks=12, block_size=4, longest=40)


@settings(max_examples=60, deadline=None)
@given(scripts(), settings_of_stages, st.lists(st.integers(0, 1000), max_size=6))
def test_every_law_holds_in_every_frame_and_every_text_is_right(text, setting, acts):
    stage = staged(text, setting, acts)
    film = stage.film()
    for frame in film.frames:
        whole(frame, film)
    assert right_texts(stage)
    stage.scheduler.check()
    assert stage.scheduler.idle and film.frames[-1].used == 0
    for said in film.texts:
        if said.status == "finished":
            assert len(said.output) == stage.said[said.sequence].sequence.target


@settings(max_examples=40, deadline=None)
@given(scripts(), settings_of_stages, st.lists(st.integers(0, 1000), max_size=6))
def test_waste_is_what_counting_slots_gives(text, setting, acts):
    film = staged(text, setting, acts).film()
    size = film.block_size
    for frame in film.frames:
        running = [table for table in frame.tables if table.blocks]
        found = frame.waste
        assert found.stored == len(slots(frame, size))
        assert found.paged == size * len({block for table in running for block in table.blocks})
        assert found.unshared == sum(table.computed for table in running)
        assert found.longest == film.longest * len(running)
        assert 0 <= found.paged - found.stored <= (size - 1) * len(running)  # only a last block is not full
        assert found.exact == sum(table.prompt + table.target for table in running)
        assert found.exact >= found.unshared and found.doubling >= found.unshared


@settings(max_examples=25, deadline=None)
@given(scripts(), settings_of_stages)
def test_what_changed_is_marked(text, setting):
    frames = staged(text, setting).frames
    for before, frame in zip(frames, frames[1:], strict=False):
        changed = {one.block for one, other in zip(frame.blocks, before.blocks, strict=True) if one != other}
        assert changed <= set(frame.touched_blocks)
        tables = {table.sequence: table for table in before.tables}
        moved = {table.sequence for table in frame.tables if tables.get(table.sequence) != table}
        assert moved | (tables.keys() - {table.sequence for table in frame.tables}) <= set(frame.touched_sequences)


def test_the_default_question_shows_sharing_a_copy_a_hit_and_an_eviction():
    found = answer(Query())
    tags = {tag for frame in found.film.frames for tag in frame.tags}
    assert {"prefill", "decode", "hit", "copy", "evict", "finish"} <= tags
    assert found.film.first_broken() is None and found.frame.used == found.film.blocks == 12
    assert any(block.state == "shared" for block in found.frame.blocks)


def test_terms_of_waste_add_up_and_explain_themselves():
    found = answer(Query()).waste
    by_name = {one.name: one for one in found.allocations}
    for one in found.allocations:
        assert one.wasted.value == one.reserved.value - one.filled.value
        assert one.share.value == pytest.approx(100 * one.wasted.value / one.reserved.value)
        assert one.size.value == one.reserved.value * found.bytes_per_token.value
        assert one.reserved.name and one.size.line.startswith("pycore/scenes/waste.py:")
    # Llama 3.1 8B: 32 layers x 8 key-value heads x 128 x 2 (keys and values) x 2 bytes
    assert found.bytes_per_token.value == 131_072
    assert by_name["paged"].over_film.value < by_name["exact"].over_film.value < by_name["longest"].over_film.value


def test_every_number_has_a_name_of_its_own():
    for query in (Query(), Query(scene="radix"), Query(scene="speculation")):
        terms = answer(query).terms
        names = [(term.name, term.value) for term in terms]
        assert len({name for name, _ in names}) == len(set(names)), sorted(names)


def test_waste_over_the_film_is_summed_over_its_steps():
    found = answer(Query())
    steps = [frame.waste for frame in found.film.frames if frame.kind == "step"]
    longest = found.waste.allocations[-1]
    reserved, kept = sum(one.longest for one in steps), sum(one.unshared for one in steps)
    assert longest.over_film.value == pytest.approx(100 * (reserved - kept) / reserved)
    assert waste.compared(found.film, found.film.frames[-1], "llama-3.1-8b").allocations[0].share is None


def test_a_pool_too_small_preempts_and_still_says_the_same():
    text = "add A 9 +9; add B 9 +9; add C 9 +9"
    tight, wide = staged(text, Setting(blocks=6, block_size=4, longest=40)), staged(text, SMALL)
    assert any("preempt" in frame.tags for frame in tight.frames)
    assert {name: said.tokens for name, said in tight.said.items()} == {name: said.tokens for name, said in wide.said.items()}


def test_preemption_by_swap_brings_the_same_blocks_back():
    setting = Setting(blocks=6, block_size=4, longest=40, preemption="swap", host_blocks=6)
    stage = staged("add A 9 +9; add B 9 +9", setting)
    assert any("swap" in frame.tags for frame in stage.frames)
    assert any(table.host_blocks for frame in stage.frames for table in frame.tables)
    assert right_texts(stage) and stage.film().first_broken() is None


def test_a_fork_shares_until_it_writes_and_then_says_something_else():
    stage = staged("add A 9 +6; step 2; fork A as B", SMALL)
    fork = next(frame for frame in stage.frames if frame.kind == "fork")
    assert {block.state for block in fork.blocks} == {"shared", "blank"}
    after = stage.frames[fork.number]
    assert after.copies and "copy" in after.tags and stage.said["A"].tokens != stage.said["B"].tokens


def test_no_copy_without_a_fork_since_full_blocks_alone_are_shared():
    stage = staged("add A 9 +6; step 2; add B 9 +6 like A 9", SMALL)
    assert not any(frame.copies for frame in stage.frames)
    assert stage.said["B"].sequence.cached_tokens == 8


def test_what_cannot_ever_run_is_refused_in_words():
    found = answer(Query(script="add A 60 +60\nadd B 3 +2"))
    assert [text.status for text in found.film.texts] == ["refused", "finished"]
    assert any("A was refused" in note for note in found.notes)


@pytest.mark.parametrize(("text", "says"), [
    ("", "at least one request"), ("step 3", "at least one request"), ("# nothing", "at least one request"),
    ("add A 20", "line 1"), ("add A 20 12", "line 1"), ("add A 3 +2\nadd A 3 +2", "line 2"), ("add A 0 +2", "line 1"),
    ("add A 3 +0", "line 1"), ("add A 5000 +1", "4,096"), ("add A 3 +2\nadd B 4 +2 like C 1", "line 2"),
    ("add A 3 +2\nadd B 9 +2 like A 4", "line 2"), ("fork A as B", "line 1"), ("add A 3 +2; fork A as A", "line 1"),
    ("abort A", "line 1"), ("add A 3 +1; step 9; abort A", "finished by then"), ("add A 3 +1; step 9; fork A as B", "finished"),
    ("add A 3 +2\nadd <b>x</b> 3 +2", "line 2"), ("add A 3 +2\nstep -1", "line 2"), ("add A 3 +2; step 99999", "line 1"),
    ("add A 3 +2\n\x00\x1b[2J", "line 2"), ("add " + "A" * 17 + " 3 +2", "line 1"), ("add Ä 3 +2", "line 1"),
    ("add A ٣ +2", "line 1"), ("\n".join(f"add A{n} 1 +1" for n in range(65)), "64 requests"),
    ("add A 1 +1" + "; step 1" * 300, "at most 200"),
])
def test_a_script_that_is_none_is_refused_with_its_line(text, says):
    with pytest.raises(InputError) as fault:
        answer(Query(script=text))
    assert fault.value.field == "script" and says in str(fault.value)


def test_a_film_that_would_be_too_long_is_refused():
    with pytest.raises(InputError, match="pictures"):
        answer(Query(script="add A 1 +600", longest=8192, blocks=256, block_size=64))
    with pytest.raises(InputError, match="tokens read back"):
        answer(Query(script="add A 4000 +450", longest=8192, blocks=256, block_size=64, step_tokens=4096))


def test_a_fork_that_finds_no_seat_waits():
    stage = staged("add A 6 +6; step 2; fork A as B", Setting(blocks=12, block_size=4, longest=40, sequences=1))
    fork = next(frame for frame in stage.frames if frame.kind == "fork")
    assert "no seat" in fork.what and fork.waiting == ("B",)
    assert stage.film().first_broken() is None and len(stage.said["B"].tokens) == 12


def test_frames_are_found_by_number_and_the_last_stands_for_all_beyond():
    film = answer(Query()).film
    assert [film.frame(number).number for number in (1, len(film.frames), 10**6)] == [1, len(film.frames), len(film.frames)]
    assert film.frame(0).number == film.opens


def test_parse_reads_what_the_docstring_says():
    events = script.parse(script.__doc__.split("\n\n")[1])
    assert [type(event).__name__ for event in events] == ["Add", "Add", "Add", "Steps", "Fork", "Abort"]
    one_line = script.parse(SCRIPT.replace("\n", ";"))
    assert [replace(event, line=1) for event in script.parse(SCRIPT)] == list(one_line)


def test_the_toy_hangs_on_every_token_and_its_place():
    prompt = list(range(20))
    base = continued(prompt, 8)
    for at in range(20):
        changed = list(prompt)
        changed[at] = 63
        assert continued(changed, 8) != base
    assert continued([*prompt[10:], *prompt[:10]], 8) != base and continued(prompt, 8, seed=1) != base
    assert len(set(WORDS)) == len(WORDS) == 64


def test_same_question_same_frames():
    first, second = (Stage(SMALL) for _ in range(2))
    for stage in (first, second):
        staged(SCRIPT, SMALL, stage=stage)
    assert first.frames == second.frames
