"""Write `data/serving-profiles/`: two vLLM runs request by request, and the kernels of their cards.

Also `data/validation/scheduler_bugs.csv`: what other simulators and load tests get wrong.

    python -m runtime.measure.golden --facts FOLDER [--check]

Kernel tables are thinned: attention to the shapes of `KEPT`, lines to what straight pieces give within 0.2 %, numbers
to four digits. On the two runs that moves no figure by more than half a point.
"""

import argparse
import csv
from collections.abc import Iterator, Mapping
from pathlib import Path

from pycore.simulation.costs.interpolate import Line, thinned
from pycore.simulation.costs.profile import SHAPE, attention_rows, condense
from runtime.measure.golden_prefixes import ASSIGNED, LOG_SOURCE, LOGGED
from runtime.measure.kernels import SYSTEMS, rows
from runtime.measure.tables import csv_text, settle
from runtime.measure.validation import BUG_COLUMNS

MODEL, ENGINE, LAYERS = "meta-llama--llama-3.1-8b", "vllm 0.19.0", 32
COMMIT = "casys-kaist/LLMServingSim @5daddb21a545658d5150b535712d0494584b5278 (MIT)"
RUNS = {  # flags of each run, and its KV pool: from the run's start-up log, and from LLMServingSim's own log
    "RTX4090": {"max_sequences": 256, "kv_blocks": 2588, "kv_source": "the engine's log"},
    "RTXPRO6000": {"max_sequences": 128, "kv_blocks": 36117, "kv_source": "LLMServingSim's log; never the bottleneck"},
}
KEPT = {"prefill_chunk": (0, 16, 64, 128, 256, 512, 1024, 2048), "kv_prefill": (0, 512, 1024, 2048, 4096, 16384),
        "kv_decode": (0, 16, 256, 512, 1024, 2048, 4096, 16384)}
TOLERANCE, DIGITS = 0.002, 4
TABLES = ("dense", "per_sequence", "attention", "skew")

COLUMNS = {
    "profiles": ("profile", "accelerator", "model", "engine", "layers", "unevenness", "skew_shots", "source"),
    "lines": ("profile", "part", "at", "time_us"),
    "attention": ("profile", *SHAPE, "time_us"),
    "runs": ("run", "accelerator", "model", "engine", "max_sequences", "max_batched_tokens", "block_size", "kv_blocks",
             "kv_source", "profile", "source"),
    "requests": ("run", "request", "arrival_s", "queued_s", "first_token_s", "last_token_s", "prompt_tokens",
                 "output_tokens"),
    "seconds": ("run", "second", "running", "waiting", "kv_percent"),
    "prefix_hits": ("second", "hit_tokens", "prompt_tokens", "source"),
    "shared_prefixes": ("request", "parent", "blocks"),
}


def name_of(system: str) -> str:
    """The profile's and the run's id: the card's, shortened."""
    return SYSTEMS[system].removeprefix("nvidia-") + "-llama-3.1-8b"


def rounded(value: float) -> str:
    """A number to four significant digits, in its shortest form."""
    return f"{float(f'{value:.{DIGITS}g}'):g}"


def profile(facts: Path, system: str) -> dict[str, list[dict[str, str]]]:
    """The four tables of one card."""
    return {kind: rows(facts / "kernels" / f"llmservingsim_{system}_Llama-3.1-8B_{kind}.csv.gz") for kind in TABLES}


def kernel_tables(facts: Path) -> dict[str, list[dict[str, object]]]:
    """Rows of profiles, lines and attention."""
    found: dict[str, list[dict[str, object]]] = {"profiles": [], "lines": [], "attention": []}
    for system in RUNS:
        measured = profile(facts, system)
        whole = condense(measured, id=name_of(system), layers=LAYERS)
        found["profiles"].append({
            "profile": whole.id, "accelerator": SYSTEMS[system], "model": MODEL, "engine": ENGINE, "layers": LAYERS,
            "unevenness": rounded(whole.unevenness), "skew_shots": len(measured["skew"]), "source": COMMIT})
        for part, line in (("block", whole.block), ("once", whole.once), ("head", whole.head)):
            found["lines"] += line_rows(whole.id, part, line)
        found["attention"] += kept_rows(whole.id, measured["attention"])
    return found


def line_rows(profile_id: str, part: str, line: Line) -> list[dict[str, object]]:
    """A line's points, those that straight pieces give left out."""
    return [{"profile": profile_id, "part": part, "at": f"{at:g}", "time_us": rounded(value)}
            for at, value in thinned(list(zip(*line, strict=True)), TOLERANCE)]


def kept_rows(profile_id: str, measured: list[dict[str, str]]) -> list[dict[str, object]]:
    """Attention at the kept shapes; every number of decoding sequences is kept."""
    places = [KEPT.get(name) for name in SHAPE]
    return [{"profile": profile_id, "time_us": rounded(row[-1])}
            | {name: f"{value:g}" for name, value in zip(SHAPE, row[:-1], strict=True)}
            for row in sorted(attention_rows(measured))
            if all(kept is None or value in kept for kept, value in zip(places, row[:-1], strict=True))]


def run_tables(facts: Path) -> dict[str, list[dict[str, object]]]:
    """Rows of runs, requests and seconds."""
    return {
        "runs": [{"run": name_of(system), "accelerator": SYSTEMS[system], "model": MODEL, "engine": ENGINE,
                  "max_batched_tokens": 2048, "block_size": 16, "profile": name_of(system),
                  "source": f"{COMMIT} bench/examples/{system}/Llama-3.1-8B"} | flags
                 for system, flags in RUNS.items()],
        "requests": [row for system in RUNS for row in request_rows(facts, system)],
        "seconds": [row for system in RUNS for row in second_rows(facts, system)],
    }


def request_rows(facts: Path, system: str) -> Iterator[dict[str, object]]:
    """A run's requests, in order of arrival."""
    for row in plain_rows(facts / "vllm_runs" / f"{system}_Llama-3.1-8B.csv"):
        yield {"run": name_of(system), "request": row["request_id"].removeprefix("bench-"),
               "prompt_tokens": row["input_tokens"], "output_tokens": row["output_tokens"]} | {
                   name: row[name] for name in ("arrival_s", "queued_s", "first_token_s", "last_token_s")}


def second_rows(facts: Path, system: str) -> Iterator[dict[str, object]]:
    """A run second by second, as the engine logged it. The KV column of the PRO 6000 is 0 throughout: not logged."""
    for row in plain_rows(facts / "vllm_runs" / f"{system}_Llama-3.1-8B_timeseries.csv"):
        yield {"run": name_of(system), "second": f"{float(row['t']):g}", "running": row["running"],
               "waiting": row["waiting"], "kv_percent": row["kv_cache_pct"]}


def plain_rows(path: Path) -> list[dict[str, str]]:
    """All rows of a CSV."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def prefix_tables() -> dict[str, list[dict[str, object]]]:
    """Rows of prefix_hits (logged) and shared_prefixes (inferred)."""
    hits = [{"second": second, "hit_tokens": hit, "prompt_tokens": asked, "source": LOG_SOURCE}
            for second, hit, asked in LOGGED]
    shared = [{"request": child, "parent": parent, "blocks": blocks}
              for child, (parent, blocks) in sorted(ASSIGNED.items())]
    return {"prefix_hits": hits, "shared_prefixes": shared}


def tables(facts: Path) -> Mapping[str, str]:
    """Every generated file: path from the repository root -> text."""
    found = kernel_tables(facts) | run_tables(facts) | prefix_tables()
    files = {f"data/serving-profiles/{name}.csv": csv_text(COLUMNS[name], found[name]) for name in COLUMNS}
    bugs = [row for row in plain_rows(facts / "peer_bugs.csv") if "sched-sim" in row["studio"]]
    return files | {"data/validation/scheduler_bugs.csv": csv_text(BUG_COLUMNS, bugs)}


def main() -> int:
    """Write the tables, or with --check compare them; the exit status is 1 when one differs."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--facts", type=Path, required=True, help="the facts folder, e.g. ../shared/facts")
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    options = parser.parse_args()
    return settle(tables(options.facts), check=options.check)


if __name__ == "__main__":
    raise SystemExit(main())
