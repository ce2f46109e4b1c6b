"""The torch companion: engines and measurements that check what the core predicts. Imports pycore, never studios.

Importing it settles, before torch is loaded, how long its threads wait for each other by turning in a circle. GNU's OpenMP,
which torch's own builds for Linux bring, turns for milliseconds at every barrier while it believes that each thread has a
processor; where another program has one of them, each of a step's hundred barriers waits so. Who has said anything of it
(GOMP_SPINCOUNT, OMP_WAIT_POLICY) is left alone.
"""

import os
from collections.abc import MutableMapping

SPINS = 20_000
"""Turns at a barrier. Side by side: on a quiet machine as fast as libgomp's own choice within noise (1,000 turns took 1.3 to
2 times as long, 6,000 1.1 times); beside three busy processes on two cores a token took less than a twentieth of that."""


def settle_spins(environment: MutableMapping[str, str]) -> None:
    """Bound the turns, where the user has not."""
    if "OMP_WAIT_POLICY" not in environment:
        environment.setdefault("GOMP_SPINCOUNT", str(SPINS))


settle_spins(os.environ)
