"""Every architecture and every way of rope beside `transformers`, out of every kind of file; nothing missing goes by."""

import json
import os
from dataclasses import dataclass, replace

import pytest
import torch
from safetensors.torch import load_file, save_file

from pycore.errors import SourceError
from pycore.serving.plan import Scheduled
from runtime.mini_infer import files, rope
from runtime.mini_infer.cache import Cache
from runtime.mini_infer.step import batch, forward

TEXT = tuple((i * 37 + 11) % 64 for i in range(100))
SCALED = {
    "linear": {"rope_type": "linear", "factor": 4.0},
    "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32},
    "yarn given": {"rope_type": "yarn", "factor": 2.5, "original_max_position_embeddings": 48, "beta_fast": 16.0,
                   "beta_slow": 2.0, "attention_factor": 1.3, "truncate": False},
    "yarn mscale": {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 16, "mscale": 1.0,
                    "mscale_all_dim": 0.5},
    "llama3": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 32},
}
MODELS = [("Llama", {}), ("Llama", {"tie_word_embeddings": True}), ("Llama", {"attention_bias": True}),
          ("Llama", {"num_key_value_heads": 4}), ("Llama", {"num_key_value_heads": 1}), ("Qwen2", {}),
          ("Qwen2", {"tie_word_embeddings": True}), ("Qwen3", {"head_dim": 16}),
          ("Qwen3", {"head_dim": 8, "attention_bias": True})]
MODELS += [(kind, {"rope_parameters": {"rope_theta": 500.0} | scaled}) for kind in ("Llama", "Qwen2") for scaled in SCALED.values()]


def ours(model, text=TEXT) -> torch.Tensor:
    """Logits after the last of these tokens, by one chunk in blocks of 16."""
    blocks = -(-len(text) // 16)
    cache = Cache(model.configuration, blocks, 16, dtype=model.dtype)
    item = Scheduled(sequence_id="a", start=0, count=len(text), decode=False, emits=True, block_table=tuple(range(blocks)))
    made = batch([item], {"a": text}, 16)
    with torch.inference_mode():
        return forward(model, cache, replace(made, last=torch.arange(len(text))))


def theirs(model, text=TEXT) -> torch.Tensor:
    with torch.no_grad():
        return model(torch.tensor([text])).logits[0].float()


@pytest.mark.parametrize(("kind", "changes"), MODELS, ids=str)
def test_logits_are_those_of_transformers(kind, changes, folder_of, random_model):
    model = random_model(kind, **changes)
    torch.testing.assert_close(ours(files.load(folder_of(model)[0])), theirs(model), atol=2e-5, rtol=1e-5)


@pytest.mark.parametrize("scaled", SCALED.values(), ids=SCALED)
def test_rope_of_older_checkpoints_gives_the_same_frequencies(scaled):
    new = {"max_position_embeddings": 128, "rope_parameters": {"rope_theta": 500.0} | scaled}
    older = {key: value for key, value in scaled.items() if key != "rope_type"} | {"type": scaled["rope_type"]}
    old = {"max_position_embeddings": 128, "rope_theta": 500.0, "rope_scaling": older}
    assert rope.from_config(new, "new") == rope.from_config(old, "old")


@pytest.mark.parametrize("kind", ["yarn", "llama3"])
def test_of_two_contexts_before_scaling_the_outer_one_counts_as_in_transformers(kind, sizes):
    """As Phi 3 writes it; what is inside says another number."""
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    scaled = {"rope_theta": 500.0} | SCALED[kind]
    data = sizes | {"original_max_position_embeddings": 64, "rope_parameters": scaled}
    expected = LlamaRotaryEmbedding(LlamaConfig(**data | {"rope_parameters": dict(scaled)}))
    found = rope.from_config(data, "config.json")
    torch.testing.assert_close(found.frequencies(8), expected.inv_freq)
    assert found.original == 64 != scaled["original_max_position_embeddings"]


@pytest.mark.parametrize(("kind", "architecture"), [("Llama", "llama"), ("Qwen2", "qwen2")])
def test_a_gguf_file_gives_the_model_that_it_was_written_from(kind, architecture, gguf_of, random_model):
    model = random_model(kind, rope_parameters={"rope_theta": 500.0, "rope_type": "default"})
    torch.testing.assert_close(ours(files.load(gguf_of(model, architecture))), theirs(model), atol=2e-5, rtol=1e-5)


@dataclass
class Said:
    """A GGUF file reduced to what it says of rope."""

    metadata: dict
    divisors: torch.Tensor | None = None
    source = "said.gguf"

    @property
    def tensors(self) -> tuple[str, ...]:
        return () if self.divisors is None else ("rope_freqs.weight",)

    def value(self, key, kind, default=None):
        return {"llama.rope.freq_base": 500.0, "llama.context_length": 128, **self.metadata}.get(key, default)

    def numbers(self, name):
        return self.divisors.numpy()


def frequencies(sizes: dict, kind: str) -> tuple[torch.Tensor, float]:
    """What `transformers` computes for a head of 8."""
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    return ROPE_INIT_FUNCTIONS[kind](LlamaConfig(**sizes, rope_parameters={"rope_theta": 500.0} | SCALED[kind]), None)


@pytest.mark.parametrize("kind", ["linear", "yarn"])
def test_scaling_in_a_gguf_files_metadata_gives_the_frequencies_of_transformers(kind, sizes):
    said = {"llama.rope.scaling.type": kind, "llama.rope.scaling.factor": 4.0, "llama.rope.dimension_count": 8,
            "llama.rope.scaling.original_context_length": 32}
    found, (expected, scale) = rope.from_gguf(Said(said), "llama", 8), frequencies(sizes, kind)
    torch.testing.assert_close(found.frequencies(8), expected)
    assert found.scale == pytest.approx(scale)


def test_divisors_in_a_gguf_file_are_the_scaling_of_llama_3(sizes):
    scaled, _ = frequencies(sizes, "llama3")
    divisors = rope.Rope(base=500.0).frequencies(8) / scaled
    torch.testing.assert_close(rope.from_gguf(Said({}, divisors), "llama", 8).frequencies(8), scaled)


@pytest.mark.parametrize("said", [
    Said({}, torch.ones(3)), Said({}, torch.tensor([1.0, 0.0, 1.0, 1.0])), Said({"llama.rope.dimension_count": 4}),
    Said({"llama.rope.scaling.type": "longrope", "llama.rope.scaling.factor": 2.0})], ids=str)
def test_rope_of_a_gguf_file_that_is_not_computed_is_refused(said):
    with pytest.raises(SourceError, match="^said.gguf: .*(rope|turns)"):
        rope.from_gguf(said, "llama", 8)


@pytest.mark.parametrize("given", [
    {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0}}, {"rope_scaling": {"type": "longrope", "factor": 2.0}},
    {"rope_scaling": {"type": "yarn", "factor": 0.0}}, {"rope_scaling": {"type": "linear"}}, {"rope_scaling": ["yarn"]},
    {"rope_scaling": {"type": "yarn", "factor": "x"}}, {"partial_rotary_factor": 0.5}, {"rope_theta": 0.0},
    {"rope_scaling": {"type": "llama3", "factor": 8.0, "low_freq_factor": 4.0, "high_freq_factor": 4.0}}], ids=str)
def test_rope_that_is_not_computed_is_refused(given):
    with pytest.raises(SourceError, match="^config.json: .*(rope|rotary)"):
        rope.from_config({"max_position_embeddings": 128} | given, "config.json")


def test_weights_in_several_files_are_found_by_their_index(folder_of, random_model, tmp_path):
    model = random_model("Qwen3", head_dim=16)
    one = tmp_path / "one"
    model.save_pretrained(one)
    several = tmp_path / "several"
    model.save_pretrained(several, max_shard_size="20KB")
    assert len(list(several.glob("*.safetensors"))) > 2
    (several / "another.safetensors").write_bytes((one / "model.safetensors").read_bytes())  # not in the index: not read
    assert torch.equal(ours(files.load(several)), ours(files.load(one)))
    first = sorted(several.glob("model-*.safetensors"))[0]
    first.unlink()
    with pytest.raises(SourceError, match=first.name):
        files.load(several)
    (several / files.INDEX).write_text(json.dumps({"weight_map": {"model.norm.weight": "../one/model.safetensors"}}))
    with pytest.raises(SourceError, match="not a file beside it"):
        files.load(several)


@pytest.mark.parametrize(("change", "said"), [
    ({"model.norm.weight": None}, "lacks model.norm.weight"), ({"model.layers.1.self_attn.k_proj.bias": None}, "k_proj.bias"),
    ({"model.norm.weight": torch.ones(3)}, "has shape"), ({"extra.weight": torch.ones(1)}, "does not use"),
    ({"model.norm.weight": torch.full((32,), torch.nan)}, "NaN"),
    ({"model.norm.weight": torch.ones(32, dtype=torch.int8)}, "is of torch.int8"),
    ({"model.layers.0.mlp.up_proj.weight": torch.ones(48, 32).to(torch.float8_e4m3fn)}, "is of torch.float8")], ids=str)
def test_peer_12_a_tensor_that_is_missing_unknown_or_of_another_kind_is_an_error_by_name(change, said, folder_of, random_model):
    folder, _ = folder_of(random_model("Qwen2"))
    file = folder / "model.safetensors"
    save_file({name: tensor for name, tensor in (load_file(file) | change).items() if tensor is not None}, file)
    with pytest.raises(SourceError, match=said):
        files.load(folder)


def test_peer_12_rope_base_is_read_from_both_places(sizes):
    data = sizes | {"model_type": "qwen2"}
    for given in ({"rope_theta": 7.0}, {"rope_parameters": {"rope_theta": 7.0, "rope_type": "default"}}):
        assert rope.from_config(data | given, "config.json") == rope.Rope(base=7.0)
        assert files.sizes(data | given).width == 32


def test_a_pipe_is_no_file_of_weights(tmp_path):
    os.mkfifo(tmp_path / "model.safetensors")
    with pytest.raises(SourceError, match="holds no .safetensors file"):
        files.shards(tmp_path)


def test_damaged_files_are_refused_in_words(tmp_path, sizes):
    config = tmp_path / "config.json"
    for text, said in (("[]", "not a JSON object"), ("[" * 100_000, "JSON"), (json.dumps({"model_type": "llama"}), "vocab_size"),
                       (json.dumps(sizes | {"model_type": "llama", "num_attention_heads": "4"}), "heads = '4'"),
                       (json.dumps(sizes | {"model_type": "llama"}), "safetensors")):
        config.write_text(text)
        with pytest.raises(SourceError, match=said):
            files.load(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"\xff" * 40)
    with pytest.raises(SourceError, match="not a sound"):
        files.load(tmp_path)
    with pytest.raises(SourceError, match="absent"):
        files.load(tmp_path / "absent.gguf")


def test_peer_13_bfloat16_is_no_further_from_float32_than_transformers_is(folder_of, random_model):
    model = random_model("Qwen2", max_position_embeddings=2048)
    folder, text = folder_of(model)[0], tuple((i * i * 7 + i) % 64 for i in range(1500))
    exact = theirs(model, text).log_softmax(-1)

    def divergence(logits: torch.Tensor) -> float:
        return float((exact.exp() * (exact - logits.log_softmax(-1))).sum(-1).mean())

    mine = divergence(ours(files.load(folder, torch.bfloat16), text))
    assert 0 < mine < 1.25 * divergence(theirs(model.to(torch.bfloat16), text))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_peer_13_angles_are_taken_in_float32_whatever_the_weights_are(dtype, folder_of, random_model):
    """Frequencies of 16 bits turn what is a thousand tokens away by another angle: too little to see in a small model's logits."""
    theirs = random_model("Qwen2", max_position_embeddings=2048)
    positions = torch.arange(2048)
    cosines, sines = theirs.model.rotary_emb(torch.empty(1, dtype=dtype), positions[None])
    mine = files.load(folder_of(theirs)[0], dtype).turn(positions)
    half = cosines.shape[-1] // 2
    assert torch.equal(mine[0][:, 0], cosines[0]) and torch.equal(mine[1][:, 0, half:], sines[0][:, half:])


def test_peer_13_norms_are_taken_in_float32_whatever_the_weights_are(pairs):
    from transformers.models.qwen2.modeling_qwen2 import Qwen2RMSNorm

    ours = pairs["Qwen2"][0]
    x, weight = (torch.randn(50, 32, generator=torch.Generator().manual_seed(1)) * 3).bfloat16(), torch.randn(32).bfloat16()
    theirs = Qwen2RMSNorm(32, eps=ours.configuration.epsilon).bfloat16()
    with torch.no_grad():
        theirs.weight.copy_(weight)
        assert torch.equal(ours.normed(x, weight), theirs(x))
