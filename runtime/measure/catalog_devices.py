"""`accelerators.csv` from the facts' devices."""

from collections import Counter
from collections.abc import Iterable, Iterator

COLUMNS = (
    "id", "name", "vendor", "segment", "architecture", "compute_capability", "year", "memory_box_gib",
    "memory_usable_mib", "memory_usable_basis", "bandwidth_gb_s", "bf16_tflops", "fp16_tflops", "fp8_tflops",
    "int8_tops", "fp4_tflops", "fp32_tflops", "tdp_w", "link_kind", "link_gb_s_one_way", "pcie_gb_s_one_way",
    "offers", "source", "note",
)


def half(value: float | None) -> float | None:
    """One direction of a rate that is given for both."""
    return None if value is None else value / 2


def fp16_rate(fact: dict) -> float | None:
    """Dense fp16 rate. Apple publishes none for matrices; its fp16 FMA rate is the fp32 rate (metal-benchmarks)."""
    return fact["fp32_tflops"] if fact["vendor"] == "Apple" else fact["fp16_dense_tflops"]


def note(fact: dict) -> str:
    """Remark, basis of derived rates and disagreements between sources, in one text."""
    basis = fact["tensor_basis"]
    parts = (fact["note"], None if basis.startswith("vendor") else f"rates: {basis}",
             fact["disagreements"] and f"sources disagree: {fact['disagreements']}")
    return "; ".join(part for part in parts if part)


def rows(facts: Iterable[dict], prices: Iterable[dict]) -> Iterator[dict]:
    """Every device. `offers` counts the catalogued cloud prices: a bare family name means its most offered member."""
    offers = Counter(price["gpu_id"] for price in prices)
    for fact in facts:
        reported = fact["memory_reported_mib"]
        yield {
            "id": fact["id"], "name": fact["name"], "vendor": fact["vendor"], "segment": fact["segment"],
            "architecture": fact["architecture"], "compute_capability": fact["cuda_compute_capability"],
            "year": fact["year"], "memory_box_gib": fact["memory_gib"], "memory_usable_mib": reported,
            "memory_usable_basis": "reported: nvidia-smi" if reported else "datasheet: box figure, not measured",
            "bandwidth_gb_s": fact["memory_bandwidth_gb_s"], "bf16_tflops": fact["bf16_dense_tflops"],
            "fp16_tflops": fp16_rate(fact), "fp8_tflops": fact["fp8_dense_tflops"],
            "int8_tops": fact["int8_dense_tops"], "fp4_tflops": fact["fp4_dense_tflops"],
            "fp32_tflops": fact["fp32_tflops"], "tdp_w": fact["tdp_w"],
            "link_kind": fact["interconnect_kind"], "link_gb_s_one_way": half(fact["interconnect_gb_s_bidir"]),
            "pcie_gb_s_one_way": half(fact["pcie_gb_s_bidir"]), "offers": offers[fact["id"]] or None,
            "source": fact["source"], "note": note(fact),
        }
