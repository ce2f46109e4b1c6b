"""The Hub, played by a local server: what is read, what is refused, and with which words."""

import json
import time

import pytest
from hub_server import CONFIG, safetensors

from pycore.errors import InputError, SourceError
from pycore.hub import looks_like_repository, lookup
from pycore.hub.safetensors import HEADER_LIMIT

BASE = "/org/small/resolve/main/"


def ask(server, repository="org/small", *, environment=None, **settings):
    return lookup(repository, environment={"HF_ENDPOINT": server.endpoint} | (environment or {}),
                  **({"deadline_s": 2.0} | settings))


def test_reads_config_and_exact_bytes_per_tensor(hub):
    model = ask(hub)
    assert json.loads(model.config) == CONFIG
    stored = model.weights
    assert stored.bytes == 151936 * 896 * 2 + 896 * 896 * 2 + 4864 * 896 + 896 * 4
    assert dict((row[0], row[2]) for row in stored.by_dtype) == {
        "BF16": (151936 + 896) * 896 * 2, "F8_E4M3": 4864 * 896, "F32": 3584}
    assert dict((row[0], row[1]) for row in stored.by_component) == {
        "embedding": 151936 * 896, "attention": 896 * 896, "mlp": 4864 * 896, "norms": 896}
    assert stored.basis == "safetensors headers of 1 file"


def test_asks_for_the_header_only(hub):
    ask(hub)
    ranges = [headers.get("Range") for path, headers in hub.requests if path.endswith(".safetensors")]
    assert ranges == ["bytes=0-262143"]


def test_header_longer_than_the_first_read(hub):
    tensors = [(f"model.layers.{layer}.mlp.experts.{expert}.up_proj.weight", "U8", [2], 2)
               for layer in range(40) for expert in range(128)]
    hub.routes[BASE + "model.safetensors"] = safetensors(tensors)
    stored = ask(hub).weights
    assert stored.bytes == 2 * 40 * 128 and stored.by_component == (("experts", 10240, 10240),)


def test_a_server_that_ignores_ranges_is_read_no_further_than_needed(hub):
    body = hub.routes[BASE + "model.safetensors"]
    sent = []

    def whole(handler):
        handler.send_response(200)
        handler.send_header("Content-Length", str(1 << 40))
        handler.end_headers()
        handler.wfile.write(body)
        while not hub.stop.is_set() and sum(sent) < 1 << 28:
            handler.wfile.write(b"\0" * (1 << 16))
            sent.append(1 << 16)

    hub.routes[BASE + "model.safetensors"] = whole
    assert ask(hub).weights.elements == 151936 * 896 + 896 * 896 + 4864 * 896 + 896
    assert sum(sent) < 64 << 20


def test_shards_named_by_the_index(hub):
    del hub.routes[BASE + "model.safetensors"]
    hub.routes[BASE + "a-1.safetensors"] = safetensors([("x.weight", "F16", [10], 20)])
    hub.routes[BASE + "a-2.safetensors"] = safetensors([("y.weight", "F16", [5], 10)])
    hub.routes[BASE + "model.safetensors.index.json"] = json.dumps(
        {"metadata": {"total_size": 31}, "weight_map": {"x.weight": "a-1.safetensors", "y.weight": "a-2.safetensors"}}
    ).encode()
    model = ask(hub)
    assert (model.weights.bytes, model.weights.files) == (30, 2)
    assert "declares 31 bytes" in model.notes[0]


def test_many_shards_are_sized_from_the_api(hub):
    names = {f"t{index}": f"m-{index}.safetensors" for index in range(40)}
    hub.routes[BASE + "model.safetensors.index.json"] = json.dumps(
        {"metadata": {"total_size": 7}, "weight_map": names}).encode()
    hub.routes["/api/models/org/small/revision/main"] = json.dumps(
        {"safetensors": {"parameters": {"BF16": 100, "F8_E4M3": 50}, "total": 150}}).encode()
    stored = ask(hub).weights
    assert (stored.bytes, stored.elements, stored.files) == (250, 150, 40)
    assert stored.by_dtype == (("BF16", 100, 200), ("F8_E4M3", 50, 50)) and stored.by_component == ()
    del hub.routes["/api/models/org/small/revision/main"]
    model = ask(hub)
    assert (model.weights.bytes, model.weights.elements) == (7, None)
    assert any("could not be used" in note for note in model.notes)


def test_no_safetensors_is_said(hub):
    del hub.routes[BASE + "model.safetensors"]
    model = ask(hub)
    assert model.weights is None and "no safetensors" in model.notes[0]


STATUSES = [
    (401, {"X-Error-Code": "RepoNotFound"}, "no public repository"),
    (401, {}, "HF_TOKEN"),
    (401, {"X-Error-Code": "GatedRepo"}, "gated"),
    (403, {}, "gated"),
    (404, {"X-Error-Code": "RepoNotFound"}, "no public repository"),
    (404, {"X-Error-Code": "RevisionNotFound"}, "no such revision"),
    (404, {"X-Error-Code": "EntryNotFound"}, "there is no"),
    (404, {}, "there is no"),
    (429, {}, "slow down"),
    (500, {}, "status 500"),
    (503, {}, "status 503"),
]


@pytest.mark.parametrize(("status", "headers", "words"), STATUSES)
def test_refusals_say_what_to_do(hub, status, headers, words):
    hub.routes[BASE + "config.json"] = lambda handler: handler.answer(status, b"<html>no</html>", headers)
    with pytest.raises(SourceError, match=words):
        ask(hub)


@pytest.mark.parametrize("body", [b"", b"<html>login</html>", b"[1]", b"null", b"{", b"\xff\xfe{}", b"[" * 100_000,
                                  b'{"a": ' + b"9" * 5000 + b"}"])
def test_what_is_no_json_object_is_shown(hub, body):
    hub.routes[BASE + "config.json"] = body
    with pytest.raises(SourceError, match="not a JSON object"):
        ask(hub)


def test_too_large_by_declaration_and_by_stream(hub):
    hub.routes[BASE + "config.json"] = b" " * ((1 << 20) + 1)
    with pytest.raises(SourceError, match="larger than"):
        ask(hub)

    def endless(handler):
        handler.send_response(200)
        handler.end_headers()
        while not hub.stop.is_set():
            handler.wfile.write(b" " * 65536)

    hub.routes[BASE + "config.json"] = endless
    with pytest.raises(SourceError, match="larger than"):
        ask(hub)


def silent(handler, stop):
    stop.wait(20)


def dribble_headers(handler, stop):
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    while not stop.wait(0.1):
        handler.wfile.write(b"a")


def dribble_body(handler, stop):
    handler.send_response(200)
    handler.end_headers()
    while not stop.wait(0.1):
        handler.wfile.write(b" ")


@pytest.mark.parametrize("behaviour", [silent, dribble_headers, dribble_body])
def test_slow_answers_end_at_the_deadline(hub, behaviour):
    hub.routes[BASE + "config.json"] = lambda handler: behaviour(handler, hub.stop)
    began = time.monotonic()
    with pytest.raises(SourceError, match="within 0.5 seconds"):
        ask(hub, deadline_s=0.5)
    assert time.monotonic() - began < 5


def test_an_answer_that_breaks_off_or_is_no_http(hub):
    def short(handler):
        handler.send_response(200)
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        handler.wfile.write(b'{"a": 1}')
        handler.connection.close()

    hub.routes[BASE + "config.json"] = short
    with pytest.raises(SourceError, match="broke off|no HTTP"):
        ask(hub)
    hub.routes[BASE + "config.json"] = lambda handler: handler.wfile.write(b"SSH-2.0-OpenSSH\r\n")
    with pytest.raises(SourceError, match="no HTTP"):
        ask(hub)


def redirect(to):
    return lambda handler: handler.answer(302, b"", {"Location": to})


def test_redirects_are_followed_but_not_for_ever(hub):
    hub.routes["/moved/resolve/main/config.json"] = redirect("/org/small/resolve/main/config.json")
    hub.routes["/moved/resolve/main/model.safetensors"] = redirect("/org/small/resolve/main/model.safetensors")
    assert ask(hub, "moved").weights.bytes > 0
    hub.routes[BASE + "config.json"] = redirect(BASE + "config.json")
    with pytest.raises(SourceError, match="without an end"):
        ask(hub)


@pytest.mark.parametrize("to", ["file:///etc/passwd", "ftp://127.0.0.1/x", "gopher://127.0.0.1/"])
def test_redirects_stay_on_http(hub, to):
    hub.routes[BASE + "config.json"] = redirect(to)
    with pytest.raises(SourceError, match="redirects"):
        ask(hub)


def test_the_token_stays_at_home(hub):
    port = hub.server_address[1]
    hub.routes["/org/moved/resolve/main/config.json"] = redirect(BASE + "config.json")
    hub.routes["/org/away/resolve/main/config.json"] = redirect(f"http://localhost:{port}{BASE}config.json")
    for name in ("moved", "away"):
        hub.requests.clear()
        try:
            ask(hub, f"org/{name}", environment={"HF_TOKEN": "hf_secret"})
        except SourceError:
            pass
        sent = {path: headers.get("Authorization") for path, headers in hub.requests}
        assert sent[f"/org/{name}/resolve/main/config.json"] == "Bearer hf_secret"
        assert sent[BASE + "config.json"] == ("Bearer hf_secret" if name == "moved" else None)
    hub.requests.clear()
    ask(hub)
    assert not any("Authorization" in headers for _, headers in hub.requests)


HEADERS = [
    (b"", "ends before"), (b"\x01", "ends before"),
    ((1 << 60).to_bytes(8, "little") + b"{}", "header would have"),
    ((HEADER_LIMIT + 1).to_bytes(8, "little"), "header would have"),
    ((100).to_bytes(8, "little") + b"{}", "ends within"),
    ((4).to_bytes(8, "little") + b"\xff\xff\xff\xff", "not a JSON object"),
    ((2).to_bytes(8, "little") + b"[]", "not a JSON object"),
    (safetensors([("t", "F32", [3], 13)]), "contradicts itself"),
    (safetensors([("t", "F32", [3], -12)]), "does not say|contradicts"),
    (safetensors([("t", "F32", [1 << 70], 12)]), "does not say"),
    (safetensors([("t", "F32", [-3], 12)]), "does not say"),
    (safetensors([("t", ["F32"], [3], 12)]), "does not say"),
]


@pytest.mark.parametrize(("content", "words"), HEADERS)
def test_headers_that_lie_are_refused(hub, content, words):
    hub.routes[BASE + "model.safetensors"] = content
    with pytest.raises(SourceError, match=words):
        ask(hub)


@pytest.mark.parametrize("names", [{}, [], {"t": "../../etc/passwd"}, {"t": "x.bin"}, {"t": 3}, None])
def test_an_index_that_names_no_files_is_refused(hub, names):
    hub.routes[BASE + "model.safetensors.index.json"] = json.dumps({"weight_map": names}).encode()
    with pytest.raises(SourceError, match="names no safetensors files"):
        ask(hub)


@pytest.mark.parametrize("name", ["", "a/b/c", "../etc", "a b", "a--b", "org/..", "<script>", "org/na\nme", "a" * 300,
                                  "org/{{7*7}}"])
def test_names_the_hub_cannot_have(name):
    with pytest.raises(InputError):
        lookup(name, environment={"HF_ENDPOINT": "http://127.0.0.1:9"})
    assert not looks_like_repository(name)


@pytest.mark.parametrize("revision", ["", "../x", "a b", "-x"])
def test_revisions_the_hub_cannot_have(revision):
    with pytest.raises(InputError):
        lookup("org/small", revision=revision, environment={"HF_ENDPOINT": "http://127.0.0.1:9"})


def test_revision_and_full_address(hub):
    hub.routes["/org/small/resolve/refs%2Fpr%2F1/config.json"] = json.dumps(CONFIG).encode()
    assert ask(hub, "https://huggingface.co/org/small", revision="refs/pr/1").weights is None


@pytest.mark.parametrize("endpoint", ["file:///tmp", "hf.co", "http://", "javascript:alert(1)"])
def test_endpoints_that_are_none(endpoint):
    with pytest.raises(SourceError, match="HF_ENDPOINT"):
        lookup("org/small", environment={"HF_ENDPOINT": endpoint})


def test_nobody_listens():
    with pytest.raises(SourceError, match="could not be reached"):
        lookup("org/small", environment={"HF_ENDPOINT": "http://127.0.0.1:9"}, deadline_s=2)


@pytest.fixture
def cached(tmp_path):
    folder = tmp_path / "hub" / "models--org--small"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text("abc123")
    (folder / "snapshots" / "abc123").mkdir(parents=True)
    (folder / "snapshots" / "abc123" / "config.json").write_text(json.dumps(CONFIG))
    content = safetensors([("lm_head.weight", "BF16", [4], 8)])
    (folder / "snapshots" / "abc123" / "model.safetensors").write_bytes(content)
    return tmp_path


@pytest.mark.parametrize("variable", ["1", "true", "YES", "on"])
def test_offline_reads_the_cache_and_touches_no_network(hub, cached, variable):
    environment = {"HF_HUB_OFFLINE": variable, "HF_HOME": str(cached), "HF_ENDPOINT": hub.endpoint}
    model = lookup("org/small", environment=environment)
    assert model.weights.by_component == (("head", 4, 8),)
    assert hub.requests == []
    assert lookup("org/small", revision="abc123", environment=environment).config == model.config


def test_offline_without_a_cached_copy(cached, hub):
    environment = {"HF_HUB_OFFLINE": "1", "HF_HUB_CACHE": str(cached / "hub"), "HF_ENDPOINT": hub.endpoint}
    with pytest.raises(SourceError, match="not in"):
        lookup("org/other", environment=environment)
    with pytest.raises(SourceError, match="not in"):
        lookup("org/small", revision="v9", environment=environment)
    assert hub.requests == []


def test_not_offline_when_the_variable_says_no(hub, cached):
    ask(hub, environment={"HF_HUB_OFFLINE": "0", "HF_HOME": str(cached)})
    assert hub.requests
