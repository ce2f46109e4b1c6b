"""Measured runs of whole engines, cut to what a prediction needs, and the prediction of each by `pycore.roofline`."""

import csv
import dataclasses
import gzip
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pycore import catalog
from pycore.nouns import Accelerator, Parallel
from pycore.roofline.load import STYLES, Pace, Requests, pace, wave
from pycore.roofline.prepare import prepare
from runtime.measure.kernels import SYSTEMS
from runtime.measure.tables import ROOT

COLUMNS = ("engine", "version", "model", "accelerator", "weights", "cache", "prompt", "output", "sequences", "tensor",
           "expert", "arrival", "ttft_ms", "tpot_ms", "date", "source")
MODELS = {
    "MiniMaxAI/MiniMax-M2.5": "minimax-m2.5", "Qwen/Qwen3-235B-A22B-FP8": "qwen3-235b-a22b",
    "Qwen/Qwen3-32B": "qwen3-32b",
    "Qwen/Qwen3.5-397B-A17B": "qwen3.5-397b-a17b", "deepseek-ai/DeepSeek-R1": "deepseek-r1",
    "deepseek-ai/DeepSeek-V3": "deepseek-v3", "meta-llama/Llama-3.1-70B": "llama-3.1-70b",
    "meta-llama/Llama-3.1-8B-Instruct": "llama-3.1-8b", "moonshotai/Kimi-K2.5": "kimi-k2.5",
    "nvidia/DeepSeek-R1-NVFP4": "deepseek-r1", "nvidia/DeepSeek-V3.1-NVFP4": "deepseek-v3",
    "nvidia/Llama-3.1-8B-Instruct-FP8": "llama-3.1-8b", "nvidia/Qwen3-32B-NVFP4": "qwen3-32b",
    "openai/gpt-oss-120b": "gpt-oss-120b", "zhipuai/GLM-5": "glm-5",
}
BLOCKED = {"minimax-m2.5", "qwen3-235b-a22b", "qwen3.5-397b-a17b", "deepseek-r1", "deepseek-v3", "glm-5"}
"""Models whose FP8 checkpoints hold 128 x 128 blocks; the others' hold one scale a tensor."""
BUDGETS = {("sglang", "B"): 16384}  # SGLang's chunk on cards above 160 GiB; 8,192 elsewhere and for the others


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One measured serving run in aggregated mode; sequences are those of one replica."""

    engine: str
    version: str
    model: str
    accelerator: str
    weights: str
    cache: str
    prompt: int
    output: int
    sequences: int
    tensor: int
    expert: bool
    arrival: str  # "waves": equal requests that all start together; "spread": lengths vary, so they drift apart
    ttft_ms: float
    tpot_ms: float
    date: str
    source: str

    def cells(self) -> dict[str, object]:
        return dataclasses.asdict(self) | {"expert": int(self.expert)}


def weight_format(model: str, precision: str) -> str:
    """The catalogue's format of a row's precision: gpt-oss is MXFP4 however it is labelled; no label
    means the checkpoint of that name, which is BF16 in all these rows."""
    if model == "gpt-oss-120b":
        return "mxfp4"
    fp8 = "fp8-block-128x128" if model in BLOCKED else "fp8-tensor"
    return {"fp4": "nvfp4", "int4": "w4a16-g128-sym", "bf16": "bf16", "fp8": fp8, "": "bf16"}[precision]


def cache_format(backend: str, path: str, precision: str) -> str:
    """TensorRT-LLM and NVIDIA's own checkpoints store an 8-bit cache; the rows do not say, so this is assumed."""
    return "fp8" if precision in ("fp8", "fp4") and (backend == "trtllm" or path.startswith("nvidia/")) else "fp16"


def whole(text: str, missing: int = 1) -> int:
    return int(float(text)) if text else missing


def runs_of(facts: Path) -> Iterator[Run]:
    """Aggregated runs of one replica that a deployment can say: no attention data parallelism (its rows count devices
    in ways that cannot be told apart), no pipeline, at most 8 devices. NVIDIA's own sweeps ("aic-auto-gap-analysis")
    send equal requests all at once: their TTFT is that of a burst at every concurrency. InferenceX draws lengths from
    80 to 100 %."""
    with gzip.open(facts / "silicon_sample.csv.gz", "rt", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        if row["mode"] != "agg" or whole(row["attention_dp_size"]) != 1 or whole(row["tp_size"]) > 8 or \
                whole(row["pp_size"]) != 1:
            continue
        model = MODELS[row["model_path"]]
        said = dict(part.strip().split("=", 1) for part in row["silicon_data_source"].split(";") if "=" in part)
        where = "InferenceX dump" if "source_file" not in said else said["source_file"].rsplit("/", 1)[-1]
        fixed = "aic-auto-gap-analysis" in row["silicon_data_source"]
        yield Run(engine=row["backend"], version=row["backend_version"], model=model,
                  accelerator=SYSTEMS[row["system"]],
                  weights=weight_format(model, row["precision"]),
                  cache=cache_format(row["backend"], row["model_path"], row["precision"]), prompt=whole(row["isl"]),
                  output=whole(row["osl"]), sequences=max(1, whole(row["batch_size"])), tensor=whole(row["tp_size"]),
                  expert=whole(row["moe_ep_size"]) > 1, arrival="waves" if fixed else "spread",
                  ttft_ms=round(float(row["silicon_ttft_ms"]), 3),
                  tpot_ms=round(float(row["silicon_tpot_ms"]), 4), date=said.get("measured", "")[:10], source=where)


def committed() -> list[Run]:
    """The runs of data/validation/silicon.csv."""
    with open(ROOT / "data/validation/silicon.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    kinds = {"prompt": int, "output": int, "sequences": int, "tensor": int, "ttft_ms": float, "tpot_ms": float,
             "expert": lambda text: text == "1"}
    return [Run(**{name: kinds.get(name, str)(row[name]) for name in COLUMNS}) for row in rows]


def predicted(run: Run, *, ideal: bool = False, capability: str = "") -> Pace:
    """What the model says of a run; `capability` borrows the fits of another NVIDIA generation."""
    card: Accelerator = catalog.accelerator(run.accelerator)
    if capability:
        card = dataclasses.replace(card, compute_capability=capability)
    cache = catalog.kv_format(run.cache)
    step = prepare(catalog.model(run.model), catalog.weight_format(run.weights), cache, cache,
                   Parallel(tensor=run.tensor, expert=run.expert), card, run.engine, ideal)
    budget = BUDGETS.get((run.engine, run.accelerator.removeprefix("nvidia-").upper()[0]), 8192)
    in_step = run.arrival == "waves" and STYLES[run.engine] == "apart"
    return (wave if in_step else pace)(step, Requests(sequences=run.sequences, prompt=run.prompt, output=run.output,
                                                      budget=budget,
                               style=STYLES[run.engine]))
