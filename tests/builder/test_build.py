"""The build as a function: what it writes, and that the same sources give the same bytes."""

import gzip
import json
import os
import re
import socket
import subprocess
import sys
import zipfile
from html import unescape
from io import BytesIO
from pathlib import Path

import pytest
from builder import drawings, policy
from builder.cache import BuildError
from builder.effects import Folder, Record
from builder.pack import app_zip
from builder.server import address, server
from builder.single import pack
from builder.site import Options, build, chosen, short_lock
from builder.space import LIMIT_BYTES, card, within_limit

ROOT = Path(__file__).resolve().parents[2]
PAGE_LIMIT_BYTES = 250_000


@pytest.fixture(scope="module")
def built() -> dict[str, bytes]:
    """One build of everything into memory, without the snapshot and the wheel (tests/wasm and tests/browser have them)."""
    effects = Record()
    build(
        Options(
            root=ROOT,
            offline=True,
            spaces=True,
            snapshot=False,
            wheel=False,
            extra=tuple(ROOT / "tests" / "browser" / "fixtures" / name for name in ("slowcount", "lateread")),
        ),
        effects,
    )
    return effects.files


def test_every_studio_has_its_page_file_and_space(built):
    studios = [path.parent.name for path in (ROOT / "studios").glob("*/view.py")] + ["slowcount", "lateread"]
    for name in studios:
        assert {
            f"{name}/index.html",
            f"offline/{name}.html",
            f"spaces/{name}/README.md",
            f"spaces/{name}/index.html",
        } <= set(built)
        assert f'href="{name}/"' in built["index.html"].decode()
    assert {path.split("/")[0] for path in built if path.endswith("/index.html") and path.count("/") == 1} == set(
        studios
    )


def test_pages_are_small(built):
    for path, data in built.items():
        if path.endswith("/index.html"):
            assert len(gzip.compress(data)) < PAGE_LIMIT_BYTES, path


def test_spaces_are_whole_and_their_files_small(built):
    for path, data in built.items():
        if path.startswith("spaces/"):
            assert len(data) < LIMIT_BYTES, path
        if path.startswith("spaces/") and path.count("/") == 2 and path.endswith("README.md"):
            assert re.match(r"---\n(.+\n)*sdk: static\napp_file: index.html\n(.+\n)*custom_headers:\n", data.decode())


def test_pages_name_only_files_that_exist(built):
    for page in [path for path in built if path.endswith("index.html")]:
        folder = Path(page).parent
        text = built[page].decode()
        for link in re.findall(r'(?:href|src)="([^"?#:]+)"', text):
            target = (Path("/") / folder / link).resolve().relative_to("/").as_posix()
            assert any(target in ("", ".", path, f"{path.removesuffix('index.html').rstrip('/')}") for path in built), (
                f"{page}: {link}"
            )
        config = re.search(r'<script type="application/json" id="bridge">(.*?)</script>', text)
        for row in json.loads(config.group(1))["files"].values() if config else ():
            path = (
                (Path("/") / folder / json.loads(config.group(1))["assets"] / row["path"])
                .resolve()
                .relative_to("/")
                .as_posix()
            )
            assert len(built[path]) == row["bytes"], path


def test_pages_forbid_what_they_do_not_need(built):
    for path, data in built.items():
        if path.endswith("index.html") and not path.startswith("source"):
            rule = unescape(
                re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', data.decode()).group(1)
            )
            scripts = re.search(r"script-src ([^;]+)", rule).group(1)
            assert "unsafe-eval" not in scripts.replace("wasm-unsafe-eval", "") and "unsafe-inline" not in scripts
            assert re.search(r"connect-src ([^;]+)", rule).group(1) == "'self' https://huggingface.co"
            inline = re.findall(r"<script(?: type=\"module\")?>(.*?)</script>", data.decode(), re.S)
            assert [policy.script_hash(text).strip("'") in scripts for text in inline] == [True]


def test_no_page_loads_from_elsewhere(built):
    for path, data in built.items():
        if path.endswith(".html"):
            loads = re.findall(r'<(?:script|link|img|iframe)[^>]+(?:src|href)="(https?:[^"]+)"', data.decode())
            assert not loads, (path, loads)


def test_lines_of_code_can_be_followed(built):
    page = built["slowcount/index.html"].decode()
    path, line = re.search(r'href="\.\./(source/pycore/units\.py\.html)#L(\d+)"', page).groups()
    shown = re.search(rf'<li id="L{line}">(.*)', built[path].decode()).group(1)
    assert shown == (ROOT / "pycore" / "units.py").read_text().splitlines()[int(line) - 1].replace('"', "&quot;")


def test_base_url_for_source_links(slowcount):
    effects = Record()
    build(
        Options(
            root=ROOT,
            only="slowcount",
            snapshot=False,
            wheel=False,
            source="https://example.org/code/",
            extra=tuple(slowcount.values()),
        ),
        effects,
    )
    assert 'href="https://example.org/code/pycore/units.py#L1"' in effects.files["slowcount/index.html"].decode()


def test_same_sources_same_bytes(slowcount, built):
    assert app_zip(ROOT, slowcount) == app_zip(ROOT, slowcount)
    effects = Record()
    build(Options(root=ROOT, only="slowcount", snapshot=False, wheel=False, extra=tuple(slowcount.values())), effects)
    again = Record()
    build(Options(root=ROOT, only="slowcount", snapshot=False, wheel=False, extra=tuple(slowcount.values())), again)
    assert effects.files == again.files


def test_app_zip_holds_what_pages_import_and_nothing_else(slowcount):
    names = zipfile.ZipFile(BytesIO(app_zip(ROOT, slowcount))).namelist()
    tops = {name.split("/")[0] for name in names}
    assert tops == {"pycore", "studios", "site", "jinja2", "markupsafe"}
    assert "studios/slowcount/view.py" in names and any(name.startswith("pycore/data/catalog/") for name in names)
    assert not [name for name in names if name.endswith((".so", ".pyc")) or name.startswith("pycore/cli/")]


def test_an_unknown_studio_is_refused_with_the_names_there_are(slowcount):
    with pytest.raises(BuildError, match="there is no studio 'nothing'; studios: .*slowcount"):
        chosen(Options(root=ROOT, only="nothing", extra=tuple(slowcount.values())))


def test_a_chart_without_its_place_stops_the_build():
    with pytest.raises(BuildError, match='exactly one empty element with data-chart="growth"'):
        drawings.draw("<p></p>", {"growth": {}}, "studio x")


def test_large_files_are_refused_for_a_space():
    with pytest.raises(BuildError, match="too large for a Space"):
        within_limit({"assets/large.bin": b"\0" * LIMIT_BYTES})


def test_short_lock_keeps_only_our_packages():
    lock = json.dumps({"info": {}, "packages": {"a": {"file_name": "a.whl"}, "b": {"file_name": "b.whl"}}}).encode()
    assert json.loads(short_lock(lock, ["b.whl"]))["packages"] == {"b": {"file_name": "b.whl"}}


def test_packed_files_cannot_close_their_element():
    assert re.fullmatch(r"[A-Za-z0-9+/=]+", pack(b"</script>" * 99))


def test_data_in_a_page_cannot_close_its_element():
    assert "</script><" not in policy.data_script("bridge", {"x": "</script><script>alert(1)</script>"}).removesuffix(
        "</script>"
    )


def test_folder_drops_what_a_build_no_longer_writes(tmp_path):
    first = Folder(tmp_path)
    first.write("old/file.txt", "x")
    first.finish()
    second = Folder(tmp_path)
    second.write("new.txt", "y")
    second.finish()
    assert [path.name for path in tmp_path.rglob("*")] == ["new.txt"]


def test_server_takes_the_next_free_port(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        running = server(tmp_path, port)
        assert running.server_address[0] == "127.0.0.1" and port < running.server_address[1] <= port + 50
        assert address(running) == f"http://127.0.0.1:{running.server_address[1]}/"
        running.server_close()


def test_help_lists_what_a_reader_needs():
    for arguments, words in (
        (["--help"], ["build", "serve"]),
        (["build", "--help"], ["--studio", "--offline", "--spaces", "--source-url", "--out"]),
        (["serve", "--help"], ["--port"]),
    ):
        text = subprocess.run(
            [sys.executable, "build.py", *arguments], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout
        assert all(word in text for word in words)


def test_a_second_build_needs_no_network(built, tmp_path):
    """`built` has filled the cache; now every way out is closed, and the wheel is built too."""
    closed = {"PIP_NO_INDEX": "1", "npm_config_offline": "true", "npm_config_registry": "http://127.0.0.1:9/"}
    closed |= {name: "http://127.0.0.1:9/" for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")}
    result = subprocess.run(
        [sys.executable, "build.py", "build", "--no-snapshot", "--out", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | closed,
    )
    assert result.returncode == 0 and "fetching" not in result.stdout, result.stderr
    assert len(list((tmp_path / "wheels").glob("*-py3-none-any.whl"))) == 1
    assert "Jinja2" in (tmp_path / "assets" / "NOTICES.txt").read_text()


def test_a_failed_build_is_one_message(tmp_path):
    result = subprocess.run(
        [sys.executable, "build.py", "build", "--studio", "nothing", "--out", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 1 and result.stderr.startswith("Error: there is no studio 'nothing'")


def test_space_card_is_whole(slowcount):
    from builder.pages import paint

    text = card(paint("slowcount", ""))
    assert (
        text.startswith("---\ntitle: slowcount\n") and len(re.search(r"short_description: (.*)", text).group(1)) <= 60
    )


def test_files_that_come_later_go_only_where_they_are_needed(built):
    """With the studio that has such files, beside those that have none or others."""
    config = {
        path: json.loads(re.search(r'id="bridge">(.*?)</script>', data.decode()).group(1))
        for path, data in built.items()
        if re.fullmatch(r"(spaces/)?\w+/index\.html|offline/\w+\.html", path)
    }
    names = ["books/first.bin", "books/second.bin"]
    for path, one in config.items():
        own = names if "lateread" in path else []
        assert [name for name in one["later"] if name in names] == own == [name for name in one["files"] if name in names], path
        if path.startswith("offline/"):
            assert [name for name in names if f'data-file="{name}"' in built[path].decode()] == own
    books = [path for path in built if re.search(r"/(first|second)\.\w{10}\.bin$", path)]
    assert sorted({path.rsplit("/", 1)[0] for path in books}) == ["assets", "spaces/lateread/assets"] and len(books) == 4
    said = "books/first.bin and books/second.bin: made by this very test"
    assert [path for path, data in built.items() if path.endswith("NOTICES.txt") and said in data.decode()] == [
        "assets/NOTICES.txt", "spaces/lateread/assets/NOTICES.txt"]


def test_a_file_that_cannot_be_brought_stops_the_build_in_words(slowcount, monkeypatch):
    from builder.pack import on_path
    from builder.site import bring

    from pycore.errors import SourceError
    from studios import render

    def refused(name, say):
        raise SourceError("thing@1.0.0", "could not be fetched")

    on_path(ROOT, {"lateread": ROOT / "tests" / "browser" / "fixtures" / "lateread"})
    monkeypatch.setattr(render.studio("lateread"), "supply", refused)
    with pytest.raises(BuildError, match="thing@1.0.0: could not be fetched"):
        bring(Record(), "lateread")
