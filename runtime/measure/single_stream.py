"""Reported llama.cpp speeds of one stream, cut to cards and models the catalogue holds, and the shares fitted on half
of them.

A token takes kernels x launch + (weights + cache) / (share x bandwidth) + 2 x numbers / (unpack x fp32 rate): cards
with much bandwidth for their vector units spend as long unpacking weights as reading them, which is why one share of
the bandwidth fits no two of them. Fitted for 16-bit and for quantised files apart, per class of cards, on every second
row of a class and kind; the other rows are the test. A prompt takes FLOP / (share x rate), `efficiency.stream_rate`
being the rate.
"""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pycore import catalog
from pycore.nouns import Parallel
from pycore.roofline import account
from pycore.roofline.efficiency import stream_class, stream_rate
from pycore.roofline.work import Work, work
from runtime.measure.fitting import Residuals, fit, rounded
from runtime.measure.tables import ROOT

COLUMNS = ("accelerator", "model", "weights", "prompt", "output", "prompt_tokens_per_s", "tokens_per_s", "half", "date",
           "source")
STRIX_HALO = "amd-ryzen-ai-max-395-radeon-8060s-strix-halo"
CARDS = {  # device as reported -> catalogue id; same die and bus where the very product is not catalogued
    "3070 8GB": "nvidia-rtx-3070", "3080 10GB": "nvidia-rtx-3080-10gb", "3090 24GB": "nvidia-rtx-3090",
    "4080 16GB": "nvidia-rtx-4080", "4090 24GB": "nvidia-rtx-4090", "RTX A6000 48GB": "nvidia-rtx-a6000",
    "RTX 6000 Ada 48GB": "nvidia-rtx-6000-ada", "A40 48GB": "nvidia-a40", "L40S 48GB": "nvidia-l40s",
    "A100 PCIe 80GB": "nvidia-a100-pcie-80gb", "A100 SXM 80GB": "nvidia-a100-sxm4-80gb",
    "H100 PCIe 80GB": "nvidia-h100-pcie-80gb", "NVIDIA H100 80GB HBM3": "nvidia-h100-sxm5-80gb",
    "NVIDIA RTX PRO 6000 Blackwell 96GB": "nvidia-rtx-pro-6000-blackwell", "NVIDIA RTX 5080 16GB": "nvidia-rtx-5080",
    "NVIDIA RTX 3090 24GB": "nvidia-rtx-3090", "NVIDIA DGX Spark GB10 128GB": "nvidia-dgx-spark-gb10",
    "M1 7-Core GPU 8GB": "apple-m1", "MacBook Air Apple M1 16GB 7-core GPU": "apple-m1",
    "M1 Max 32-Core GPU 64GB": "apple-m1-max", "Apple M1 Ultra 64-core GPU": "apple-m1-ultra",
    "MacBook Pro Apple M2 Max 32GB 30-core GPU": "apple-m2-max", "M2 Ultra 76-Core GPU 192GB": "apple-m2-ultra",
    "Apple M2 Ultra 76-core GPU": "apple-m2-ultra", "M3 Max 40-Core GPU 64GB": "apple-m3-max-40-core-gpu",
    "Apple M3 Ultra 80-core GPU": "apple-m3-ultra", "Apple M4 Max 40-core GPU": "apple-m4-max-40-core-gpu",
    "AMD Ryzen AI Max+ 395 (Strix Halo, Radeon 8060S, 128GB LPDDR5X-8000)": STRIX_HALO,
    "AMD Strix Halo Radeon 8060S (gfx1151)": STRIX_HALO,
    "AMD Radeon AI PRO R9700 32GB": "amd-radeon-rx-9070-xt",
}
MODELS = {
    "Llama-3-8B": "meta-llama-3-8b", "Llama-3-70B": "meta-llama-3-70b", "Llama 2 7B": "llama-2-7b-hf",
    "llama-2-7b.Q4_0": "llama-2-7b-hf", "llama-2-7b.Q4_K_M": "llama-2-7b-hf", "DeepSeek R1 Distill 7B":
    "deepseek-r1-distill-qwen-7b", "DeepSeek R1 Distill 14B": "deepseek-r1-distill-qwen-14b", "DeepSeek R1 Distill 32B":
    "deepseek-r1-distill-qwen-32b", "Gemma 3 4B": "gemma-3-4b", "Gemma 3 12B": "gemma-3-12b",
    "Gemma 3 27B": "gemma-3-27b",
    "Llama 3.1 8B Instruct": "llama-3.1-8b", "Llama 3.2 1B Instruct": "llama-3.2-1b", "Llama 3.2 3B Instruct":
    "llama-3.2-3b", "Mistral 7B Instruct v0.3": "mistral-7b-v0.3", "Mistral Nemo 12B": "mistral-nemo-base-2407",
    "Mistral Small 3.1 24B": "mistral-small-24b-base-2501", "Phi 4 Mini 3.8B": "phi-4-mini", "Phi 4 14B": "phi-4",
    "Qwen 2.5 Coder 7B": "qwen2.5-7b", "Qwen 2.5 Coder 32B": "qwen2.5-32b", "QwQ 32B": "qwen2.5-32b", "Qwen 3 0.6B":
    "qwen3-0.6b", "Qwen 3 1.7B": "qwen3-1.7b", "Qwen 3 4B": "qwen3-4b", "Qwen 3 8B": "qwen3-8b",
    "Qwen 3 14B": "qwen3-14b",
    "Qwen 3 32B": "qwen3-32b", "Qwen 3 30B-A3B MoE": "qwen3-30b-a3b", "Qwen 3.5 27B": "qwen3.5-27b",
    "Qwen 3.5 35B-A3B MoE": "qwen3.5-35b-a3b", "gpt-oss-120b-mxfp4": "gpt-oss-120b", "gpt-oss-20b-mxfp4": "gpt-oss-20b",
    "Qwen3-Coder-30B-A3B-Instruct-Q4_K_M": "qwen3-30b-a3b",
}
FORMATS = {"Q4_K_M": "gguf-file-q4_k_m", "Q4_0": "gguf-file-q4_0", "F16": "gguf-file-f16", "MXFP4": "mxfp4",
           "Q4_K - Medium": "gguf-file-q4_k_m"}
SUSPECT = {("A100 SXM 80GB", "F16"), ("L40S 48GB", "F16")}  # prompt speeds the facts flag: kept for decoding only


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """One report: tokens per second of one stream, and of reading its prompt (0: not given)."""

    accelerator: str
    model: str
    weights: str
    prompt: int
    output: int
    prompt_tokens_per_s: float
    tokens_per_s: float
    half: str  # "fit" or "test"
    date: str
    source: str

    @property
    def kind(self) -> str:
        return "bf16" if self.weights == "gguf-file-f16" else "quantised"

    @property
    def context(self) -> int:
        """Mean tokens cached while decoding: the speed of decoding is measured after an empty prompt."""
        return max(1, self.output // 2)

    def load(self) -> Work:
        cache = catalog.kv_format("fp16")
        return work(catalog.model(self.model), catalog.weight_format(self.weights), cache, cache, Parallel())


def model_name(row: dict[str, str]) -> str | None:
    """The catalogue's name, or None. The R1 Distill 7B and 32B of Ollama-like lists are the Qwen ones by file size."""
    name = row["model"].removesuffix(" Q4_0")
    return MODELS.get(name)


def usable(row: dict[str, str]) -> bool:
    """One stream of llama.cpp on one device; not the second of two Vulkan drivers, not MLX rows filed beside it."""
    return (row["metric_kind"] == "single_stream_decode" and "llama.cpp" in row["engine"].lower()
            and row["n_devices"] in ("1", "1.0") and "vulkan_amdvlk" not in row["engine"]
            and "mlx/" not in row["source"])


def reports(facts: Path) -> list[Stream]:
    """Single-device llama.cpp reports in the file's order, every second one of a class and kind of file
    set aside as a test."""
    with open(facts / "speed_reports.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    found, seen = [], {}
    for row in rows:
        card, model, form = CARDS.get(row["device"]), model_name(row), FORMATS.get(row["quantisation"].split("  ")[-1])
        if not (usable(row) and card and model and form):
            continue
        where = stream_class(catalog.accelerator(card)), form == "gguf-file-f16"
        seen[where] = seen.get(where, 0) + 1
        slow = (row["device"], row["quantisation"]) in SUSPECT
        found.append(Stream(accelerator=card, model=model, weights=form, prompt=int(float(row["prompt_tokens"] or 512)),
                            output=int(float(row["output_tokens"] or 128)),
                            prompt_tokens_per_s=0.0 if slow else float(row["prefill_tok_s"] or 0),
                            tokens_per_s=float(row["decode_tok_s"]), half=("fit", "test")[seen[where] % 2 == 0],
                            date=row["date"],
                            source=row["source"].removeprefix("https://github.com/").split("/blob")[0]))
    return found


def committed() -> list[Stream]:
    """The reports of data/validation/single_stream.csv."""
    with open(ROOT / "data/validation/single_stream.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    kinds = {"prompt": int, "output": int, "prompt_tokens_per_s": float, "tokens_per_s": float}
    return [Stream(**{name: kinds.get(name, str)(row[name]) for name in COLUMNS}) for row in rows]


def kernels(load: Work) -> int:
    """Kernels of a step, as the model counts them: small ones, products, attention, three per layer of experts."""
    return (load.elementwise + sum(item.count for item in load.products) + 1
            + sum(group.layers for group in load.attention) + 3 * (load.experts.layers if load.experts else 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamFit:
    """Shares of one class of cards by kind of file; `unpack` 0 where it is not told apart from reading."""

    launch_us: float
    shares: dict[str, float]
    unpack: dict[str, float]
    prompts: dict[str, float]
    residuals: Residuals
    cards: tuple[str, ...]


def decode_fit(found: list[Stream], unpacked: bool) -> StreamFit:
    """Fit one class's fitting half."""
    import numpy

    loads = [stream.load() for stream in found]
    cards = [catalog.accelerator(stream.accelerator) for stream in found]
    read = numpy.array([(account.weight_bytes(load, 1) + account.cache_bytes(load, 1, stream.context))
                        / card.bandwidth_bytes_per_s for load, stream, card in zip(loads, found, cards, strict=True)])
    work_s = numpy.array([(load.token_flop + load.head_flop) / card.fp32_flops if unpacked else 0.0
                          for load, card in zip(loads, cards, strict=True)])
    count = numpy.array([float(kernels(load)) for load in loads])
    kinds = sorted({stream.kind for stream in found})
    which = numpy.array([kinds.index(stream.kind) for stream in found])
    size = len(kinds)

    def times(p: list[float]) -> object:
        share, unpack = numpy.array(p[1:1 + size])[which], numpy.array(p[1 + size:])[which]
        return count * p[0] * 1e-6 + read / share + work_s / unpack

    starts = [(launch, *[0.8] * size, *[unpack] * size) for launch in (2, 6) for unpack in (0.1, 0.5)]
    p, rest = fit(times, numpy.array([1 / stream.tokens_per_s for stream in found]), starts,
                  [(0.2, 40)] + [(0.2, 1.0)] * size + [(0.02, 50)] * size)
    unpack = dict(zip(kinds, p[1 + size:], strict=True)) if unpacked else {}
    return StreamFit(launch_us=p[0], shares=dict(zip(kinds, p[1:1 + size], strict=True)), unpack=unpack,
                     prompts=prompt_shares(found), residuals=rest, cards=tuple(sorted({card.id for card in cards})))


def prompt_shares(found: list[Stream]) -> dict[str, float]:
    """Median share of the rate while prompts are read, by kind of file."""
    shares: dict[str, list[float]] = {}
    for stream in found:
        peak = stream_rate(catalog.accelerator(stream.accelerator), stream.kind == "quantised")
        if peak and stream.prompt_tokens_per_s:
            seconds = stream.prompt / stream.prompt_tokens_per_s
            shares.setdefault(stream.kind, []).append(account.prompt_flop(stream.load(),
                                                                          stream.prompt) / peak / seconds)
    return {kind: rounded(sorted(values)[len(values) // 2]) for kind, values in sorted(shares.items())}


def fits(facts: Path) -> Iterator[tuple[str, StreamFit]]:
    """(class, fit) of every class of cards with reports. NVIDIA's cards differ enough to tell unpacking from
    reading."""
    groups: dict[str, list[Stream]] = {}
    for stream in reports(facts):
        card = catalog.accelerator(stream.accelerator)
        name = stream_class(card)
        if stream.half == "fit" and (name != "nvidia" or card.fp32_flops):
            groups.setdefault(name, []).append(stream)
    for name, part in sorted(groups.items()):
        yield name, decode_fit(part, name == "nvidia")


HOSTS = {"BF16": "bf16", "FP8": "fp8", "AWQ-INT4": "w4a16", "GPTQ-Int8": "w8a16"}


def host_reports(facts: Path) -> dict[str, list[float]]:
    """Seconds a layer and token of transformers' generate on an H20, by arithmetic: its dense Qwen3 models differ
    30-fold in size and hardly in this, so the host is what takes the time (QwenLM/Qwen3 speed page @7a2f61ff)."""
    with open(facts / "speed_reports.csv", encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["engine"] == "transformers"
                and row["metric_kind"] == "single_stream_decode" and row["model"].startswith("Qwen3-")]
    found: dict[str, list[float]] = {}
    for row in rows:
        seconds = 1 / float(row["decode_tok_s"]) / catalog.model(row["model"]).layers
        found.setdefault(HOSTS[row["quantisation"]], []).append(seconds)
    return found
