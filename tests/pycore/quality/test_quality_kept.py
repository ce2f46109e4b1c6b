"""Long parts are taken in steps: a newer question need not wait for them, and what was finished costs nothing again."""

from pycore.quality.kept import kept_in_steps
from pycore.systems.quantbench import Answer, Progress, Query, steps


def test_what_was_finished_yields_nothing_and_is_the_same_object():
    @kept_in_steps(2)
    def counted(most):
        yield from range(most)
        return [most]

    assert not counted.holds(3)
    first = counted.whole(3)
    assert first == [3] and counted.holds(3) and counted.whole(3) is first
    assert list(counted(3)) == []
    counted.whole(1)
    counted.whole(2)
    assert not counted.holds(3) and counted.holds(1)


def test_what_is_given_up_is_not_kept():
    @kept_in_steps(2)
    def counted():
        yield 1
        yield 2
        return "end"

    begun = counted()
    next(begun)
    begun.close()
    assert not counted.holds()
    assert list(counted()) == [1, 2] and counted.holds()


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
