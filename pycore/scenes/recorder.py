"""A scheduler that is written down while it is driven. It stands in the place of the one it wraps, for any driver.

It writes inputs as they come, one line each, and flushes nothing: the sink does. A step is written when it completes, so
that a file which breaks off holds whole steps only.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pycore.scenes.event_file import begins, work, written
from pycore.serving.events import Event
from pycore.serving.plan import StepPlan
from pycore.serving.request import Request
from pycore.serving.scheduler import Scheduler
from pycore.serving.sequence import Sequence

LIMIT_CHARACTERS = 32 << 20


class Recorder:
    """`sink` takes a text of whole lines. `words` gives a token's text, so that a reader need not have the tokenizer.

    After LIMIT_CHARACTERS nothing more is written, and the last line says so; the file up to there can be played.
    Raises InputError for a scheduler that cannot be told in this format.
    """

    def __init__(self, scheduler: Scheduler, sink: Callable[[str], object], *, words: Callable[[int], str] | None = None,
                 model: str = "", begun_ns: int = 0):
        self.scheduler, self._sink, self._words, self._begun_ns = scheduler, sink, words, begun_ns
        self._known: set[int] = set()
        self._written = 0
        self._closed = False
        self._asked: tuple[int, Mapping[str, int] | None] = (0, None)
        self._dropped: list[str] = []
        self._write(begins(scheduler, model))

    def __getattr__(self, name: str) -> Any:
        """Everything else is the scheduler's own."""
        return getattr(self.scheduler, name)

    def add(self, request: Request, now_ns: int | None = None) -> Sequence:
        """See Scheduler.add."""
        sequence = self.scheduler.add(request, now_ns)
        ids = request.token_ids or ()
        self._spell(ids)
        line = {"add": request.id, "at": self._at(request.arrival_ns), "prompt": list(ids) or request.prompt_tokens,
                "output": request.output_tokens, "priority": request.priority, "predicted": request.predicted_output,
                "deadline": None if request.deadline_ns is None else self._at(request.deadline_ns)}
        self._write({key: value for key, value in line.items() if value is not None and (key, value) != ("priority", 0)})
        return sequence

    def fork(self, sequence_id: str, new_id: str, last_token: int | None = None) -> Sequence:
        """See Scheduler.fork."""
        child = self.scheduler.fork(sequence_id, new_id, last_token)
        self._write({"fork": sequence_id, "as": new_id} | ({} if last_token is None else {"last": last_token}))
        return child

    def abort(self, sequence_id: str, now_ns: int | None = None) -> bool:
        """See Scheduler.abort. Within a step it is the driver giving up on somebody who failed in it."""
        known = self.scheduler.abort(sequence_id, now_ns)
        if known and self.scheduler.in_flight:
            self._dropped.append(sequence_id)
        elif known:
            self._write({"abort": sequence_id, "at": self._at(now_ns or 0)})
        return known

    def schedule(self, now_ns: int, drafts: Mapping[str, int] | None = None) -> StepPlan:
        """See Scheduler.schedule."""
        plan = self.scheduler.schedule(now_ns, drafts)
        self._asked = now_ns, drafts
        if plan.empty and (plan.refused or plan.preempted):
            self._write({"idle": self._at(now_ns)})
        return plan

    def complete(self, plan: StepPlan, now_ns: int, tokens: Mapping[str, int | tuple[int, ...]] | None = None,
                 stopped: Iterable[str] = (), accepted: Mapping[str, int] | None = None,
                 branches: Mapping[str, Mapping[str, int]] | None = None) -> tuple[Event, ...]:
        """See Scheduler.complete."""
        if self._closed:
            return self.scheduler.complete(plan, now_ns, tokens, stopped, accepted=accepted, branches=branches)
        stopped = tuple(stopped)
        begun, drafts = self._asked
        came = {name: [said] if isinstance(said, int) else list(said) for name, said in (tokens or {}).items()}
        parted = {parent: dict(children) for parent, children in (branches or {}).items()}
        line = {"step": plan.step + 1, "at": self._at(begun), "end": self._at(now_ns), "work": work(plan), "tokens": came,
                "stopped": list(stopped), "drafts": dict(drafts) if drafts is not None else None, "branches": parted,
                "dropped": self._dropped}
        events = self.scheduler.complete(plan, now_ns, tokens, stopped, accepted=accepted, branches=branches)
        self._spell(token for said in came.values() for token in said)
        self._spell(token for children in parted.values() for token in children.values())
        self._write({key: value for key, value in line.items()
                     if value or key in ("at", "end") or (key == "drafts" and value is not None)})
        self._dropped = []
        return events

    def close(self) -> None:
        """Say that the file is whole."""
        self._write({"end": "closed"})
        self._closed = True

    def _at(self, now_ns: int) -> int:
        return max(0, now_ns - self._begun_ns)

    def _spell(self, tokens: Iterable[int]) -> None:
        """How tokens read that were not seen before."""
        if self._words is None or self._closed:
            return
        new = [token for token in dict.fromkeys(tokens) if token not in self._known]
        self._known.update(new)
        if new:
            self._write({"words": {str(token): self._words(token) for token in new}})

    def _write(self, content: Mapping[str, Any]) -> None:
        if self._closed:
            return
        text = written(content)
        self._written += len(text)
        if self._written > LIMIT_CHARACTERS:
            self._closed, text = True, written({"end": "full"})
        self._sink(text)
