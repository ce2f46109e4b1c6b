"""mini-infer's own commands as people and scripts use them: text, JSON with stable keys, exit statuses, bad input."""

import importlib
import importlib.util
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import transformers
from broken_models import broken, edited

from pycore.cli import mini_infer as program
from pycore.cli.commands import module
from pycore.cli.mini_infer import engine
from pycore.cli.mini_infer.answers import shown
from pycore.knobs import TEXT_LIMIT

PROGRAM = (program.mini_infer, "mini-infer")
ROOT = Path(__file__).resolve().parents[4]
CODE = "from pycore.cli.mini_infer import main; main()"
OWN = ("generate", "chat", "info", "make-model")
TEXT_KEYS = {"prompt", "sample", "text", "finish_reason", "stop", "reason", "prompt_tokens", "cached_tokens", "output_tokens",
             "first_token_s", "mean_token_s", "token_ids", "logprobs"}


# Help -----------------------------------------------------------------------------------------------------------------


def test_help_shows_each_command_in_its_own_words():
    for name, text in program.COMMANDS.items():
        command = importlib.import_module(f"pycore.cli.mini_infer.{module(name)}").command
        assert command.help.split("\n")[0] == text
    assert set(OWN) <= set(program.COMMANDS)


@pytest.mark.parametrize("name", ["", *program.COMMANDS])
def test_help_is_there_with_examples(run, name):
    status, out, _ = run(*([name] if name else []), "--help")
    assert status == 0 and "Usage: mini-infer" in out and "Examples" in out


def test_help_loads_nothing_heavy():
    code = ("import sys\nfrom pycore.cli.mini_infer import main\ntry:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
            "assert not {'rich', 'torch', 'numpy', 'runtime', 'fastapi', 'jinja2', 'pycore.serving'} & set(sys.modules)")
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True)


@pytest.mark.parametrize("name", OWN)
def test_a_command_s_help_loads_no_torch(name):
    code = (f"import sys\nfrom pycore.cli.mini_infer import main\ntry:\n    main([{name!r}, '--help'])\nexcept SystemExit:\n"
            "    pass\nassert not {'torch', 'numpy', 'runtime', 'transformers'} & set(sys.modules)")
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True)


def test_the_first_command_that_is_shown_names_no_model(run):
    """What somebody new copies first runs with what is fetched by itself."""
    _, out, _ = run("--help")
    first = re.search(r"Examples:\s+(mini-infer .*)", out)[1]
    assert first.startswith("mini-infer generate --prompt ") and "model" not in first


def test_peer_18_the_documented_examples_run(run, model, tmp_path, monkeypatch):
    """The peer's README shows calls that its own code refuses. Every example here is run, on a small model."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("runtime.mini_infer.source.find", lambda name, say=None: model)
    (tmp_path / "question.txt").write_text("Who?")
    (tmp_path / "book.txt").write_text("It was a dark night.\n\n" * 80)
    seen = 0
    for name in ("", *OWN):
        _, out, _ = run(*([name] if name else []), "--help")
        for line in re.findall(r"^ +(mini-infer .*|printf .*)$", out, re.M):
            words = shlex.split(line, comments=True)
            if "|" in words:
                words = words[words.index("|") + 1:]
            words = words[1:words.index("<")] if "<" in words else words[1:]
            if words[0] not in OWN:
                continue
            if words[0] == "make-model":
                words += ["--layers", "1", "--width", "32", "--steps", "1", "--force"] + ([] if "--text" in words else [
                    "--text", "book.txt"])
            elif words[0] != "info":
                words += ["--max-tokens", "2", "--kv-blocks", "20"]
            with open("question.txt") as file:
                monkeypatch.setattr(sys, "stdin", file)
                status, out_of_it, err = run(*words)
            assert status == 0 and out_of_it, (line, err)
            seen += 1
    assert seen >= 12


def test_without_torch_the_message_says_what_to_install(run, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == "torch" else find(name, *more))
    for words in (["generate", "--prompt", "a"], ["info"], ["chat"], ["make-model", "--out", "x"]):
        status, _, err = run(*words)
        assert status == 2 and engine.INSTALL in err and "torch is not installed" in err


# generate -------------------------------------------------------------------------------------------------------------


def test_a_text_is_that_of_transformers(document, model, oracle):
    theirs, tokenizer = oracle
    for prompt in ("The engine", "What is", "naïve 🦜"):
        ids = tokenizer(prompt, return_tensors="pt")
        said = theirs.generate(**ids, do_sample=False, max_new_tokens=20, pad_token_id=0)[0, ids["input_ids"].shape[1]:]
        found = document("generate", model, "--prompt", prompt, "--max-tokens", 20)
        (text,) = found["texts"]
        assert text["token_ids"] == said.tolist() and set(text) == TEXT_KEYS
        assert text["text"] == tokenizer.decode(said, skip_special_tokens=True)
        assert text["prompt_tokens"] == ids["input_ids"].shape[1] and text["logprobs"] is None
        assert text["finish_reason"] == ("stop" if int(said[-1]) in (0, 2) else "length")
        assert set(found) == {"model", "architecture", "dtype", "device", "texts", "figures"}


def test_a_chat_prompt_goes_through_the_template(document, model, oracle):
    theirs, tokenizer = oracle
    said = [{"role": "system", "content": "Short."}, {"role": "user", "content": "What?"}]
    ids = tokenizer.apply_chat_template(said, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    expected = theirs.generate(**ids, do_sample=False, max_new_tokens=9, pad_token_id=0)[0, ids["input_ids"].shape[1]:]
    found = document("generate", model, "--chat", "--system", "Short.", "--prompt", "What?", "--max-tokens", 9)
    assert found["texts"][0]["token_ids"] == expected.tolist()


def test_variables_of_the_template_reach_it(run, document, model, tmp_path):
    template = "{{ messages[0].content }}{{ ' one' if enable_thinking is defined and enable_thinking is false else ' two' }}{{ name }}"
    place = broken(model, tmp_path / "m", "tokenizer_config.json", edited(chat_template=template))
    words = ["generate", place, "--chat", "--prompt", "What", "--max-tokens", 1]
    said = document(*words, "--variable", "enable_thinking=false", "--variable", "name= word")["texts"][0]
    assert said["token_ids"] == document("generate", place, "--prompt", "What one word", "--max-tokens", 1)["texts"][0]["token_ids"]
    assert said["prompt_tokens"] != document(*words)["texts"][0]["prompt_tokens"]
    for wrong in ("enable_thinking", "=1", "messages=[]", "a b=1"):
        status, _, err = run(*words, "--variable", wrong)
        assert status == 2 and "--variable" in err
    status, _, err = run("generate", place, "--prompt", "a", "--variable", "a=1")
    assert status == 2 and "--chat" in err


def test_several_prompts_say_what_each_says_alone(document, model):
    prompts = ["The engine", "What", "In the beginning was the word"]
    words = [word for prompt in prompts for word in ("--prompt", prompt)]
    together = document("generate", model, *words, "--max-tokens", 16, "--max-batched-tokens", 16, "--block-size", 8)
    alone = [document("generate", model, "--prompt", prompt, "--max-tokens", 16)["texts"][0] for prompt in prompts]
    assert [one["token_ids"] for one in together["texts"]] == [one["token_ids"] for one in alone]
    assert [one["prompt"] for one in together["texts"]] == [0, 1, 2] and together["figures"]["texts"] == 3


@pytest.mark.parametrize("draft", ["n-gram", "{model}"])
def test_a_draft_changes_no_greedy_text_and_is_counted(run, document, model, draft):
    words = ["generate", model, "--prompt", "The engine", "--max-tokens", 24, "--ignore-eos"]
    plain, drafted = document(*words), document(*words, "--draft", draft.format(model=model), "--draft-tokens", 3)
    assert [one["token_ids"] for one in plain["texts"]] == [one["token_ids"] for one in drafted["texts"]]
    assert 0 < drafted["figures"]["accepted_tokens"] <= drafted["figures"]["drafted_tokens"]
    assert plain["figures"]["drafted_tokens"] == 0
    _, _, err = run(*words, "--draft", draft.format(model=model))
    assert "drafted tokens accepted" in err


def test_samples_have_seeds_of_their_own(document, model):
    words = ["generate", model, "--prompt", "The", "--temperature", 1, "--samples", 3, "--max-tokens", 12]
    first, again, other = (document(*words, "--seed", seed)["texts"] for seed in (5, 5, 6))
    texts = [one["token_ids"] for one in first]
    assert texts == [one["token_ids"] for one in again] != [one["token_ids"] for one in other]
    assert len({tuple(one) for one in texts}) == 3 and [one["sample"] for one in first] == [0, 1, 2]


@pytest.mark.parametrize(("option", "value"), [
    ("--max-tokens", "0"), ("--max-tokens", "-3"), ("--min-tokens", "-1"), ("--min-tokens", "9"), ("--temperature", "-1"), ("--top-p", "2"),
    ("--top-k", "-2"), ("--min-p", "7"), ("--repetition-penalty", "0"), ("--seed", str(1 << 70)), ("--stop", "")])
@pytest.mark.parametrize("command", [["generate", "--prompt", "a"], ["chat"], ["speedup", "--prompt", "a"]], ids=lambda words: words[0])
def test_what_no_model_allows_is_refused_before_one_is_read(run, monkeypatch, command, option, value):
    monkeypatch.setattr("runtime.mini_infer.source.open_source", lambda *given, **more: pytest.fail("a model was read"))
    status, out, err = run(*command, "--max-tokens", "8", option, value)
    assert status == 2 and f"Error: {option}: " in err and not out, err
    status, out, err = run("speedup", "--prompt", "a", "--stop", "b")
    assert status == 2 and "Error: --stop: " in err and not out, err


def test_peer_14_top_p_of_zero_is_greedy_and_no_tokens_are_refused(run, document, model):
    words = ["generate", model, "--prompt", "The", "--max-tokens", 12]
    assert document(*words)["texts"][0]["token_ids"] == document(*words, "--temperature", 1, "--top-p", 0)["texts"][0]["token_ids"]
    status, _, err = run("generate", model, "--prompt", "The", "--max-tokens", 0)
    assert status == 2 and "--max-tokens" in err and "at least 1" in err
    status, _, err = run("generate", model, "--prompt", "The " * 300)
    assert status == 2 and "--prompt" in err and "tokens" in err
    text = document("generate", model, "--prompt", "The", "--max-tokens", 300, "--ignore-eos")["texts"][0]
    assert text["finish_reason"] == "length" and text["prompt_tokens"] + text["output_tokens"] == 256  # the model's context


def test_a_stop_ends_the_text_and_is_no_part_of_it(document, model):
    whole = document("generate", model, "--prompt", "The", "--max-tokens", 24)["texts"][0]["text"]
    stop = whole[3:6]
    cut = whole[:whole.index(stop)]
    found = document("generate", model, "--prompt", "The", "--max-tokens", 24, "--stop", stop, "--stop", "never there")["texts"][0]
    assert (found["text"], found["finish_reason"], found["stop"]) == (cut, "stop", stop)
    with_it = document("generate", model, "--prompt", "The", "--max-tokens", 24, "--stop", stop, "--include-stop")["texts"][0]
    assert with_it["text"] == cut + stop and found["output_tokens"] < 24


def test_log_probabilities_are_those_of_transformers(document, model, oracle):
    theirs, tokenizer = oracle
    text = document("generate", model, "--prompt", "The engine", "--max-tokens", 5, "--logprobs", 3)["texts"][0]
    ids = tokenizer("The engine")["input_ids"]
    with torch.no_grad():
        logits = theirs(torch.tensor([ids + text["token_ids"]])).logits[0].log_softmax(-1)
    for place, one in enumerate(text["logprobs"]):
        row = logits[len(ids) - 1 + place]
        assert one["logprob"] == pytest.approx(float(row[one["token_id"]]), abs=1e-4)
        assert [other["token_id"] for other in one["top"]] == row.topk(3).indices.tolist()
        assert bytes(one["bytes"]).decode("utf-8", "replace") == one["text"]


def test_events_hold_what_ran(run, document, model, tmp_path):
    """The file is played on the scheduler by `mini-infer events`, which finds the same requests and every law kept."""
    words = ["generate", model, "--prompt", "The engine", "--prompt", "The engine reads", "--max-tokens", 6]
    plain = document(*words)
    recorded = document(*words, "--events", tmp_path / "events.jsonl")
    assert [one["token_ids"] for one in plain["texts"]] == [one["token_ids"] for one in recorded["texts"]]
    status, out, err = run("events", tmp_path / "events.jsonl", "--json")
    assert status == 0 and json.loads(out), err
    status, _, err = run(*words, "--events", tmp_path)
    assert status == 2 and "--events" in err


def test_text_goes_to_one_stream_and_figures_to_the_other(run, document, model):
    words = ["generate", model, "--prompt", "The engine", "--max-tokens", 8]
    status, out, err = run(*words)
    assert status == 0 and out == shown(document(*words)["texts"][0]["text"]) + "\n"
    assert "2 prompt tokens" in err and "8 tokens out" in err and "tokens/s" in err
    status, out, err = run(*words, "--prompt", "What", "--samples", 2, "--temperature", 1)
    assert [line for line in out.splitlines() if line.startswith("[prompt")] == [
        "[prompt 1, text 1]", "[prompt 1, text 2]", "[prompt 2, text 1]", "[prompt 2, text 2]"]
    assert "in 4 texts" in err


def test_a_text_comes_token_by_token_until_ctrl_c(model, tmp_path):
    """What came is kept, and its figures: the tokens are fewer than were asked for, and the status says why."""
    place = broken(model, tmp_path / "long", "config.json", edited(max_position_embeddings=60_000))
    command = [sys.executable, "-c", CODE, "generate", str(place), "--prompt", "The", "--max-tokens", "50000", "--ignore-eos",
               "--temperature", "1", "--seed", "1", "--max-sequences", "1"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT)
    first = os.read(process.stdout.fileno(), 1 << 16)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert first and (first + out).endswith(b"\n") and process.returncode == 130, err
    tokens = int(re.search(rb"([\d,]+) tokens out", err)[1].replace(b",", b""))
    assert 0 < tokens < 50_000 and b"Interrupted." in err and b"Traceback" not in err


def test_a_prompt_from_standard_input(run, document, given, model):
    given("naïve 🦜\n".encode())
    text = document("generate", model, "--prompt", "-", "--max-tokens", 4)["texts"][0]
    assert text["token_ids"] == document("generate", model, "--prompt", "naïve 🦜", "--max-tokens", 4)["texts"][0]["token_ids"]
    for data, said in ((b"\xff\xfe", "not UTF-8"), (b"", "at least one token"), (b"\n", "at least one token"),
                       (b"a" * (TEXT_LIMIT + 1), "larger than")):
        given(data)
        status, _, err = run("generate", model, "--prompt", "-")
        assert status == 2 and said in err
    status, _, err = run("generate", model, "--prompt", b"a\xffb".decode("utf-8", "surrogateescape"))  # as it comes from a shell
    assert status == 2 and "--prompt" in err and "UTF-8" in err


def test_what_a_model_says_does_not_act_on_the_terminal():
    assert shown("a\x1b[2Jb\r\u202ec\u200d\U0001f426\n") == "a\\x1b[2Jb\\r\\u202ec\u200d\U0001f426\n"


@pytest.mark.parametrize(("words", "said"), [
    (["generate"], "--prompt"), (["generate", "--prompt", ""], "--prompt"), (["generate", "--prompt", "-", "--prompt", "-"], "once"),
    (["generate", "{model}", "--prompt", "a", "--system", "b"], "--system"),
    (["generate", "{model}", "--prompt", "a", "--logprobs", "2"], "--json"),
    (["generate", "{model}", "--prompt", "a", "--temperature", "-1"], "--temperature"),
    (["generate", "{model}", "--prompt", "a", "--temperature", "nan"], "--temperature"),
    (["generate", "{model}", "--prompt", "a", "--top-p", "2"], "--top-p"),
    (["generate", "{model}", "--prompt", "a", "--stop", ""], "--stop"),
    (["generate", "{model}", "--prompt", "a", *(["--stop", "x"] * 65)], "at most 64"),
    (["generate", "{model}", "--prompt", "a", "--samples", "0"], "--samples"),
    (["generate", "{model}", "--prompt", "a", "--min-tokens", "9", "--max-tokens", "3"], "--min-tokens"),
    (["generate", "{model}", "--model", "other", "--prompt", "a"], "--model"),
    (["generate", "{model}", "--prompt", "a", "--device", "tpu"], "--device"),
    (["generate", "{model}", "--prompt", "abcdefghijklmnopqrstuvwxyz", "--kv-blocks", "1"], "--prompt"),
    (["generate", "{model}", "--prompt", "a", "--kv-blocks", "16000000"], "--kv-blocks"),
    (["generate", "{model}", "--prompt", "a", "--block-size", "0"], "--block-size"),
    (["generate", "{model}", "--prompt", "a", "--max-model-length", "9999"], "--max-model-length"),
    (["generate", "no-such-model", "--prompt", "a"], "smollm2-135m"), (["chat", "no-such-model"], "smollm2-135m"),
    (["info", "no-such-model"], "smollm2-135m"), (["info", "{model}", "--device", "tpu"], "--device"),
    (["make-model", "--out", "{model}"], "--force"), (["make-model", "--out", "{new}", "--width", "30"], "width"),
    (["make-model", "--out", "{new}", "--vocabulary", "100"], "at least 259"),
    (["make-model", "--out", "{new}", "--heads", "3", "--width", "66", "--kv-heads", "2"], "--kv-heads: "),
    (["make-model", "--out", "{new}", "--trained", "--text", "no-such-text"], "--text"),
    (["make-model", "--out", "/proc/nowhere"], "--out")], ids=lambda one: one if isinstance(one, str) else " ".join(one)[:60])
def test_bad_input_is_said(run, model, tmp_path, words, said):
    status, out, err = run(*(word.format(model=model, new=tmp_path / "new") for word in words))
    assert status == 2 and said in err and not out, err


# info and make-model --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "qwen3"])
def test_what_info_says_is_what_transformers_counts(document, tmp_path, architecture):
    made = document("make-model", "--out", tmp_path / "m", "--architecture", architecture, "--layers", 2, "--width", 64, "--seed", 3)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "m")
    found = document("info", tmp_path / "m", "--hashes")
    assert found["parameters"] == theirs.num_parameters() == made["parameters"] and found["architecture"] == architecture
    assert sum(one["bytes"] for one in found["tensors"]) == found["weight_bytes"] == 4 * theirs.num_parameters()
    config = theirs.config
    assert found["keys_and_values"]["float16"]["bytes_per_token"] == (
        2 * 2 * config.num_hidden_layers * config.num_key_value_heads * (config.hidden_size // config.num_attention_heads))
    assert found["tokenizer"]["end_ids"] == [0, 2] and found["tokenizer"]["chat_template"] and len(found["files"][0]["sha256"]) == 64
    assert found["weights_fit"] and found["keys_and_values"]["int4"]["tokens"] > found["keys_and_values"]["float32"]["tokens"]
    kinds = {type(theirs).__name__}
    assert kinds == {architecture.capitalize() + "ForCausalLM"}


def test_info_of_the_default_model(document, run):
    found = document("info", "--tensors")
    assert found["model"] == "smollm2-135m" and found["kinds"]["Q4_1"] == 210 and found["sizes"]["context"] == 8192
    assert found["tokenizer"]["end"] == ["<|im_end|>"]
    assert "blk.29.ffn_down.weight" in {one["name"] for one in found["tensors"]} and found["parameters"] == 134_515_008


def test_info_in_words(run, model):
    status, out, _ = run("info", model, "--tensors")
    assert status == 0 and "model.layers.1.mlp.down_proj.weight" in out and "keys and values" in out and "chat template" in out


def test_the_same_seed_makes_the_same_model(document, tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        document("make-model", "--out", tmp_path / name, "--layers", 1, "--width", 32, "--seed", seed)
    first, same, other = ((tmp_path / name / "model.safetensors").read_bytes() for name in "abc")
    assert first == same != other


def test_a_trained_model_has_learnt(document, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("\n\n".join(["the cat sat on the mat and the dog lay by the door"] * 60))
    found = document("make-model", "--out", tmp_path / "m", "--trained", "--text", text, "--steps", 60, "--layers", 1, "--width", 32)
    assert found["trained"] and found["last_loss_nats"] < 2.5  # from ln 300 = 5.7
    said = document("generate", tmp_path / "m", "--prompt", "the cat sat", "--max-tokens", 4)
    assert said["texts"][0]["text"].startswith(" on the")
