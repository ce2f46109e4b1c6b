"""`mini-infer soak`: the server among random requests and rude clients, for minutes."""

import tempfile
from pathlib import Path
from typing import Any

import click

import pycore
from pycore.cli import output
from pycore.cli.errors import DoesNotFit
from pycore.cli.mini_infer import engine
from pycore.cli.mini_infer.say import say
from pycore.errors import InputError
from pycore.units import binary_bytes, seconds

NEEDED = ("fastapi", "uvicorn", "prometheus_client", "httpx")
MADE = "made"
FEWEST_CLIENTS = 4
COUNTS = ("requests", "greedy texts", "penalised texts", "texts with min_tokens", "texts", "texts begun", "cancelled",
          "is gone", "half a body", "malformed", "status 429", "preempted", "swapped_out", "copies", "evicted", "accepted",
          "accepted from a model", "rejected from a model")
IN_NUMBERS = "greedy texts in "

EPILOG = """\b
Examples:
  mini-infer soak
  mini-infer soak --minutes 60 --seed 7
  mini-infer soak smollm2-135m --minutes 5 --concurrency 8 --json

\b
Without a MODEL a small one of random weights is made: what is soaked is the engine and its server. Requests: completions and
chats, streams and whole, several texts of a prompt, stops, log-probabilities, seeds, penalties; clients that leave in the
middle or send half a request; invalid JSON and UTF-8, huge bodies, unknown fields, wrong types, prompts that are too long.
The block pool is too small for all who have a seat. Servers take turns: keys and values as they are, in fp8, int8 and int4,
weights in 8 bits where this machine has the kernel, guesses by a model, by the text itself and none. Exit status 1 where
anything leaks, hangs, grows or is answered wrongly, and where something that should have happened did not.
"""


@click.command(epilog=EPILOG)
@click.argument("model", metavar="[MODEL]", default=MADE, required=False)
@click.option("--minutes", type=click.FloatRange(0, 10080, min_open=True), default=10, show_default=True, help="How long.")
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), default=0, show_default=True,
              help="What the requests follow from.")
@click.option("--concurrency", type=click.IntRange(FEWEST_CLIENTS, 1024), default=16, show_default=True,
              help="Clients at once.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end.")
def command(model: str, minutes: float, seed: int, concurrency: int, as_json: bool) -> None:
    """Minutes of random requests, rude clients and too small a pool: no leak, no wrong text, no hang (needs torch)."""
    if minutes != minutes:
        raise InputError("minutes", minutes, "accepted: a number above 0")
    part = engine.part("soak", *NEEDED)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        found = part.soak(source(model, Path(place)), seconds=60 * minutes, seed=seed, concurrency=concurrency, say=say)
    if as_json:
        output.write_json({"version": pycore.__version__} | found.as_dict())
    else:
        show(found)
    if not found.holds:
        raise DoesNotFit


def source(name: str, place: Path) -> Any:
    """The model that is named, or a small one that is made in a folder."""
    opening = engine.part("source")
    if name != MADE:
        return opening.open_source(name, say=say)
    making = engine.part("make_model")
    making.make(place / MADE, making.sizes("qwen3", layers=2, width=64, heads=4, kv_heads=2, context=512))
    engine.part("soak").one_thread()  # so small a model gains nothing by several, and waits for them on a busy machine
    return opening.open_source(str(place / MADE), device="cpu", say=say)


def show(found: Any) -> None:
    """What was done, what was measured, and what is wrong."""
    counts = [(name.replace("_", " ").replace("status 429", "told to come back (429)"), f"{found.counts.get(name, 0):,}")
              for name in COUNTS]
    counts += [(name, f"{count:,}") for name, count in sorted(found.counts.items()) if name.startswith(IN_NUMBERS)]
    output.table(("what happened", "times"), counts, right=(1,))
    health, memory = found.health, found.memory
    output.line(f"{found.stints} servers in {seconds(found.seconds)}, {found.concurrency} clients at once, {found.prompts} "
                f"prompts with known answers, seed {found.seed}")
    if health["largest_s"] is not None:
        output.line(f"/health: {seconds(health['median_s'])} usually, {seconds(health['p99_s'])} for the 99th of 100, "
                    f"{seconds(health['largest_s'])} at most")
    if memory["slope_bytes_per_s"] is not None:
        output.line(f"memory: {binary_bytes(memory['first_bytes'])} at first, {binary_bytes(memory['last_bytes'])} at last; "
                    f"after the warm-up {memory['slope_bytes_per_s'] / 1024:+.1f} KiB/s "
                    f"(give or take {memory['slope_error_bytes_per_s'] / 1024:.1f})")
    for fault in found.faults:
        output.line(f"{fault.kind}: {fault.words}" + (f"\n  ({fault.settings})" if fault.settings else ""))
    if found.left_out:
        output.line(f"left out, for want of a kernel here or of clear answers: {', '.join(found.left_out)}")
    if found.never:
        output.line(f"never happened: {', '.join(found.never)}")
    output.line("It holds." if found.holds else "It does not hold: " + (", ".join(
        f"{count} x {kind}" for kind, count in found.kinds.items()) or "not everything has happened") + ".", style="bold")
