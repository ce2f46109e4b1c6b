"""Whose work the pages carry, under which licence, and where its source is: a text beside the files themselves."""

from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from types import ModuleType

from builder.pages import later
from builder.vendor import lock


def notices(files: dict[str, Path], views: Iterable[ModuleType] = ()) -> str:
    """The text. Wheels carry their own licences inside; of what is repacked here the licence is given in full.

    `views`: studios whose own files (`FILES`) have something to be said of them.
    """
    rows = [f"{file.name}: {file.licence}; from the {file.origin} package {file.package}" for file in lock()
            if not file.name.endswith("-licence.txt")]
    texts = [(name, files[name].read_text(encoding="utf-8")) for name in files if name.endswith("-licence.txt")]
    texts += [(name, licence_of(name)) for name in ("Jinja2", "MarkupSafe")]
    parts = ["Third-party files in this folder, and inside app.zip and the single files:", "", *rows,
             "app.zip holds Jinja2 and MarkupSafe: BSD-3-Clause; from the pip packages of these names", ""]
    for name, text in texts:
        parts += [f"---- {name} ----", "", text.strip(), ""]
    parts += [f"---- {view.TITLE} ----\n\n{view.notices().strip()}\n" for view in views if later(view)]
    return "\n".join(parts)


def licence_of(package: str) -> str:
    """The licence text that an installed package brought along."""
    found = [file for file in metadata.files(package) or () if "licenses/" in str(file).lower()]
    return "\n\n".join(file.read_text() for file in found) or metadata.metadata(package).get("License-Expression", "")
