"""`infersize hub` and `infersize plan --model owner/name` against the local server."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hub_server import CONFIG

SCRIPT = Path(sys.executable).with_name("infersize")


@pytest.fixture
def run(hub, tmp_path):
    def call(*arguments, **variables):
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "HF_ENDPOINT": hub.endpoint, **variables}
        done = subprocess.run([SCRIPT, *arguments], capture_output=True, text=True, env=environment, timeout=60)
        assert "Traceback" not in done.stderr
        return done.returncode, done.stdout, done.stderr

    return call


def test_plan_from_the_hub(run):
    status, out, err = run("hub", "org/small", "--gpu", "t4")
    assert status == 0, err
    assert out.startswith("org/small at main, read from 127.0.0.1\n")
    for words in ("safetensors headers of 1 file", "F8_E4M3", "embedding",
                  "The config's shape gives 494,032,768 parameters", "Fits on 1 × NVIDIA T4", "BF16 weights"):
        assert words in out


def test_json_is_the_plans_with_the_hubs_part(run):
    status, out, _ = run("hub", "org/small", "--gpu", "t4", "--json")
    found = json.loads(out)
    assert status == 0 and found["fits"] is True
    assert found["hub"]["weights"]["bytes"] == 151936 * 896 * 2 + 896 * 896 * 2 + 4864 * 896 + 3584
    assert "config" not in found["hub"] and json.loads(found["query"]["config"]) == CONFIG
    assert found["query"]["model"] == "org/small" and found["weights"] == "bf16"


def test_a_model_that_the_catalogue_lacks_is_asked_of_the_hub(run, hub):
    status, out, _ = run("plan", "--model", "org/small", "--gpu", "t4", "--json")
    assert status == 0 and json.loads(out)["per_gpu"]["kv_bytes_per_token"] == 24 * 2 * 2 * 64 * 2
    hub.requests.clear()
    for name in ("Qwen/Qwen2.5-7B-Instruct", "someone/qwen2.5-7b-instruct-awq"):
        assert run("plan", "--model", name, "--gpu", "l40s")[0] == 0
    assert hub.requests == [], "the catalogue holds them"
    status, _, err = run("plan", "--model", "org/missing-zz9")
    assert status == 2 and "not in the catalogue" in err and "there is no" in err


def test_the_stored_format_counts_unless_one_is_asked_for(run, hub):
    config = CONFIG | {"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128}}
    hub.routes["/org/small/resolve/main/config.json"] = json.dumps(config).encode()
    assert json.loads(run("hub", "org/small", "--json")[1])["weights"] == "awq-int4-g128"
    assert json.loads(run("hub", "org/small", "--quant", "fp16", "--json")[1])["query"]["quant"] == "fp16"
    config["quantization_config"] = {"quant_method": "exotic"}
    hub.routes["/org/small/resolve/main/config.json"] = json.dumps(config).encode()
    status, out, err = run("hub", "org/small")
    assert (status, out) == (2, "") and "exotic" in err and "--quant" in err
    assert run("hub", "org/small", "--quant", "fp16")[0] == 0


@pytest.mark.parametrize(("config", "words"), [
    (b"<html>", "not a JSON object"), (b"{}", "missing"),
    (json.dumps(CONFIG | {"hidden_size": -1}).encode(), "hidden_size"),
    (json.dumps(CONFIG | {"num_hidden_layers": 10**12}).encode(), "num_hidden_layers"),
    (json.dumps(CONFIG | {"model_type": "[red]x[/red]\x1b[2J", "hidden_size": None}).encode(), "hidden_size")])
def test_configs_that_cannot_be_sized(run, hub, config, words):
    hub.routes["/org/small/resolve/main/config.json"] = config
    status, out, err = run("hub", "org/small")
    assert (status, out) == (2, "") and words in err and "\x1b" not in err


def test_names_that_the_model_itself_brings_are_shown_as_text(run, hub):
    hub.routes["/org/small/resolve/main/config.json"] = json.dumps(
        CONFIG | {"_name_or_path": "[red]x[/red]", "architectures": ["{{7*7}}"]}).encode()
    status, out, _ = run("hub", "org/small", "--gpu", "t4")
    assert status == 0 and "\x1b" not in out


def test_gated_missing_and_badly_named_repositories(run, hub):
    hub.routes["/org/gated/resolve/main/config.json"] = lambda handler: handler.answer(
        403, b"", {"X-Error-Code": "GatedRepo"})
    for name, words in (("org/gated", "HF_TOKEN"), ("org/none", "there is no"), ("a b", "Hub repository"),
                        ("../../etc/passwd", "Hub repository")):
        status, out, err = run("hub", name)
        assert (status, out) == (2, "") and words in err, (name, err)


def test_offline_without_a_copy(run, hub):
    status, _, err = run("hub", "org/small", HF_HUB_OFFLINE="1")
    assert status == 2 and "HF_HUB_OFFLINE" in err and hub.requests == []
