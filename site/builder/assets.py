"""The files that pages share. Those of ours carry a hash in their name, so that no cache can serve yesterday's."""

from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from builder.effects import Effects
from builder.vendor import digest


@dataclass(frozen=True, slots=True)
class Asset:
    """One shared file: `path` below the assets folder, its bytes, and whether the worker needs it."""

    path: str
    data: bytes

    @property
    def row(self) -> dict:
        return {"path": self.path, "bytes": len(self.data)}


@dataclass(slots=True)
class Assets:
    """Role ("worker.mjs") -> Asset."""

    files: dict[str, Asset] = field(default_factory=dict)

    def add(self, role: str, data: bytes, *, folder: str = "") -> None:
        """Take a file. In a `folder` it keeps its name (the folder then has the version in its name)."""
        name = PurePosixPath(role)
        path = f"{folder}/{role}" if folder else f"{name.stem}.{digest(data)[:10]}{name.suffix}"
        self.files[role] = Asset(path, data)

    def write(self, effects: Effects, prefix: str) -> None:
        for asset in self.files.values():
            effects.write(prefix + asset.path, asset.data)

    def rows(self) -> dict[str, dict]:
        """What the page's configuration says about the files."""
        return {role: asset.row for role, asset in self.files.items()}


def bridge_assets(site: Path) -> dict[str, bytes]:
    """The bridge's scripts and the style sheet (the files of site/css in the order of their names, as one)."""
    scripts = {path.name: path.read_bytes() for path in sorted((site / "bridge").glob("*.mjs"))}
    style = b"\n".join(path.read_bytes() for path in sorted((site / "css").glob("*.css")))
    return scripts | {"style.css": style}
