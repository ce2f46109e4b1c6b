"""Files that the Hugging Face client has already put on this machine: what HF_HUB_OFFLINE=1 restricts a look-up to."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pycore.errors import SourceError
from pycore.hub.download import Missing

TRUE = ("1", "on", "yes", "true")


def offline(environment: Mapping[str, str]) -> bool:
    """Whether the environment forbids the network, as the Hub's own client reads it."""
    return any(environment.get(name, "").strip().lower() in TRUE for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"))


def cache_folder(environment: Mapping[str, str]) -> Path:
    """HF_HUB_CACHE, else `hub` under HF_HOME, else under the user's cache folder."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if environment.get(name):
            return Path(environment[name]).expanduser()
    home = environment.get("HF_HOME") or Path(environment.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface"
    return Path(home).expanduser() / "hub"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One revision of one repository in the cache; reads like a `Download`, paths being file names."""

    folder: Path

    @property
    def host(self) -> str:
        return f"local cache ({self.folder})"

    def read(self, name: str, limit: int) -> bytes:
        """A whole file of at most `limit` bytes. Raises SourceError, Missing."""
        content = self.start(name, limit + 1)
        if len(content) > limit:
            raise SourceError(self.host, f"{name} is larger than the {limit:,} bytes it may have")
        return content

    def start(self, name: str, length: int) -> bytes:
        """The first `length` bytes of a file. Raises SourceError, Missing."""
        try:
            with (self.folder / name).open("rb") as file:
                return file.read(length)
        except FileNotFoundError:
            raise Missing(self.host, f"there is no {name}") from None
        except OSError as error:
            raise SourceError(self.host, f"{name} cannot be read: {error.strerror or error}") from None


def snapshot(repository: str, revision: str, environment: Mapping[str, str]) -> Snapshot:
    """The cached revision: a branch or tag by its `refs` entry, or a commit itself. Raises SourceError."""
    folder = cache_folder(environment) / ("models--" + repository.replace("/", "--"))
    try:
        commit = (folder / "refs" / revision).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        commit = revision
    found = folder / "snapshots" / commit
    if not commit or not found.is_dir():
        raise SourceError("HF_HUB_OFFLINE", f"is set and {repository} at {revision!r} is not in {folder.parent}; "
                                            "fetch it once while online, or unset the variable")
    return Snapshot(found)
