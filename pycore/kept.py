"""Results kept by their question, with a way to ask whether one is there: what is there costs nothing to show again."""

import functools
from collections import OrderedDict
from collections.abc import Callable, Generator
from typing import Any


class Results(OrderedDict):
    """The last `most` results, by the arguments that they are of."""

    def __init__(self, most: int):
        super().__init__()
        self.most = most

    def keep(self, arguments: tuple, made: Any) -> None:
        self[arguments] = made
        while len(self) > self.most:
            self.popitem(last=False)

    def found(self, arguments: tuple) -> Any:
        """One that is there, which is now the last asked for."""
        self.move_to_end(arguments)
        return self[arguments]


def kept(most: int) -> Callable:
    """Decorator: the last `most` results are kept by the (hashable) positional arguments; `.holds(*arguments)` asks."""
    def decorate(function: Callable) -> Callable:
        results = Results(most)

        @functools.wraps(function)
        def call(*arguments: Any) -> Any:
            if arguments not in results:
                results.keep(arguments, function(*arguments))
            return results.found(arguments)

        call.holds = lambda *arguments: arguments in results
        return call

    return decorate


def kept_in_steps(most: int) -> Callable:
    """The same for generators: what they yield passes through, what they return is kept; a kept result yields nothing.

    One that is given up on the way keeps nothing. `.whole(*arguments)` runs to the end.
    """
    def decorate(function: Callable[..., Generator]) -> Callable:
        results = Results(most)

        @functools.wraps(function)
        def steps(*arguments: Any) -> Generator:
            if arguments not in results:
                results.keep(arguments, (yield from function(*arguments)))
            return results.found(arguments)

        steps.holds = lambda *arguments: arguments in results
        steps.whole = lambda *arguments: drained(steps(*arguments))
        return steps

    return decorate


def drained(generator: Generator) -> Any:
    """What a generator returns once it has yielded everything."""
    while True:
        try:
            next(generator)
        except StopIteration as stop:
            return stop.value
