"""What a torch engine writes is played by the scheduler alone: the same steps, blocks, texts and ends, whatever happened."""

import errno
import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mini_infer_driving import POLICIES, Run, drive, text

from pycore.errors import SourceError
from pycore.scenes import recorded
from pycore.scenes.event_file import read
from pycore.scenes.player import Player
from pycore.serving.limits import Limits
from runtime.mini_infer.engine import Engine, Generation
from runtime.mini_infer.events import Sink, recording
from runtime.mini_infer.sampling import Sampling
from runtime.mini_infer.speculation import Speculation


@pytest.fixture
def ours(pairs):
    return pairs["Qwen2"][0]


def played(path) -> Player:
    """A player at the end of the file; every step was decided as in the file, every law held in every picture."""
    lines = path.read_text(encoding="ascii").splitlines()
    film = recorded.played(lines)
    assert film.first_broken() is None, film.first_broken()[1]
    header, rest = read(lines)
    player = Player(header, 0)
    for line in rest:
        player.play(line)
        assert player.alike is None or player.alike.holds
    return player


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_any_run_can_be_played_again(data, ours, tmp_path):
    draw, path = data.draw, tmp_path / "events.jsonl"
    swap = draw(st.booleans())
    guesses = draw(st.sampled_from((0, 0, 1, 4)))
    engine = Engine.of(
        ours, speculation=Speculation(tokens=guesses) if guesses else None, blocks=draw(st.integers(8, 20)), block_size=draw(st.sampled_from((4, 8))),
        limits=Limits(max_sequences=draw(st.integers(1, 6)), max_batched_tokens=draw(st.integers(4, 40)), max_model_length=64,
                      draft_tokens=guesses),
        policy=POLICIES[draw(st.sampled_from(sorted(POLICIES)))], prefix_caching=draw(st.booleans()),
        preemption="swap" if swap else "recompute", host_blocks=draw(st.integers(1, 10)) if swap else 0)
    arrivals = [(draw(st.integers(0, 8)), Generation(
        id=name, prompt=text(draw(st.integers(1, 20)), draw(st.integers(0, 1))), max_tokens=draw(st.integers(1, 10)),
        sampling=Sampling(seed=draw(st.integers(0, 5)), temperature=0.8),
        end=draw(st.sampled_from([(), tuple(range(0, 64, 7))])))) for name in "abcd"[:draw(st.integers(1, 4))]]
    acts = draw(st.lists(st.tuples(st.integers(1, 12), st.sampled_from(("abort", "fork")), st.sampled_from("abc")), max_size=3))
    plain = engine.scheduler
    with recording(engine, path, model="random"):
        run = drive(engine, arrivals, acts)
    assert engine.scheduler is plain
    player = played(path)
    assert player.scheduler.steps == plain.steps and tuple(player.scheduler.pool.queue) == tuple(plain.pool.queue)
    assert {name: said.tokens for name, said in player.said.items()} == run.texts
    ends = {name: said.sequence.status for name, said in player.said.items()}
    assert ends == {name: {"length": "finished", "stop": "finished"}.get(one.finish, one.finish) for name, one in run.ends.items()}


def test_samples_of_one_prompt_and_their_aborts(ours, tmp_path):
    path = tmp_path / "events.jsonl"
    engine, run = Engine.of(ours, blocks=40, block_size=8), {}
    with recording(engine, path, words=lambda token: f"<{token}>"):
        engine.add(Generation(id="a", prompt=text(20), max_tokens=8, samples=3, sampling=Sampling(seed=1)))
        engine.step()
        engine.abort("a/1")
        while not engine.idle:
            for one in engine.step():
                run.setdefault(one.id, []).append(one.choice.token)
    player = played(path)
    for name in ("a", "a/2"):
        assert player.said[name].tokens[-7:] == run[name]
    assert player.said["a/1"].sequence.status == "aborted"
    film = recorded.played(path.read_text(encoding="ascii").splitlines())
    assert film.texts[0].prompt[0] == f"<{text(20)[0]}>"


def test_a_step_that_fails_is_played_as_it_was(ours, tmp_path, monkeypatch):
    path = tmp_path / "events.jsonl"
    engine = Engine.of(ours, blocks=40, block_size=8)
    with recording(engine, path):
        for name in "ab":
            engine.add(Generation(id=name, prompt=text(20, int(name == "b")), max_tokens=8))
        engine.step()
        with monkeypatch.context() as patch:
            patch.setattr("runtime.mini_infer.engine.run", lambda *_: (_ for _ in ()).throw(RuntimeError("out of memory")))
            assert {one.finish for one in engine.step()} == {"error"}
        engine.add(Generation(id="c", prompt=text(20), max_tokens=4))
        run = Run(engine)
        while not engine.idle:
            engine.step()
    assert not run.ends
    player = played(path)
    assert [said.sequence.status for said in player.said.values()] == ["aborted", "aborted", "finished"]
    assert tuple(player.scheduler.pool.queue) == tuple(engine.scheduler.pool.queue)
    assert player.said["c"].sequence.cached_tokens == 0, "what failed left nothing to be found"


def test_a_disk_that_is_full_ends_the_recording_and_not_the_engine(ours, tmp_path):
    class Full:
        def write(self, data: bytes) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    sink = Sink(Full())
    sink("{}\n")
    sink("{}\n")
    assert "No space" in sink.fault
    engine = Engine.of(ours, blocks=10)
    heard: list[str] = []
    with recording(engine, "/dev/full" if os.path.exists("/dev/full") else tmp_path / "x", ended=heard.append) as found:
        engine.add(Generation(id="a", prompt=text(5), max_tokens=2))
        while not engine.idle:
            engine.step()
        assert not os.path.exists("/dev/full") or len(heard) == 1 and "No space" in heard[0], "said while the engine runs, once"
    assert not os.path.exists("/dev/full") or "No space" in found.fault


def test_a_file_that_cannot_be_written_is_said_before_anything_runs(ours, tmp_path):
    engine = Engine.of(ours, blocks=10)
    with pytest.raises(SourceError, match="cannot be written"), recording(engine, tmp_path / "none" / "events.jsonl"):
        pytest.fail("it was opened")
    engine.add(Generation(id="a", prompt=text(5), max_tokens=2))
    with pytest.raises(SourceError, match="idle"), recording(engine, tmp_path / "late.jsonl"):
        pytest.fail("a recording cannot begin in the middle")
