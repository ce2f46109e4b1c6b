"""Engines as data: what each does with memory. One table, each value with its source.

Profiles, not versions: "vllm" is what 0.21 and later do, "vllm-0.20" what 0.17 to 0.20 do. `SORTING` is vLLM until
0.16, which sorted the whole vocabulary to sample; it is not offered, but the logs of its time are read with it.
A logit costs 14 bytes when sampling: 2 as computed, 4 in fp32, 4 for its probability, 4 for noise; 38 when sorted
(vllm#32558 measured 12 against 40 for the sampler alone; the switch came with 0.17, vllm#33538).
"""

from dataclasses import dataclass, replace

from pycore.errors import InputError
from pycore.nouns import Parallel
from pycore.units import GIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """One engine's memory rules.

    memory_rule: "total" (a fraction of what CUDA sees, whatever is free), "static" (weights and KV pool take a fraction
    of what is free before loading), "whole" (no fraction: everything free).
    split: "tensor" (every matrix over the devices of a stage) or "layer" (whole layers on each device).
    hybrid: "by window" (a window's layers are charged their window), "as full" (logged as if every layer kept all
    tokens), "pools" (a second pool in fixed proportion), "cells" (rings of cells), "exact".
    """

    id: str
    name: str
    memory_rule: str
    memory_fraction: float  # default; 0: computed (SGLang) or none (llama.cpp, transformers)
    graphs: bool  # captures CUDA graphs
    graphs_inside: bool  # and counts them inside the fraction
    page_tokens: int
    hybrid: str
    split: str
    embedding_on_host: bool  # the token embedding stays in main memory
    head_copy: bool  # a tied head is stored a second time
    padded_vocabulary: int  # rows of embedding and head are padded to a multiple of this
    convolution_bytes: int  # per element of a linear layer's convolution tail
    logit_bytes: int  # per sequence and vocabulary entry when sampling
    keys: tuple[str, ...]  # KV formats it can store keys in
    values_apart: bool  # values may have a format of their own
    weight_families: tuple[str, ...]
    loads_vision: bool
    sources: tuple[tuple[str, str], ...]


SAFETENSORS = ("16/32-bit", "GPTQ/AWQ", "bitsandbytes", "FP8", "OCP MX", "NVFP4", "INT8", "2:4 sparsity", "HQQ",
               "BitNet b1.58")
NO_ENGINE = frozenset(("mlx-4bit-g64", "mlx-8bit-g64", "bitnet-tl2", "bitnet-theory", "ik-iq1-bn", "ik-iq2-bn"))
"""Formats that none of these engines reads (mlx-lm, bitnet.cpp, ik_llama.cpp do, or nobody): sized as PyTorch would."""
GGUF = ("GGUF tensor type", "GGUF file mix", "16/32-bit")
VLLM_SOURCES = (
    ("memory_rule", "vllm v1/worker/gpu_worker.py: requested_memory = total memory x gpu_memory_utilization"),
    ("page_tokens", "vllm config/cache.py DEFAULT_BLOCK_SIZE = 16"),
    ("padded_vocabulary", "vllm vocab_parallel_embedding.py DEFAULT_VOCAB_PADDING_SIZE = 64"),
    ("keys", "vllm config/cache.py CacheDType: auto, bfloat16, fp8*, int8_per_token_head"),
    ("head_copy", "unsloth#9929 and vram_reports v064: Qwen2.5-1.5B loads in 2.8875 GiB, its head is not stored twice"),
)

ENGINES = {engine.id: engine for engine in (
    Engine(id="vllm", name="vLLM (from 0.21)", memory_rule="total", memory_fraction=0.92, graphs=True,
           graphs_inside=True, page_tokens=16, hybrid="by window", split="tensor", embedding_on_host=False,
           head_copy=False, padded_vocabulary=64, convolution_bytes=2, logit_bytes=14,
           keys=("fp16", "bf16", "fp8", "int8"), values_apart=False,
           weight_families=SAFETENSORS, loads_vision=True, sources=VLLM_SOURCES + (
               ("memory_fraction", "docs.vllm.ai/en/stable/cli/serve: --gpu-memory-utilization default 0.92"),
               ("graphs_inside", "vllm#30515: CUDA graph memory is profiled by default from 0.21"),
               ("hybrid", "vllm#43308; v1/core/kv_cache_utils.py: tokens = concurrency x max_model_len"))),
    Engine(id="vllm-0.20", name="vLLM (0.17 to 0.20)", memory_rule="total", memory_fraction=0.9, graphs=True,
           graphs_inside=False, page_tokens=16, hybrid="as full", split="tensor", embedding_on_host=False,
           head_copy=False, padded_vocabulary=64, convolution_bytes=2, logit_bytes=14,
           keys=("fp16", "bf16", "fp8"), values_apart=False,
           weight_families=SAFETENSORS, loads_vision=True, sources=VLLM_SOURCES + (
               ("memory_fraction", "docs.vllm.ai/en/v0.6.4 engine arguments: default 0.9"),
               ("graphs_inside", "vllm#30515, vllm#11251: before 0.21 graphs come on top of the fraction"),
               ("hybrid", "vram_reports v008, v009, v010: tokens = blocks // groups x block size"))),
    Engine(id="sglang", name="SGLang", memory_rule="static", memory_fraction=0.0, graphs=True, graphs_inside=False,
           page_tokens=1, hybrid="pools", split="tensor", embedding_on_host=False, head_copy=False,
           padded_vocabulary=64, convolution_bytes=2, logit_bytes=14, keys=("fp16", "bf16", "fp8"), values_apart=False,
           weight_families=SAFETENSORS, loads_vision=True, sources=(
               ("memory_rule", "sglang profile_max_num_token: free after load - free before x (1 - fraction)"),
               ("memory_fraction", "sglang server_args._handle_gpu_memory_settings: from the card and the chunk"),
               ("page_tokens", "sglang server_args: page_size 1 unless the attention backend asks for more"),
               ("hybrid", "sglang server_args: swa_full_tokens_ratio 0.8; three state slots a running request"),
               ("keys", "docs.sglang.io server arguments: --kv-cache-dtype auto, bfloat16, fp8_e5m2, fp8_e4m3"))),
    Engine(id="llama.cpp", name="llama.cpp (llama-server)", memory_rule="whole", memory_fraction=0.0, graphs=False,
           graphs_inside=False, page_tokens=256, hybrid="cells", split="layer", embedding_on_host=True, head_copy=True,
           padded_vocabulary=1, convolution_bytes=4, logit_bytes=4,
           keys=("fp16", "bf16", "q8_0", "q4_0", "iq4_nl"), values_apart=True,
           weight_families=GGUF, loads_vision=False, sources=(
               ("memory_rule", "llama.cpp allocates what the arguments ask for; there is no memory fraction"),
               ("page_tokens", "llama.cpp llama-kv-cache: cells padded to 256; ollama#16480 log (vram_reports v053)"),
               ("hybrid", "llama.cpp llama-kv-cache-iswa: window cells = pad256(min(ctx, window + ubatch)); v053"),
               ("head_copy", "ik_llama.cpp discussion 334 (v078): 15,773.97 MiB on the GPU, 1,102.77 on the CPU"),
               ("convolution_bytes", "LM Studio #1862 (v056): 598.50 MiB for 4 cells of 48 layers, all fp32"),
               ("keys", "llama-server manual: --cache-type-k f32, f16, bf16, q8_0, q4_0, q4_1, iq4_nl, q5_0, q5_1"))),
    Engine(id="transformers", name="transformers", memory_rule="whole", memory_fraction=0.0, graphs=False,
           graphs_inside=False, page_tokens=1, hybrid="exact", split="layer", embedding_on_host=False, head_copy=False,
           padded_vocabulary=1, convolution_bytes=2, logit_bytes=14, keys=("fp16", "bf16"), values_apart=False,
           weight_families=SAFETENSORS, loads_vision=False, sources=(
               ("memory_rule", "PyTorch's caching allocator takes what generate() asks for"),
               ("hybrid", "transformers cache_utils: sliding layers keep their window, other layers every token"),
               ("split", "device_map='auto' puts whole layers on each device"))),
)}

SORTING = replace(ENGINES["vllm-0.20"], id="vllm-0.16", name="vLLM (until 0.16)", logit_bytes=38)


def engine(name: str) -> Engine:
    """The engine of that name. Raises InputError."""
    if name not in ENGINES:
        raise InputError("engine", name, "accepted: " + ", ".join(ENGINES))
    return ENGINES[name]


def spread(profile: Engine, parallel: Parallel) -> tuple[int, int]:
    """(tensor, stages) that the engine makes of a replica's devices: layer-splitting engines use them all as stages."""
    if profile.split == "layer":
        return 1, parallel.tensor * parallel.pipeline
    return parallel.tensor, parallel.pipeline


def tokens_a_step(profile: Engine, visible_bytes: int, accelerator_id: str, asked: int) -> int:
    """Most tokens in one forward pass: what was asked, else the engine's default for the card.

    vLLM (OpenAI server): 8,192 from 70 GiB up except A100, else 2,048 (engine/arg_utils.py get_batch_defaults).
    SGLang: the chunked prefill size, 2,048 to 16,384 by card memory. llama.cpp: the physical batch of 512.
    transformers: the whole prompt (0 here; the plan puts the prompt in).
    """
    if asked:
        return asked
    if profile.memory_rule == "total":
        return 8192 if visible_bytes >= 70 * GIB and "a100" not in accelerator_id else 2048
    if profile.id == "sglang":
        return sglang_step(visible_bytes)[0]
    return 512 if profile.id == "llama.cpp" else 0


SGLANG_STEPS = ((20, 2048, 8, 8), (35, 2048, 24, 80), (60, 4096, 32, 160), (90, 8192, 256, 512), (160, 8192, 256, 512))
"""(below GiB, chunked prefill size, largest graph batch with tp < 4, with tp >= 4): sglang server_args."""


def sglang_step(memory_bytes: int, tensor: int = 1) -> tuple[int, int]:
    """(chunked prefill size, largest CUDA graph batch) that SGLang picks for a card of that size."""
    for below, chunk, few, many in SGLANG_STEPS:
        if memory_bytes < below * GIB:
            return chunk, few if tensor < 4 else many
    return 16384, 512


def sglang_fraction(memory_bytes: int, tensor: int, stages: int, chunk: int) -> float:
    """SGLang's own --mem-fraction-static, to three decimals, as server_args computes it from MiB.

    512 MiB + 1.5 MiB a token of the chunk (at least 2,048) + 2 MiB a graph batch + 128 MiB a device, at least 10 GiB on
    cards above 60 GiB, are left out of the static share.
    """
    mebibytes = memory_bytes / 1048576
    reserved = 512 + max(chunk, 2048) * 1.5 + sglang_step(memory_bytes, tensor)[1] * 2 + tensor * stages / 8 * 1024
    if mebibytes > 60 * 1024:
        reserved = max(reserved, 10 * 1024)
    return max(0.0, round((mebibytes - reserved) / mebibytes, 3))
