"""Results kept by their question, with a way to ask whether one is there: what is there costs nothing to show again."""

import functools
from collections import OrderedDict
from collections.abc import Callable
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
