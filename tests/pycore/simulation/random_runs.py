"""Scenes drawn from a seed: any policy, one or several servers, pools apart, swaps, shared prefixes, open or closed."""

import random

from metric_runs import Linear, engine

from pycore.serving.policies.cache_aware import CacheAware
from pycore.serving.policies.chunked import Chunked
from pycore.serving.policies.decode_first import DecodeFirst
from pycore.serving.policies.fcfs import Fcfs
from pycore.serving.policies.priority import Priority
from pycore.serving.policies.sjf import Sjf
from pycore.serving.policies.slo_aware import SloAware
from pycore.serving.request import Request
from pycore.simulation.arrivals import Chain, ClosedLoop, OpenLoop
from pycore.simulation.link import Link
from pycore.simulation.run import Setup

POLICIES = (Chunked(), Fcfs(), Sjf(), DecodeFirst(), CacheAware(), SloAware(), SloAware(shed=True), Priority())
MODEL_LENGTH = 1000


def drawn_requests(rng: random.Random) -> list[Request]:
    """Up to sixty requests, some at one time, some with a prefix of one of three families."""
    now, made = 0, []
    for index in range(rng.randint(1, 60)):
        now += rng.choice([0, 0, rng.randint(0, 5_000_000), rng.randint(0, 300_000)])
        prompt, output = rng.randint(1, rng.choice([20, 200, 900])), rng.randint(1, rng.choice([3, 40, 150]))
        family, shared = rng.randint(0, 2), rng.randint(0, 8)
        hashes = tuple(family * 1000 + at if at < shared else (index + 1) * 10**6 + at for at in range(prompt // 16))
        made.append(Request(
            id=f"r{index}", arrival_ns=now, prompt_tokens=prompt, output_tokens=output, priority=rng.randint(0, 2),
            prefix_hashes=hashes if rng.random() < 0.5 else None, predicted_output=output,
            deadline_ns=now + rng.choice([10**6, 10**8]) if rng.random() < 0.5 else None))
    return made


def drawn_setup(rng: random.Random) -> Setup:
    """One to three equal engines behind a router, or with pools apart."""
    swap, count = rng.random() < 0.3, rng.choice([1, 1, 2, 3])
    limits = {"max_sequences": rng.choice([4, 16, 64]), "max_batched_tokens": rng.choice([64, 512]),
              "max_model_length": MODEL_LENGTH, "steps_in_flight": rng.choice([1, 1, 2]), "reserve_known": rng.random() < 0.7}
    one = engine(rng.choice(POLICIES), rng.choice([70, 100, 400]), Linear(step=rng.choice([50_000, 300_000]), prompt=1000, decode=3000),
                 limits=limits, block_bytes=1000, preemption="swap" if swap else "recompute", null_block=rng.random() < 0.5,
                 host_blocks=rng.choice([20, 500]) if swap else 0, swap_bytes_per_s=1e8)
    if count > 1 and rng.random() < 0.6:
        return Setup(engines=(one,) * count, prefill=rng.randint(1, count - 1),
                     link=Link(bytes_per_s=rng.choice([1e7, 1e9]), latency_ns=rng.choice([0, 1000])))
    return Setup(engines=(one,) * count, router=rng.choice(["round robin", "least loaded", "prefix affinity"]))


def drawn_traffic(rng: random.Random, requests: list[Request]) -> OpenLoop | ClosedLoop:
    """The requests as they come, or as users who wait for one another."""
    if rng.random() < 0.7:
        return OpenLoop(requests)
    users = max(1, len(requests) // 4)
    return ClosedLoop([Chain(requests=tuple(mine), think_ns=tuple(rng.choice([0, 100_000]) for _ in mine[1:]))
                       for mine in (requests[user::users] for user in range(users))])


def drawn(seed: int) -> tuple[Setup, OpenLoop | ClosedLoop]:
    """A scene, fresh each time it is asked for."""
    rng = random.Random(seed)
    requests = drawn_requests(rng)
    setup = drawn_setup(rng)
    return setup, drawn_traffic(rng, requests)
