"""Read the kernel tables of the facts folder as columns, with the datasheet figures that efficiencies are shares of."""

import csv
import gzip
import json
from dataclasses import dataclass
from pathlib import Path

SYSTEMS = {  # name in the kernel tables -> id in catalog/gpus.json
    "a100_sxm": "nvidia-a100-sxm4-80gb", "h100_sxm": "nvidia-h100-sxm5-80gb", "h200_sxm": "nvidia-h200-sxm-141gb",
    "b200_sxm": "nvidia-b200-sxm-180gb", "b300_sxm": "nvidia-b300-sxm-288gb", "gb200": "nvidia-gb200-per-gpu",
    "gb300": "nvidia-gb300-per-gpu", "l40s": "nvidia-l40s", "rtx_pro_6000_server": "nvidia-rtx-pro-6000-blackwell",
    "b60": "intel-arc-b580",  # the B60 is the B580's die with twice the memory and the same 456 GB/s bus
    "RTX4090": "nvidia-rtx-4090", "RTXPRO6000": "nvidia-rtx-pro-6000-blackwell", "a40": "nvidia-a40",
}
GENERATIONS = {
    "a100_sxm": "ampere-data", "h100_sxm": "hopper", "h200_sxm": "hopper", "b200_sxm": "blackwell-data",
    "gb200": "blackwell-data", "b300_sxm": "blackwell-ultra", "gb300": "blackwell-ultra", "l40s": "ada",
    "rtx_pro_6000_server": "blackwell", "b60": "xe2", "RTX4090": "ada-geforce", "RTXPRO6000": "blackwell",
    "a40": "ampere",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """Datasheet figures of one system: bytes/s and FLOP/s (dense, fp32 accumulate); None where there is no path."""

    bandwidth: float
    bf16: float | None
    fp8: float | None
    fp4: float | None
    int8: float | None
    link: float | None  # bytes/s one way
    pcie: float | None

    def rate(self, compute: str) -> float | None:
        return {"bf16": self.bf16, "fp8": self.fp8, "fp4": self.fp4, "int8": self.int8}[compute]


def cards(facts: Path) -> dict[str, Card]:
    """System name -> its figures, from catalog/gpus.json."""
    rows = {row["id"]: row for row in json.loads((facts / "catalog/gpus.json").read_text(encoding="utf-8"))}

    def scaled(value: float | None, factor: float) -> float | None:
        return None if value is None else value * factor

    return {system: Card(bandwidth=rows[name]["memory_bandwidth_gb_s"] * 1e9,
                         bf16=scaled(rows[name]["bf16_dense_tflops"], 1e12),
                         fp8=scaled(rows[name]["fp8_dense_tflops"], 1e12),
                         fp4=scaled(rows[name]["fp4_dense_tflops"], 1e12),
                         int8=scaled(rows[name]["int8_dense_tops"], 1e12),
                         link=scaled(rows[name]["interconnect_gb_s_bidir"], 0.5e9),
                         pcie=scaled(rows[name]["pcie_gb_s_bidir"], 0.5e9)) for system, name in SYSTEMS.items()}


def rows(path: Path) -> list[dict[str, str]]:
    """All rows of a gzipped CSV."""
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def column(found: list[dict[str, str]], name: str) -> object:
    """One column as a numpy array of floats."""
    import numpy

    return numpy.array([float(row[name]) for row in found])


def grouped(found: list[dict[str, str]], *names: str) -> dict[tuple[str, ...], list[dict[str, str]]]:
    """Rows by the values of `names`, keys sorted."""
    groups: dict[tuple[str, ...], list[dict[str, str]]] = {}
    for row in found:
        groups.setdefault(tuple(row[name] for name in names), []).append(row)
    return dict(sorted(groups.items()))
