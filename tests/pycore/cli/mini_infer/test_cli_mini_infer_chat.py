"""Conversations: out of a pipe, and at a terminal with Ctrl-C."""

import contextlib
import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest
from broken_models import broken, edited

from pycore.cli import mini_infer as program
from pycore.cli.mini_infer.answers import shown
from pycore.knobs import TEXT_LIMIT

PROGRAM = (program.mini_infer, "mini-infer")
ROOT = Path(__file__).resolve().parents[4]
CODE = "from pycore.cli.mini_infer import main; main()"


def test_a_conversation_out_of_a_pipe(run, document, given, model, oracle):
    theirs, tokenizer = oracle
    given(b"One?\n\n  Two?  \n")
    found = document("chat", model, "--max-tokens", "6", "--system", "Short.")
    assert [one["role"] for one in found["messages"]] == ["system", "user", "assistant", "user", "assistant"]
    assert [one["message"] for one in found["turns"]] == ["One?", "Two?"] and found["turns"][1]["cached_tokens"] > 0
    ids = tokenizer.apply_chat_template(found["messages"][:-1], add_generation_prompt=True, return_tensors="pt", return_dict=True)
    said = theirs.generate(**ids, do_sample=False, max_new_tokens=6, pad_token_id=0)[0, ids["input_ids"].shape[1]:]
    assert found["messages"][-1]["content"] == tokenizer.decode(said, skip_special_tokens=True)
    given(b"One?\nTwo?\n")
    status, out, _ = run("chat", model, "--max-tokens", "6", "--system", "Short.")
    assert status == 0 and out == "".join(shown(one["answer"]) + "\n" for one in found["turns"])


@pytest.mark.parametrize(("data", "status", "said"), [(b"x" * 600 + b"\n", 2, "--prompt"), (b"\xff\n", 2, "not UTF-8"), (b"", 0, ""),
                                                  (b"a" * (TEXT_LIMIT + 1), 2, "larger than")], ids=["long", "bytes", "none", "huge"])
def test_a_conversation_that_cannot_go_on_is_said(run, given, model, data, status, said):
    given(data)
    found, out, err = run("chat", model, "--max-tokens", "5")
    assert found == status and said in err and not out


def test_a_model_without_a_template_has_no_conversation(run, model, tmp_path):
    place = broken(model, tmp_path / "m", "tokenizer_config.json", edited(chat_template="gone"))
    status, _, err = run("chat", place)
    assert status == 2 and "chat template" in err
    status, _, err = run("generate", place, "--chat", "--prompt", "a")
    assert status == 2 and "chat template" in err


class Terminal:
    """The program at a terminal of its own."""

    def __init__(self, *arguments):
        self.leader, follower = pty.openpty()
        self.process = subprocess.Popen([sys.executable, "-c", CODE, *map(str, arguments)], stdin=follower, stdout=follower,
                                        stderr=follower, cwd=ROOT, start_new_session=True, env=os.environ | {"TERM": "dumb"},
                                        preexec_fn=lambda: __import__("fcntl").ioctl(0, __import__("termios").TIOCSCTTY, 0))
        os.close(follower)
        self.seen = ""

    def type(self, text: str) -> None:
        os.write(self.leader, text.encode())

    def insist(self, key: str, text: str) -> None:
        """Type a key until a text comes: between Python's prompt and its read a Ctrl-C is lost, as at any Python prompt."""
        for _ in range(24):
            self.type(key)
            with contextlib.suppress(AssertionError):
                self.until(text, seconds=5)
                return
        self.until(text, seconds=5)

    def any(self) -> None:
        """Wait until something comes."""
        assert self.seen or select.select([self.leader], [], [], 120)[0]

    def until(self, text: str, seconds: float = 120) -> str:
        """Read until a text is there; what came since the last time."""
        end, before = time.monotonic() + seconds, self.seen
        while text not in self.seen:
            left = end - time.monotonic()
            assert left > 0, f"{text!r} never came: {self.seen!r}"
            if select.select([self.leader], [], [], left)[0]:
                try:
                    self.seen += os.read(self.leader, 1 << 16).decode("utf-8", "replace")
                except OSError:  # it has ended
                    assert text in self.seen, f"{text!r} never came: {self.seen!r}"
        before, self.seen = self.seen.split(text, 1)
        return before


def test_ctrl_c_ends_the_answer_and_not_the_talk(model, tmp_path):
    place = broken(model, tmp_path / "long", "config.json", edited(max_position_embeddings=60_000))
    terminal = Terminal("chat", place, "--ignore-eos", "--max-tokens", "50000", "--temperature", "1", "--max-sequences", "1")
    terminal.until("Ctrl-D the conversation")
    terminal.until("> ")
    terminal.insist("\x03", "/exit ends the conversation")  # at the prompt it ends nothing
    for command in ("Go on", "/retry"):
        terminal.until("> ")
        terminal.type(command + "\n")
        terminal.until(command + "\r\n")
        terminal.any()
        terminal.type("\x03")
        terminal.until("[stopped]")
        terminal.until("tokens out")
    terminal.until("> ")
    terminal.type("/nonsense\n")
    terminal.until("There is no /nonsense")
    terminal.type("/system Be brief.\n")
    terminal.until("Begun anew")
    terminal.type("/reset\n")
    terminal.until("Forgotten")
    terminal.type("/retry\n")
    terminal.until("nothing to answer again")
    terminal.type("/exit\n")
    assert terminal.process.wait(60) == 0
    os.close(terminal.leader)


def test_a_message_that_does_not_fit_ends_no_talk(model):
    terminal = Terminal("chat", model, "--max-tokens", "3")
    terminal.until("> ")
    terminal.type("x" * 900 + "\n")
    terminal.until("/reset begins anew")
    terminal.until("> ")
    terminal.type("Go on\n")
    terminal.until("tokens out")
    terminal.until("> ")  # only there does Ctrl-D mean the end: typed earlier, it may be lost
    terminal.type("\x04")
    assert terminal.process.wait(60) == 0
    os.close(terminal.leader)
