"""data/consumer-silicon-benchmarks/: mini-infer on the machine that this runs on, by quantisation and requests at once.

    python -m runtime.measure.consumer_silicon [--device cpu] [--minutes 9] [--dry-run] [--busy] [--check]

Measures SmolLM2-135M in every configuration at six numbers of requests at once and replaces this machine's rows; those of
other machines stay. Refuses on a busy machine, since its speeds are noise. What is measured is kept in the cache folder
cell by cell, so that a run that dies goes on where it was. --check measures nothing: it holds the tables against themselves
and against what follows from the model's shape.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from pycore.errors import StudioError
from runtime.measure import consumer_silicon_check
from runtime.measure import consumer_silicon_rows as rows
from runtime.measure.consumer_silicon_rows import COMMAND, CPU, GPU, Configuration, machine_id
from runtime.measure.kept import Kept
from runtime.measure.tables import settle
from runtime.mini_infer import files
from runtime.mini_infer.engine import Engine
from runtime.mini_infer.kv_formats import kv_format
from runtime.mini_infer.quality import compare, logits
from runtime.mini_infer.room import token_bytes
from runtime.mini_infer.setup import Setup
from runtime.mini_infer.source import resolve_device
from runtime.mini_infer.speeds import bandwidth_bytes_per_s, bandwidth_share, prompts, run_batch, speeds, weight_bytes
from runtime.models import tokenizer
from runtime.models.gguf import open_gguf
from runtime.models.supply import BIBLE, SMOLLM2, bible, fetch
from runtime.quantbench.speed import load_average

LEVELS = (1, 2, 4, 8, 16, 32)
PROMPT, OUTPUT, ROUNDS = 64, 32, 3
QUALITY_TOKENS, QUALITY_TEXT = 512, f"King James Bible, its last chapter but 39 ({BIBLE.package})"
QUIET = 0.5  # load average at start: above it, speeds are noise
KEPT = "measurements/consumer-silicon.json"
MODEL = "SmolLM2-135M-Instruct"


@dataclass(slots=True, kw_only=True)
class Plan:
    """What is asked of a run, and until when it may measure (`deadline` in seconds of `time.monotonic`)."""

    device: str
    levels: Sequence[int] = LEVELS
    prompt: int = PROMPT
    output: int = OUTPUT
    rounds: int = ROUNDS
    deadline: float = float("inf")
    configurations: Sequence[Configuration] = ()

    @property
    def identity(self) -> str:
        """What must be the same for rows that were kept to be of this run."""
        return " ".join(map(str, (machine_id(self.device), torch.__version__, SMOLLM2.sha256, self.prompt, self.output)))

    @property
    def cells(self) -> list[tuple[Configuration, int]]:
        return [(one, level) for one in self.configurations for level in self.levels]


def opened(plan: Plan, one: Configuration) -> Engine:
    """The engine of a configuration, its model read anew: 8 bits change it in place."""
    on_cpu = plan.device == "cpu"
    dtype = torch.float32 if on_cpu else getattr(torch, one.weights)
    model = files.load(fetch(SMOLLM2, say), dtype, plan.device)
    most = max(plan.levels)
    length = plan.prompt + plan.output
    linear = "auto" if one.weights == "float32" or not on_cpu else one.weights
    setup = Setup(device=plan.device, linear=linear, kv_format=one.kv_format, max_sequences=most, prefix_caching=False,
                  max_batched_tokens=max(512, most), kv_blocks=most * -(-length // 16))
    return setup.engine(model, say)


def measured(plan: Plan, engine: Engine, level: int, left: int) -> list:
    """Rounds of one cell, after a short one that does not count: as many as its share of the time allows, one at least.
    `left`: cells still to come, this one among them."""
    vocabulary, begin = engine.model.configuration.vocabulary, time.monotonic()
    share, found = (plan.deadline - begin) / left, []
    run_batch(engine, prompts(level, plan.prompt, vocabulary, 999), 2)
    for number in range(plan.rounds):
        asked = prompts(level, plan.prompt, vocabulary, 1000 * level + number)
        found.append(speeds(run_batch(engine, asked, plan.output), level * plan.prompt))
        if (time.monotonic() - begin) * (number + 2) / (number + 1) > share:
            break
    return found


def run(plan: Plan, command: str) -> dict[str, list[dict[str, object]]]:
    """Every table's rows of this machine, measured or kept."""
    kept, machine = Kept(KEPT, plan.identity), machine_id(plan.device)
    if "machine" not in kept:
        bandwidth = bandwidth_bytes_per_s() if plan.device == "cpu" else None
        kept.put("machine", rows.machine_row(plan.device, bandwidth, load(), command))
    bandwidth, reference = kept.get("machine")["memory_bytes_per_s"], None
    tokens = tokenizer.from_gguf(open_gguf(fetch(SMOLLM2, say))).encode(bible(say)[-40])[:QUALITY_TOKENS]
    todo = [cell for cell in plan.cells if f"{cell[0].id} {cell[1]}" not in kept]
    for one in plan.configurations:
        levels = [level for configuration, level in todo if configuration is one]
        if not levels and one.id in kept:
            continue
        engine = opened(plan, one)
        if one.id not in kept:
            if reference is None:
                reference = logits(files.load(fetch(SMOLLM2, say), torch.float32, plan.device), tokens)
            error = compare(reference, logits(engine.model, tokens, engine.cache.kept).to(reference.dtype), tokens)
            kept.put(one.id, configuration_row(machine, one, engine) | rows.quality_cells(error, QUALITY_TEXT))
        for level in levels:
            found = measured(plan, engine, level, len(todo))
            todo.remove((one, level))
            row = {"machine": machine, "configuration": one.id, "concurrency": level, "prompt_tokens": plan.prompt,
                   "output_tokens": plan.output} | rows.speed_cells(found) | {"load_average": load(), "date": rows.today()}
            share = bandwidth_share(engine, level, plan.prompt + plan.output // 2, row["decode_tokens_per_s_best"],
                                    bandwidth)
            row["bandwidth_share"] = share and float(f"{share:.3g}")
            kept.put(f"{one.id} {level}", row)
            say(f"{one.id} {level} at once: {row['decode_tokens_per_s']} tokens/s, {len(todo)} cells to come")
    return {"machines": [kept.get("machine")], "configurations": [kept.get(one.id) for one in plan.configurations],
            "speeds": [kept.get(f"{one.id} {level}") for one, level in plan.cells]}


def configuration_row(machine: str, one: Configuration, engine: Engine) -> dict[str, object]:
    """What a configuration takes."""
    sizes, kept = engine.model.configuration, engine.cache.kept
    each = token_bytes(sizes, kept)
    return {"machine": machine, "configuration": one.id, "model": MODEL, "model_sha256": SMOLLM2.sha256,
            "weights": one.weights, "kv_format": kept.name, "weight_bytes": weight_bytes(engine.model),
            "kv_bytes_per_token": each,
            "kv_saved_against_16_bits": 1 - each / token_bytes(sizes, kv_format("float16", sizes.head_width))}


def load() -> float | None:
    """Processes that wanted a processor, averaged over a minute."""
    found = load_average()
    return None if found is None else round(found, 2)


def busy(device: str) -> str:
    """Why this machine is too busy to be measured; '' where it is not."""
    now = load()
    if now is None or now > QUIET:
        return f"load average {now} is above {QUIET}"
    if device.startswith("cuda"):
        free, total = torch.cuda.mem_get_info(device)
        if free < 0.9 * total:
            return f"{1 - free / total:.0%} of the GPU's memory is in use"
    return ""


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto", help="cpu, cuda, cuda:1; auto: a GPU where there is one")
    parser.add_argument("--minutes", type=float, default=None, help="time for all cells (default: 9 on a CPU, 4.5 on a GPU)")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="measured rounds of each cell, as far as time allows")
    parser.add_argument("--threads", type=int, help="of torch on a CPU")
    parser.add_argument("--dry-run", action="store_true", help="show the plan, measure nothing")
    parser.add_argument("--busy", action="store_true", help="measure on a busy machine too; the rows say how busy it was")
    parser.add_argument("--check", action="store_true", help="check the tables that lie there, measure nothing")
    return parser.parse_args()


def main() -> int:
    """Measure and write, show the plan, or check. Exit status."""
    asked = options()
    if asked.check:
        return consumer_silicon_check.check()
    if asked.threads:
        torch.set_num_threads(asked.threads)
    try:
        device = resolve_device(asked.device)
        minutes = asked.minutes or (9 if device == "cpu" else 4.5)
        plan = Plan(device=device, rounds=asked.rounds, deadline=time.monotonic() + 60 * minutes,
                    configurations=CPU if device == "cpu" else GPU)
        if asked.dry_run:
            return shown(plan, minutes)
        if not asked.busy and (reason := busy(device)):
            say(f"this machine is busy: {reason}. Speeds would be noise; --busy measures all the same.")
            return 1
        tables = run(plan, " ".join([COMMAND, *sys.argv[1:]]))
        status = settle(rows.merged(machine_id(device), tables), check=False)
        Kept(KEPT, plan.identity).forget()
    except StudioError as error:
        say(str(error))
        return 1
    return status


def shown(plan: Plan, minutes: float) -> int:
    """The plan in words. Exit status."""
    have = Kept(KEPT, plan.identity)
    print(f"{machine_id(plan.device)}: {MODEL}, prompts of {plan.prompt} tokens, {plan.output} written, up to {plan.rounds} "
          f"rounds a cell, {minutes:g} minutes in all; load average {load()}")
    for one, level in plan.cells:
        print(f"  {one.id} {level} at once" + (" (measured before, kept)" if f"{one.id} {level}" in have else ""))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
