"""`sched-sim validate`: the simulator beside two real vLLM runs."""

from collections.abc import Sequence
from typing import Any

import click

from pycore import catalog
from pycore.cli import output
from pycore.cli.errors import DoesNotFit, flag
from pycore.cli.progress import bar
from pycore.simulation.golden import golden_runs, golden_setup, golden_traffic
from pycore.simulation.run import run
from pycore.simulation.validation import TARGET_PERCENT, Validation, validate
from pycore.units import seconds

EPILOG = """\b
Examples:
  sched-sim validate
  sched-sim validate --json

\b
Reported: vLLM 0.19.0 serving Llama-3.1-8B, logs and kernel times published by LLMServingSim. Nothing is fitted to the runs.
Exit status: 0 every figure within 5 %; 1 some figure is not (the table is printed all the same).
"""


@click.command(epilog=EPILOG)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(**options: Any) -> None:
    """The simulator beside two real vLLM runs; exit status 1 where a figure is off by more than 5 %."""
    as_json = flag(options, "as_json")
    found = validations()
    if as_json:
        output.write_json(document(found))
    else:
        show(found)
    if not all(one.passes for one in found):
        raise DoesNotFit


def validations() -> tuple[Validation, ...]:
    """Every real run replayed."""
    found, runs = [], golden_runs()
    with bar() as report:
        for index, real in enumerate(runs):
            report(real.id, index / len(runs))
            found.append(validate(real, run(golden_setup(real), golden_traffic(real))))
    return tuple(found)


def document(found: Sequence[Validation]) -> dict[str, Any]:
    """The table as one object."""
    return {"target_percent": TARGET_PERCENT, "passes": all(one.passes for one in found), "runs": [{
        "run": one.run.id, "accelerator": one.run.accelerator, "model": one.run.model, "engine": one.run.engine,
        "requests": len(one.run.requests), "source": one.run.source, "passes": one.passes,
        "notes": list(one.result.notes),
        "figures": [{"name": figure.name, "reported_s": figure.reported.value, "simulated_s": figure.simulated.value,
                     "error_percent": figure.error.value, "passes": figure.passes} for figure in one.figures],
    } for one in found]}


def show(found: Sequence[Validation]) -> None:
    """The table in text."""
    for one in found:
        real = one.run
        output.heading(f"{len(real.requests)} requests, {catalog.by_id('models')[real.model].name} on "
                       f"{catalog.by_id('accelerators')[real.accelerator].name}, {real.engine}")
        output.table(("", "reported", "simulated", "error", f"within {TARGET_PERCENT:g} %"), [
            (figure.name, seconds(figure.reported.value), seconds(figure.simulated.value), f"{figure.error.value:+.2f} %",
             "yes" if figure.passes else "NO") for figure in one.figures], right=(1, 2, 3))
        output.line(f"  flags: {real.max_sequences} sequences, {real.max_batched_tokens:,} tokens a step, "
                    f"{real.kv_blocks:,} KV blocks; source: {real.source}")
        for note in one.result.notes:
            output.line(f"  {note}")
