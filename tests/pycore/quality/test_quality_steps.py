"""Long parts are taken in steps: a newer question need not wait for them, and what was finished costs nothing again."""

import pytest

from pycore.errors import StudioError
from pycore.systems.quantbench import Answer, Progress, Query, steps


def test_methods_and_variants_are_steps_between_which_a_newer_question_can_come():
    taken = list(steps(Query(seed=4141, edits="3=0.05", rotation=True)))
    answers = [place for place, one in enumerate(taken) if isinstance(one, Answer)]
    assert len(answers) == 2 and taken[answers[0]].bench.pending
    between = taken[answers[0] + 1:answers[1]]
    assert all(isinstance(one, Progress) for one in between)
    assert [one.fraction for one in between] == sorted(one.fraction for one in between) and between[-1].fraction < 1
    told = " ".join(one.stage for one in between)
    for name in ("act-order", "plain inverse Hessian", "every step", "SmoothQuant", "AWQ", "GPTQ", "rotation"):
        assert name in told


@pytest.mark.parametrize("fields", [{"values": "1, two"}, {"values": "1,2;3"}, {"file": "/nowhere.safetensors"},
                                    {"format": "int4", "granularity": "none", "levels": "17"}])
def test_what_needs_no_numpy_to_be_refused_is_refused_before_anything_is_shown(monkeypatch, fields):
    monkeypatch.setattr("pycore.cache.absent", lambda names: names)
    with pytest.raises(StudioError):
        next(steps(Query(**fields)))


def test_an_option_that_a_format_lacks_is_no_fault(monkeypatch):
    monkeypatch.setattr("pycore.cache.absent", lambda names: names)
    assert next(steps(Query(format="nf4", symmetric="no"))).bench is None


def test_a_header_nested_deep_is_refused_before_it_is_parsed(monkeypatch, tmp_path):
    """A parser that recurses takes the stack of WebAssembly, and with it the whole page."""
    (tmp_path / "deep.safetensors").write_bytes((50_000).to_bytes(8, "little") + b"[" * 50_000)
    monkeypatch.setattr("json.loads", lambda *arguments, **options: pytest.fail("it was parsed"))
    with pytest.raises(StudioError, match="nested deeper"):
        next(steps(Query(file=str(tmp_path / "deep.safetensors"))))
