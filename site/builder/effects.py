"""The only way the build writes: a folder, or a dictionary in tests."""

import shutil
from pathlib import Path
from typing import Protocol


class Effects(Protocol):
    """Where the build puts its files. `path` is relative, with "/"."""

    def write(self, path: str, content: bytes | str) -> None: ...

    def say(self, text: str) -> None: ...


class Folder:
    """Write into a folder. Equal files stay as they are; `finish` removes what this build did not write."""

    def __init__(self, root: Path):
        self.root, self.written = root, set()

    def write(self, path: str, content: bytes | str) -> None:
        data = content.encode() if isinstance(content, str) else content
        target = self.root / path
        self.written.add(target)
        if target.is_file() and target.read_bytes() == data:
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)

    def say(self, text: str) -> None:
        print(text, flush=True)

    def finish(self) -> None:
        """Remove files that this build did not write, then folders that became empty."""
        for path in sorted(self.root.rglob("*"), reverse=True):
            if path.is_file() and path not in self.written:
                path.unlink()
            elif path.is_dir() and not any(path.iterdir()):
                shutil.rmtree(path)


class Record:
    """Keep everything in memory: what tests hand to the build."""

    def __init__(self):
        self.files: dict[str, bytes] = {}
        self.said: list[str] = []

    def write(self, path: str, content: bytes | str) -> None:
        self.files[path] = content.encode() if isinstance(content, str) else content

    def say(self, text: str) -> None:
        self.said.append(text)
