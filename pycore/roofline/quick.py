"""The plain fast path of speed, for the matrix of every card x count x format: the same step and the same load model,
numbers instead of terms.

    prepared = quick.prepare(model, weights, keys, values, parallel, accelerator, engine, budget)
    tpot, total = quick.pace(prepared, sequences, prompt, output)
"""

from typing import NamedTuple

from pycore.nouns import Accelerator, Format, Model, Parallel
from pycore.roofline.load import STYLES, Requests, prompt_seconds
from pycore.roofline.load import pace as steady
from pycore.roofline.prepare import prepare as prepare_step
from pycore.roofline.step import Step
from pycore.vram import engines


class PreparedSpeed(NamedTuple):
    """A plan ready to be timed at any load."""

    step: Step
    budget: int
    style: str
    stages: int  # pipeline stages that work at the same time
    data: int
    devices: int


def prepare(model: Model, weights: Format, keys: Format, values: Format, parallel: Parallel, accelerator: Accelerator,
            engine: str, budget: int) -> PreparedSpeed:
    """A plan's step, cached by `step.prepare`; `budget` is the engine's tokens a step (0: whole prompts). Raises
    NotKnown."""
    profile = engines.engine(engine)
    tensor, stages = engines.spread(profile, parallel)
    layout = parallel if (tensor, stages) == (parallel.tensor, parallel.pipeline) else Parallel(
        tensor=tensor, pipeline=stages, data=parallel.data, expert=parallel.expert)
    step = prepare_step(model, weights, keys, values, layout, accelerator, engine)
    return PreparedSpeed(step, budget, STYLES[engine], stages if profile.split == "tensor" else 1, parallel.data,
                         parallel.devices)


def requests_of(prepared: PreparedSpeed, sequences: int, prompt: int, output: int, cached: int = 0) -> Requests:
    """The load of one replica; `sequences` over all replicas."""
    share = -(-sequences // prepared.data)
    return Requests(sequences=share, prompt=prompt, output=output, cached=cached, budget=prepared.budget or prompt,
                    style=prepared.style,
                    batches=min(share, prepared.stages))


def pace(prepared: PreparedSpeed, sequences: int, prompt: int, output: int) -> tuple[float, float]:
    """(seconds per output token of one user, output tokens per second of all replicas together)."""
    load = requests_of(prepared, sequences, prompt, output)
    found = steady(prepared.step, load)
    return found.tpot, found.requests_per_s * output / load.sequences * sequences


def tpot(prepared: PreparedSpeed, sequences: int, prompt: int, output: int) -> float:
    """Seconds per output token of one user under the load."""
    return pace(prepared, sequences, prompt, output)[0]


def prefill(prepared: PreparedSpeed, prompt: int) -> float | None:
    """Seconds to read one prompt on an idle replica; None where the card's dense rate is not known."""
    if not prepared.step.timed_prompts:
        return None
    return prompt_seconds(prepared.step, requests_of(prepared, 1, prompt, 1))
