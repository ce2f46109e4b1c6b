"""Make sure that the browsers of the tests are there: Chromium (the system's, else apt-get where root on Debian, else
Playwright's own) and Firefox (the system's, else apt-get).

Prints what it found; exits 1 with the command to run where nothing worked.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FIREFOX = ("firefox-esr", "firefox")
ELSEWHERE = {
    "chromium": ("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",),
    "firefox": ("/Applications/Firefox.app/Contents/MacOS/firefox",),
}


def on_path(names: tuple[str, ...], elsewhere: tuple[str, ...]) -> str | None:
    """The first of these programs that this machine has."""
    found = (shutil.which(name) for name in names)
    return next((path for path in (*found, *filter(os.path.exists, elsewhere)) if path), None)


def playwright_chromium() -> str | None:
    """Path of the browser that `playwright install chromium` fetched, or None."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        path = playwright.chromium.executable_path
    return path if path and Path(path).exists() else None


def find() -> str | None:
    """The Chromium to use: the system's first, then Playwright's own."""
    return on_path(CHROMIUM, ELSEWHERE["chromium"]) or playwright_chromium()


def find_firefox() -> str | None:
    """The Firefox to use; Playwright's patched one does not speak the protocol that the test needs."""
    return on_path(FIREFOX, ELSEWHERE["firefox"])


def apt(package: str) -> list[list[str]]:
    """Commands that install a Debian package, where that can be done here."""
    if hasattr(os, "geteuid") and os.geteuid() == 0 and shutil.which("apt-get"):
        return [["apt-get", "update", "-q"], ["apt-get", "install", "-yq", package]]
    return []


def main() -> int:
    status = 0
    playwright = [[sys.executable, "-m", "playwright", "install", "chromium"]]
    for name, look, commands, advice in (
        (
            "Chromium",
            find,
            apt("chromium") + playwright,
            "sudo apt-get install chromium\nor: .venv/bin/python -m playwright install chromium",
        ),
        ("Firefox", find_firefox, apt("firefox-esr"), "sudo apt-get install firefox-esr (or Mozilla's own)"),
    ):
        for command in commands:
            if look():
                break
            print("+", " ".join(command), flush=True)
            subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
        if path := look():
            print(f"browser for the tests: {path}")
        else:
            print(f"No {name} for the browser tests. Install one with: {advice}", file=sys.stderr)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
