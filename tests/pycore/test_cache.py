"""Files that do not travel with the code, and those of a reader."""

import subprocess
import sys

import pytest

from pycore import cache
from pycore.errors import InputError, SourceError


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    monkeypatch.setenv("INFERENCE_STUDIOS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_the_folder_is_the_chosen_one_else_the_users(monkeypatch, folder, tmp_path):
    assert cache.cache_folder() == folder
    monkeypatch.delenv("INFERENCE_STUDIOS_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.cache_folder() == tmp_path / "inference-studios"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache.place("a/b") == tmp_path / "home" / ".cache" / "inference-studios" / "a" / "b"


def test_a_file_is_written_whole(folder):
    assert cache.missing(["a/b", "c"]) == ("a/b", "c")
    cache.put(cache.place("a/b"), b"1")
    cache.put(cache.place("a/b"), b"22")
    assert cache.place("a/b").read_bytes() == b"22" and cache.missing(["a/b", "c"]) == ("c",)
    assert [path.name for path in (folder / "a").iterdir()] == ["b"]


@pytest.mark.parametrize("name", ["tokenizer.json", "a:b:c", "../../etc/passwd", "<b>\n&", "", "x" * 300 + ".json", "имя 文件"])
def test_an_upload_is_found_by_its_reference_alone(folder, name):
    reference = cache.keep_upload(name, b"\0\xff")
    assert cache.is_upload(reference) and len(reference) < 110
    assert cache.upload("vocabulary", reference) == (name[-80:] or reference.split(":")[1], b"\0\xff")
    assert cache.upload("vocabulary", ":".join(reference.split(":")[:2]))[1] == b"\0\xff"
    assert [path.parent.name for path in folder.rglob("*") if path.is_file()] == ["uploads"]


@pytest.mark.parametrize("reference", ["", "upload:", "upload:../../secret", "upload:0123", "tokenizer.json", "upload:" + "G" * 16])
def test_what_is_no_reference_is_refused(reference):
    assert not cache.is_upload(reference)
    with pytest.raises(InputError, match="vocabulary: .* is not accepted; accepted: a file chosen here"):
        cache.upload("vocabulary", reference)


def test_a_reference_from_elsewhere_asks_for_the_file():
    with pytest.raises(InputError, match="'mine.json' is not accepted; this file was chosen elsewhere .* choose it again"):
        cache.upload("vocabulary", "upload:0123456789abcdef:mine.json")


def test_a_large_upload_is_refused(monkeypatch):
    monkeypatch.setattr(cache, "UPLOAD_LIMIT_BYTES", 1 << 20)
    with pytest.raises(SourceError, match="large.bin: has 1,048,577 bytes; accepted: at most 1 MiB"):
        cache.keep_upload("large.bin", bytes((1 << 20) + 1))


def test_a_place_that_cannot_be_written_is_said_and_leaves_nothing(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(SourceError, match="INFERENCE_STUDIOS_CACHE names another"):
        cache.put(tmp_path / "file" / "below", b"data")
    limited = ("import resource, sys; from pathlib import Path; from pycore import cache; resource.setrlimit(resource.RLIMIT_FSIZE, (9, 9));"
               "cache.put(Path(sys.argv[1]), bytes(100))")
    found = subprocess.run([sys.executable, "-c", limited, str(tmp_path / "whole")], capture_output=True, text=True, check=False)
    assert "SourceError" in found.stderr and "cannot be written: File too large" in found.stderr
    assert [one.name for one in tmp_path.iterdir()] == ["file"]
