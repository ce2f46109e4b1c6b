"""The source code as pages, so that each number's line can be read without leaving the folder."""

from html import escape
from pathlib import Path

PATTERN = "source/{path}.html#L{line}"
"""Where a line of code lies, below the folder of the home page."""

SHEET = """:root{color-scheme:light dark}body{margin:0;font:14px/1.5 ui-monospace,Menlo,Consolas,monospace}
h1{font:600 16px system-ui,sans-serif;margin:12px 20px}ol{margin:0;padding:0 0 40px 64px}
li{white-space:pre-wrap;padding-left:10px}
li::marker{color:#888}li:target{background:color-mix(in srgb,#e69f00 35%,transparent)}"""


def listings(root: Path) -> dict[str, str]:
    """Page path -> HTML for every Python file that a `Term` may point to."""
    return {f"source/{name}.html": page(name, path.read_text(encoding="utf-8"))
            for path in sorted((root / "pycore").rglob("*.py")) if (name := path.relative_to(root).as_posix())}


def page(name: str, text: str) -> str:
    """One file as an ordered list: line 16 has the id L16."""
    lines = "\n".join(f'<li id="L{number}">{escape(line)}' for number, line in enumerate(text.splitlines(), 1))
    return (f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
            f'<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; style-src \'unsafe-inline\'">'
            f"<title>{escape(name)}</title><style>{SHEET}</style><h1>{escape(name)}</h1><ol>{lines}</ol></html>\n")
