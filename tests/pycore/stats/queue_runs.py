"""Runs of single-server queues by Lindley's recursion, and how long they must be to tell as much as n independent ones."""

import math
import random


def mm1_sojourns(load: float, count: int, seed: int) -> list[float]:
    """Times in system of the first `count` requests of an M/M/1 queue that begins empty; mean service 1 s.

    Lindley 1952: wait of the next = max(0, wait + service - interval).
    """
    uniform, log = random.Random(seed).random, math.log
    wait, mean_interval, sojourns = 0.0, 1.0 / load, []
    keep = sojourns.append
    for _ in range(count):
        stay = wait - log(1.0 - uniform())
        keep(stay)
        wait = stay + mean_interval * log(1.0 - uniform())
        if wait < 0.0:
            wait = 0.0
    return sojourns


def changing_load(loads: list[float], each: int, seed: int) -> list[float]:
    """Times in system of one M/M/1 queue whose load changes after every `each` requests."""
    generator, wait, sojourns = random.Random(seed), 0.0, []
    for load in loads:
        for _ in range(each):
            stay = wait + generator.expovariate(1.0)
            sojourns.append(stay)
            wait = max(0.0, stay - generator.expovariate(load))
    return sojourns


def md1_waits(load: float, count: int, seed: int) -> list[float]:
    """Waits of an M/D/1 queue, service 1 s."""
    uniform, log = random.Random(seed).random, math.log
    wait, waits = 0.0, []
    for _ in range(count):
        waits.append(wait)
        wait = max(0.0, wait + 1.0 + log(1.0 - uniform()) / load)
    return waits


def correlation_time(load: float) -> float:
    """Samples of an M/M/1 queue's waits that tell as much as one independent one: 1 + 2 x the sum of their serial
    correlations (Daley 1968, J. Appl. Prob. 5(3))."""
    return (2 + 5 * load - 4 * load**2 + load**3) / ((2 - load) * (1 - load) ** 2)
