"""The event file: played again it gives the same pictures; what is hostile, cut off or huge is refused with its line."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scenes_driving import scripts, settings_of_stages, staged

from pycore.cache import keep_open, keep_upload
from pycore.errors import InputError
from pycore.scenes import recorded, recorder, script
from pycore.scenes.event_file import MOST_LINE, read, streamed
from pycore.scenes.player import Player
from pycore.scenes.recorder import Recorder
from pycore.scenes.stage import Setting, Stage
from pycore.serving.limits import Limits
from pycore.serving.request import Request
from pycore.systems.mini_infer import Answer, Progress, Query, answer, steps
from pycore.systems.mini_infer_question import SCRIPT

SMALL = Setting(blocks=12, block_size=4, longest=40)
TEXT = script.recorded(SCRIPT, SMALL)
LINES = TEXT.splitlines()


def written(text: str, setting: Setting, acts=()) -> tuple[Stage, str]:
    """A script's run and its event file."""
    lines: list[str] = []
    stage = Stage(setting)
    stage.scheduler = Recorder(stage.scheduler, lines.append, words=stage.vocabulary.words.__getitem__)
    staged(text, setting, acts, stage=stage)
    stage.scheduler.close()
    return stage, "".join(lines)


@settings(max_examples=40, deadline=None)
@given(scripts(), settings_of_stages, st.lists(st.integers(0, 1000), max_size=6))
def test_a_file_played_again_gives_the_same_pictures(text, setting, acts):
    stage, file = written(text, setting, acts)
    film = recorded.played(file.splitlines())
    assert len(film.frames) == len(stage.frames) and film.texts == stage.film().texts
    for mine, theirs in zip(film.frames, stage.frames, strict=True):
        for name in ("what", "lines", "blocks", "free", "tables", "waiting", "work", "copies", "evicted", "tree", "waste"):
            assert getattr(mine, name) == getattr(theirs, name), (mine.number, name)
        assert mine.holds and len(mine.invariants) == len(theirs.invariants) + (mine.kind == "step")


def test_guesses_and_samples_are_played_too():
    scheduler = Setting(blocks=20, block_size=4, longest=60, draft_tokens=3).scheduler()
    lines: list[str] = []
    driven = Recorder(scheduler, lines.append)
    driven.add(Request(id="A", arrival_ns=0, prompt_tokens=6, output_tokens=12, token_ids=(1, 2, 3, 4, 5, 6)))
    plan = driven.schedule(0)
    driven.complete(plan, 1, {"A": 7}, branches={"A": {"A/1": 8}})
    kept = [(9, 10), (11,), (12, 13, 14)]
    for number in range(3):
        plan = driven.schedule(10 * number, {"A": 2, "A/1": 3})
        driven.complete(plan, 10 * number + 5, {item.sequence_id: kept[number][:item.drafts + 1] for item in plan.items})
    tables = {name: (sequence.computed, tuple(sequence.block_table)) for name, sequence in scheduler.sequences.items()}
    film = recorded.played(lines)
    assert film.first_broken() is None and tables
    player = Player(read(lines)[0], 0)
    for line in read(lines)[1]:
        player.play(line)
    assert {name: (one.computed, tuple(one.block_table)) for name, one in player.scheduler.sequences.items()} == tables
    assert any(work.drafts == 2 for frame in film.frames for work in frame.work)


def test_who_failed_in_a_step_is_dropped_and_what_it_left_is_forgotten():
    scheduler, lines = SMALL.scheduler(), []
    driven = Recorder(scheduler, lines.append)
    for name, first in (("A", 1), ("B", 2)):
        driven.add(Request(id=name, arrival_ns=0, prompt_tokens=6, output_tokens=8, token_ids=(first, 2, 3, 4, 5, 6)))
    driven.complete(driven.schedule(0), 1, {"A": 7, "B": 7})
    plan = driven.schedule(2)
    driven.abort("A", 3)  # as the engine does with a sequence whose logits are not finite: between schedule and complete
    driven.complete(plan, 3, {"B": 8})
    free = scheduler.pool.take(scheduler.pool.free)
    scheduler.pool.release(free)
    driven.complete(driven.schedule(4), 5, {"B": 9})
    assert any('"dropped":["A"]' in line for line in lines)
    film = recorded.played(lines)
    assert film.first_broken() is None and film.frames[-1].free == tuple(scheduler.pool.queue)
    assert [text.status for text in film.texts] == ["aborted", "running"]


def test_decisions_that_are_not_those_of_the_file_break_a_law():
    lines = [line.replace('"work":[["A",0,10,0,1,2]]', '"work":[["A",0,10,0,1,3]]') for line in LINES]
    assert lines != LINES
    frame, law = recorded.played(lines).first_broken()
    assert law.name == "Decided alike" and "the file says" in law.says and frame.step == 1


@pytest.mark.parametrize("chunk", (1, 7, 100, 1 << 18))
def test_a_file_is_read_by_ranges(chunk):
    data = (TEXT + TEXT.splitlines()[-1]).encode()
    found = list(streamed(len(data), lambda first, count: data[first:first + count], chunk))
    assert found == data.decode().splitlines()


def test_a_dropped_file_and_a_pasted_text_give_the_same(tmp_path, monkeypatch):
    monkeypatch.setenv("INFERENCE_STUDIOS_CACHE", str(tmp_path))
    dropped = answer(Query(scene="recorded", events=keep_upload("run.jsonl", TEXT.encode())))
    pasted = answer(Query(scene="recorded", events=TEXT))
    assert dropped.film.frames == pasted.film.frames and dropped.count == len(pasted.film.frames)
    assert answer(Query(scene="recorded")).film is None


def test_a_long_file_is_played_in_slices_and_kept():
    *before, last = steps(Query(scene="recorded", events=TEXT + "\n"))
    fractions = [one.fraction for one in before]
    assert len(before) == len(LINES) - 1 and all(isinstance(one, Progress) for one in before)
    assert fractions == sorted(fractions) and fractions[-1] < 1 and isinstance(last, Answer)
    again, = steps(Query(scene="recorded", events=TEXT + "\n", frame=3))
    assert again.film is last.film and again.number == 3


def test_a_file_need_not_say_what_was_decided():
    lines = [json.dumps({key: value for key, value in json.loads(line).items() if key != "work"}) for line in LINES]
    film = recorded.played(lines)
    assert film.first_broken() is None and film.frames[1].invariants[-1].says.startswith("the file does not say")


def test_a_file_that_is_too_large_is_not_read():
    reference = keep_open("big.jsonl", 65 << 20, lambda first, count: pytest.fail("it was read"))
    with pytest.raises(InputError, match="64 MiB"):
        answer(Query(scene="recorded", events=reference))


@settings(max_examples=150, deadline=None)
@given(st.integers(0, len(TEXT)))
def test_a_file_cut_anywhere_is_played_to_there_or_refused_with_its_line(at):
    cut = TEXT[:at]
    whole_lines = at == len(TEXT) or TEXT[at] == "\n" or not cut or cut.endswith("\n")
    try:
        film = recorded.played(cut.splitlines())
    except InputError as fault:
        assert fault.field == "events"
        assert not whole_lines or cut.count("\n") < 3
    else:
        assert whole_lines and film.first_broken() is None
        assert at >= len(TEXT) - 1 or any("breaks off" in note for note in film.notes)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_file_with_anything_changed_is_played_or_refused(data):
    """Any value of any line replaced: a film, or an InputError of this field; nothing else ever."""
    lines = list(LINES)
    place = data.draw(st.integers(0, len(lines) - 1))
    content = json.loads(lines[place])
    key = data.draw(st.sampled_from(sorted(content)))
    value = st.none() | st.booleans() | st.integers(-2**70, 2**70) | st.floats(allow_nan=False) | st.text(max_size=5)
    content[key] = data.draw(value | st.lists(value, max_size=3) | st.dictionaries(st.text(max_size=3), value, max_size=3))
    lines[place] = json.dumps(content)
    try:
        recorded.played(lines)
    except InputError as fault:
        assert fault.field == "events", fault


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(LINES[1:]), max_size=12))
def test_lines_in_any_order_are_played_or_refused(lines):
    try:
        recorded.played([LINES[0], *lines])
    except InputError as fault:
        assert fault.field == "events"


HEADER = json.loads(LINES[0])


@pytest.mark.parametrize(("lines", "says"), [
    ([""], "begins with"), (["{}"], "begins with"), (["[]"], "JSON object"), (["null"], "JSON object"), (["{"], "line 1"),
    (["[" * 100_000], "line 1"), (['{"mini-infer events": 2}'], "version 1"), (['{"mini-infer events": true}'], "begins with"),
    (['{"mini-infer events": 1}'], "policy"), ([json.dumps(HEADER | {"policy": "lottery"})], "policy is one of"),
    ([json.dumps(HEADER | {"blocks": 0})], "blocks"), ([json.dumps(HEADER | {"blocks": 10**9})], "blocks"),
    ([json.dumps(HEADER | {"block_size": 0.5})], "block_size"), ([json.dumps(HEADER | {"steps_in_flight": 3})], "steps_in_flight"),
    ([json.dumps(HEADER | {"policy_fields": {"name": 1}})], "policy_fields"),
    ([json.dumps(HEADER | {"preemption": "swap"})], "host_blocks"), ([json.dumps(HEADER | {"prefix_caching": 1})], "true or false"),
    ([LINES[0], '{"add": "A", "prompt": [NaN], "output": 1}'], "line 2"),
    ([LINES[0], '{"add": "A", "prompt": [' + "1," * 9 + '1e999], "output": 1}'], "line 2"),
    ([LINES[0], '{"add": "A", "prompt": [-1], "output": 1}'], "line 2"),
    ([LINES[0], '{"add": "A", "prompt": [' + "9" * 5000 + '], "output": 1}'], "line 2"),
    ([LINES[0], '{"add": "A", "prompt": [], "output": 1}'], "line 2"), ([LINES[0], '{"add": "", "prompt": [1], "output": 1}'], "line 2"),
    ([LINES[0], '{"step": 1}'], "line 2"), ([LINES[0], '{"abort": "A"}'], "line 2"), ([LINES[0], '{"fork": "A", "as": "B"}'], "line 2"),
    ([LINES[0], '{"surprise": 1}'], "line 2"), ([LINES[0], '{"words": {"x": "y"}}'], "line 2"), ([LINES[0]], "at least one request"),
    ([LINES[0], *LINES[1:4], LINES[2]], "line 5"), ([LINES[0], " " * (MOST_LINE + 1)], "characters"),
])
def test_what_is_no_event_file_is_refused_in_words(lines, says):
    with pytest.raises(InputError) as fault:
        recorded.played(lines)
    assert fault.value.field == "events" and says in str(fault.value) and len(str(fault.value)) < 700


def test_bytes_that_are_no_text_and_lines_that_never_end():
    for data in (b"\xff\xfe{}\n", b"x" * (MOST_LINE + (1 << 19))):
        with pytest.raises(InputError) as fault:
            recorded.played(streamed(len(data), lambda first, count, data=data: data[first:first + count]))
        assert fault.value.field == "events"


def test_a_recording_stops_at_its_limit_and_says_so(monkeypatch):
    monkeypatch.setattr(recorder, "LIMIT_CHARACTERS", 1500)
    _, file = written(SCRIPT, SMALL)
    assert len(file) < 1600 and file.endswith('{"end":"full"}\n')
    assert any("limit of size" in note for note in recorded.played(file.splitlines()).notes)


def test_pictures_from_a_later_step_are_those_of_the_whole_film():
    whole, late = recorded.played(LINES), recorded.played(LINES, 6)
    last = {(frame.step, frame.kind): frame for frame in whole.frames}
    for frame in late.frames:
        if frame.step:
            other = last[frame.step, frame.kind]
            assert (frame.blocks, frame.tables, frame.work, frame.free) == (other.blocks, other.tables, other.work, other.free)
    assert 0 < len(late.frames) < len(whole.frames) and any("pictures are shown" in note for note in late.notes)
    with pytest.raises(InputError, match="first step"):
        recorded.played(LINES, 10_000)


def test_a_policy_keeps_its_own_fields():
    from pycore.serving.policies.priority import Priority
    from pycore.serving.scheduler import Scheduler

    plain = SMALL.scheduler()
    scheduler = Scheduler(Priority(preemptive=False), plain.pool, Limits(max_model_length=40))
    lines: list[str] = []
    Recorder(scheduler, lines.append)
    assert read(lines)[0].made_policy() == Priority(preemptive=False)
    assert read(lines)[0].limits == Limits(max_model_length=40)
