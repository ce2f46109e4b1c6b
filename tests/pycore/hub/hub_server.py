"""A server on 127.0.0.1 that behaves as each test tells it, hostile behaviours included."""

import json
import socketserver
import threading
from http.server import BaseHTTPRequestHandler

import pytest

CONFIG = {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 896, "num_hidden_layers": 24,
          "num_attention_heads": 14, "num_key_value_heads": 2, "intermediate_size": 4864, "vocab_size": 151936,
          "max_position_embeddings": 32768, "tie_word_embeddings": True, "torch_dtype": "bfloat16",
          "rms_norm_eps": 1e-6, "hidden_act": "silu"}


def safetensors(tensors):
    """A file with this header and, as a real one would, the bytes behind it (left out: nobody should read them)."""
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, dtype, shape, size in tensors:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + b"\0" * min(at, 1 << 20)


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address, daemon_threads = True, True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.routes, self.requests = {}, []
        self.stop = threading.Event()

    @property
    def endpoint(self):
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request, client_address):
        """A client that hangs up on a hostile answer is what the tests are about."""


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.requests.append((self.path, dict(self.headers)))
        route = self.server.routes.get(self.path)
        if callable(route):
            route(self)
        elif route is None:
            self.answer(404, b"Entry not found", {"X-Error-Code": "EntryNotFound"})
        else:
            self.file(route)

    def file(self, content):
        wanted = self.headers.get("Range")
        if wanted:
            first, last = (int(part) for part in wanted.removeprefix("bytes=").split("-"))
            self.answer(206, content[first:last + 1], {"Content-Range": f"bytes {first}-{last}/{len(content)}"})
        else:
            self.answer(200, content)

    def answer(self, status, body=b"", headers=()):
        self.send_response(status)
        for name, value in dict(headers).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server():
    running = Server()
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield running
    running.stop.set()
    running.shutdown()
    running.server_close()
    thread.join()


@pytest.fixture
def hub(server):
    """The server with one small model on it: org/small, one safetensors file."""
    server.routes["/org/small/resolve/main/config.json"] = json.dumps(CONFIG).encode()
    server.routes["/org/small/resolve/main/model.safetensors"] = safetensors([
        ("model.embed_tokens.weight", "BF16", [151936, 896], 151936 * 896 * 2),
        ("model.layers.0.self_attn.q_proj.weight", "BF16", [896, 896], 896 * 896 * 2),
        ("model.layers.0.mlp.up_proj.weight", "F8_E4M3", [4864, 896], 4864 * 896),
        ("model.norm.weight", "F32", [896], 896 * 4)])
    return server
