"""`mini-infer serve` as a process: it says where it listens, runs its own examples, and ends when it is told to."""

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from mini_infer_serving import write_parrot

from pycore.cli import errors
from pycore.cli.mini_infer import mini_infer, serve
from pycore.scenes import event_file

ROOT = Path(__file__).resolve().parents[3]
README_BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("parrot")
    write_parrot(folder)
    return folder


def started(folder, *options, **variables) -> tuple[subprocess.Popen, str, list[str]]:
    """A server's process, where it listens, and what it said until then."""
    command = [sys.executable, "-c", "from pycore.cli.mini_infer import main; main()", "serve", "--model", str(folder), "--device", "cpu",
               "--port", "0", "--kv-blocks", "64", *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=os.environ | variables)
    said = []
    for line in process.stderr:
        said.append(line.strip())
        if found := re.search(r"at (http://\S+)/v1", line):
            return process, found[1], said
    raise AssertionError(f"it did not start: {said}")


def ended(process: subprocess.Popen, number: int = signal.SIGTERM) -> tuple[int, str]:
    """Its exit status and what it said at last."""
    process.send_signal(number)
    out, error = process.communicate(timeout=30)
    return process.returncode, out + error


def examples() -> list[tuple[str, str]]:
    """(path, body) of every curl line in the command's help and in the README."""
    texts = [serve.EPILOG, (ROOT / "README.md").read_text(encoding="utf-8")]
    lines = [line for text in texts for line in re.sub(r"\\+\n\s*", " ", text).splitlines() if line.strip().startswith("curl") and "/v1/" in line]
    found = []
    for line in lines:
        words = shlex.split(line)
        address = next(word for word in words if word.startswith("http://"))
        found.append(("/" + address.split("/", 3)[3], words[words.index("-d") + 1] if "-d" in words else ""))
    return found


def test_peer_18_the_examples_run_and_sigterm_ends_it_in_order(folder):
    process, url, said = started(folder, "--model-name", "smollm2-135m")
    try:
        assert url.startswith("http://127.0.0.1:")
        assert examples()
        for path, body in examples():
            answer = httpx.request("POST" if body else "GET", url + path, content=body, headers={"Content-Type": "application/json"}, trust_env=False)
            assert answer.status_code == 200 and answer.json(), (path, answer.text)
        for block in README_BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8")):
            if "openai" in block:
                code = re.sub(r"http://127\.0\.0\.1:8000", url, block)
                assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, cwd=ROOT).stdout
    finally:
        status, words = ended(process)
    assert status == 0 and "Traceback" not in words


def test_a_stream_under_way_is_finished_after_ctrl_c_and_its_steps_are_on_file(folder, tmp_path):
    process, url, said = started(folder, "--host", "0.0.0.0", "--max-sequences", "2", "--events", str(tmp_path / "steps.jsonl"))
    try:
        assert any("no --api-key is set" in line for line in said)
        asked = {"prompt": "a", "max_tokens": 400, "temperature": 0, "stream": True}
        with httpx.stream("POST", url.replace("0.0.0.0", "127.0.0.1") + "/v1/completions", json=asked, trust_env=False) as answer:
            lines = answer.iter_lines()
            next(lines)
            process.send_signal(signal.SIGINT)
            rest = [json.loads(line[6:])["choices"][0] for line in lines if line.startswith("data: {")]
        assert rest[-1]["finish_reason"] == "length" and len(rest) == 400  # one was read before; the end has one of its own
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.communicate()
    header, events = event_file.read((tmp_path / "steps.jsonl").read_text().splitlines())
    assert header.blocks == 64 and len(list(events)) >= 400


def test_a_port_in_use_is_said_in_one_line_before_the_model_is_read(folder, capsys):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        status, words = run(capsys, "--model", str(folder), "--port", str(port))
    assert status == 2 and words.strip().count("\n") == 0 and f"--port: '{port}' is not accepted; a free port" in words
    assert "reading" not in words


@pytest.mark.parametrize(("options", "said"), [
    (["--port", "70000"], "--port"), (["--host", "no.such.host.invalid"], "--host"), (["--host", "192.0.2.1"], "--host"), (["--model", "/no/where"], "--model"),
    (["--api-key", ""], "--api-key"), (["--queue", "-1"], "--queue"), (["--block-size", "0"], "--block-size"), (["--drain-seconds", "-1"], "--drain-seconds"), (["--events", "/no/where"], "--events")])
def test_bad_options_are_named(options, said, folder, capsys):
    status, words = run(capsys, *(["--model", str(folder)] if "--model" not in options else []), "--port", "0", *options)
    assert status == 2 and said in words and "Traceback" not in words


def run(capsys, *options: str) -> tuple[int, str]:
    """Exit status and words of a command that does not get as far as serving."""
    status = errors.run(mini_infer, ["serve", "--device", "cpu", *options], "mini-infer")
    said = capsys.readouterr()
    return status, said.out + said.err


def test_an_empty_key_from_the_environment_is_no_open_door(folder, capsys, monkeypatch):
    monkeypatch.setenv("MINI_INFER_API_KEY", "")
    status, words = run(capsys, "--model", str(folder), "--port", "0")
    assert status == 2 and "MINI_INFER_API_KEY" in words and "--api-key" in words


def test_a_key_from_the_environment_is_asked_for_and_not_shown(folder):
    process, url, said = started(folder, "--host", "0.0.0.0", MINI_INFER_API_KEY="hidden")
    try:
        url = url.replace("0.0.0.0", "127.0.0.1")
        assert not any("--api-key" in line or "hidden" in line for line in said)
        assert httpx.get(url + "/v1/models", trust_env=False).status_code == 401
        assert httpx.get(url + "/v1/models", headers={"Authorization": "Bearer hidden"}, trust_env=False).status_code == 200
    finally:
        ended(process)


def test_help_lists_the_commands_own_words():
    assert serve.command.help.strip() == mini_infer.lines["serve"]
