"""Compare the speed model with whole-engine runs it never saw, and write how far off it is.

    python -m runtime.measure.speed_evidence --facts ../shared/facts [--check]

Writes data/validation/silicon.csv (the runs) and data/catalog/speed_evidence.csv (errors by engine and card generation).
No parameter is fitted on these runs: kernels fix the model, the runs only say how wide its ranges have to be.
"""

import argparse
import math
from collections.abc import Iterable
from pathlib import Path

from pycore import catalog
from pycore.roofline.efficiency import generation
from runtime.measure.fitting import rounded
from runtime.measure.speed_runs import COLUMNS, Run, predicted, runs_of
from runtime.measure.tables import csv_text, settle

EVIDENCE = ("quantity", "engine", "generation", "rows", "median_error_pct", "p90_error_pct", "roofline_error_pct", "low",
            "high", "cards", "source")
SOURCE = "aiconfigurator silicon sample (InferenceX and NVIDIA dumps; Apache-2.0), data/validation/silicon.csv"
BORROWED = {"hopper": "10.0", "blackwell-data": "9.0", "blackwell-ultra": "9.0"}  # whose fits to try on whom


def quantile(values: list[float], share: float) -> float:
    """Linear interpolation between order statistics."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    return ordered[below] + (ordered[min(below + 1, len(ordered) - 1)] - ordered[below]) * (place - below)


def row(quantity: str, engine: str, where: str, pairs: list[tuple[float, float, float | None]], cards: Iterable[str],
        source: str = SOURCE) -> dict[str, object]:
    """One line from (measured, predicted, plain roofline) seconds."""
    errors = [100 * abs(guess / truth - 1) for truth, guess, _ in pairs]
    plain = [100 * abs(roof / truth - 1) for truth, _, roof in pairs if roof is not None]
    ratios = [truth / guess for truth, guess, _ in pairs]
    return {"quantity": quantity, "engine": engine, "generation": where, "rows": len(pairs),
            "median_error_pct": rounded(quantile(errors, 0.5)), "p90_error_pct": rounded(quantile(errors, 0.9)),
            "roofline_error_pct": rounded(quantile(plain, 0.5)) if plain else None,
            "low": min(1.0, rounded(quantile(ratios, 0.1))), "high": max(1.0, rounded(quantile(ratios, 0.9))),
            "cards": " ".join(sorted(set(cards))), "source": source}


def serving_rows(runs: list[Run]) -> list[dict[str, object]]:
    """Pace and first token of served runs by engine and generation, and with another generation's fits."""
    groups: dict[tuple[str, str, str], list] = {}
    for run in runs:
        where = generation(catalog.accelerator(run.accelerator))
        found, roof = predicted(run), predicted(run, ideal=True)
        card = run.accelerator.removeprefix("nvidia-")
        tpot = (run.tpot_ms, found.tpot * 1e3, roof.tpot * 1e3, card)
        first = (run.ttft_ms, found.ttft * 1e3, roof.ttft * 1e3, card)
        for engine in (run.engine, "all"):
            for place in (where, "all"):
                groups.setdefault(("tpot", engine, place), []).append(tpot)
                groups.setdefault(("ttft", engine, place), []).append(first)
                if run.sequences <= 4 and run.prompt >= 4096:
                    groups.setdefault(("prompt", engine, place), []).append(first)
        other = predicted(run, capability=BORROWED[where])
        for engine in (run.engine, "all"):
            groups.setdefault(("tpot", engine, "borrowed"), []).append((run.tpot_ms, other.tpot * 1e3, None, card))
            if run.sequences <= 4 and run.prompt >= 4096:
                groups.setdefault(("prompt", engine, "borrowed"), []).append((run.ttft_ms, other.ttft * 1e3, None, card))
    return [row(*key, [item[:3] for item in found], [item[3] for item in found])
            for key, found in sorted(groups.items()) if len(found) >= 10]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Measure the speed model against whole-engine runs.")
    parser.add_argument("--facts", type=Path, required=True, help="the facts folder")
    parser.add_argument("--check", action="store_true", help="compare with the committed tables instead of writing")
    given = parser.parse_args(arguments)
    runs = list(runs_of(given.facts))
    files = {"data/validation/silicon.csv": csv_text(COLUMNS, (run.cells() for run in runs)),
             "data/catalog/speed_evidence.csv": csv_text(EVIDENCE, serving_rows(runs))}
    return settle(files, check=given.check)


if __name__ == "__main__":
    raise SystemExit(main())
