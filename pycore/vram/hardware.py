"""What an engine says about a card before it loads anything: arithmetic the card lacks, platforms it does not list.

Cautions, not faults: the bytes are the same, and forks load what the main project does not.
"""

from collections.abc import Iterator

from pycore.nouns import Accelerator, Deployment, Format
from pycore.vram.engines import Engine

NVIDIA_OLDEST = 7.0  # vllm#1284: "GPUs with compute capability below 7.0 are not supported"
BFLOAT16 = 8.0  # vllm#1157, vllm#946: "Bfloat16 is only supported on GPUs with compute capability of at least 8.0"
OLDEST = (  # (start of the format's id, compute capability it needs at least); docs.vllm.ai features/quantization
    ("fp8-", 7.5), ("awq-", 7.5), ("int8-channel", 7.5))
"""FP8: 8.9 to compute in it, 7.5 to unpack it (v0.32.0, llm_compressor/fp8). AWQ, W8A8: not on Volta (v0.15.1)."""
SGLANG_VENDORS = ("NVIDIA", "AMD", "Intel", "Google")  # docs.sglang.io hardware-platforms/overview: no Apple


def capability(accelerator: Accelerator) -> float:
    """NVIDIA's compute capability as a number; infinite where the device has none."""
    return float(accelerator.compute_capability) if accelerator.compute_capability else float("inf")


def refuses(profile: Engine, weights: Format, accelerator: Accelerator) -> str:
    """Why vLLM or SGLang does not load that format on that card, '' where nothing speaks against it."""
    if profile.split != "tensor":
        return ""
    has = capability(accelerator)
    if has < NVIDIA_OLDEST:
        return f"{profile.name} needs compute capability {NVIDIA_OLDEST}; {accelerator.name} has {has}"
    if weights.id == "bf16" and has < BFLOAT16:
        return (f"{profile.name} does not start in BF16 on {accelerator.name} (compute capability {has}, BF16 needs "
                f"{BFLOAT16}): ask for fp16, which takes as many bytes")
    for start, needed in OLDEST:
        if weights.id.startswith(start) and has < needed:
            return (f"{profile.name} does not load {weights.name} on {accelerator.name} (compute capability {has}, "
                    f"needed {needed})")
    return ""


def cautions(deployment: Deployment, profile: Engine) -> Iterator[str]:
    """What to know about this engine on this card."""
    card = deployment.accelerator
    if reason := refuses(profile, deployment.weights, card):
        yield reason + "."
    if profile.split != "tensor" or card.vendor == "NVIDIA":
        return
    if profile.id == "sglang" and card.vendor not in SGLANG_VENDORS:
        yield f"SGLang's documentation lists no platform for {card.vendor} devices."
    yield (f"Activations, graphs and context were read off logs of NVIDIA cards; no log of {profile.name} on "
           f"{card.vendor} devices was found to check them.")
