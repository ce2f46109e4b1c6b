"""The contract of a policy, for type checkers and readers."""

from typing import Protocol

from pycore.serving.sequence import Sequence
from pycore.serving.step import Step


class Policy(Protocol):
    """See the package's docstring. `name` is what a command line and a page call it."""

    name: str
    settled: bool

    def key(self, sequence: Sequence) -> tuple: ...

    def compose(self, step: Step) -> None: ...

    def victim(self, candidates: list[Sequence]) -> Sequence: ...
