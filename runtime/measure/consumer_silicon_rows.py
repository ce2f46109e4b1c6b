"""Columns and cells of data/consumer-silicon-benchmarks."""

import csv
import datetime
import os
import platform
import re
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import torch

import pycore
from runtime.measure.tables import ROOT, csv_text
from runtime.memory import physical_bytes
from runtime.mini_infer.quality import Error
from runtime.mini_infer.speeds import FIGURES, Speeds, median_and_best
from runtime.processor import processor

FOLDER = "data/consumer-silicon-benchmarks"
COMMAND = "python -m runtime.measure.consumer_silicon"
COLUMNS = {
    "machines": ("machine", "device", "kind", "cores", "threads", "memory_bytes", "memory_bytes_per_s", "system", "versions",
                 "commit", "date", "load_average", "command", "note"),
    "configurations": ("machine", "configuration", "model", "model_sha256", "weights", "kv_format", "weight_bytes",
                       "kv_bytes_per_token", "kv_saved_against_16_bits", "logit_error", "kl_divergence", "agreement",
                       "perplexity", "reference_perplexity", "quality_tokens", "quality_text"),
    "speeds": ("machine", "configuration", "concurrency", "prompt_tokens", "output_tokens", "rounds",
               *(name + kind for name in FIGURES for kind in ("", "_best")), "bandwidth_share", "samples", "load_average",
               "date"),
}
KEYS = {"machines": ("machine",), "configurations": ("machine", "configuration"),
        "speeds": ("machine", "configuration", "concurrency")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """Weights (a choice of `linear` on a CPU, numbers of torch on a GPU) and the format of keys and values."""

    weights: str
    kv_format: str

    @property
    def id(self) -> str:
        return f"{self.weights}/kv-{self.kv_format}"


CPU = (*(Configuration(weights=name, kv_format="float32") for name in ("float32", "int8", "int8-fine")),
       *(Configuration(weights="float32", kv_format=name) for name in ("fp8", "int8", "int4")),
       Configuration(weights="int8", kv_format="int8"))
GPU = (*(Configuration(weights=name, kv_format=name) for name in ("float32", "float16", "bfloat16")),
       *(Configuration(weights="bfloat16", kv_format=name) for name in ("fp8", "int8", "int4")))


def device_name(device: str) -> str:
    """The name of the chip that computes."""
    return torch.cuda.get_device_name(device) if device.startswith("cuda") else processor()


def machine_id(device: str) -> str:
    """'intel-r-xeon-r-processor-2-threads': chip and, on a CPU, threads."""
    bare = re.sub("[^a-z0-9]+", "-", device_name(device).lower()).strip("-")
    return bare if device.startswith("cuda") else f"{bare}-{torch.get_num_threads()}-threads"


def machine_row(device: str, bandwidth: float | None, load: float | None, command: str) -> dict[str, object]:
    """The machine that this runs on."""
    asked = ["git", "rev-parse", "--short=12", "HEAD"]
    commit = subprocess.run(asked, capture_output=True, text=True, check=False, cwd=ROOT)
    versions = {"python": platform.python_version(), "torch": torch.__version__, "inference-studios": pycore.__version__}
    kind = "GPU" if device.startswith("cuda") else "CPU"
    return {"machine": machine_id(device), "device": device_name(device), "kind": kind, "cores": os.cpu_count(),
            "threads": torch.get_num_threads(), "memory_bytes": memory_bytes(device),
            "memory_bytes_per_s": None if bandwidth is None else round(bandwidth), "system": platform.platform(),
            "versions": "; ".join(f"{name} {version}" for name, version in versions.items()),
            "commit": commit.stdout.strip(), "date": today(), "load_average": load, "command": command,
            "note": "a shared virtual machine" if "hypervisor" in flags() else ""}


def memory_bytes(device: str) -> int | None:
    """Bytes of the device's memory; None where the system does not say."""
    if device.startswith("cuda"):
        return torch.cuda.get_device_properties(device).total_memory
    return physical_bytes()


def flags() -> set[str]:
    """What the kernel says that the CPU can; empty where it does not say."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            line = next((line for line in file if line.startswith(("flags", "Features"))), "")
    except OSError:
        return set()
    return set(line.partition(":")[2].split())


def today() -> str:
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def quality_cells(error: Error, text: str) -> dict[str, object]:
    """What the numbers did to a text's logits."""
    found = asdict(error)
    return {name: significant(found[name]) for name in ("logit_error", "kl_divergence", "agreement", "perplexity",
                                                        "reference_perplexity")} | {
        "quality_tokens": error.tokens, "quality_text": text}


def speed_cells(found: Sequence[Speeds]) -> dict[str, object]:
    """Median and best of the rounds, and what each round gave."""
    cells: dict[str, object] = {"rounds": len(found)}
    for name in FIGURES:
        median, best = median_and_best(found, name)
        cells[name], cells[name + "_best"] = significant(median), significant(best)
    return cells | {"samples": samples(found)}


def samples(found: Sequence[Speeds]) -> str:
    """Each round's figures in the order of FIGURES: '1020 41.3 0.0621 33.2; ...'"""
    return "; ".join(" ".join(repr(significant(getattr(one, name))) for name in FIGURES) for one in found)


def significant(value: float) -> float:
    """To 6 significant digits."""
    return float(f"{value:.6g}")


def committed(name: str) -> list[dict[str, str]]:
    """Rows of a table as they lie there; none where it does not."""
    path = ROOT / FOLDER / f"{name}.csv"
    if not path.is_file():
        return []
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def merged(machine: str, tables: dict[str, list[dict[str, object]]]) -> dict[str, str]:
    """Path -> text of every table: this machine's rows anew, those of others as they are."""
    files = {}
    for name, columns in COLUMNS.items():
        others = [row for row in committed(name) if row["machine"] != machine]
        rows = sorted([*others, *tables[name]], key=lambda row: str(row["machine"]))  # in a machine, the order of the run
        files[f"{FOLDER}/{name}.csv"] = csv_text(columns, rows)
    return files
