"""Results kept by their question, with a way to ask whether one is there: what is there costs nothing to show again."""

import functools
from collections import OrderedDict
from collections.abc import Callable, Generator
from typing import Any


def kept(most: int) -> Callable:
    """Decorator: the last `most` results are kept by the (hashable) positional arguments; `.holds(*arguments)` asks."""
    def decorate(function: Callable) -> Callable:
        results: OrderedDict[tuple, Any] = OrderedDict()

        @functools.wraps(function)
        def call(*arguments: Any) -> Any:
            if arguments not in results:
                made = function(*arguments)
                results[arguments] = made
                while len(results) > most:
                    results.popitem(last=False)
            results.move_to_end(arguments)
            return results[arguments]

        call.holds = lambda *arguments: arguments in results
        return call

    return decorate


def kept_in_steps(most: int) -> Callable:
    """The same for generators: what they yield passes through, what they return is kept; a kept result yields nothing.

    One that is given up on the way keeps nothing. `.whole(*arguments)` runs to the end.
    """
    def decorate(function: Callable[..., Generator]) -> Callable:
        results: OrderedDict[tuple, Any] = OrderedDict()

        @functools.wraps(function)
        def steps(*arguments: Any) -> Generator:
            if arguments not in results:
                made = yield from function(*arguments)
                results[arguments] = made
                while len(results) > most:
                    results.popitem(last=False)
            results.move_to_end(arguments)
            return results[arguments]

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
