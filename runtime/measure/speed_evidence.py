"""Compare the speed model with whole-engine runs it never saw, and write how far off it is.

    python -m runtime.measure.speed_evidence --facts ../shared/facts [--check]

Writes data/validation/silicon.csv, single_stream.csv and step_profile.csv (the runs) and
data/catalog/speed_evidence.csv (errors by engine and card generation). No parameter is fitted on the served runs:
kernels fix the model, the runs only say how wide its ranges have to be. llama.cpp is fitted on half of its reports and
tested on the other.
"""

import argparse
import dataclasses
import math
from collections.abc import Iterable
from pathlib import Path

from pycore import catalog
from pycore.nouns import Parallel
from pycore.roofline.efficiency import generation, stream_class
from pycore.roofline.load import Pace, Requests, prompt_seconds
from pycore.roofline.prepare import prepare
from pycore.roofline.step import Step, step_seconds
from runtime.measure import step_profile
from runtime.measure.fitting import rounded
from runtime.measure.single_stream import COLUMNS as STREAM_COLUMNS
from runtime.measure.single_stream import Stream, host_reports, reports
from runtime.measure.speed_runs import COLUMNS, Run, predicted, runs_of
from runtime.measure.tables import csv_text, settle

EVIDENCE = ("quantity", "engine", "generation", "rows", "median_error_pct", "p90_error_pct", "roofline_error_pct",
            "low",
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
        source: str) -> dict[str, object]:
    """One line from (measured, predicted, plain roofline) seconds."""
    errors = [100 * abs(guess / truth - 1) for truth, guess, _ in pairs]
    plain = [100 * abs(roof / truth - 1) for truth, _, roof in pairs if roof is not None]
    ratios = [truth / guess for truth, guess, _ in pairs]
    return {"quantity": quantity, "engine": engine, "generation": where, "rows": len(pairs),
            "median_error_pct": rounded(quantile(errors, 0.5)), "p90_error_pct": rounded(quantile(errors, 0.9)),
            "roofline_error_pct": rounded(quantile(plain, 0.5)) if plain else None,
            "low": min(1.0, rounded(quantile(ratios, 0.1))), "high": max(1.0, rounded(quantile(ratios, 0.9))),
            "cards": " ".join(sorted(set(cards))), "source": source}


FIRST_WAVE = 0.1
"""InferenceX sends ten requests a user and all first ones at once, so a tenth of its mean TTFT is that of a burst."""


def serving_rows(runs: list[Run]) -> list[dict[str, object]]:
    """Pace and first token of served runs by engine and generation, and the pace with another generation's fits."""
    groups: dict[tuple[str, str, str], list] = {}
    for run in runs:
        where = generation(catalog.accelerator(run.accelerator))
        found, roof, other = predicted(run), predicted(run, ideal=True), predicted(run, capability=BORROWED[where])
        card = run.accelerator.removeprefix("nvidia-")
        tpot = (run.tpot_ms, found.tpot * 1e3, roof.tpot * 1e3, card)
        first = (run.ttft_ms, mean_ttft(run, found) * 1e3, mean_ttft(run, roof) * 1e3, card)
        for engine in (run.engine, "all"):
            for place in (where, "all"):
                groups.setdefault(("tpot", engine, place), []).append(tpot)
                groups.setdefault(("ttft", engine, place), []).append(first)
            groups.setdefault(("tpot", engine, "borrowed"), []).append((run.tpot_ms, other.tpot * 1e3, None, card))
    return lines(groups, 10, SOURCE)


def mean_ttft(run: Run, found: Pace) -> float:
    """Mean TTFT as the benchmark behind the run takes it: of a burst, or with a first tenth of requests that arrive at
    once."""
    if found.ttft == found.ttft_burst:
        return found.ttft
    return FIRST_WAVE * found.ttft_burst + (1 - FIRST_WAVE) * found.ttft


def lines(groups: dict[tuple[str, str, str], list], least: int, source: str) -> list[dict[str, object]]:
    """Groups of at least so many runs as lines."""
    return [row(*key, [item[:3] for item in found], [item[3] for item in found], source)
            for key, found in sorted(groups.items()) if len(found) >= least]


def stream_rows(found: list[Stream]) -> list[dict[str, object]]:
    """llama.cpp, one stream: pace and prompts of the reports kept for testing, by class of cards; "borrowed" are the
    cards whose generation no fit saw."""
    groups: dict[tuple[str, str, str], list] = {}
    for stream in found:
        card = catalog.accelerator(stream.accelerator)
        step, roof = (stream_step(stream, ideal) for ideal in (False, True))
        if stream.half == "fit" and step.calibrated:
            continue
        name = card.id.split("-", 1)[1]
        pace = tuple(step_seconds(each, 1, stream.context) for each in (step, roof))
        for place in (stream_class(card), "all") if step.calibrated else ("borrowed",):
            groups.setdefault(("tpot", "llama.cpp", place), []).append((1 / stream.tokens_per_s, *pace, name))
            if stream.prompt_tokens_per_s and step.timed_prompts:
                load = Requests(sequences=1, prompt=stream.prompt, output=stream.output, budget=512)
                seconds = tuple(prompt_seconds(each, load) for each in (step, roof))
                groups.setdefault(("prompt", "llama.cpp", place), []).append(
                    (stream.prompt / stream.prompt_tokens_per_s, *seconds, name))
    return lines(groups, 2, "speed reports of llama.cpp, data/validation/single_stream.csv (the rows marked test)")


def stream_step(stream: Stream, ideal: bool) -> Step:
    """The step of a report."""
    cache = catalog.kv_format("fp16")
    return prepare(catalog.model(stream.model), catalog.weight_format(stream.weights), cache, cache, Parallel(),
                   catalog.accelerator(stream.accelerator), "llama.cpp", ideal)


def host_rows(facts: Path) -> list[dict[str, object]]:
    """transformers: the host's time a layer against its own median, the only thing fitted there."""
    pairs = [(second, sorted(seconds)[len(seconds) // 2], None, "H20") for seconds in host_reports(facts).values()
             for second in seconds]
    return lines({("tpot", "transformers", "all"): pairs, ("tpot", "transformers", "borrowed"): pairs}, 2,
                 "QwenLM/Qwen3 speed page @7a2f61ff; fitted on these very rows")


def profile_rows(steps: list[step_profile.ProfiledStep]) -> list[dict[str, object]]:
    """Whole steps of vLLM on a card whose fits come from other tables."""
    pairs = [(step.seconds, step_profile.predicted(step), step_profile.predicted(step, ideal=True),
              step.accelerator.removeprefix("nvidia-")) for step in steps if step.half == "test"]
    return lines({("step", "vllm", "blackwell"): pairs}, 2,
                 "LLMServingSim's profile of vLLM 0.19, data/validation/step_profile.csv")


def main(arguments: list[str] | None = None) -> int:
    """Write the tables, or compare them; the exit status."""
    parser = argparse.ArgumentParser(description="Measure the speed model against whole-engine runs.")
    parser.add_argument("--facts", type=Path, required=True, help="the facts folder")
    parser.add_argument("--check", action="store_true", help="compare with the committed tables instead of writing")
    given = parser.parse_args(arguments)
    runs = list(runs_of(given.facts))
    found = reports(given.facts)
    steps = list(step_profile.steps_of(given.facts))
    evidence = serving_rows(runs) + profile_rows(steps) + stream_rows(found) + host_rows(given.facts)
    files = {"data/validation/silicon.csv": csv_text(COLUMNS, (run.cells() for run in runs)),
             "data/validation/single_stream.csv": csv_text(STREAM_COLUMNS, map(dataclasses.asdict, found)),
             "data/validation/step_profile.csv": csv_text(step_profile.COLUMNS, map(dataclasses.asdict, steps)),
             "data/catalog/speed_evidence.csv": csv_text(EVIDENCE, evidence)}
    return settle(files, check=given.check)


if __name__ == "__main__":
    raise SystemExit(main())
