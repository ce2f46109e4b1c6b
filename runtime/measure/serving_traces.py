"""data/llm-serving-traces/: cuts of public request logs, the schedulers compared on them, and the runs of a real engine.

    python -m runtime.measure.serving_traces --facts FOLDER [--check]
"""

import argparse
import csv
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from pycore.simulation.traces import Trace, read_trace
from runtime.measure import golden_rows, scheduler_rows
from runtime.measure.tables import csv_text, settle

FOLDER = "data/llm-serving-traces"
REQUESTS = ("trace", "id", "arrival_s", "prompt_tokens", "output_tokens", "prefix_hashes")
SOURCES = ("trace", "title", "repository", "commit", "file", "licence", "first", "rows", "rows_of_source", "buckets_s",
           "hash_block_tokens", "repeated_blocks_percent", "whole_prompt_mean", "whole_output_mean", "whole_requests_per_s",
           "whole_gaps_cv", "note")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Consecutive rows of one public log, from row `first` (1 is the top) on; none is left out, so that bursts and shared
    prefixes stay as recorded. `facts`: the file in the folder of facts; `file`: in its repository."""

    trace: str
    title: str
    facts: str
    repository: str
    commit: str
    file: str
    licence: str
    first: int
    rows: int
    published: str  # its row in trace_stats.csv
    arrivals_differ: bool = False
    buckets_s: str = ""
    note: str


AZURE = dict(repository="Azure/AzurePublicDataset", commit="b469a113cedca53ddc3bdea71a143dc4b7d8700c", licence="CC-BY-4.0")
MOONCAKE = dict(repository="kvcache-ai/Mooncake", commit="3b5a594133958449a1feaf1c9e0fc1b553e34a28", licence="Apache-2.0")
CUTS = (
    Cut(trace="azure-conversation", title="Azure 2023 conversation", **AZURE,
        facts="traces/azure-AzureLLMInferenceTrace_conv.csv.gz", file="data/AzureLLMInferenceTrace_conv.csv",
        published="azure2023/AzureLLMInferenceTrace_conv.csv",
        first=1, rows=500, note="arrivals near Poisson: the gaps of the whole file have a CV of 1.09"),
    Cut(trace="azure-code", title="Azure 2023 code", **AZURE,
        facts="traces/azure-AzureLLMInferenceTrace_code.csv.gz", file="data/AzureLLMInferenceTrace_code.csv",
        published="azure2023/AzureLLMInferenceTrace_code.csv",
        first=1, rows=500, note="arrivals in bursts: the gaps of the whole file have a CV of 13"),
    Cut(trace="mooncake-conversation", title="Mooncake conversation", **MOONCAKE,
        facts="traces/mooncake-conversation_trace.jsonl.gz", file="FAST25-release/traces/conversation_trace.jsonl",
        published="mooncake/conversation_trace", first=1325, rows=150, buckets_s="3",
        note="arrivals are recorded to 3 s, to be spread by whoever replays them"),
    Cut(trace="mooncake-synthetic", title="Mooncake synthetic", **MOONCAKE,
        facts="traces/mooncake-synthetic_trace.jsonl.gz", file="FAST25-release/traces/synthetic_trace.jsonl",
        published="mooncake/synthetic_trace", first=3841, rows=153,
        note="the file's end, where prompts share most with those before them"),
    Cut(trace="sharegpt-vllm", title="ShareGPT as served by vLLM 0.19.0 on an RTX 4090",
        facts="vllm_runs/RTX4090_Llama-3.1-8B.csv", repository="casys-kaist/LLMServingSim",
        commit="5daddb21a545658d5150b535712d0494584b5278", file="bench/examples (RTX4090, Llama-3.1-8B)",
        licence="MIT", published="llmservingsim/sharegpt-llama-3.1-8b-300-sps10", arrivals_differ=True, first=1, rows=300,
        note="arrivals, prompts and answers of the real run"),
)


def wholes(facts: Path) -> Iterator[tuple[Cut, Trace]]:
    """Each cut with its whole source; arrivals as recorded, not spread."""
    for cut in CUTS:
        yield cut, read_trace(facts / cut.facts, buckets="off")


def request_rows(facts: Path) -> Iterator[dict[str, object]]:
    """Rows of requests.csv. Arrivals are exact decimals of the source's, counted from its own first request."""
    for cut, trace in wholes(facts):
        for index in range(cut.first - 1, cut.first - 1 + cut.rows):
            hashes = trace.hash_ids[index] if trace.hash_ids else ()
            yield {"trace": cut.trace, "id": trace.id(index), "arrival_s": decimal_seconds(trace.arrivals_ns[index]),
                   "prompt_tokens": trace.prompt_tokens[index], "output_tokens": trace.output_tokens[index],
                   "prefix_hashes": " ".join(map(str, hashes))}


def decimal_seconds(time_ns: int) -> str:
    """Nanoseconds as seconds, exactly, without trailing zeros."""
    whole, rest = divmod(time_ns, 1_000_000_000)
    return f"{whole}.{rest:09d}".rstrip("0").rstrip(".")


def source_rows(facts: Path) -> Iterator[dict[str, object]]:
    """Rows of sources.csv."""
    for cut, trace in wholes(facts):
        yield {name: getattr(cut, name) for name in SOURCES if hasattr(cut, name)} | {
            "rows_of_source": len(trace), "hash_block_tokens": trace.hash_block_tokens or "",
            "repeated_blocks_percent": repeated_percent(trace.hash_ids[cut.first - 1:cut.first - 1 + cut.rows])
        } | statistics_of(trace)


def statistics_of(trace: Trace) -> dict[str, str]:
    """Of a whole log: mean lengths, rate ((n - 1) / duration), coefficient of variation of the gaps as recorded."""
    gaps = [later - earlier for earlier, later in pairwise(trace.arrivals_ns)]
    mean = statistics.fmean(gaps)
    return {"whole_prompt_mean": f"{statistics.fmean(trace.prompt_tokens):.1f}",
            "whole_output_mean": f"{statistics.fmean(trace.output_tokens):.1f}",
            "whole_requests_per_s": f"{1e9 / mean:.4f}", "whole_gaps_cv": f"{statistics.pstdev(gaps) / mean:.3f}"}


def compared_with_published(facts: Path, rows: Sequence[dict[str, object]]) -> list[str]:
    """Differences of our readers' statistics from trace_stats.csv, which others computed; empty where there are none."""
    with open(facts / "trace_stats.csv", encoding="utf-8", newline="") as file:
        theirs = {row["trace"]: row for row in csv.DictReader(file)}
    faults = []
    for cut, row in zip(CUTS, rows, strict=True):
        for column, ours in (("in_mean", "whole_prompt_mean"), ("out_mean", "whole_output_mean"),
                             ("rate_rps", "whole_requests_per_s"), ("ia_cv", "whole_gaps_cv"), ("rows", "rows_of_source")):
            if cut.arrivals_differ and column in ("rate_rps", "ia_cv"):
                continue  # the engine's own log of arrivals, not the file that was sent
            if abs(float(theirs[cut.published][column]) - float(row[ours])) > 1.5e-3 * float(row[ours]):
                faults.append(f"{cut.trace}: {ours} {row[ours]}, published {theirs[cut.published][column]}")
    return faults


def repeated_percent(hash_ids: Sequence[tuple[int, ...]]) -> str:
    """Share of the blocks that an earlier row of the cut holds too: what a cache without limit could spare."""
    seen: set[int] = set()
    repeated = total = 0
    for ids in hash_ids:
        total += len(ids)
        repeated += sum(identifier in seen for identifier in ids)
        seen.update(ids)
    return f"{100 * repeated / total:.1f}" if total else ""


def files(facts: Path, sources: Sequence[dict[str, object]]) -> dict[str, str]:
    """Every file of the dataset that is generated."""
    return {f"{FOLDER}/requests.csv": csv_text(REQUESTS, request_rows(facts)),
            f"{FOLDER}/sources.csv": csv_text(SOURCES, sources),
            f"{FOLDER}/schedulers.csv": csv_text(scheduler_rows.COLUMNS, scheduler_rows.scheduler_rows()),
            f"{FOLDER}/validation.csv": csv_text(golden_rows.COLUMNS, golden_rows.validation_rows())}


def main() -> int:
    """Write or compare. Exit status."""
    parser = argparse.ArgumentParser(prog="python -m runtime.measure.serving_traces", description=__doc__)
    parser.add_argument("--facts", required=True, type=Path, help="the folder of public facts")
    parser.add_argument("--check", action="store_true", help="compare with what is committed, write nothing")
    options = parser.parse_args()
    rows = list(source_rows(options.facts))
    faults = compared_with_published(options.facts, rows)
    for fault in faults:
        print(f"our statistics of a trace differ: {fault}", file=sys.stderr)
    return settle(files(options.facts, rows), check=options.check) or bool(faults)


if __name__ == "__main__":
    raise SystemExit(main())
