"""infersize beside other sizing tools on the same inputs, one answer in CPython, and the whole matrix on one core."""

import statistics
import time

from pycore import catalog, matrix
from pycore.nouns import Model
from pycore.systems.infersize import Query, answer, resolve
from tests.bench import peers

CONTEXT = 131072
QUESTIONS = (  # (repository, right answer in GiB to one decimal, its derivation)
    ("google/gemma-3-27b-it", 10.4, "10 full layers, 52 with a window of 1,024; 16 KV heads x 128, 2 x 2 B"),
    ("deepseek-ai/DeepSeek-V3", 8.6, "61 layers x (512 + 64) x 2 B a token, one latent for all heads"),
    ("openai/gpt-oss-20b", 3.0, "12 full layers, 12 with a window of 128; 8 KV heads x 64, 2 x 2 B"),
)
CONFIGS = {  # the published fields that hf-mem reads
    "google/gemma-3-27b-it": dict(hidden_size=5376, num_attention_heads=32, num_key_value_heads=16, head_dim=128,
                                  num_hidden_layers=62, sliding_window=1024, sliding_window_pattern=6),
    "deepseek-ai/DeepSeek-V3": dict(hidden_size=7168, num_attention_heads=128, num_key_value_heads=128,
                                    num_hidden_layers=61),
    "openai/gpt-oss-20b": dict(hidden_size=2880, num_attention_heads=64, num_key_value_heads=8, head_dim=64,
                               num_hidden_layers=24, sliding_window=128,
                               layer_types=["sliding_attention", "full_attention"] * 12),
}
FORMATS = ("fp16", "fp8", "int8", "awq", "q4_k_m", "mxfp4")


def kv_table() -> None:
    """KV cache of one sequence at 131,072 tokens, 16-bit: ours, the right answer, the peers' own programs."""
    print(f"\nKV cache of one sequence of {CONTEXT:,} tokens, 16-bit, GiB (off by a factor of)")
    print(f"{'model':28}{'right':>8}{'infersize':>12}{'llmfit 1.1.17':>22}{'hf-mem 0.5.6':>22}")
    for repository, right, _ in QUESTIONS:
        ours = architectural(catalog.model(repository))
        theirs = peers.llmfit_kv_bytes(repository, CONTEXT), peers.hf_mem_kv_bytes(CONFIGS[repository], CONTEXT)
        cells = [f"{value / 2**30:.1f} ({value / 2**30 / right:.1f}x)" if value else "not installable"
                 for value in theirs]
        print(f"{repository:28}{right:8.1f}{ours:12.1f}{cells[0]:>22}{cells[1]:>22}")
        if round(ours, 1) != right:
            raise SystemExit(f"{repository}: {ours} GiB instead of {right}")


def architectural(model: Model) -> float:
    """What the architecture needs for one sequence on one device, GiB."""
    from pycore.vram.kv import minimum

    cache = catalog.kv_format("auto")
    return minimum(model, cache, cache, CONTEXT, 1).value / 2**30


def one_answer(runs: int = 50) -> float:
    """Median seconds of one whole answer without the matrix, questions changing each time."""
    answer(Query(), with_matrix=False)
    times = []
    for index in range(runs):
        start = time.process_time()
        answer(Query(context=4096 + 64 * index, sequences=1 + index), with_matrix=False)
        times.append(time.process_time() - start)
    median = statistics.median(times)
    print(f"\none answer in CPython: {median * 1000:.1f} ms of one core at the median (target: under 10 ms)")
    return median


def whole_matrix() -> float:
    """Plans a second over 83 models x all cards x 4 counts x 6 formats, one core."""
    formats, plans, start = [catalog.weight_format(name) for name in FORMATS], 0, time.process_time()
    for model in catalog.models():
        deployment = resolve(Query(model=model.id, context=min(8192, model.max_context), prompt=min(1024, model.max_context // 2),
                                   output=min(256, model.max_context // 2)))
        plans += sum(1 for _ in matrix.rows(deployment, formats))
    rate = plans / (time.process_time() - start)
    print(f"the whole matrix: {plans:,} plans at {rate:,.0f} a second of one core (target: over 10,000)")
    return rate


def main() -> None:
    """Run all three."""
    kv_table()
    one_answer()
    whole_matrix()
