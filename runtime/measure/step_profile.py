"""Whole steps of vLLM on two cards, added up from LLMServingSim's per-operation profiles of Llama-3.1-8B.

The kernels of the RTX 4090 are also what GeForce Ada was fitted on; those of the RTX PRO 6000 are a test: that card's
fits come from other people's tables.
"""

import csv
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pycore import catalog
from pycore.nouns import Parallel
from pycore.roofline.prepare import prepare
from pycore.roofline.step import step_seconds
from runtime.measure.kernels import SYSTEMS, rows
from runtime.measure.tables import ROOT

COLUMNS = ("accelerator", "decoding", "context", "chunk", "seconds", "half", "source")
LAYERS = 32
IN_LAYER = ("layernorm", "layernorm", "qkv_proj", "rotary_emb", "o_proj", "gate_up_proj", "act_fn", "down_proj")
SOURCE = "casys-kaist/LLMServingSim @5daddb21 (MIT), vLLM 0.19.0, Llama-3.1-8B BF16"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfiledStep:
    """One step: `decoding` sequences of `context` cached tokens, or one prompt chunk of `chunk` tokens."""

    accelerator: str
    decoding: int
    context: int
    chunk: int
    seconds: float
    half: str
    source: str


def steps_of(facts: Path) -> Iterator[ProfiledStep]:
    """Steps whose every operation was profiled."""
    for system, half in (("RTX4090", "fit"), ("RTXPRO6000", "test")):
        where = facts / f"kernels/llmservingsim_{system}_Llama-3.1-8B_"
        dense = {(row["layer"], int(row["tokens"])): float(row["time_us"])
                 for row in rows(Path(f"{where}dense.csv.gz"))}
        last = {(row["layer"], int(row["sequences"])): float(row["time_us"])
                for row in rows(Path(f"{where}per_sequence.csv.gz"))}
        attention = {tuple(int(row[name]) for name in ("prefill_chunk", "kv_prefill", "n_decode", "kv_decode")):
                     float(row["time_us"]) for row in rows(Path(f"{where}attention.csv.gz"))}
        plans = [(count, context, 0) for count in (1, 8, 32, 64, 128, 256) for context in (256, 1024, 4096)]
        for decoding, context, chunk in plans + [(0, 0, chunk) for chunk in (512, 1024, 2048)]:
            key, tokens, ended = (chunk, 0, decoding, context), decoding + chunk, max(1, decoding)
            if key not in attention or ("act_fn", tokens) not in dense:
                continue
            layer = math.fsum(dense[name, tokens] for name in IN_LAYER) + attention[key]
            micro = LAYERS * layer + dense["embedding", tokens] + dense["final_layernorm", tokens]
            micro += last["lm_head", ended] + last["sampler", ended]
            yield ProfiledStep(accelerator=SYSTEMS[system], decoding=decoding, context=context, chunk=chunk,
                               seconds=float(f"{micro * 1e-6:.6g}"), half=half, source=SOURCE)


def committed() -> list[ProfiledStep]:
    """The steps of data/validation/step_profile.csv."""
    with open(ROOT / "data/validation/step_profile.csv", encoding="utf-8", newline="") as file:
        return [ProfiledStep(accelerator=row["accelerator"], decoding=int(row["decoding"]), context=int(row["context"]),
                             chunk=int(row["chunk"]), seconds=float(row["seconds"]), half=row["half"],
                             source=row["source"]) for row in csv.DictReader(file)]


def predicted(step: ProfiledStep, *, ideal: bool = False) -> float:
    """What the model says of a step, in seconds."""
    cache = catalog.kv_format("fp16")
    ready = prepare(catalog.model("llama-3.1-8b"), catalog.weight_format("bf16"), cache, cache, Parallel(),
                    catalog.accelerator(step.accelerator), "vllm", ideal)
    chunks = ((step.chunk, 0, 1),) if step.chunk else ()
    return step_seconds(ready, step.decoding, step.decoding * step.context, chunks, len(chunks))
