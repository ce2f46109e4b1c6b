"""Models that the engines run: files read (GGUF, safetensors), a Llama/Qwen2/Qwen3 in torch, tokenizers, and where to get one."""
