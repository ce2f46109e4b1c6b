"""Make sure that a Chromium is there for the browser tests: the system's, else apt-get (root on Debian), else Playwright's.

Prints what it found; exits 1 with the command to run where nothing worked.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def system_chromium() -> str | None:
    """Path of a Chromium or Chrome on this machine, or None."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def playwright_chromium() -> str | None:
    """Path of the browser that `playwright install chromium` fetched, or None."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        path = playwright.chromium.executable_path
    return path if path and Path(path).exists() else None


def find() -> str | None:
    """The browser to use: the system's first, then Playwright's own."""
    return system_chromium() or playwright_chromium()


def attempts() -> list[list[str]]:
    """The commands that may bring a browser, in the order to try."""
    commands = []
    if hasattr(os, "geteuid") and os.geteuid() == 0 and shutil.which("apt-get"):
        commands += [["apt-get", "update", "-q"], ["apt-get", "install", "-yq", "chromium"]]
    return commands + [[sys.executable, "-m", "playwright", "install", "chromium"]]


def main() -> int:
    for command in [None, *attempts()]:
        if command:
            print("+", " ".join(command), flush=True)
            subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
        if path := find():
            print(f"browser for the tests: {path}")
            return 0
    print("No Chromium for the browser tests. Install one with: sudo apt-get install chromium"
          "\nor: .venv/bin/python -m playwright install chromium", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
