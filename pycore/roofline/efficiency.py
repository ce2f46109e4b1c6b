"""Which share of the datasheet's rates a kernel reaches: the fits of data/catalog/efficiency.csv, and which one applies.

`python -m runtime.measure.efficiency` makes the table and says what each column means. A card whose generation was never
measured borrows the nearest generation's fit; the answer then says "uncalibrated" and carries a wider range.
"""

import functools
from dataclasses import dataclass

from pycore import facts
from pycore.errors import NotKnown
from pycore.nouns import Accelerator, Format

CAPABILITIES = {"7.0": "volta", "7.5": "turing", "8.0": "ampere-data", "8.6": "ampere", "8.9": "ada", "9.0": "hopper",
                "10.0": "blackwell-data", "10.3": "blackwell-ultra", "12.0": "blackwell", "12.1": "blackwell",
                "6.1": "pascal"}
NEAREST = {  # generations without a table of their own -> the one whose memory and matrix units are most alike
    "volta": "ampere-data", "turing": "ampere", "pascal": "ampere", "ampere": "ampere-data",
    "CDNA2": "ampere-data", "CDNA3": "hopper", "CDNA4": "hopper", "RDNA3": "ada", "RDNA3.5": "ada", "RDNA4": "ada",
    "Xe-HPG": "xe2", "Gaudi2": "ampere-data", "Gaudi3": "hopper", "TPU v4": "ampere-data", "TPU v5e": "hopper",
    "TPU v5p": "hopper", "TPU v6e": "hopper",
}
ENGINES = {"vllm": "vllm", "vllm-0.20": "vllm", "sglang": "sglang", "trtllm": "trtllm", "transformers": "vllm",
           "llama.cpp": "vllm"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """One line of efficiency.csv in SI units. `low`, `high`: 10 % and 90 % quantile of measured / predicted."""

    operation: str
    generation: str
    compute: str
    engine: str
    launch_s: float
    bandwidth_share: float
    compute_share: float
    blend: float
    extra: float
    rows: int
    median_error_pct: float
    p90_error_pct: float
    low: float
    high: float
    source: str
    calibrated: bool = True


@functools.cache
def fits() -> dict[tuple[str, str, str, str], Fit]:
    """Every fit by (operation, generation, compute, engine)."""
    found = {}
    for row in facts.table("efficiency"):
        key = (row["operation"], row["generation"], row["compute"], row["engine"])
        numbers = {name: facts.number(row[name]) or 0.0 for name in
                   ("bandwidth_share", "compute_share", "blend", "extra", "median_error_pct", "p90_error_pct", "low", "high")}
        found[key] = Fit(operation=key[0], generation=key[1], compute=key[2], engine=key[3], rows=int(row["rows"]),
                         launch_s=float(row["launch_us"]) * 1e-6, source=row["source"], **numbers)
    return found


def generation(accelerator: Accelerator) -> str:
    """The card's generation as the tables name it: NVIDIA's by compute capability, the others' by architecture."""
    if accelerator.architecture == "Xe2-HPG":
        return "xe2"
    return CAPABILITIES.get(accelerator.compute_capability or "", accelerator.architecture)


def lineage(accelerator: Accelerator) -> tuple[str, ...]:
    """The card's own generation, then the one to borrow from, then the next: where to look for a fit."""
    chain = [generation(accelerator)]
    while chain[-1] in NEAREST:
        chain.append(NEAREST[chain[-1]])
    return tuple(chain + [name for name in ("hopper", "blackwell", "ada") if name not in chain])


def substitutes(compute: str) -> tuple[str, ...]:
    """Kinds of arithmetic whose shares stand in when the asked one has no table, most alike first."""
    alike = {"fp8-block": ("fp8",), "int8": ("fp8",), "fp8-fp4": ("fp4", "w4a16"), "w4a16": (), "w8a16": (), "fp4": ()}
    return (compute, *alike.get(compute, ()), *(("bf16",) if not compute.startswith("kv") else ("kv16",)))


@functools.lru_cache(maxsize=4096)
def choose(operation: str, accelerator: Accelerator, compute: str, engine: str) -> Fit:
    """The fit to use, `calibrated` where it is of the card's own generation. Raises NotKnown where nothing is alike."""
    wanted = ENGINES.get(engine, engine)
    chain = lineage(accelerator)
    for name in chain:
        for kind in substitutes(compute):
            for maker in dict.fromkeys((wanted, "any", "vllm", "sglang", "trtllm")):
                fit = fits().get((operation, name, kind, maker))
                if fit and usable(fit):
                    return fit if name == chain[0] else borrowed(fit)
    raise NotKnown(f"no measured {operation} kernels stand near {accelerator.name}", "gpu")


def usable(fit: Fit) -> bool:
    """Whether a fit describes its own rows: a table that half of its rows miss by 30 % or more is no guide."""
    return fit.median_error_pct < 30


def borrowed(fit: Fit) -> Fit:
    """The same shares, marked as another generation's."""
    import dataclasses

    return dataclasses.replace(fit, calibrated=False)


def arithmetic(weights: Format, accelerator: Accelerator, operation: str = "product") -> str:
    """How the matrix units run a weight format on this card: "bf16", "fp8", "fp8-block", "fp4", "fp8-fp4", "int8", or
    weight-only ("w8a16", "w4a16": dequantised to 16 bits on the way in) where the card has no such path."""
    weight_only = "bf16" if weights.bits_per_weight > 9 else "w8a16" if weights.bits_per_weight > 6.6 else "w4a16"
    if weights.compute == "fp8" and accelerator.fp8_flops:
        return "fp8-block" if weights.block_elements > 32 else "fp8"
    if weights.compute == "int8" and accelerator.int8_ops:
        return "int8"
    if weights.compute == "fp4" and accelerator.fp4_flops:
        if weights.id != "mxfp4":
            return "fp4"
        return "fp8-fp4" if operation == "experts" else "w4a16"  # engines run MXFP4 with 8-bit activations there
    return weight_only


def rate(accelerator: Accelerator, compute: str) -> float:
    """Dense FLOP/s of that arithmetic from the datasheet. Raises NotKnown where the card has no published rate."""
    own = {"fp8": accelerator.fp8_flops, "fp8-block": accelerator.fp8_flops, "int8": accelerator.int8_ops,
           "fp4": accelerator.fp4_flops, "fp8-fp4": accelerator.fp8_flops}
    found = own.get(compute) or accelerator.bf16_flops or accelerator.fp16_flops
    if not found:
        raise NotKnown(f"{accelerator.name} has no published dense rate for {compute} arithmetic", "gpu")
    return found
