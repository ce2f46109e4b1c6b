"""Random models of `transformers`, as files: what ours are held against."""

import json
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch

SIZES = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "max_position_embeddings": 128, "rms_norm_eps": 1e-5, "bos_token_id": 1, "eos_token_id": 2}


def made(kind: str, **changes: object) -> torch.nn.Module:
    """A model of `transformers` with random weights, biases and norms included."""
    import transformers

    if kind == "GPT2":
        config = transformers.GPT2Config(vocab_size=64, n_embd=32, n_head=4, n_layer=2, n_positions=128, **changes)
    else:
        config = getattr(transformers, f"{kind}Config")(**(SIZES | {"tie_word_embeddings": False} | changes))
    torch.manual_seed(3)
    model = getattr(transformers, "GPT2LMHeadModel" if kind == "GPT2" else f"{kind}ForCausalLM")(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.normal_(1.0 if "norm" in name else 0.0, 0.15)
    return model


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """More than one thread of torch is slow beside anything else that runs."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def random_model():
    """The function above."""
    return made


@pytest.fixture(scope="session")
def sizes() -> dict:
    """The sizes of those models, as their config.json has them."""
    return dict(SIZES)


@pytest.fixture
def gguf_of(tmp_path: Path):
    """A function that writes a model of `transformers` as a GGUF file, with llama.cpp's own writer and permutation."""
    def write(model: torch.nn.Module, architecture: str, name: str = "model.gguf") -> Path:
        config, path = model.config, tmp_path / name
        writer = gguf.GGUFWriter(path, architecture)
        writer.add_block_count(config.num_hidden_layers)
        writer.add_context_length(config.max_position_embeddings)
        writer.add_embedding_length(config.hidden_size)
        writer.add_feed_forward_length(config.intermediate_size)
        writer.add_head_count(config.num_attention_heads)
        writer.add_head_count_kv(config.num_key_value_heads)
        writer.add_layer_norm_rms_eps(config.rms_norm_eps)
        writer.add_rope_freq_base(500.0)
        names = gguf.get_tensor_name_map(getattr(gguf.MODEL_ARCH, architecture.upper()), config.num_hidden_layers)
        for key, tensor in model.state_dict().items():
            stem, _, ending = key.rpartition(".")
            array = tensor.numpy().astype(np.float32)
            if architecture == "llama" and stem.endswith(("q_proj", "k_proj")):
                heads = config.num_attention_heads if stem.endswith("q_proj") else config.num_key_value_heads
                # convert_hf_to_gguf.py, LlamaModel.permute
                array = array.reshape(heads, 2, array.shape[0] // heads // 2, *array.shape[1:]).swapaxes(1, 2).reshape(array.shape)
            writer.add_tensor(f"{names.get_name(stem)}.{ending}", array)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path

    return write


@pytest.fixture
def folder_of(tmp_path: Path):
    """A function that writes a model of `transformers` as it writes itself."""
    def write(model: torch.nn.Module) -> tuple[Path, dict]:
        model.save_pretrained(tmp_path)
        return tmp_path, json.loads((tmp_path / "config.json").read_text())

    return write
