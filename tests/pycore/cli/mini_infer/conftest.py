"""A small model that make-model wrote, what transformers makes of it, and bytes on standard input."""

import io
import sys

import pytest
import torch
import transformers


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A folder that make-model wrote."""
    from runtime.mini_infer import make_model

    place = tmp_path_factory.mktemp("models") / "tiny"
    make_model.make(place, make_model.sizes("llama", layers=2, width=64, heads=4, kv_heads=2, context=256))
    return place


@pytest.fixture(scope="module")
def oracle(model):
    return transformers.AutoModelForCausalLM.from_pretrained(model), transformers.AutoTokenizer.from_pretrained(model)


@pytest.fixture(autouse=True)
def one_thread():
    """More wait for each other on a busy machine, and these models are small."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def given(monkeypatch):
    """Let bytes be what standard input holds."""
    return lambda data: monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
