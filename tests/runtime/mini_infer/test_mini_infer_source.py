"""Where a model comes from: a package, a folder, a file, the Hub (a stand-in for it); what each says when there is nothing."""

import json
import os
import subprocess
import sys
from pathlib import Path

import mini_infer_hub
import pytest
import torch

from pycore.errors import InputError, SourceError, UnknownName
from runtime.mini_infer import hub, make_model, room, source
from runtime.mini_infer.arithmetic import native
from runtime.mini_infer.facts import facts
from runtime.models.supply import SMOLLM2

ROOT = Path(__file__).resolve().parents[3]
FETCH = """import json, sys
from pycore.errors import SourceError
from runtime.mini_infer import hub
found = {}
for name in json.loads(sys.argv[1]):
    try:
        found[name] = str(hub.fetch(name, lambda text: None))
    except SourceError as error:
        found[name] = "! " + str(error)
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    place = tmp_path_factory.mktemp("models") / "tiny"
    make_model.make(place, make_model.sizes("qwen3", layers=1, width=32, heads=2, kv_heads=1, context=64))
    return place


@pytest.fixture(scope="module")
def stand_in(model):
    server = mini_infer_hub.serve(model, **{"pytorch_model.bin": b"not wanted", "consolidated.safetensors": b"nor this",
                                            "original/model.safetensors": b"nor this", "README.md": b"nor this",
                                            "small.gguf": b"GGUF", "deep/er.gguf": b"GGUF"})
    yield server
    server.shutdown()


def run(code: str, *arguments: str, home: Path, endpoint: str, **more: str) -> subprocess.CompletedProcess:
    """In a process of its own: where the Hub is, is read once."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "HUGGING"))}
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, cwd=ROOT, check=False,
                          env=clean | {"HF_HOME": str(home), "HF_ENDPOINT": endpoint} | more)


def fetched(names: list[str], home: Path, endpoint: str, **more: str) -> dict[str, str]:
    result = run(FETCH, json.dumps(names), home=home, endpoint=endpoint, **more)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def address(server) -> str:
    return f"http://127.0.0.1:{server.server_port}"


def test_a_repository_is_fetched_once_and_only_what_is_run(stand_in, model, tmp_path):
    found = fetched(["owner/name", "owner/name@main", "owner/name/small.gguf", "owner/name/deep/er.gguf"], tmp_path, address(stand_in))
    folder = Path(found["owner/name"])
    assert {path.name for path in folder.iterdir() if path.is_file()} >= {path.name for path in model.iterdir()}
    for name in ("pytorch_model.bin", "consolidated.safetensors", "README.md"):
        assert not any(name in path for path in stand_in.asked)
    assert "/owner/name/resolve/" not in " ".join(path for path in stand_in.asked if "original" in path)
    assert (folder / "model.safetensors").read_bytes() == (model / "model.safetensors").read_bytes()
    assert found["owner/name@main"] == str(folder) and Path(found["owner/name/small.gguf"]).read_bytes() == b"GGUF"
    assert Path(found["owner/name/deep/er.gguf"]).name == "er.gguf"
    before = [path for path in stand_in.asked if path.endswith("model.safetensors")]
    again = fetched(["owner/name"], tmp_path, address(stand_in))  # the weights are there
    offline = fetched(["owner/name", "owner/other"], tmp_path, "http://127.0.0.1:9", HF_HUB_OFFLINE="1")
    assert again["owner/name"] == offline["owner/name"] == str(folder)
    assert offline["owner/other"].startswith("! owner/other: ") and "HF_HUB_OFFLINE" in offline["owner/other"]
    assert [path for path in stand_in.asked if path.endswith("model.safetensors")] == before


def test_what_the_hub_refuses_is_said_in_one_line(stand_in, tmp_path):
    said = {"owner/absent": "nor a repository on the Hub", "owner/gated": "is gated", "owner/name@nowhere": "no such revision",
            "owner/name/none.gguf": "no such file", "owner/broken": "status 500", "owner/nonsense": "could not be had",
            "owner/with--dashes": "could not|a name that the Hub allows|nor a repository"}
    found = fetched(list(said), tmp_path, address(stand_in))
    for name, text in said.items():
        assert found[name].startswith(f"! {name}: ") and "\n" not in found[name]
        assert any(one in found[name] for one in text.split("|")), found[name]


def test_a_hub_that_cannot_be_reached_is_said(tmp_path):
    found = fetched(["owner/name"], tmp_path, "http://127.0.0.1:9")
    assert found["owner/name"] == "! owner/name: is neither a path here nor in the cache, and the Hub cannot be reached"


def test_a_model_of_the_hub_is_run_like_any_other(stand_in, model, tmp_path):
    code = "from pycore.cli.mini_infer import main; main()"
    words = ["generate", "owner/name", "--prompt", "The", "--max-tokens", "5", "--json"]
    result = run(code, *words, home=tmp_path, endpoint=address(stand_in), OMP_NUM_THREADS="1")
    assert result.returncode == 0, result.stderr
    here = source.open_source(str(model))
    assert json.loads(result.stdout)["model"] == "owner/name" and "asking the Hugging Face Hub" in result.stderr
    assert len(json.loads(result.stdout)["texts"][0]["token_ids"]) == 5 and here.words.end == (0, 2)


@pytest.mark.parametrize("name", ["owner/name", "o/n.a-me_1", "owner/name@v1.0", "owner/name@refs/pr/1", "owner/name/a/b.gguf@main"])
def test_names_that_are_asked_of_the_hub(name):
    assert hub.REPOSITORY.fullmatch(name)


@pytest.mark.parametrize("name", ["", "name", "/nowhere/model", "../x", "./x", "a/b/c", "a/b@", "a//b", "a/../b.gguf", "a b/c", "-a/b",
                                  "a/b@../../x.gguf\n", "a/\0b", "x" * 5000, "https://example.org/a"])
def test_names_that_are_not(name, tmp_path, monkeypatch):
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")  # "../x" is to be nothing, wherever the tests run
    assert not hub.REPOSITORY.fullmatch(name)
    with pytest.raises((UnknownName, SourceError)) as caught:
        source.find(name)
    assert len(str(caught.value)) < 600


def test_without_the_hub_s_client_a_name_says_what_to_install(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name, *more: None)
    with pytest.raises(SourceError, match="pip install"):
        hub.fetch("owner/name", print)


def test_the_default_is_the_packaged_model():
    path = source.find(source.DEFAULT)
    assert path.name == Path(SMOLLM2.file).name


def test_a_file_of_weights_alone_is_no_model(model):
    with pytest.raises(SourceError, match="name the folder"):
        source.find(str(model / "model.safetensors"))


def test_a_folder_is_opened_with_its_words_and_its_hashes(model):
    one = source.open_source(str(model))
    assert one.name == str(model) and one.files == (model / "model.safetensors",) and len(one.hashes()["model.safetensors"]) == 64
    assert one.model.dtype == torch.float32 and one.words.template is not None


@pytest.mark.parametrize("has", [True, False])
def test_numbers_that_a_device_would_only_imitate_are_not_computed_in(has, model, monkeypatch):
    """Imitated, 16 bits take several times as long as 32: a CPU without them computes in float32, and says so."""
    for place, name in ((torch.ops.mkldnn, "_is_mkldnn_bf16_supported"), (torch.ops.mkldnn, "_is_mkldnn_fp16_supported"),
                        (torch.cpu, "_is_avx512_bf16_supported"), (torch.cpu, "_is_amx_tile_supported")):
        monkeypatch.setattr(place, name, lambda: has, raising=False)
    said = []
    for name in ("bfloat16", "float16"):
        opened = source.open_source(str(model), dtype=name, device="cpu", say=said.append)
        assert opened.model.dtype == (getattr(torch, name) if has else torch.float32)
        assert facts(str(model), dtype=name, device="cpu")["dtype"] == (name if has else "float32")
    assert len(said) == (0 if has else 2) and all("float32 stands in" in one for one in said)
    need = room.weight_bytes(opened.model.configuration, torch.float32)
    monkeypatch.setattr("runtime.mini_infer.room.free_bytes", lambda device: need * 3 // 4)
    with pytest.raises(InputError) as caught:
        source.open_source(str(model), device="cpu")
    assert ("in 16 bits they take" in str(caught.value)) == has  # what would not be done is no advice


def test_old_x86_has_no_bfloat16_whatever_its_library_says(monkeypatch):
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: True, raising=False)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False, raising=False)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False, raising=False)
    for machine, has in (("x86_64", False), ("AMD64", False), ("aarch64", True)):
        monkeypatch.setattr("platform.machine", lambda machine=machine: machine)
        assert native(torch.bfloat16, "cpu") is has
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True: including_emulation)
    assert not native(torch.bfloat16, "cuda") and native(torch.float16, "cuda:1") and native(torch.bfloat16, "mps")


def test_an_end_that_the_model_does_not_have_is_refused(model, tmp_path):
    for path in model.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": 512}))
    with pytest.raises(SourceError, match="ends a text with token 512"):
        source.open_source(str(tmp_path))


def test_weights_that_do_not_fit_are_refused_before_they_are_read(model, monkeypatch):
    monkeypatch.setattr("runtime.mini_infer.room.free_bytes", lambda device: 1000)
    monkeypatch.setattr("runtime.mini_infer.files.load", lambda *given: pytest.fail("weights were read"))
    with pytest.raises(InputError, match="free"):
        source.open_source(str(model))


@pytest.mark.parametrize("name", ["tpu", "cuda:", "cuda:1000", "CPU", "", None, 5, "cpu:0\n"])
def test_devices_that_are_not_here(name):
    with pytest.raises(InputError) as caught:
        source.resolve_device(name)
    assert caught.value.field == "device"


def test_devices_that_are(monkeypatch):
    assert source.resolve_device("cpu") == "cpu" and source.resolve_device("auto") in ("cpu", "cuda", "mps")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert [source.resolve_device(name) for name in ("auto", "cuda", "cuda:1")] == ["cuda", "cuda", "cuda:1"]
    with pytest.raises(InputError, match="cuda:0, cuda:1"):
        source.resolve_device("cuda:2")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert source.resolve_device("auto") == source.resolve_device("mps") == "mps"
    assert source.resolve_device(str(torch.device("mps", 0))) == "mps:0"  # as a model there says: its draft goes there, too
    with pytest.raises(InputError):
        source.resolve_dtype("float64")
