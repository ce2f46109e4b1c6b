"""Drives an engine through arrivals, forks and aborts, and judges every text by `transformers`: one forward pass over it
must have put each generated token first."""

from collections import deque
from dataclasses import dataclass, field

import torch

from pycore.serving.policies.cache_aware import CacheAware
from pycore.serving.policies.chunked import Chunked
from pycore.serving.policies.decode_first import DecodeFirst
from pycore.serving.policies.fcfs import Fcfs
from pycore.serving.policies.priority import Priority
from pycore.serving.policies.sjf import Sjf
from pycore.serving.policies.slo_aware import SloAware
from runtime.mini_infer.engine import Engine, Output

POLICIES = {
    "fcfs": Fcfs(), "decode_first": DecodeFirst(), "chunked": Chunked(), "sjf": Sjf(), "sjf chunks": Sjf(chunks=True),
    "cache_aware": CacheAware(window=4), "slo_aware": SloAware(), "slo_aware shed": SloAware(shed=True),
    "priority": Priority(), "priority mild": Priority(preemptive=False),
}
# Two orders of a sum give logits that differ by some 1e-6 here; tokens this close have no order that could be demanded.
TIE = 1e-4


def text(length: int, seed: int = 0, vocabulary: int = 64) -> tuple[int, ...]:
    """A prompt of so many tokens; equal seeds are prefixes of each other."""
    return tuple((seed * 29 + i * i * 7 + i * 13 + 5) % vocabulary for i in range(length))


@dataclass
class Run:
    """What came out: texts (prompt and tokens) and ends by id; steps, and what kinds of them there were."""

    engine: Engine
    texts: dict[str, list[int]] = field(default_factory=dict)
    prompts: dict[str, int] = field(default_factory=dict)
    ends: dict[str, Output] = field(default_factory=dict)
    plans: list = field(default_factory=list)

    def output(self, name: str) -> list[int]:
        return self.texts[name][self.prompts[name]:]


def drive(engine: Engine, arrivals, actions=(), most_steps: int = 5000) -> Run:
    """Run to the end. `arrivals`: (step, Generation); `actions`: (step, "abort" | "fork", id). Every step is checked."""
    run = Run(engine)
    todo, actions = deque(sorted(arrivals, key=lambda one: one[0])), deque(sorted(actions))
    for step in range(most_steps):
        while todo and todo[0][0] <= step:
            asked = todo.popleft()[1]
            engine.add(asked)
            run.texts[asked.id], run.prompts[asked.id] = list(asked.prompt), len(asked.prompt)
        while actions and actions[0][0] <= step:
            _act(run, *actions.popleft()[1:])
        take(run)
        if not todo and engine.idle:
            break
    assert engine.idle and not engine.live, "no end in sight"
    assert set(run.ends) == set(run.texts)
    census = engine.scheduler.check()
    assert census.used == 0 and census.cached + census.blank == census.total, "blocks leak"
    host = engine.scheduler.memory.host
    assert host is None or host.used == 0
    return run


def take(run: Run) -> tuple[Output, ...]:
    """One step, its outputs entered into the texts."""
    before = run.engine.scheduler.steps
    outputs = run.engine.step()
    run.engine.scheduler.check()
    if run.engine.scheduler.steps > before:
        run.plans.append(run.engine.last_plan)
    for one in outputs:
        assert one.id not in run.ends, f"{one.id} has ended before"
        if one.choice is not None:
            run.texts[one.id].append(one.choice.token)
        if one.finish is not None:
            run.ends[one.id] = one
    assert {name: live.tokens for name, live in run.engine.live.items()} == {
        name: tokens for name, tokens in run.texts.items() if name not in run.ends}
    return outputs


def _act(run: Run, kind: str, name: str) -> None:
    under_way = name in run.engine.live
    if kind == "abort":
        assert run.engine.abort(name) == under_way
        if under_way:
            run.ends[name] = Output(id=name, finish="aborted")
    elif under_way and f"{name}+" not in run.texts:
        run.engine.fork(name, f"{name}+")
        run.texts[f"{name}+"], run.prompts[f"{name}+"] = list(run.texts[name]), run.prompts[name]


def judge(run: Run, oracle: torch.nn.Module) -> int:
    """Every token of every text is the oracle's; how many there were. One forward pass over all texts, filled up."""
    names = [name for name in run.texts if run.output(name)]
    if not names:
        return 0
    longest = max(len(run.texts[name]) for name in names)
    with torch.no_grad():
        logits = oracle(torch.tensor([run.texts[name] + [0] * (longest - len(run.texts[name])) for name in names])).logits
    for row, name in zip(logits, names, strict=True):
        for at in range(run.prompts[name], len(run.texts[name])):
            said, scores = run.texts[name][at], row[at - 1]
            assert scores.max() - scores[said] <= TIE, f"{name} says {said} at {at}, the oracle {int(scores.argmax())}"
    return sum(len(run.output(name)) for name in names)
