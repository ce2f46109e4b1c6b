"""Models that the engines run: their files, a Llama/Qwen2/Qwen3 in torch, tokenizers, and where to get one."""
