"""How well this works: two real engine runs, request by request, beside their simulation."""

from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from pycore import catalog
from pycore.simulation.golden import golden_runs, golden_setup, golden_traffic
from pycore.simulation.run import run as simulate
from pycore.simulation.validation import TARGET_PERCENT, validate
from pycore.units import seconds, significant
from studios.explain import Ledger, Number, help_field

POINTS = 120  # requests drawn of each run
BANDS = ((0.02, "within 2 %"), (0.05, "within 5 %"), (0.1, "within 10 %"), (float("inf"), "further"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One figure of one run."""

    run: str = help_field("the card")
    name: str = help_field("the figure")
    reported: Number = help_field("what the engine's log says")
    simulated: Number = help_field("what the simulator says")
    error: Number = help_field("the difference in percent")
    near: bool = help_field("whether it is within the target")


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """The golden runs."""

    lines: tuple[Line, ...] = help_field("four figures a run")
    points: tuple[tuple, ...] = help_field("(run, real s, simulated s, error band) of an even spread of the requests")
    bands: tuple[tuple[str, str], ...] = help_field("(band, how many requests of all runs lie in it)")
    target: str = help_field("the error that was asked for: '5 %'")
    engine: str = help_field("which engine was logged, with which model: 'vLLM 0.19.0 with Llama 3.1 8B'")


class Kept(NamedTuple):
    """What the page needs of a validation: not its thousands of steps."""

    run: Any
    figures: tuple[Any, ...]
    end_to_end: tuple[tuple[str, float, float], ...]


@cache
def validations() -> tuple[Kept, ...]:
    """The golden runs, simulated once a process: they depend on no question, so a memory snapshot holds them."""
    found = (validate(run, simulate(golden_setup(run), golden_traffic(run))) for run in golden_runs())
    return tuple(Kept(run=one.run, figures=one.figures, end_to_end=one.end_to_end) for one in found)


def replay_view(ledger: Ledger) -> Replay:
    """Both runs, their figures and their requests."""
    found = validations()
    counts = dict.fromkeys((name for _, name in BANDS), 0)
    for one in found:
        for _, real, simulated in one.end_to_end:
            counts[band(real, simulated)] += 1
    run = found[0].run
    return Replay(
        lines=tuple(Line(run=card(one.run), name=figure.name, reported=ledger.number(figure.reported, seconds),
                         simulated=ledger.number(figure.simulated, seconds), error=ledger.number(figure.error, signed),
                         near=figure.passes) for one in found for figure in one.figures),
        points=tuple((card(one.run), real, simulated, band(real, simulated)) for one in found
                     for _, real, simulated in one.end_to_end[::max(1, len(one.end_to_end) // POINTS)]),
        bands=tuple((name, f"{count:,}") for name, count in counts.items()), target=f"{TARGET_PERCENT:g} %",
        engine=f"{run.engine.replace('vllm', 'vLLM')} with {catalog.model(run.model).name}")


def card(run: Any) -> str:
    """The accelerator's name as the catalogue has it."""
    return catalog.accelerator(run.accelerator).name


def band(real: float, simulated: float) -> str:
    """How far apart two times are."""
    return next(name for limit, name in BANDS if abs(simulated - real) <= limit * real)


def signed(value: float) -> str:
    return f"{'+' if value > 0 else '−' if value < 0 else ''}{significant(abs(value), 3)} %"
