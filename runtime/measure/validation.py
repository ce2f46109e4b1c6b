"""`data/validation/` for memory: what logs and threads report, and the evidence table the page shows.

    python -m runtime.measure.validation --facts FOLDER [--check]

Writes vram_reports.csv (reported KV caches and sizes, cut to the columns and rows compared with), peer_bugs.csv (known
faults of other tools), gguf_sizes.csv (published file sizes) and data/catalog/memory_evidence.csv (logs with enough
terms to predict the KV pool). `vllm_profiles.csv` is typed in by hand (its source is in the README) and only read here.
"""

import argparse
import csv
import json
import sys
from pathlib import Path

from runtime.measure.tables import ROOT, csv_text, settle
from runtime.measure.validation_rows import LOADS, POOLS, REPORTS

REPORT_COLUMNS = (
    "id",
    "source",
    "date",
    "engine",
    "engine_version",
    "reported_model",
    "model",
    "shape",
    "keys",
    "values",
    "tensor",
    "shards",
    "as_full",
    "kv_gib",
    "kv_tokens",
    "bytes_per_token",
    "independent",
    "context",
    "weights_gib",
    "compute_mib",
    "total_gib",
    "note",
)
BUG_COLUMNS = (
    "id",
    "theme",
    "peer",
    "thread",
    "date",
    "smallest_input",
    "wrong_answer",
    "right_answer",
    "basis_of_right_answer",
)
SIZE_COLUMNS = ("model", "file_type", "imatrix", "published", "unit", "known_fault", "source")
EVIDENCE_COLUMNS = (
    "id",
    "source",
    "engine",
    "version",
    "card",
    "model",
    "weights",
    "keys",
    "tp",
    "pp",
    "linked",
    "visible_gib",
    "fraction",
    "context",
    "sequences",
    "batch_tokens",
    "weights_gib",
    "activation_gib",
    "non_torch_gib",
    "graphs_gib",
    "pool_gib",
    "kv_tokens",
    "note",
)
LLAMA = {
    "Llama 3 8B": "meta-llama--meta-llama-3-8b",
    "Llama 2 7B": "meta-llama--llama-2-7b-hf",
    "Llama 2 13B": "meta-llama--llama-2-13b-hf",
    "Llama 2 70B": "meta-llama--llama-2-70b-hf",
}
README_SOURCE = "llama.cpp examples/perplexity/README.md and tools/quantize/README.md"
MIX_FAULTS = {("Llama 3 8B", "Q2_K_S"): "the scoreboard repeats Q2_K's size"} | {
    (model, "Q2_K"): "the README lists an older, larger mix" for model in ("Llama 2 7B", "Llama 2 13B", "Llama 2 70B")
}
PROFILE_SOURCE = "jgchn/llm-d-planner @30ec05f7 accuracy/results/v0.19.0/results_raw.csv"
SWEEP_SOURCE = "jgchn/llm-d-planner @a95e9f62 accuracy/results/version-sweep/run_matrix.md"
EARLIER_SOURCE = "llm-d/llm-d-benchmark @25933486 config_explorer/empirical-vllm-memory-results.md"


def table(path: Path) -> list[dict[str, str]]:
    """A CSV as dictionaries."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def report_rows(facts: Path) -> list[dict[str, object]]:
    """The reports that a test or the page compares with, each tied to a shape of the catalogue or of the tests."""
    found = {row["id"]: row for row in table(facts / "vram_reports.csv")}
    rows = []
    for case in REPORTS:
        row = found[case["id"]]
        rows.append(
            {
                "id": row["id"],
                "source": row["source"],
                "date": row["date"],
                "engine": row["engine"],
                "engine_version": row["engine_version"],
                "reported_model": row["model"],
                "model": case["model"],
                "shape": case.get("shape", ""),
                "keys": case.get("keys", "fp16"),
                "values": case.get("values", case.get("keys", "fp16")),
                "tensor": case.get("tensor", 1),
                "shards": case.get("shards", 1),
                "as_full": case.get("as_full", ""),
                "kv_gib": row["kv_gib_per_gpu"],
                "kv_tokens": row["kv_tokens"],
                "bytes_per_token": row["arch_expected_kv_bytes_per_token_per_gpu"],
                "independent": "1" if row["kv_check_independent"] == "yes" else "",
                "context": row["max_len"],
                "weights_gib": row["weights_gib_per_gpu"],
                "compute_mib": row["compute_buffer_mib"],
                "total_gib": row["total_used_gib"],
                "note": case.get("note", ""),
            }
        )
    return rows


def bug_rows(facts: Path) -> list[dict[str, object]]:
    """Faults of other sizing tools, each with its right answer."""
    return [
        {column: row[column] for column in BUG_COLUMNS}
        for row in table(facts / "peer_bugs.csv")
        if "infersize" in row["studio"]
    ]


def size_rows(facts: Path) -> list[dict[str, object]]:
    """Published sizes of GGUF files: GiB for Llama 3 8B, bits per weight for Llama 2."""
    rows = []
    for row in json.loads((facts / "catalog" / "gguf_mix_check.json").read_text(encoding="utf-8")):
        unit = "GiB" if "published_gib" in row else "bits per weight"
        published = row["published_gib"] if unit == "GiB" else row["published_bits_per_weight"]
        rows.append(
            {
                "model": LLAMA[row["model"]],
                "file_type": row["file_type"],
                "published": published,
                "unit": unit,
                "imatrix": "" if row["imatrix"] == "None" else "1",
                "known_fault": MIX_FAULTS.get((row["model"], row["file_type"]), ""),
                "source": README_SOURCE,
            }
        )
    for row in table(facts / "gguf_bpw.csv"):
        if load := LOADS.get((row["model"], row["quant"], row["bits_per_weight"])):
            rows.append(
                {
                    "model": load["model"],
                    "file_type": load["file_type"],
                    "published": row["bits_per_weight"],
                    "unit": "bits per weight, logged",
                    "imatrix": load.get("imatrix", ""),
                    "known_fault": load.get("fault", ""),
                    "source": row["source"],
                }
            )
    return rows


def evidence_rows(facts: Path) -> list[dict[str, object]]:
    """Start-up logs with enough terms: the card's visible memory, the fraction, the load, and what the log says."""
    found = {row["id"]: row for row in table(facts / "vram_reports.csv")}
    rows = []
    for case in POOLS:
        row = found[case["id"]]
        rows.append(
            dict.fromkeys(EVIDENCE_COLUMNS, "")
            | {
                "source": row["source"],
                "version": row["engine_version"],
                "card": row["gpu"],
                "visible_gib": row["gpu_total_gib"],
                "weights_gib": row["weights_gib_per_gpu"],
                "activation_gib": row["activation_peak_gib"],
                "non_torch_gib": row["non_torch_gib"],
                "pool_gib": row["kv_gib_per_gpu"],
                "kv_tokens": row["kv_tokens"],
            }
            | case
        )
    return rows + [profile_row(row) for row in table(ROOT / "data" / "validation" / "vllm_profiles.csv")]


def profile_row(row: dict[str, str]) -> dict[str, object]:
    """A vLLM profile run (H100) as an evidence row."""
    newer = row["version"] in ("0.17.0", "0.18.0", "0.19.0")
    source = (
        SWEEP_SOURCE
        if row["file"] == "version-sweep"
        else PROFILE_SOURCE
        if row["version"] == "0.19.0"
        else EARLIER_SOURCE
    )
    same = {column: row[column] for column in EVIDENCE_COLUMNS if column in row}
    return same | {"source": source, "engine": "vllm-0.20" if newer else "vllm-0.16", "card": "H100 80GB", "linked": 1}


def main() -> int:
    """Write the tables, or compare them; exit status 1 on a difference."""
    parser = argparse.ArgumentParser(prog="python -m runtime.measure.validation", description=__doc__)
    parser.add_argument("--facts", required=True, type=Path)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    files = {
        "data/validation/vram_reports.csv": csv_text(REPORT_COLUMNS, report_rows(options.facts)),
        "data/validation/peer_bugs.csv": csv_text(BUG_COLUMNS, bug_rows(options.facts)),
        "data/validation/gguf_sizes.csv": csv_text(SIZE_COLUMNS, size_rows(options.facts)),
        "data/catalog/memory_evidence.csv": csv_text(EVIDENCE_COLUMNS, evidence_rows(options.facts)),
    }
    return settle(files, check=options.check)


if __name__ == "__main__":
    sys.exit(main())
