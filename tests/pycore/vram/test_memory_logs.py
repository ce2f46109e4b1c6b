"""Start-up logs read back: real lines of each engine, and text that is not a log at all."""

# ruff: noqa: E501 (lines as the engines print them)

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_shapes import deployment

from pycore.errors import InputError
from pycore.units import GIB, MIB
from pycore.vram.capacity import capacity
from pycore.vram.engine_log import LINE_LIMIT, compare, read_log
from pycore.vram.plan import memory

V0 = """INFO 12-20 20:25:46 worker.py:241] the current vLLM instance can use total_gpu_memory (15.77GiB) x gpu_memory_utilization (0.90) = 14.20GiB
INFO 12-20 20:25:46 worker.py:241] model weights take 7.51GiB; non_torch_memory takes 0.39GiB; PyTorch activation peak memory takes 2.53GiB; the rest of the memory reserved for KV Cache is 3.76GiB.
INFO 12-20 20:25:46 distributed_gpu_executor.py:57] # GPU blocks: 3852, # CPU blocks: 4096
INFO 12-20 20:25:46 distributed_gpu_executor.py:61] Maximum concurrency for 40000 tokens per request: 1.54x"""
V1 = """(EngineCore pid=243) INFO 04-22 01:47:30 [v1/worker/gpu_model_runner.py:4820] Model loading took 14.99 GiB memory and 14.429680 seconds
(EngineCore pid=243) DEBUG [gpu_worker.py] Memory profiling takes 17.96 seconds. Total non KV cache memory: 17.12GiB; torch peak memory increase: 1.89GiB; non-torch forward increase memory: 0.25GiB; weights memory: 14.99GiB.
(EngineCore pid=243) INFO [gpu_worker.py:298] Available KV cache memory: 58.11 GiB
(EngineCore pid=243) INFO [kv_cache_utils.py:1087] GPU KV cache size: 476,016 tokens
(EngineCore pid=243) INFO [kv_cache_utils.py:1091] Maximum concurrency for 8,192 tokens per request: 58.11x
(EngineCore pid=243) INFO CUDA graph pool memory: 0.91 GiB (actual), 0.84 GiB (estimated), difference: 0.07 GiB (7.7%).
(APIServer pid=1) INFO Engine 000: vllm cache_config_info with initialization after num_gpu_blocks is: 29751"""
SGLANG = """[2025-07-22 08:00:01 TP0] Load weight end. type=Qwen3MoeForCausalLM, dtype=torch.bfloat16, avail mem=22.06 GB, mem usage=55.19 GB.
[2025-07-22 08:00:02 TP0] KV Cache is allocated. #tokens: 367404, K size: 8.23 GB, V size: 8.23 GB
[2025-07-22 08:00:09 TP0] Capture cuda graph end. Time elapsed: 6.11 s. mem usage=1.02 GB. avail mem=3.5 GB.
[2025-07-22 08:00:10 TP0] max_total_num_tokens=367404, chunked_prefill_size=8192, max_prefill_tokens=16384, max_running_requests=2048, context_len=40960"""
LLAMA = """load_tensors: offloaded 63/63 layers to GPU
load_tensors:   CPU_Mapped model buffer size =  1102.77 MiB
load_tensors:        CUDA0 model buffer size = 15773.97 MiB
llama_kv_cache_unified:      CUDA0 KV buffer size =  2560.00 MiB
llama_kv_cache_unified:      CUDA1 KV buffer size =   624.00 MiB
llama_memory_recurrent:      CUDA0 RS buffer size =   149.62 MiB
llama_context:      CUDA0 compute buffer size =   522.62 MiB
llama_context:  CUDA_Host compute buffer size =    16.01 MiB"""


def test_vllm_v0():
    log = read_log(V0)
    assert log.engine == "vLLM" and log.blocks == 3852 and log.concurrency == 1.54 and log.context == 40_000
    assert (log.weights_bytes, log.activation_bytes, log.non_torch_bytes, log.pool_bytes, log.visible_bytes) == tuple(
        round(figure * GIB) for figure in (7.51, 2.53, 0.39, 3.76, 15.77)
    )


def test_vllm_v1_against_the_plan():
    asked = deployment(
        "llama-3.1-8b", gpu="h100", engine="vllm-0.20", context=8192, sequences=1024, memory_fraction=0.95
    )
    plan = memory(asked)
    rows = {row.name: row for row in compare(read_log(V1), plan, capacity(asked, plan))}
    assert set(rows) == {
        "Weights",
        "Activations",
        "Outside PyTorch",
        "CUDA graphs",
        "KV pool",
        "KV tokens",
        "Blocks",
        "Concurrency",
    }
    for name in ("Weights", "Activations", "KV pool", "KV tokens", "Blocks"):
        assert abs(rows[name].difference_percent) < 0.5, name
    assert all(rows[name].inside for name in ("Weights", "Activations", "Outside PyTorch", "CUDA graphs", "KV pool"))


def test_sglang():
    log = read_log(SGLANG)
    assert log.engine == "SGLang" and log.kv_tokens == 367_404
    assert (
        log.pool_bytes == round(16.46 * GIB)
        and log.weights_bytes == round(55.19 * GIB)
        and log.graph_bytes == round(1.02 * GIB)
    )


def test_llama_cpp_takes_the_fullest_device():
    log = read_log(LLAMA)
    assert log.engine == "llama.cpp" and log.kv_bytes == round((2560 + 149.62) * MIB)
    assert log.host_bytes == round(1102.77 * MIB) and log.activation_bytes == round(522.62 * MIB)
    asked = deployment("gemma-3-27b", "q4_k_m", "rtx a6000", "llama.cpp", context=32_768, sequences=1)
    plan = memory(asked)
    rows = {row.name: row for row in compare(log, plan, capacity(asked, plan))}
    assert abs(rows["Weights"].difference_percent) < 0.001 and abs(rows["In main memory"].difference_percent) < 0.001


def test_ranks_settle_on_the_smallest_count():
    log = read_log(
        "GPU KV cache size: 178,880 tokens\nGPU KV cache size: 180,000 tokens\nAvailable KV cache memory: 8.11 GiB"
    )
    assert log.kv_tokens == 178_880


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "hello",
        "<script>alert(1)</script>",
        "{{ 7*7 }}",
        "{% include 'x' %}",
        "Available KV cache memory: many GiB",
        "\x00\x01\x02",
        "GPU KV cache size: tokens",
    ],
)
def test_what_is_not_a_log_is_refused(text):
    with pytest.raises(InputError) as caught:
        read_log(text)
    assert caught.value.field == "engine_log" and len(str(caught.value)) < 400


def test_hostile_text_beside_a_log_is_kept_as_text():
    log = read_log("<img src=x onerror=alert(1)> Available KV cache memory: 1.00 GiB {{ config }}")
    assert log.pool_bytes == GIB and log.lines[0].startswith("<img")


def test_huge_text_is_read_in_good_time():
    """Ten megabytes of near misses: bounded patterns, cut lines, a cut text."""
    trap = "KV Cache is allocated. " + "K size: " * 100_000 + "\n"
    start = time.perf_counter()
    log = read_log(V1 + "\n" + trap * 3 + "model weights take " * 100_000 + "\n" + "9" * 5_000_000)
    assert log.kv_tokens == 476_016 and time.perf_counter() - start < 5
    assert max(map(len, log.lines)) <= LINE_LIMIT


@given(st.text(max_size=400))
def test_any_text_is_read_or_refused(text):
    try:
        assert read_log(text).understood
    except InputError as refused:
        assert refused.field == "engine_log"
