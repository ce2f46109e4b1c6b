"""Our module computes what `transformers` computes, from its files and from GGUF, with a cache and without."""

import math

import pytest
import torch

from pycore.errors import InputError, SourceError, UnknownName
from runtime.models import configuration, load, weights
from runtime.models.gguf import open_gguf
from runtime.models.transformer import Cache, Transformer, empty

KINDS = [("Llama", {}), ("Llama", {"tie_word_embeddings": True}), ("Llama", {"attention_bias": True}), ("Qwen2", {}),
         ("Qwen2", {"tie_word_embeddings": True, "num_key_value_heads": 4}), ("Qwen3", {"head_dim": 16})]
TOKENS = torch.tensor([[1, 5, 9, 33, 2, 60, 17, 8, 8, 40, 3]])


def logits(model: torch.nn.Module, tokens: torch.Tensor, *more: object) -> torch.Tensor:
    with torch.no_grad():
        found = model(tokens, *more)
    return getattr(found, "logits", found)


@pytest.mark.parametrize(("kind", "changes"), KINDS, ids=str)
def test_logits_are_those_of_transformers(kind, changes, folder_of, random_model):
    theirs = random_model(kind, **changes)
    folder, config = folder_of(theirs)
    ours = weights.filled(configuration.from_config(config), weights.safetensors_tensors(sorted(folder.glob("*.safetensors"))), "test")
    assert torch.allclose(logits(ours, TOKENS), logits(theirs, TOKENS), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("kind", "architecture"), [("Llama", "llama"), ("Qwen2", "qwen2")])
def test_a_gguf_file_gives_the_model_that_it_was_written_from(kind, architecture, gguf_of, random_model):
    theirs = random_model(kind, rope_parameters={"rope_theta": 500.0, "rope_type": "default"})
    file = open_gguf(gguf_of(theirs, architecture))
    ours = weights.filled(configuration.from_gguf(file), weights.gguf_tensors(file, configuration.from_gguf(file)), "test")
    assert torch.allclose(logits(ours, TOKENS), logits(theirs, TOKENS), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("pieces", [(11,), (1,) * 11, (4, 1, 6), (3, 8)])
def test_a_cache_changes_nothing_however_the_tokens_come(pieces, sizes):
    torch.manual_seed(1)
    model = Transformer(configuration.from_config(sizes | {"model_type": "qwen2", "rope_theta": 1e4})).eval()
    cache, found, start = Cache(model.configuration, 1, 16), [], 0
    for size in pieces:
        found.append(logits(model, TOKENS[:, start:start + size], cache))
        start += size
    assert cache.length == 11
    assert torch.allclose(torch.cat(found, dim=1), logits(model, TOKENS), atol=1e-5)


@pytest.mark.parametrize("change", [{"use_sliding_window": True}, {"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4}},
                                    {"rope_scaling": {"type": "linear", "factor": 2.0}}, {"num_experts": 8}, {"mlp_bias": True},
                                    {"hidden_act": "gelu"}])
def test_what_is_not_computed_is_refused(change, sizes):
    with pytest.raises(SourceError, match="not computed here"):
        configuration.from_config(sizes | {"model_type": "llama"} | change)


def test_configurations_that_make_no_sense_are_refused(sizes):
    for change in ({"model_type": "gpt_neox"}, {"hidden_size": 0}, {"num_attention_heads": -4}, {"vocab_size": 1 << 60},
                   {"num_key_value_heads": 3}, {"num_hidden_layers": 1 << 20}, {"num_attention_heads": "4"}, {"num_attention_heads": 0},
                   {"head_dim": None, "num_attention_heads": 0}, {"head_dim": None, "hidden_size": "64"}, {"rms_norm_eps": "x"},
                   {"rms_norm_eps": math.nan}, {"rope_theta": -1}, {"rope_theta": "x"}, {"rope_parameters": [1]}, {"num_key_value_heads": None}):
        with pytest.raises(SourceError, match="^config.json: "):
            configuration.from_config(sizes | {"model_type": "llama", "head_dim": 8} | change)
    with pytest.raises(SourceError, match="vocab_size"):
        configuration.from_config({"model_type": "llama"})


def test_a_model_that_no_memory_holds_is_refused_before_it_is_made(sizes):
    wide = configuration.from_config(sizes | {"model_type": "llama", "head_dim": 8, "hidden_size": 1 << 24, "intermediate_size": 1 << 24})
    with pytest.raises(InputError, match="this machine has"):
        empty(wide)


@pytest.mark.parametrize("change", [{"model_type": "llama"}, {"model_type": "llama", "attention_bias": True}, {"model_type": "qwen2"},
                                    {"model_type": "qwen3"}, {"model_type": "qwen3", "tie_word_embeddings": True}], ids=str)
def test_a_configuration_knows_how_many_weights_its_model_has(sizes, change):
    made = configuration.from_config(sizes | {"head_dim": 8} | change)
    assert made.parameters == sum(one.numel() for one in empty(made).parameters())


def test_rope_theta_is_read_from_both_places(sizes):
    old, new = sizes | {"model_type": "qwen2", "rope_theta": 7.0}, sizes | {"model_type": "qwen2", "rope_parameters": {"rope_theta": 7.0}}
    assert configuration.from_config(old).rope_base == configuration.from_config(new).rope_base == 7.0


def test_every_weight_must_be_there_and_fit(folder_of, random_model):
    folder, config = folder_of(random_model("Qwen2"))
    expected = configuration.from_config(config)
    given = dict(weights.safetensors_tensors(sorted(folder.glob("*.safetensors"))))
    for change, said in (({"model.norm.weight": None}, "lacks model.norm.weight"), ({"model.norm.weight": torch.ones(3)}, "has shape"),
                         ({"extra.weight": torch.ones(1)}, "does not use"), ({"model.norm.weight": torch.full((32,), torch.nan)}, "NaN")):
        changed = {name: tensor for name, tensor in (given | change).items() if tensor is not None}
        with pytest.raises(SourceError, match=said):
            weights.filled(expected, changed.items(), "test")


def test_names_that_load_nothing_say_what_does(tmp_path):
    with pytest.raises(UnknownName, match="smollm2-135m"):
        load.load("gpt5")
    with pytest.raises(SourceError, match="has no config.json"):
        load.load(str(tmp_path))
    (tmp_path / "config.json").write_text("[" * 100_000)
    with pytest.raises(SourceError, match="config.json: cannot be read"):
        load.load(str(tmp_path))
    (tmp_path / "model.gguf").write_bytes(b"")
    with pytest.raises(SourceError, match="model.gguf"):
        load.load(str(tmp_path / "model.gguf"))
