"""What a soak has found in the server, each once more by itself."""

import json
import logging
import socket
import time

import httpx
from mini_infer_serving import running, until, write_model

from runtime.mini_infer.server import sending
from runtime.mini_infer.soaking import watch


def test_who_goes_away_in_the_middle_of_a_request_is_no_fault_of_the_server(tmp_path, caplog):
    write_model(tmp_path)
    with running(tmp_path) as server:
        port = int(server.url.rpartition(":")[2])
        for path in ("/v1/completions", "/v1/chat/completions"):
            with socket.create_connection(("127.0.0.1", port)) as client:
                client.sendall(f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                               "Content-Length: 100\r\n\r\n{".encode())
                time.sleep(0.1)
        until(lambda: server.http.get("/health").status_code == 200)
        server.settled()
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_nothing_of_a_server_that_has_ended_stays_in_memory(tmp_path):
    write_model(tmp_path)
    before = watch.alive()
    with running(tmp_path) as server:
        assert server.http.get("/health").status_code == 200
        httpx.post(server.url + "/v1/completions", json={"prompt": "a"}, trust_env=False).raise_for_status()
        assert (watch.alive() - before)["Service"] == 1
        server.http.close()
    del server
    until(lambda: not watch.alive() - before)


def test_tokens_that_the_tokenizer_does_not_have_are_told_apart(tmp_path):
    """A model may have more tokens than its tokenizer: in a completion's likeliest tokens all of them were one, named ''."""
    write_model(tmp_path)
    with running(tmp_path) as server:
        said = server.http.post("/v1/completions", json={"prompt": "a", "max_tokens": 100, "logprobs": 20, "temperature": 5, "seed": 1,
                                                         "ignore_eos": True}).json()
    tops = said["choices"][0]["logprobs"]["top_logprobs"]
    assert len(tops) == 100 and all(20 <= len(top) <= 21 for top in tops)
    assert any(sum(name.startswith("token_id:") for name in top) > 1 for top in tops)


def test_an_event_is_one_line_however_a_client_breaks_lines():
    """httpx breaks lines where str.splitlines does: a text with U+0085, U+2028 or U+2029 came in pieces that are no JSON."""
    said = {"text": "".join(map(chr, range(0x3000))) + "\U0001f600"}
    event = sending._events([said])
    lines = list(httpx.Response(200, content=event).iter_lines())
    assert lines[1:] == [""] and json.loads(lines[0].removeprefix("data: ")) == said
