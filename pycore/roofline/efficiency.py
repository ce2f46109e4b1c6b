"""Which share of the datasheet's rates a kernel reaches: the fits of data/catalog/efficiency.csv, and which one
applies.

`python -m runtime.measure.efficiency` makes the table and says what each column means. A card whose generation was
never measured borrows the nearest generation's fit; the answer then says "uncalibrated" and carries a wider range.
"""

import dataclasses
import functools
from dataclasses import dataclass

from pycore import facts
from pycore.errors import NotKnown
from pycore.nouns import Accelerator, Format

CAPABILITIES = {"7.0": "volta", "7.5": "turing", "8.0": "ampere-data", "8.6": "ampere", "8.9": "ada", "9.0": "hopper",
                "10.0": "blackwell-data", "10.3": "blackwell-ultra", "12.0": "blackwell", "12.1": "blackwell",
                "6.1": "pascal"}
NEAREST = {  # generations without a table of their own -> the one whose memory and matrix units are most alike
    "ada-geforce": "ada", "ampere-geforce": "ada-geforce", "volta": "ampere-data", "turing": "ampere",
    "pascal": "ampere", "ampere": "ampere-data",
    "CDNA2": "ampere-data", "CDNA3": "hopper", "CDNA4": "hopper", "RDNA3": "ada", "RDNA3.5": "ada", "RDNA4": "ada",
    "Xe-HPG": "xe2", "Gaudi2": "ampere-data", "Gaudi3": "hopper", "TPU v4": "ampere-data", "TPU v5e": "hopper",
    "TPU v5p": "hopper", "TPU v6e": "hopper",
}
OTHERS = ("vllm", "sglang", "trtllm")  # whose fits stand in where an engine has none of its own
WEIGHT_ONLY = ("w4a16", "w8a16")  # but not for these products: each engine's unpacking kernels are its own
STREAMED = ("product", "experts", "decode", "prefill", "elementwise")
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
    cards: tuple[str, ...]
    source: str
    calibrated: bool = True


@functools.cache
def fits() -> dict[tuple[str, str, str, str], Fit]:
    """Every fit by (operation, generation, compute, engine)."""
    found = {}
    for row in facts.table("efficiency"):
        key = (row["operation"], row["generation"], row["compute"], row["engine"])
        numbers = {name: facts.number(row[name]) or 0.0 for name in
                   ("bandwidth_share", "compute_share", "blend", "extra", "median_error_pct", "p90_error_pct", "low",
                    "high")}
        numbers |= {"low": min(1.0, numbers["low"]), "high": max(1.0, numbers["high"])}  # the value is inside its range
        found[key] = Fit(operation=key[0], generation=key[1], compute=key[2], engine=key[3], rows=int(row["rows"]),
                         launch_s=float(row["launch_us"]) * 1e-6, cards=tuple(row["cards"].split()),
                         source=row["source"], **numbers)
    return found


def generation(accelerator: Accelerator) -> str:
    """The card's generation as the tables name it: NVIDIA's by compute capability, the others' by architecture. GeForce
    cards of Ampere and Ada stand apart: their matrix units run at half rate and reach more of it."""
    if accelerator.architecture == "Xe2-HPG":
        return "xe2"
    found = CAPABILITIES.get(accelerator.compute_capability or "")
    if found in ("ampere", "ada") and accelerator.segment == "consumer":
        return f"{found}-geforce"
    return found or accelerator.architecture


def measured_generations() -> tuple[str, ...]:
    """Generations whose serving kernels were measured."""
    return tuple(sorted({name for operation, name, _, _ in fits() if operation == "decode"}))


def lineage(accelerator: Accelerator) -> tuple[str, ...]:
    """The card's own generation, then the one to borrow from, then the next: where to look for a fit."""
    chain = [generation(accelerator)]
    while chain[-1] in NEAREST:
        chain.append(NEAREST[chain[-1]])
    return tuple(chain + [name for name in ("hopper", "blackwell", "ada-geforce") if name not in chain])


def substitutes(compute: str) -> tuple[str, ...]:
    """Kinds of arithmetic whose shares stand in when the asked one has no table, most alike first."""
    alike = {"fp8-block": ("fp8",), "int8": ("fp8",), "fp8-fp4": ("fp4", "w4a16"), "w4a16": (), "w8a16": (), "fp4": ()}
    return (compute, *alike.get(compute, ()), *(("bf16",) if not compute.startswith("kv") else ("kv16",)))


@functools.lru_cache(maxsize=4096)
def choose(operation: str, accelerator: Accelerator, compute: str, engine: str) -> Fit:
    """The fit to use, `calibrated` where it is of the card's own generation. Raises NotKnown where nothing is alike."""
    if operation in STREAMED and streamed(accelerator, engine):
        return stream(operation, accelerator, compute)
    wanted = ENGINES.get(engine, engine)
    chain = lineage(accelerator)
    for name in chain:
        for kind in substitutes(compute):
            alone = kind in WEIGHT_ONLY and operation == "product"
            for maker in dict.fromkeys((wanted, "any", *(() if alone else OTHERS))):
                fit = fits().get((operation, name, kind, maker))
                if fit and usable(fit):
                    return fit if name == chain[0] else borrowed(fit)
    raise NotKnown(f"no measured {operation} kernels stand near {accelerator.name}", "gpu")


def streamed(accelerator: Accelerator, engine: str) -> bool:
    """Whether reports of whole llama.cpp runs decide: for that engine, and for devices that no serving engine's kernels
    were measured on and that share their memory with the host."""
    return engine == "llama.cpp" or accelerator.vendor == "Apple" or "unified" in accelerator.link_kind


def stream_class(accelerator: Accelerator) -> str:
    """Cards whose llama.cpp speeds are fitted together. Apple's Max and Ultra chips reach a smaller share of their
    bandwidth than its small ones, M1's and M2's less than M3's and M4's."""
    if accelerator.vendor != "Apple":
        return "nvidia" if accelerator.vendor == "NVIDIA" else "amd"
    if "max" in accelerator.id or "ultra" in accelerator.id:
        return "apple-large-early" if accelerator.architecture in ("M1", "M2") else "apple-large-late"
    return "apple-small"


def stream_rate(accelerator: Accelerator, quantised: bool) -> float | None:
    """FLOP/s that llama.cpp's prompt kernels are a share of. On NVIDIA's matrix units: int8 for quantised files, half
    of it for 16-bit ones (fp16 accumulation, which GeForce cards do not slow down); elsewhere the 16-bit rate or
    fp32's."""
    if accelerator.vendor == "NVIDIA" and accelerator.int8_ops and accelerator.bf16_flops:
        return max(accelerator.int8_ops, accelerator.bf16_flops) / (1 if quantised else 2)
    return accelerator.bf16_flops or accelerator.fp16_flops or accelerator.fp32_flops


def stream(operation: str, accelerator: Accelerator, compute: str) -> Fit:
    """The llama.cpp shares of a card's class; `calibrated` where its own generation was among the reports."""
    if accelerator.vendor == "Google" or "Gaudi" in accelerator.architecture:
        raise NotKnown(f"llama.cpp does not run on {accelerator.name}", "engine")
    kinds = ("bf16", "quantised") if compute in ("bf16", "kv16", "kv8") else ("quantised", "bf16")
    for kind in kinds:
        fit = fits().get(("stream", stream_class(accelerator), kind, "llama.cpp"))
        if fit:
            among = generation(accelerator) in {generation(card) for card in facts.accelerators()
                                                if card.id in fit.cards}
            extra = {"product": fit.extra, "experts": fit.extra}.get(operation, 0.0)
            share = 1.0 if operation == "elementwise" else fit.bandwidth_share
            return dataclasses.replace(fit, operation=operation, calibrated=among, extra=extra, bandwidth_share=share)
    raise NotKnown(f"no speed of llama.cpp was reported near {accelerator.name}", "gpu")


def host_floor(engine: str, compute: str) -> float:
    """Seconds a layer that the host takes at least, where it is known to be what bounds a step (transformers); else
    0."""
    for kind in (compute, "bf16"):
        fit = fits().get(("host", "any", kind, engine))
        if fit:
            return fit.launch_s
    return 0.0


def usable(fit: Fit) -> bool:
    """Whether a fit describes its own rows: a table that half of its rows miss by 30 % or more is no guide."""
    return fit.median_error_pct < 30


def borrowed(fit: Fit) -> Fit:
    """The same shares, marked as another generation's."""
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


def rate(accelerator: Accelerator, compute: str, engine: str = "") -> float:
    """Dense FLOP/s of that arithmetic from the datasheet; cards without matrix units multiply at their fp32 rate.
    Raises NotKnown where no rate was published."""
    own = {"fp8": accelerator.fp8_flops, "fp8-block": accelerator.fp8_flops, "int8": accelerator.int8_ops,
           "fp4": accelerator.fp4_flops, "fp8-fp4": accelerator.fp8_flops}
    found = own.get(compute) or accelerator.bf16_flops or accelerator.fp16_flops or accelerator.fp32_flops
    if streamed(accelerator, engine):
        found = stream_rate(accelerator, compute != "bf16")
    if not found:
        raise NotKnown(f"{accelerator.name} has no published dense rate for {compute} arithmetic", "gpu")
    return found
