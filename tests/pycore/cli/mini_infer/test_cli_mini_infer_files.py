"""Files that are no sound model, as who asks for them on the command line meets them."""

import os
import re
import struct

import pytest
from broken_models import broken, edited, longer_header

from pycore.cli import mini_infer as program

PROGRAM = (program.mini_infer, "mini-infer")


@pytest.mark.parametrize(("name", "change", "said"), [
    ("config.json", lambda data: None, "without config.json"), ("config.json", lambda data: data[:40], "config.json"),
    ("config.json", lambda data: b"[]", "not a JSON object"), ("config.json", lambda data: b"\xff\xfe", "config.json"),
    ("config.json", edited(model_type="gpt_neox"), "gpt_neox"), ("config.json", edited(hidden_size=-4), "hidden_size|width"),
    ("config.json", edited(num_hidden_layers=1 << 40), "layers"), ("config.json", edited(vocab_size="many"), "vocab"),
    ("config.json", edited(num_key_value_heads=3), "multiple"), ("config.json", edited(hidden_size="gone"), "hidden_size"),
    ("config.json", edited(use_sliding_window=True), "sliding"), ("config.json", edited(num_hidden_layers=3), "lacks model.layers.2"),
    ("config.json", edited(num_hidden_layers=1), "does not use"), ("config.json", edited(intermediate_size=64), "shape"),
    ("config.json", edited(vocab_size=1 << 23, hidden_size=1 << 16), "weights of"),
    ("model.safetensors", lambda data: None, "holds no .safetensors"), ("model.safetensors", lambda data: b"", "not a sound"),
    ("model.safetensors", lambda data: data[:len(data) // 2], "not a sound"), ("model.safetensors", longer_header, "not a sound"),
    ("model.safetensors", lambda data: os.urandom(500), "not a sound"),
    ("tokenizer.json", lambda data: None, "tokenizer.json"), ("tokenizer.json", lambda data: data[:200], "not a tokenizer"),
    ("tokenizer_config.json", edited(chat_template="{% if %}"), "no Jinja"),
    ("generation_config.json", edited(eos_token_id=10**6), "1,000,000")], ids=lambda one: one if isinstance(one, str) else "")
def test_a_folder_that_is_no_sound_model_is_said_by_name(run, model, tmp_path, name, change, said):
    place = broken(model, tmp_path / "model", name, change)
    status, out, err = run("generate", place, "--prompt", "a", "--max-tokens", "1")
    assert status == 2 and re.search(said, err) and len(err.splitlines()) == 1 and not out, err
    assert "--config" not in err, "there is no such option here"


def test_peer_12_nothing_missing_goes_by_whatever_the_command(run, model, tmp_path):
    """The peer leaves a tensor that is missing at random, and says nothing."""
    place = broken(model, tmp_path / "model", "config.json", edited(num_hidden_layers=3))
    for words in (["generate", place, "--prompt", "a"], ["chat", place]):
        status, _, err = run(*words)
        assert status == 2 and "model.layers.2" in err


@pytest.mark.parametrize(("data", "said"), [
    (b"", "cannot be read"), (b"GGUF", "ends within"), (b"PK\x03\x04" + bytes(64), "not a GGUF file"),
    (b"GGUF" + struct.pack("<IQQ", 99, 0, 0), "version 99"), (b"GGUF" + struct.pack("<IQQ", 3, 1 << 60, 0), "announces"),
    (b"GGUF" + struct.pack("<IQQ", 3, 0, 1 << 60), "announces"), (b"GGUF" + struct.pack("<IQQ", 3, 0, 0), "general.architecture|tokenizer")],
    ids=str)
@pytest.mark.parametrize("command", ["generate", "info"])
def test_a_file_that_is_no_sound_gguf_is_said(run, tmp_path, data, said, command):
    path = tmp_path / "model.gguf"
    path.write_bytes(data)
    status, out, err = run(command, path, *(["--prompt", "a"] if command == "generate" else []))
    assert status == 2 and re.search(said, err) and not out, err
