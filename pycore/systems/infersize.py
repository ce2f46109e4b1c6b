"""infersize: will it fit, how fast, what does it cost. The question, the answer, and how the core composes it."""

from dataclasses import dataclass

from pycore.knobs import knob

ENGINES = ("vllm", "vllm-0.20", "sglang", "llama.cpp", "transformers")
KV_DTYPES = ("auto", "fp16", "bf16", "fp8", "int8", "q8_0", "q4_0", "iq4_nl")

MODEL, HARDWARE, ENGINE, LOAD, MONEY, DRAFT = (
    "Model", "Hardware", "Engine", "Load", "Cost and targets", "Speculative decoding")


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """The question, every field with its meaning, unit and range."""

    model: str = knob("qwen2.5-7b", "Model", suggestions="models", group=MODEL,
                      help="A catalogue name (forgiving), or a Hugging Face repo id such as Qwen/Qwen2.5-7B.")
    config: str = knob("", "config.json", long=True, group=MODEL,
                       help="Paste or drop a model's own config.json; it replaces the catalogue's shape.")
    quant: str = knob("bf16", "Weights", suggestions="formats", group=MODEL,
                      help="Number format of the weights: bf16, fp8, awq, nf4, mxfp4, q4_k_m and many more.")
    kv_dtype: str = knob("auto", "KV cache", choices=KV_DTYPES, group=MODEL,
                         help="Number format of cached keys (and values, unless set apart). auto = 16-bit.")
    v_dtype: str = knob("same", "Values apart", choices=("same",) + KV_DTYPES[1:], group=MODEL,
                        help="Format of cached values where it differs from the keys' (llama.cpp can).")
    gpu: str = knob("l40s", "Accelerator", suggestions="accelerators", group=HARDWARE,
                    help="A card by name: l40s, h100 sxm, rtx 4090, mi300x, m4 max.")
    count: int = knob(1, "Count", low=1, high=1024, group=HARDWARE, help="How many of them, in all.")
    tp: int = knob(0, "Tensor parallel", low=0, high=1024, group=HARDWARE, zero="automatic: count / (pp x dp)",
                   help="Each matrix split over this many devices.")
    pp: int = knob(1, "Pipeline parallel", low=1, high=256, group=HARDWARE, help="Layers split over this many stages.")
    ep: bool = knob(False, "Expert parallel", group=HARDWARE,
                    help="Whole experts on each device instead of a slice of every expert.")
    dp: int = knob(1, "Data parallel", low=1, high=1024, group=HARDWARE,
                   help="Independent replicas that share the load.")
    context: int = knob(8192, "Context", unit="tokens", low=1, high=1 << 24, group=LOAD,
                        help="Longest sequence to hold: prompt plus output.")
    sequences: int = knob(16, "Concurrent", unit="sequences", low=1, high=1 << 20, group=LOAD,
                          help="Sequences served at the same time, over all replicas.")
    prompt: int = knob(1024, "Prompt", unit="tokens", low=1, high=1 << 24, group=LOAD,
                       help="Tokens in a typical prompt.")
    output: int = knob(256, "Output", unit="tokens", low=1, high=1 << 24, group=LOAD,
                       help="Tokens in a typical answer.")
    engine: str = knob("vllm", "Engine", choices=ENGINES, group=ENGINE,
                       help="Whose memory rules apply. vllm = from 0.21; vllm-0.20 = up to 0.20.")
    memory_fraction: float = knob(0.0, "Memory fraction", low=0.0, high=1.0, group=ENGINE, zero="the engine's default",
                                  help="Share of the device the engine may take (--gpu-memory-utilization and kin).")
    max_batched_tokens: int = knob(0, "Tokens a step", unit="tokens", low=0, high=1 << 20, group=ENGINE,
                                   zero="the engine's default", help="Most tokens one forward pass may carry.")
    used_gib: float = knob(0.0, "Already used", unit="GiB", low=0.0, high=4096.0, group=ENGINE,
                           help="Memory of each device that other programs hold (free = usable - this).")
    usd_per_gpu_hour: float = knob(0.0, "Price", unit="USD per GPU-hour", low=0.0, high=10000.0, group=MONEY,
                                   zero="cheapest dated on-demand price in the catalogue", help="What one device costs.")
    utilisation: float = knob(0.5, "Utilisation", low=0.01, high=1.0, group=MONEY,
                              help="Share of the hour the machine is busy at the load above.")
    cached_share: float = knob(0.0, "Cached prompt share", low=0.0, high=1.0, group=MONEY,
                               help="Share of prompt tokens that a prefix cache answers.")
    target_ttft_ms: float = knob(0.0, "TTFT target", unit="ms", low=0.0, high=1e7, group=MONEY, zero="none",
                                 help="Time to first token to stay under.")
    target_tpot_ms: float = knob(0.0, "TPOT target", unit="ms", low=0.0, high=1e6, group=MONEY, zero="none",
                                 help="Time per output token to stay under.")
    draft_model: str = knob("", "Draft model", suggestions="models", group=DRAFT, zero="none",
                            help="A small model that proposes tokens; empty for none.")
    acceptance: float = knob(0.7, "Acceptance", low=0.0, high=1.0, group=DRAFT,
                             help="Chance that a proposed token is accepted (alpha in Leviathan et al.).")
    draft_length: int = knob(4, "Draft length", unit="tokens", low=1, high=64, group=DRAFT,
                             help="Tokens proposed per step (gamma).")
    matrix_quants: str = knob("fp16,fp8,int8,awq,q4_k_m,mxfp4", "Matrix formats", group=HARDWARE, suggestions="formats",
                              help="Weight formats of the multi-GPU matrix, separated by commas.")
    engine_log: str = knob("", "Engine log", long=True, group=ENGINE,
                           help="Paste the engine's start-up log; each row then shows predicted against actual.")
