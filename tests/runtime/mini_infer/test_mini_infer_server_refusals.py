"""What the server refuses, and in which words: each refusal names its field, and the next request is served."""

import asyncio
import json
import random
import socket
from collections import Counter

import openai
import pytest
from mini_infer_serving import LOOP, running, until, write_parrot

from runtime.mini_infer.answers import Ask
from runtime.mini_infer.server import schemas
from runtime.mini_infer.server.application import Settings
from runtime.mini_infer.service import Service
from runtime.mini_infer.setup import Setup
from runtime.mini_infer.source import open_source

MOST_BODY = 1 << 16
CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
HELLO = [{"role": "user", "content": "hello"}]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("parrot")
    write_parrot(folder)
    return folder


@pytest.fixture(scope="module")
def parrot(folder):
    with running(folder, settings=Settings(most_body_bytes=MOST_BODY)) as server:
        yield server


@pytest.fixture(autouse=True)
def the_next_one_is_served(parrot):
    """Peer defect 4: a bad request poisons nobody."""
    yield
    found = parrot.client.completions.create(model="tiny", prompt="a", max_tokens=3, temperature=0)
    assert found.choices[0].text == "bcd"
    parrot.settled()


def error(answer, status: int = 400) -> dict:
    """The error object of an answer, whole and with no traceback in it."""
    assert answer.status_code == status, answer.text
    found = answer.json()["error"]
    assert set(found) == {"message", "type", "param", "code"} and found["message"] and "Traceback" not in answer.text
    assert answer.headers["x-request-id"]
    return found


@pytest.mark.parametrize(("body", "code"), [
    (b"{", "invalid_json"), (b"", "invalid_json"), (b"[1]", "invalid_json"), (b"null", "invalid_json"), (b'{"prompt": NaN}', "invalid_json"),
    (b'{"prompt": "a", "temperature": Infinity}', "invalid_json"), (b"[" * 60_000, "invalid_json"), (b'{"a":' * 10_000, "invalid_json"),
    (b'{"prompt": "\xff"}', "invalid_utf8"), (b"\x00\x01\x02", "invalid_json"), ('{"prompt": "é"}'.encode("latin-1"), "invalid_utf8"),
    ('{"prompt": "é"}'.encode("utf-16"), "invalid_utf8"), (b'{"max_tokens": ' + b"9" * 5000 + b"}", "invalid_json"),
], ids=lambda value: str(value[:24]))
def test_peer_4_bodies_that_are_no_json(body, code, parrot):
    for path in (CHAT, COMPLETIONS):
        found = error(parrot.http.post(path, content=body, headers={"Content-Type": "application/json"}))
        assert found["code"] == code and found["param"] == "body"


COMMON = [
    ({"foo": 1}, "foo"), ({"max_token": 5}, "max_token"), ({"temperature": "hot"}, "temperature"), ({"temperature": -0.1}, "temperature"),
    ({"temperature": True}, "temperature"), ({"temperature": 1000}, "temperature"), ({"temperature": int("9" * 400)}, "temperature"),
    ({"top_p": 1.5}, "top_p"), ({"top_p": -1}, "top_p"), ({"n": 0}, "n"), ({"n": 129}, "n"), ({"n": "2"}, "n"), ({"n": 1.5}, "n"), ({"n": 100}, "n"),
    ({"max_tokens": 0}, "max_tokens"), ({"max_tokens": "8"}, "max_tokens"), ({"max_tokens": 1 << 40}, "max_tokens"),
    ({"max_tokens": 600}, "max_tokens"), ({"stream": "yes"}, "stream"), ({"stream_options": {"include_usage": True}}, "stream_options"),
    ({"stream": True, "stream_options": {"x": 1}}, "stream_options.x"), ({"stop": ["x"] * 17}, "stop"), ({"stop": ""}, "stop"),
    ({"stop": [1]}, "stop"), ({"stop": {"a": 1}}, "stop"), ({"stop": "x" * 5000}, "stop"), ({"seed": 1 << 63}, "seed"), ({"seed": 0.5}, "seed"),
    ({"presence_penalty": 3}, "presence_penalty"), ({"frequency_penalty": -2.1}, "frequency_penalty"), ({"logit_bias": {"5": 1}}, "logit_bias"),
    ({"top_k": -2}, "top_k"), ({"min_p": 2}, "min_p"), ({"repetition_penalty": 0}, "repetition_penalty"), ({"min_tokens": -1}, "min_tokens"),
    ({"min_tokens": 9, "max_tokens": 8}, "min_tokens"), ({"stop_token_ids": [264]}, "stop_token_ids"), ({"stop_token_ids": ["a"]}, "stop_token_ids[0]"),
    ({"priority": 1 << 40}, "priority"), ({"model": 5}, "model"), ({"\ud800": 1}, "\\ud800")]


@pytest.mark.parametrize(("more", "field"), COMMON, ids=lambda value: ascii(value)[:40])
def test_peer_4_fields_that_cannot_be(more, field, parrot):
    for path, right in ((COMPLETIONS, {"prompt": "a"}), (CHAT, {"messages": HELLO})):
        for stream in (False, True):
            body = right | ({"stream": True} if stream else {}) | more
            if stream and field == "stream_options":
                continue
            answer = parrot.http.post(path, content=json.dumps(body), headers={"Content-Type": "application/json"})
            found = error(answer)
            assert found["param"] == field and field.split("[")[0].split(".")[0] in found["message"]


def test_more_prompts_than_places_are_the_prompts_fault(parrot):
    service = parrot.service
    places = service.seats + service.queue
    found = error(parrot.http.post(COMPLETIONS, json={"prompt": ["a"] * (places + 1), "max_tokens": 1}))
    assert places < 128 and found["param"] == "prompt" and f"at most {places}" in found["message"]


@pytest.mark.parametrize(("more", "field"), [
    ({"prompt": ""}, "prompt"), ({"prompt": []}, "prompt"), ({"prompt": [[]]}, "prompt"), ({"prompt": [300]}, "prompt"), ({"prompt": [-1]}, "prompt"),
    ({"prompt": [1, "a"]}, "prompt"), ({"prompt": ["a", ""]}, "prompt"), ({"prompt": 5}, "prompt"), ({"prompt": None}, "prompt"),
    ({"prompt": {"a": 1}}, "prompt"), ({"prompt": ["a"] * 129}, "prompt"), ({"prompt": "a" * 600}, "prompt"), ({"prompt": [True]}, "prompt"),
    ({"prompt": "\ud800"}, "prompt"), ({"suffix": "x"}, "suffix"), ({"best_of": 2}, "best_of"), ({"logprobs": 21}, "logprobs"), ({"logprobs": True}, "logprobs"),
    ({"echo": True, "logprobs": 1}, "echo"), ({"messages": HELLO}, "messages"), ({"max_completion_tokens": 4}, "max_completion_tokens")],
    ids=lambda value: ascii(value)[:40])
def test_peer_4_prompts_that_cannot_be(more, field, parrot):
    found = error(parrot.http.post(COMPLETIONS, content=json.dumps({"prompt": "a"} | more), headers={"Content-Type": "application/json"}))
    assert found["param"].split("[")[0].split(".")[0] == field


@pytest.mark.parametrize(("more", "field"), [
    ({"messages": []}, "messages"), ({"messages": "hi"}, "messages"), ({"messages": None}, "messages"), ({"messages": [5]}, "messages[0]"),
    ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role"), ({"messages": [{"role": "user"}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"), ({"messages": [{"content": "x"}]}, "messages[0].role"),
    ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": "x", "colour": 1}]}, "messages[0].colour"),
    ({"messages": [{"role": "user", "content": "\ud800"}]}, "messages[0].content"),
    ({"messages": [*HELLO, {"role": "assistant", "content": "x", "tool_calls": [{}]}]}, "messages[1].tool_calls"),
    ({"messages": [*HELLO, {"role": "system", "content": "too late"}]}, "messages"),
    ({"messages": HELLO * 5000}, "messages"), ({"tools": [{"type": "function"}]}, "tools"), ({"tool_choice": "required"}, "tool_choice"),
    ({"response_format": {"type": "json_object"}}, "response_format"), ({"logprobs": 5}, "logprobs"), ({"top_logprobs": 3}, "top_logprobs"),
    ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"), ({"modalities": ["audio"]}, "modalities"), ({"reasoning_effort": "high"}, "reasoning_effort"),
    ({"chat_template_kwargs": {"messages": []}}, "chat_template_kwargs"), ({"chat_template_kwargs": 5}, "chat_template_kwargs"),
    ({"chat_template_kwargs": {"bos_token": "x"}}, "chat_template_kwargs"), ({"chat_template_kwargs": {"tools": []}}, "chat_template_kwargs"),
    ({"chat_template_kwargs": {"raise_exception": 1}}, "chat_template_kwargs"), ({"chat_template_kwargs": {"range": 1}}, "chat_template_kwargs"),
    ({"chat_template_kwargs": {"self": 1}}, "chat_template_kwargs"), ({"prompt": "a"}, "prompt")], ids=lambda value: ascii(value)[:50])
def test_peer_4_conversations_that_cannot_be(more, field, parrot):
    body = json.dumps({"messages": HELLO, "max_tokens": 4} | more)
    found = error(parrot.http.post(CHAT, content=body, headers={"Content-Type": "application/json"}), 413 if len(body) > MOST_BODY else 400)
    assert len(body) > MOST_BODY or found["param"] == field


NASTY = [None, True, 0, 1, -1, 2, 1.5, -0.0, 1e308, 1e-320, int("9" * 30), "", "a", "é🦜", "\ud800", "x" * 300, [], [0], [[]], [[1]], ["a", 1],
         [None], {}, {"a": 1}, [{"type": "text", "text": "a"}], HELLO, [{"role": "system", "content": ""}], "none", "auto", 21, 264, [263], 1 << 63,
         0.99, "<|end|>", "\u0000", {"include_usage": True}]


def test_peer_4_bodies_made_at_random_are_served_or_refused(parrot):
    """Up to three fields of each hold anything: no fault of ours, and every stream that begins ends."""
    dice, seen = random.Random(1), Counter()
    for _ in range(120):
        path = dice.choice([CHAT, COMPLETIONS])
        kind = schemas.ChatRequest if path == CHAT else schemas.CompletionRequest
        body = {"max_tokens": 3} | ({"messages": HELLO} if path == CHAT else {"prompt": "hi"})
        body |= {dice.choice(list(kind.model_fields)): dice.choice(NASTY) for _ in range(dice.randint(0, 3))}
        answer = parrot.http.post(path, content=json.dumps(body), headers={"Content-Type": "application/json"})
        seen[answer.status_code] += 1
        if answer.headers["content-type"].startswith("text/event-stream"):
            assert answer.text.endswith("[DONE]\n\n") and '"error"' not in answer.text
        elif answer.status_code != 200:
            error(answer, 404 if body.get("model", "tiny") not in ("tiny", None) and answer.status_code == 404 else 400)
    assert seen[200] > 20 and seen[400] > 20


def test_a_wrong_name_is_answered_with_the_nearest(parrot):
    found = error(parrot.http.post(CHAT, json={"messages": HELLO, "max_completion_token": 4}))
    assert "max_completion_tokens" in found["message"] and found["code"] == "unknown_field"


def test_large_bodies_are_not_read(parrot):
    text = "a" * (MOST_BODY + 1)
    assert error(parrot.http.post(COMPLETIONS, json={"prompt": text}), 413)["code"] == "body_too_large"
    parts = (json.dumps({"prompt": text})[at:at + 1000].encode() for at in range(0, len(text), 1000))  # no length is told
    assert error(parrot.http.post(COMPLETIONS, content=parts, headers={"Content-Type": "application/json"}), 413)
    assert parrot.http.post(COMPLETIONS, json={"prompt": "a", "user": "b" * (MOST_BODY - 100), "max_tokens": 1}).status_code == 200


def test_bodies_are_json_by_name(parrot):
    """A page elsewhere may send a form or plain text here without asking; JSON it may not."""
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        answer = parrot.http.post(COMPLETIONS, content=b'{"prompt": "a"}', headers={"Content-Type": kind})
        assert error(answer, 415)["code"] == "unsupported_media_type"
    answer = parrot.http.post(COMPLETIONS, content=b'{"prompt": "a", "max_tokens": 1}', headers={"Content-Type": "Application/JSON; charset=utf-8"})
    assert answer.status_code == 200


def test_paths_and_methods_that_there_are_not(parrot):
    assert "/v1/embeddings" in error(parrot.http.post("/v1/embeddings", json={}), 404)["message"]
    assert error(parrot.http.get(CHAT), 405)["type"] == "invalid_request_error"
    assert parrot.http.get("/docs").status_code == 404  # its page would load scripts from elsewhere
    assert "access-control-allow-origin" not in parrot.http.get("/health", headers={"Origin": "http://x.example"}).headers


@pytest.mark.parametrize("raw", [b"\x16\x03\x01\x02\x00", b"GARBAGE\r\n\r\n", b"POST " + CHAT.encode() + b" HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
                                 b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\n\r\n"], ids=lambda raw: str(raw[:16]))
def test_bytes_that_are_no_request(raw, parrot):
    with socket.create_connection(parrot.url.removeprefix("http://").split(":"), timeout=10) as connection:
        try:
            connection.sendall(raw)
            found = connection.recv(4096)
        except ConnectionError:
            return
        assert found == b"" or found.startswith(b"HTTP/1.1 4")


def test_a_body_that_never_comes_holds_nothing_of_the_engine(parrot):
    with socket.create_connection(parrot.url.removeprefix("http://").split(":"), timeout=10) as connection:
        connection.sendall(f"POST {COMPLETIONS} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{{".encode())
        assert parrot.client.completions.create(model="tiny", prompt="a", max_tokens=2, temperature=0).choices[0].text == "bc"
        assert parrot.service.under_way == 0


def test_one_bad_prompt_of_several_lets_none_in(parrot):
    steps = parrot.service.statistics.output_tokens
    assert error(parrot.http.post(COMPLETIONS, json={"prompt": ["a", "b", "c" * 600], "max_tokens": 4}))["param"] == "prompt"
    parrot.settled()
    assert parrot.service.statistics.output_tokens == steps


def test_the_pool_is_a_limit_too(folder):
    with running(folder, kv_blocks=4) as server:
        full = server.client.completions.create(model="tiny", prompt="a" * 60, max_tokens=5, temperature=0)
        assert full.usage.total_tokens == 65 and full.choices[0].finish_reason == "length"
        for prompt, tokens in (("a" * 60, 6), ("a" * 65, 1)):
            found = error(server.http.post(COMPLETIONS, json={"prompt": prompt, "max_tokens": tokens}))
            assert found["code"] == "context_length_exceeded" and "pool" in found["message"]
        chat = server.client.chat.completions.create(model="tiny", messages=HELLO, temperature=0)  # as much as fits
        assert chat.usage.total_tokens == 65
        server.settled()


def test_keys_open_v1_and_nothing_else(folder):
    with running(folder, settings=Settings(keys=("secret one", "zweiter-schlüssel"), origins=("http://a.example",))) as server:
        body = {"prompt": "a", "max_tokens": 2, "temperature": 0}
        for header in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "secret one"}, {"Authorization": "Basic secret one"},
                       {"Authorization": "Bearer"}, {"Authorization": "Bearer secret one2"}, {"Authorization": b"Bearer \xff\xfe"}):
            answer = server.http.post(COMPLETIONS, json=body, headers=header)
            assert error(answer, 401)["code"] == "invalid_api_key" and answer.headers["www-authenticate"] == "Bearer"
            assert server.http.get("/v1/models", headers=header).status_code == 401
        with pytest.raises(openai.AuthenticationError):
            server.client.models.list()
        for key in ("secret one", "zweiter-schlüssel"):
            assert server.http.post(COMPLETIONS, json=body, headers={"Authorization": f"Bearer {key}".encode()}).json()["choices"][0]["text"] == "bc"
        for path in ("/health", "/metrics"):
            assert server.http.get(path).status_code == 200
        asked = {"Origin": "http://a.example", "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
        assert server.http.options(CHAT, headers=asked).headers["access-control-allow-origin"] == "http://a.example"
        assert server.http.get("/health", headers={"Origin": "http://a.example"}).headers["access-control-allow-origin"] == "http://a.example"
        assert "access-control-allow-origin" not in server.http.options(CHAT, headers=asked | {"Origin": "http://b.example"}).headers


def test_a_fault_of_ours_is_told_without_its_traceback(folder, caplog):
    with running(folder) as server:
        server.service.submit = None
        assert error(server.http.post(COMPLETIONS, json={"prompt": "a"}), 500)["code"] == "internal_error"
        assert server.http.get("/health").status_code == 200
    assert "TypeError" in caplog.text  # the log says what it was


def test_an_engine_that_fails_lets_nobody_wait_for_ever(folder):
    with running(folder) as server:
        real, steps = server.engine.step, []

        def fails():
            steps.append(1)
            if len(steps) > 5:
                raise RuntimeError("the scheduler is broken")
            return real()

        server.engine.step = fails
        first = error(server.http.post(COMPLETIONS, json={"prompt": "a", "max_tokens": 100}), 500)
        assert "the scheduler is broken" in first["message"]
        assert error(server.http.post(COMPLETIONS, json={"prompt": "a"}), 503)["code"] == "unavailable"
        assert server.http.get("/health").status_code == 503
        until(lambda: server.service.under_way == 0)


def test_a_text_that_fails_ends_its_own_request_alone(parrot, monkeypatch):
    from runtime.mini_infer.stream import TextStream

    real = TextStream.push
    monkeypatch.setattr(TextStream, "push", lambda self, token: 1 // 0 if self.watch.stops and self.count == 2 else real(self, token))
    stream = parrot.client.completions.create(model="tiny", prompt="a", max_tokens=60, temperature=0, stream=True)
    with pytest.raises(openai.InternalServerError) as caught:
        parrot.client.completions.create(model="tiny", prompt="a", max_tokens=60, stop=["nowhere"])
    assert "ZeroDivisionError" in str(caught.value)
    with pytest.raises(openai.APIError) as caught:  # a stream has begun by then: it ends with the error
        list(parrot.client.completions.create(model="tiny", prompt="a", max_tokens=60, stop=["nowhere"], stream=True))
    assert "ZeroDivisionError" in str(caught.value)
    assert "".join(chunk.choices[0].text for chunk in stream) == (LOOP[1:] + LOOP * 3)[:60]


def test_a_step_that_fails_before_the_first_token_ends_every_text_of_its_prompt(parrot, monkeypatch):
    """Nobody waits for texts that were never begun."""
    from runtime.mini_infer import engine

    def fails(*arguments, **more):
        raise RuntimeError("out of memory, say")

    for stream in (False, True):
        with monkeypatch.context() as patch:
            patch.setattr(engine, "run", fails)
            answer = parrot.http.post(COMPLETIONS, json={"prompt": ["a", "b"], "n": 3, "max_tokens": 4, "stream": stream})
        assert "out of memory, say" in answer.text and answer.status_code == (200 if stream else 500)
        assert not stream or answer.text.endswith("data: [DONE]\n\n")
        parrot.settled()


def test_the_service_tells_the_end_of_every_text_that_never_began(folder, monkeypatch):
    from runtime.mini_infer import engine

    async def pieces() -> list:
        source = open_source(str(folder), device="cpu")
        service = Service(Setup(model=str(folder), device="cpu", kv_blocks=16).engine(source.model), source.words)
        service.start()
        try:
            answer = await service.submit([Ask(prompt=(1, 2), max_tokens=3, samples=3), Ask(prompt=(3,), max_tokens=3)])
            async with asyncio.timeout(20):
                return [piece async for piece in answer]
        finally:
            await service.stop()

    monkeypatch.setattr(engine, "run", lambda *arguments, **more: 1 // 0)
    found = asyncio.run(pieces())
    assert sorted(piece.index for piece in found) == [0, 1, 2, 3]
    assert all(piece.finish == "error" and "division" in piece.reason for piece in found)
