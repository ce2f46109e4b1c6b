"""The files that pages share. Those of ours carry a hash in their name, so that no cache can serve yesterday's."""

from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from builder.effects import Effects
from builder.vendor import digest

PIECE_BYTES = 9_900_000
"""Hosts such as Hugging Face take larger files only through LFS."""


@dataclass(frozen=True, slots=True)
class Asset:
    """One shared file: `path` below the assets folder, and its bytes."""

    path: str
    data: bytes

    @property
    def parts(self) -> dict[str, bytes]:
        """Path -> bytes as they are written: a file that is too large for some hosts lies in pieces."""
        if len(self.data) <= PIECE_BYTES:
            return {self.path: self.data}
        return {f"{self.path}.{place // PIECE_BYTES}": self.data[place:place + PIECE_BYTES]
                for place in range(0, len(self.data), PIECE_BYTES)}

    @property
    def row(self) -> dict:
        """What the page's configuration says: where the file lies, its size, and its pieces if there are several."""
        row = {"path": self.path, "bytes": len(self.data)}
        return row if len(self.parts) == 1 else row | {"parts": list(self.parts)}


@dataclass(slots=True)
class Assets:
    """Role ("worker.mjs") -> Asset. `users`: role -> the studios that alone need it; every other file is for all."""

    files: dict[str, Asset] = field(default_factory=dict)
    users: dict[str, set[str]] = field(default_factory=dict)

    def add(self, role: str, data: bytes, *, folder: str = "", user: str = "") -> None:
        """Take a file. In a `folder` it keeps its name (the folder then has the version in its name)."""
        if user:
            self.users.setdefault(role, set()).add(user)
        name = PurePosixPath(role)
        path = f"{folder}/{role}" if folder else f"{name.stem}.{digest(data)[:10]}{name.suffix}"
        self.files[role] = Asset(path, data)

    def write(self, effects: Effects, prefix: str) -> None:
        for path, data in self.written().items():
            effects.write(prefix + path, data)

    def of(self, studio: str) -> dict[str, Asset]:
        """Role -> file of one studio's pages; "" for all of them."""
        return {role: asset for role, asset in self.files.items()
                if not studio or studio in self.users.get(role, {studio})}

    def written(self, studio: str = "") -> dict[str, bytes]:
        """Path -> bytes, large files in their pieces."""
        return {path: data for asset in self.of(studio).values() for path, data in asset.parts.items()}

    def rows(self, studio: str) -> dict[str, dict]:
        """What a page's configuration says about the files."""
        return {role: asset.row for role, asset in self.of(studio).items()}


def bridge_assets(site: Path) -> dict[str, bytes]:
    """The bridge's scripts and the style sheet (the files of site/css in the order of their names, as one)."""
    scripts = {path.name: path.read_bytes() for path in sorted((site / "bridge").glob("*.mjs"))}
    style = b"\n".join(path.read_bytes() for path in sorted((site / "css").glob("*.css")))
    return scripts | {"style.css": style}
