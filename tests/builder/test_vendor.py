"""Files from elsewhere: verified, cached, and never taken when they are not the ones we tested."""

import dataclasses
import json
import re
from pathlib import Path

import pytest
from builder import vendor
from builder.cache import BuildError
from builder.effects import Record
from builder.vendor import Members, Vendored, digest, lock, vendored

DATA = b"the very bytes"
FILE = Vendored(
    name="thing.mjs",
    sha256=digest(DATA),
    bytes=len(DATA),
    origin="npm",
    package="thing@1.0.0",
    member="package/thing.mjs",
    licence="0BSD",
)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """An empty cache, and a package manager that notes what it is asked for."""
    requests = []
    monkeypatch.setenv("INFERENCE_STUDIOS_CACHE", str(tmp_path))

    def fetched(origin: str, package: str, wanted: tuple[str, ...]) -> Members:
        requests.append(f"{origin} {package}")
        return Members(package, {"package/thing.mjs": DATA})

    monkeypatch.setattr(vendor, "fetched", fetched)
    return requests


def test_first_use_fetches_and_later_ones_do_not(asked):
    first = vendored(Record(), (FILE,))
    second = vendored(Record(), (FILE,))
    assert first == second and first["thing.mjs"].read_bytes() == DATA
    assert asked == ["npm thing@1.0.0"]


def test_a_package_is_asked_for_the_files_of_the_lock_that_names_it(monkeypatch, tmp_path):
    """The tests have a lock of their own: what it wants had been looked up in the pages' one, and so never found."""
    requests = []
    monkeypatch.setenv("INFERENCE_STUDIOS_CACHE", str(tmp_path))
    monkeypatch.setattr(vendor, "members", lambda *asked: requests.append(asked) or {"package/thing.mjs": DATA})
    assert vendored(Record(), (FILE,))["thing.mjs"].read_bytes() == DATA
    assert requests == [("npm", "thing@1.0.0", ("package/thing.mjs",))]


def test_a_wrong_hash_stops_the_build_and_leaves_nothing(asked, tmp_path):
    wrong = dataclasses.replace(FILE, sha256="0" * 64)
    with pytest.raises(
        BuildError, match=r"thing\.mjs from thing@1\.0\.0 has sha256 .* but site/vendor.lock.json says 0000"
    ):
        vendored(Record(), (wrong,))
    assert list(tmp_path.iterdir()) == []


def test_a_file_changed_in_the_cache_is_fetched_again(asked):
    path = vendored(Record(), (FILE,))["thing.mjs"]
    path.write_bytes(b"something else")
    assert vendored(Record(), (FILE,))["thing.mjs"].read_bytes() == DATA
    assert len(asked) == 2


def test_a_member_that_is_not_there_is_named(asked):
    with pytest.raises(BuildError, match="holds no package/other.mjs"):
        vendored(
            Record(), (dataclasses.replace(FILE, name="other.mjs", sha256=digest(b"?"), member="package/other.mjs"),)
        )


def test_a_package_that_does_not_exist_is_told_with_the_command(monkeypatch, tmp_path):
    monkeypatch.setenv("INFERENCE_STUDIOS_CACHE", str(tmp_path))
    monkeypatch.setenv("npm_config_offline", "true")
    with pytest.raises(BuildError, match="no-such-package@0.0.0: could not be fetched through npm"):
        vendored(Record(), (dataclasses.replace(FILE, package="no-such-package@0.0.0"),))


def test_lock_agrees_with_pyodides_own_lock_file():
    """The wheels are the official ones: Pyodide's lock file, itself locked, has the same sha256 for each."""
    files = vendored(Record())
    official = {
        row["file_name"]: row["sha256"]
        for row in json.loads(files["pyodide-lock.json"].read_text())["packages"].values()
    }
    wheels = [file for file in lock() if file.name.endswith(".whl")]
    assert len(wheels) >= 3
    for wheel in wheels:
        assert official[wheel.name] == wheel.sha256


def test_lock_pins_versions_and_sizes():
    for file in lock():
        assert re.search(r"(@|==| )\d+\.\d+", file.package), file
        assert file.cached.stat().st_size == file.bytes
