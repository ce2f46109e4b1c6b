"""How fast a model writes, and whether the machine was quiet enough for that to mean anything."""

import os
import statistics
import time

import torch

from runtime.models.transformer import Cache, Transformer

QUIET = 2.0
PROMPT, WRITTEN, RUNS = 32, 32, 3


def load_average() -> float | None:
    """Processes that wanted a processor, averaged over a minute; None where the system does not say."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else None


def noisy() -> str:
    """Why speeds would be noise now; "" where they would not."""
    load = load_average()
    if load is None:
        return "not measured: this system does not tell its load"
    return f"not measured: load average {load:.1f} on {os.cpu_count()} cores, above {QUIET:g}" if load > QUIET else ""


def decode_tokens_per_s(model: Transformer, runs: int = RUNS) -> float:
    """Tokens written in a second at batch 1 after a short prompt, with a cache: the median of some runs."""
    generator = torch.Generator().manual_seed(0)
    prompt = torch.randint(model.configuration.vocabulary, (1, PROMPT), generator=generator)
    found = []
    with torch.no_grad():
        for _ in range(runs):
            cache = Cache(model.configuration, 1, PROMPT + WRITTEN)
            token = model(prompt, cache)[:, -1:].argmax(-1)
            start = time.perf_counter()
            for _ in range(WRITTEN - 1):
                token = model(token, cache).argmax(-1)
            found.append((WRITTEN - 1) / (time.perf_counter() - start))
    return statistics.median(found)
