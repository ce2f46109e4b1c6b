"""What was finished costs nothing again, and only so much of it is kept."""

from pycore.kept import kept, kept_in_steps


def test_only_so_many_results_are_kept():
    calls = []

    @kept(2)
    def double(one):
        calls.append(one)
        return 2 * one

    assert [double(one) for one in (1, 2, 1, 3, 1, 2)] == [2, 4, 2, 6, 2, 4] and calls == [1, 2, 3, 2]
    assert double.holds(1) and double.holds(2) and not double.holds(3)


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
