"""What one card's kernels reach under one engine, in bytes/s, FLOP/s and seconds: fits times datasheet rates.

`kernels(accelerator, engine, weights, keys)` is looked up once per card and formats; a model's step is then a few
products.
"""

import functools
import math
from typing import NamedTuple

from pycore.errors import NotKnown
from pycore.nouns import Accelerator, Format
from pycore.roofline.efficiency import Fit, arithmetic, choose, host_floor, rate, streamed

ACTIVATION_BYTES = {"fp8": 1.0, "fp8-block": 1.0, "int8": 1.0, "fp4": 0.5625, "fp8-fp4": 1.0}  # else 16-bit
IDEAL = Fit(operation="ideal", generation="", compute="", engine="", launch_s=0.0, bandwidth_share=1.0,
            compute_share=1.0, blend=0.0,
            extra=0.0, rows=0, median_error_pct=0.0, p90_error_pct=0.0, low=1.0, high=1.0, cards=(),
            source="definition")


class Kernel(NamedTuple):
    """One kind of kernel on one card."""

    read: float  # bytes/s
    work: float  # FLOP/s; infinite where the card's rate is not known
    blend: float
    launch: float  # s
    extra: float  # s or passes, as the fit's operation means it
    activation: float  # bytes per number that a product reads
    unpack: float  # FLOP/s of llama.cpp's vector kernels that unpack weights; 0 where it is not told apart from reading


class Kernels(NamedTuple):
    """All that a step needs to know of a card."""

    plain: Kernel  # products in 16 bits
    linear: Kernel  # products in the weights' format
    experts: Kernel | None  # None where no expert kernels are like these
    decode: Kernel
    prefill: Kernel
    small: Kernel  # norms, rotary, activation
    sampling: tuple[float, float]  # s a step, s a sequence
    floor_layer: float  # s a layer that the host takes at least
    streamed: bool  # fitted on whole llama.cpp runs
    timed_prompts: bool
    calibrated: bool
    calibrated_experts: bool


def known_rate(accelerator: Accelerator, compute: str, engine: str) -> float:
    """Dense FLOP/s, infinite where no source gave one: arithmetic then never bounds, which suits decoding of few
    sequences."""
    try:
        return rate(accelerator, compute, engine)
    except NotKnown:
        return math.inf


def kernel(fit: Fit, accelerator: Accelerator, engine: str, compute: str) -> Kernel:
    """A fit on a card."""
    told = fit.engine == "llama.cpp" and fit.extra and accelerator.fp32_flops
    return Kernel(read=accelerator.bandwidth_bytes_per_s * fit.bandwidth_share,
                  work=known_rate(accelerator, compute, engine) * fit.compute_share, blend=fit.blend,
                  launch=fit.launch_s, extra=fit.extra, activation=ACTIVATION_BYTES.get(compute, 2.0),
                  unpack=accelerator.fp32_flops * fit.extra if told else 0.0)


@functools.lru_cache(maxsize=4096)
def kernels(accelerator: Accelerator, engine: str, weights: Format, keys: Format, ideal: bool = False) -> Kernels:
    """The kernels of a card for weights and cache of these formats. `ideal`: every share 1, no launches, no host.

    Raises NotKnown where nothing like them was measured.
    """
    used: dict[str, Fit] = {}

    def pick(operation: str, compute: str, name: str = "") -> Kernel:
        fit = IDEAL if ideal else choose(operation, accelerator, compute, engine)
        used[name or operation] = fit
        rated = compute if operation in ("product", "experts") else "bf16"
        return kernel(fit, accelerator, engine, rated)

    whole = ideal or streamed(accelerator, engine)
    cached = "kv8" if keys.bits_per_weight <= 9 else "kv16"
    compute = arithmetic(weights, accelerator)
    sampling = IDEAL if whole else choose("sampling", accelerator, "bf16", engine)
    found = Kernels(
        plain=pick("product", "bf16", "plain"), linear=pick("product", compute),
        experts=pick("experts", arithmetic(weights, accelerator, "experts")), decode=pick("decode", cached),
        prefill=pick("prefill", cached), small=IDEAL_SMALL if ideal else pick("elementwise", "bf16"),
        sampling=(sampling.launch_s, sampling.extra * 1e-9),
        floor_layer=0.0 if ideal else host_floor(engine, compute), streamed=not ideal and streamed(accelerator, engine),
        timed_prompts=known_rate(accelerator, "bf16", engine) < math.inf, calibrated=True, calibrated_experts=True)
    measured = all(fit.calibrated for name, fit in used.items() if name not in ("experts", "elementwise"))
    return found._replace(calibrated=measured, calibrated_experts=used["experts"].calibrated)


IDEAL_SMALL = Kernel(read=math.inf, work=math.inf, blend=0.0, launch=0.0, extra=0.0, activation=0.0, unpack=0.0)
"""The plain roofline counts no norms and no activations."""
