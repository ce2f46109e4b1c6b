"""A stand-in for the Hugging Face Hub on this machine: the paths that `huggingface_hub` asks, and the answers it knows."""

import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

SHA = "a" * 40
REFUSED = {"owner/absent": (404, "RepoNotFound"), "owner/gated": (403, "GatedRepo"), "owner/broken": (500, "")}


class Hub(BaseHTTPRequestHandler):
    """Serves the files of `server.files` as the repository owner/name."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments: object) -> None:
        pass

    def answer(self, status: int, data: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        self.server.asked.append(path)
        files = self.server.files
        for repository, (status, code) in REFUSED.items():
            if repository in path:
                return self.answer(status, **({"X_Error_Code": code} if code else {}))
        if "/revision/nowhere" in path or "/resolve/nowhere/" in path:
            return self.answer(404, X_Error_Code="RevisionNotFound")
        if path.startswith("/api/models/owner/nonsense"):
            return self.answer(200, b"<html>", Content_Type="text/html")
        if path.startswith("/api/models/owner/name/tree/"):
            tree = [{"type": "file", "path": name, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}
                    for name, data in files.items()]
            return self.answer(200, json.dumps(tree).encode(), Content_Type="application/json")
        if path.startswith("/api/models/owner/name"):
            found = {"id": "owner/name", "sha": SHA, "siblings": [{"rfilename": name} for name in files]}
            return self.answer(200, json.dumps(found).encode(), Content_Type="application/json")
        name = path.partition("/resolve/")[2].partition("/")[2]
        if path.startswith("/owner/name/resolve/") and name in files:
            return self.answer(200, files[name], ETag=f'"{hashlib.sha1(files[name]).hexdigest()}"', X_Repo_Commit=SHA)
        return self.answer(404, X_Error_Code="EntryNotFound")

    do_HEAD = do_GET


def serve(folder: Path, **more: bytes) -> ThreadingHTTPServer:
    """The server on a free port of this machine, started; `asked` are the paths that were."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    server.files = {path.name: path.read_bytes() for path in folder.iterdir()} | more
    server.asked = []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server
