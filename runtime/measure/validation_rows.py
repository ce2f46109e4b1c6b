"""Which reported figures are compared with, and what each is a report of. Judgement, kept apart from the arithmetic.

`model` is a catalogue id; `shape` names a fixture of tests/pycore/vram/shapes.py where the catalogue lacks the model, or
where the engine treats it otherwise (DeepSeek without its latent cache). `as_full`: every layer keeps all tokens.
"""

LLAMA8, QWEN30, QWEN235, QWEN32 = ("meta-llama--llama-3.1-8b", "qwen--qwen3-30b-a3b", "qwen--qwen3-235b-a22b", "qwen--qwen3-32b")
DEEPSEEK, GEMMA27 = "deepseek-ai--deepseek-v3", "google--gemma-3-27b-it"
KIMI, GPTOSS = "moonshotai--kimi-k2-instruct", "openai--gpt-oss-120b"

REPORTS = (
    # KV bytes per token, architecture named in the source: 36 rows, of which v015 and v018 are the stated exceptions
    {"id": "v004", "model": LLAMA8}, {"id": "v008", "model": GPTOSS, "as_full": 1},
    {"id": "v009", "model": "", "shape": "gemma-4-31b", "as_full": 1},
    {"id": "v015", "model": QWEN235, "tensor": 4, "note": "exception: reported tokens are a minimum over ranks (-1.1 %)"},
    {"id": "v016", "model": QWEN235, "tensor": 4}, {"id": "v022", "model": KIMI, "tensor": 8},
    {"id": "v023", "model": KIMI, "tensor": 8, "shards": 8}, {"id": "v029", "model": QWEN30},
    {"id": "v055", "model": "", "shape": "qwen1.5-72b"}, {"id": "v056", "model": "qwen--qwen3.5-27b"},
    {"id": "v078", "model": GEMMA27, "as_full": 1}, {"id": "v079", "model": GEMMA27, "as_full": 1},
    {"id": "v080", "model": QWEN32}, {"id": "v081", "model": QWEN32, "keys": "q8_0"}, {"id": "v082", "model": QWEN32},
    {"id": "v084", "model": QWEN30}, {"id": "v085", "model": QWEN30}, {"id": "v086", "model": "", "shape": "glm-z1-32b"},
    {"id": "v087", "model": "", "shape": "nemotron-ultra", "keys": "q8_0", "values": "q4_0"},
    {"id": "v088", "model": QWEN235}, {"id": "v089", "model": QWEN235, "keys": "q8_0"},
    {"id": "v090", "model": QWEN235, "keys": "q8_0"}, {"id": "v091", "model": QWEN235, "keys": "q8_0", "values": "fp16"},
    {"id": "v092", "model": DEEPSEEK},
    {"id": "v093", "model": "", "shape": "deepseek-plain", "keys": "q8_0", "values": "fp16"},
    {"id": "v094", "model": "", "shape": "deepseek-plain"}, {"id": "v095", "model": DEEPSEEK, "keys": "q8_0"},
    {"id": "v098", "model": DEEPSEEK, "keys": "q8_0"}, {"id": "v100", "model": "", "shape": "deepseek-lite-plain"},
    {"id": "v101", "model": "meta-llama--llama-2-13b-hf"},
    # hybrids: blocks, windows and states as the engine counts them
    {"id": "v010", "model": "", "shape": "gemma-4-31b"}, {"id": "v012", "model": "", "shape": "gemma-4-31b"},
    {"id": "v013", "model": "", "shape": "gemma-4-31b"}, {"id": "v014", "model": "", "shape": "kimi-linear"},
    {"id": "v035", "model": "qwen--qwen3.5-35b-a3b", "keys": "fp8"}, {"id": "v036", "model": "qwen--qwen3.5-35b-a3b", "keys": "fp8"},
    {"id": "v053", "model": GPTOSS},
    # weights
    {"id": "v002", "model": "meta-llama--meta-llama-3-8b"}, {"id": "v003", "model": "meta-llama--meta-llama-3-8b", "tensor": 2},
    {"id": "v001", "model": "meta-llama--llama-3.1-70b"}, {"id": "v059", "model": "meta-llama--llama-3.1-70b"},
    {"id": "v060", "model": "mistralai--mixtral-8x22b-v0.1"}, {"id": "v062", "model": "meta-llama--llama-3.1-70b"},
    {"id": "v068", "model": LLAMA8},
    # totals: Qwen3 page (transformers 4.51.3) and mlx-lm
    *({"id": f"v{number}", "model": f"qwen--qwen3-{size}"} for size, numbers in (
        ("0.6b", (102, 104, 106, 107)), ("1.7b", (108, 109, 110)), ("4b", (114, 115, 116, 117, 118, 119)),
        ("8b", (120, 121, 123, 124, 125)), ("14b", (127, 128, 129, 130, 131)), ("32b", (132, 133, 136, 137)))
      for number in numbers),
    *({"id": f"v{number}", "model": "qwen--qwen3-4b"} for number in (138, 144)),
    *({"id": f"v{number}", "model": QWEN30} for number in (148,)),
)

SKIPPED = {
    "v011": "approximate ('~50 GB'), context not stated", "v018": "not in the facts' file",
    "v019": "that checkpoint leaves attention in bf16", "v020": "used as evidence, model inferred",
    "v024": "model not catalogued, shape not stated", "v025": "model inferred", "v026": "engine's check ignores the split",
}

POOLS = (
    {"id": "v002", "engine": "vllm-0.16", "model": "meta-llama--meta-llama-3-8b", "weights": "bf16", "keys": "auto", "tp": 1, "pp": 1,
     "linked": 1, "fraction": 0.9, "context": 8192, "sequences": 256, "batch_tokens": 8192,
     "note": "card not named; V0 profiles the whole context"},
    {"id": "v004", "engine": "vllm-0.16", "model": LLAMA8, "weights": "bf16", "keys": "auto", "tp": 1, "pp": 1, "linked": "",
     "fraction": 0.9, "context": 20000, "sequences": 256, "batch_tokens": 20000, "activation_gib": "2.07",
     "note": "V0 profiles the whole context"},
    {"id": "v015", "engine": "vllm-0.16", "model": QWEN235, "weights": "fp8-block-128x128", "keys": "auto", "tp": 4, "pp": 1,
     "linked": 1, "fraction": 0.9, "context": 40960, "sequences": 1024, "batch_tokens": 8192, "visible_gib": "79.19",
     "note": "visible memory from other H100 logs; tokens are a minimum over ranks"},
    {"id": "v016", "engine": "sglang", "model": QWEN235, "weights": "fp8-block-128x128", "keys": "auto", "tp": 4, "pp": 1,
     "linked": 1, "fraction": 0.93, "context": 40960, "sequences": 256, "batch_tokens": 8192, "visible_gib": "79.19",
     "note": "visible memory from other H100 logs"},
    {"id": "v020", "engine": "vllm-0.16", "model": LLAMA8, "weights": "fp16", "keys": "auto", "tp": 2, "pp": 1, "linked": "",
     "fraction": 0.9, "context": 40000, "sequences": 256, "batch_tokens": 40000, "note": "model inferred from the figures"},
    {"id": "v040", "engine": "vllm", "model": GPTOSS, "weights": "mxfp4", "keys": "auto", "tp": 8, "pp": 1, "linked": "",
     "fraction": 0.95, "context": 8192, "sequences": 256, "batch_tokens": 2048, "graphs_gib": "0.06",
     "note": "context not stated; graphs 62 MiB"},
    {"id": "v050", "engine": "vllm-0.20", "model": LLAMA8, "weights": "bf16", "keys": "auto", "tp": 1, "pp": 1, "linked": "",
     "fraction": 0.9, "context": 32768, "sequences": 256, "batch_tokens": 2048, "pool_gib": "5.0547",
     "note": "pool from 2,588 blocks of 2 MiB"},
    {"id": "v069", "engine": "vllm-0.16", "model": "deepseek-ai--deepseek-v2-lite", "weights": "fp16", "keys": "auto", "tp": 8,
     "pp": 1, "linked": 1, "fraction": 0.9, "context": 8192, "sequences": 256, "batch_tokens": 8192,
     "note": "log of a rank that does not sample; weak provenance"},
    {"id": "v071", "engine": "vllm-0.16", "model": "microsoft--phi-4-mini-instruct", "weights": "bf16", "keys": "auto", "tp": 1,
     "pp": 1, "linked": "", "fraction": 0.9, "context": 2048, "sequences": 256, "batch_tokens": 2048,
     "note": "model inferred from the path; weak provenance"},
)

DEEP = "deepseek-ai--deepseek-r1"
LOADS = {
    **{("Llama-3.1-8B", name, bits): {"model": LLAMA8, "file_type": name} | ({"imatrix": "1"} if name.startswith("IQ") and bits not in (
        "4.4597", "4.6818") else {}) for name, bits in (
        ("IQ1_S", "2.0042"), ("IQ1_M", "2.1460"), ("IQ2_XXS", "2.3824"), ("IQ2_XS", "2.5882"), ("IQ2_S", "2.7403"), ("IQ2_M", "2.9294"),
        ("IQ3_XXS", "3.2548"), ("IQ3_XS", "3.4977"), ("IQ3_S", "3.6606"), ("IQ3_M", "3.7628"), ("IQ4_XS", "4.4597"),
        ("IQ4_NL", "4.6818"), ("Q2_K_S", "2.9697"), ("Q2_K", "3.1593"), ("Q3_K_S", "3.6429"), ("Q3_K_L", "4.2979"),
        ("Q4_K_S", "4.6672"), ("Q4_K_M", "4.8944"), ("Q5_K_S", "5.5704"), ("Q5_K_M", "5.7036"), ("Q6_K", "6.5633"),
        ("Q8_0", "8.5008"), ("F16", "16.0005"))},
    ("DeepSeek R1 BF16", "Q8_0", "8.504"): {"model": DEEP, "file_type": "Q8_0"},
    ("DeepSeek R1 Bf16", "F16", "16.003"): {"model": DEEP, "file_type": "F16"},
    ("DeepSeek R1 BF16", "Q4_K - Medium", "4.822"): {"model": DEEP, "file_type": "Q4_K_M"},
    ("Gemma 3 27b It Qat", "Q4_K - Medium", "4.899"): {"model": GEMMA27, "file_type": "Q4_K_M"},
    ("Gemma-3-27B-It", "Q4_0", "4.624"): {"model": GEMMA27, "file_type": "Q4_0", "imatrix": "1"},
    ("Gemma-3-27B-It", "IQ4_XS - 4.25 bpw", "4.372"): {"model": GEMMA27, "file_type": "IQ4_XS", "imatrix": "1"},
    ("Qwen3 235B A22B", "Q8_0", "8.505"): {"model": QWEN235, "file_type": "Q8_0"},
    ("Qwen3-235B-A22B", "Q4_K - Medium", "4.837"): {"model": QWEN235, "file_type": "Q4_K_M"},
    ("Qwen3-235B-A22B-128K", "Q6_K", "6.568"): {"model": QWEN235, "file_type": "Q6_K"},
    ("Qwen3-32B", "Q4_0", "4.566"): {"model": QWEN32, "file_type": "Q4_0", "imatrix": "1"},
    ("Qwen3-32B", "Q5_K - Medium", "5.664"): {"model": QWEN32, "file_type": "Q5_K_M"},
    ("Qwen3-30B-A3B", "Q5_K - Medium", "5.691"): {"model": QWEN30, "file_type": "Q5_K_M"},
    ("LLaMA v2", "Q8_0", "8.501"): {"model": "meta-llama--llama-2-13b-hf", "file_type": "Q8_0"},
    ("Kimi K2 Instruct Bf16 Safetensors", "Q8_0", "8.504"): {"model": KIMI, "file_type": "Q8_0"},
    ("DeepSeek-Coder-V2-Lite-Instruct", "Q4_K - Medium", "5.277"): {"model": "deepseek-ai--deepseek-v2-lite", "file_type": "Q4_K_M"},
    ("Deepseek-V3-0324", "Q4_K - Medium", "4.578"): {"model": DEEP, "file_type": "Q4_K_M", "fault": "a mix with overridden tensors"},
    ("DeepSeek V3 0324", "Q4_K - Medium", "4.852"): {"model": DEEP, "file_type": "Q4_K_M", "fault": "another quantiser's mix of attention"},
    ("Deepseek-V3-0324", "Q2_K - Medium", "2.985"): {"model": DEEP, "file_type": "Q2_K", "fault": "a mix with overridden tensors"},
    ("DeepSeek R1 BF16", "Q2_K - Medium", "2.701"): {"model": DEEP, "file_type": "Q2_K", "fault": "a mix with overridden tensors"},
    ("Qwen3-30B-A3B", "Q4_K - Medium", "4.640"): {"model": QWEN30, "file_type": "Q4_K_M", "fault": "a mix with overridden tensors"},
    ("Qwen3-32B", "Q4_K - Medium", "4.888"): {"model": QWEN32, "file_type": "Q4_K_M", "fault": "a mix with overridden tensors"},
    ("Meta_Llama_3.1_8b_it", "Q5_K - Small", "5.521"): {"model": LLAMA8, "file_type": "Q5_K_S", "fault": "an older quantiser's mix"},
}
