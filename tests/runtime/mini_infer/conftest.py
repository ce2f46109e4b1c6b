"""Small random models: ours and the one of `transformers` that it was written by."""

import pytest
import torch

from runtime.mini_infer import files


@pytest.fixture(scope="session")
def pairs(random_model, tmp_path_factory):
    """(ours, theirs) by architecture: every head layout, bias, norm and scaling that they differ in."""
    changes = {"Llama": {"rope_parameters": {"rope_theta": 500.0, "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                                             "high_freq_factor": 4.0, "original_max_position_embeddings": 32}},
               "Qwen2": {"tie_word_embeddings": True}, "Qwen3": {"head_dim": 16, "num_key_value_heads": 1}}
    made = {}
    for kind, change in changes.items():
        theirs, folder = random_model(kind, **change), tmp_path_factory.mktemp(kind)
        if theirs.config.tie_word_embeddings:  # it would say the same token for ever, whatever attention reads
            with torch.no_grad():
                for name, parameter in theirs.named_parameters():
                    parameter *= 6 if name.endswith(("o_proj.weight", "v_proj.weight")) else 1
        theirs.save_pretrained(folder)
        made[kind] = files.load(folder), theirs
    return made


@pytest.fixture(scope="session")
def small(random_model, tmp_path_factory):
    """Models of five tokens: (target, what wrote it, a draft that says something else)."""
    found = []
    for kind, factor in (("Llama", 4.0), ("Qwen3", 3.0)):
        theirs, folder = random_model(kind, vocab_size=5, bos_token_id=None, eos_token_id=None, pad_token_id=None), \
            tmp_path_factory.mktemp(kind)
        with torch.no_grad():
            theirs.lm_head.weight *= factor
        theirs.save_pretrained(folder)
        found.append((files.load(folder), theirs))
    return found[0][0], found[0][1], found[1][0]
