"""`sched-sim info`: what there is to choose from."""

from typing import Any

import click

import pycore
from pycore.cli import output
from pycore.cli.output import heading, table
from pycore.simulation.costs.profile import packaged
from pycore.simulation.presets import PRESETS
from pycore.simulation.traces import samples
from pycore.systems.sched_sim import COSTS, ENGINES, LABELS, PRESET_NAMES, ROUTERS, SCHEDULERS


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(as_json: bool) -> None:
    """The policies, workloads, step times and traces there are."""
    found = everything()
    if as_json:
        output.write_json(found)
    else:
        show(found)


def everything() -> dict[str, Any]:
    """All of it."""
    return {
        "version": pycore.__version__,
        "schedulers": {name: LABELS[name] for name in SCHEDULERS},
        "workloads": dict(sorted(PRESETS.items() | {(short, PRESETS[name]) for short, name in PRESET_NAMES.items()})),
        "step_times": list(COSTS),
        "kernel_tables": [{"id": one.id, "accelerator": one.accelerator, "model": one.model, "engine": one.engine,
                           "source": one.source} for one in packaged()],
        "traces": [{"trace": row["trace"], "title": row["title"], "licence": row["licence"]} for row in samples.sources()],
        "routers": list(ROUTERS),
        "engines": list(ENGINES),
    }


def show(found: dict[str, Any]) -> None:
    """As text."""
    heading("Policies (--scheduler, --schedulers)")
    table(("", ""), found["schedulers"].items())
    heading("Workloads (--workload NAME, or NAME with words changed: 'chat rate=12')")
    table(("", ""), found["workloads"].items())
    heading("Traces (--workload 'replay trace=NAME'; or a file: sched-sim replay FILE)")
    table(("", "", ""), [tuple(row.values()) for row in found["traces"]])
    heading("Measured kernel tables (--cost tables; or a folder: sched-sim replay --profile)")
    table(("", "", "", "", ""), [tuple(row.values()) for row in found["kernel_tables"]])
    heading("Others")
    table(("", ""), [("--cost", ", ".join(found["step_times"])), ("--router", ", ".join(found["routers"])),
                     ("--engine", ", ".join(found["engines"]))])
