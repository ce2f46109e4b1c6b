"""One build, one server and one browser for the session; a page that fails its test on any console error or any request
that leaves the folder. A missing browser fails the tests with the command that installs it: nothing is skipped."""

import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
for folder in (ROOT, ROOT / "site", Path(__file__).parent):
    sys.path.insert(0, str(folder))

from builder.effects import Folder  # noqa: E402
from builder.server import address, server  # noqa: E402
from builder.site import Options, build  # noqa: E402
from setup_browser import find  # noqa: E402

FIXTURES = Path(__file__).parent / "fixtures"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
STUDIOS = tuple(sorted(path.parent.name for path in (ROOT / "studios").glob("*/view.py")))
LOAD_MS = 90_000


@dataclass(kw_only=True)
class Site:
    """The built pages: their folder, and where they are served."""

    folder: Path
    url: str

    def page(self, studio: str, query: str = "") -> str:
        return f"{self.url}{studio}/{query}"

    def asset(self, role: str) -> Path:
        """A shared file by its role: "snapshot.bin"."""
        stem, _, suffix = role.rpartition(".")
        return next((self.folder / "assets").rglob(f"{stem}*.{suffix}"))


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Every studio, and the one that only tests have, with offline files and Spaces."""
    folder = tmp_path_factory.mktemp("pages") / "dist"
    effects = Folder(folder)
    build(
        Options(
            root=ROOT,
            offline=True,
            spaces=True,
            extra=(FIXTURES / "slowcount",),
        ),
        effects,
    )
    running = server(folder, 0)
    threading.Thread(target=running.serve_forever, daemon=True).start()
    yield Site(folder=folder, url=address(running))
    running.shutdown()


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    path = find()
    if not path:
        pytest.fail("no Chromium for the browser tests; install one with: make browser", pytrace=False)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@dataclass(kw_only=True)
class Watch:
    """What a page did that it must not do. A test that sabotages something says which errors it expects."""

    allowed: tuple[str, ...]
    errors: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    expected: list[str] = field(default_factory=list)

    def console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(message.text)

    def request(self, request: Request) -> None:
        if not request.url.startswith((*self.allowed, "blob:", "data:")):
            self.outside.append(request.url)

    def expect(self, *texts: str) -> None:
        """Console errors that hold one of these texts are part of the test."""
        self.expected += texts

    def verdict(self) -> None:
        unexpected = [text for text in self.errors if not any(known in text for known in self.expected)]
        assert not unexpected, f"console errors: {unexpected}"
        assert not self.outside, f"requests that left the folder: {self.outside}"


@pytest.fixture
def opened(chromium: Browser, site: Site) -> Iterator:
    """A function that opens pages: `page, watch = opened(viewport=...)`. All are checked at the end of the test."""
    contexts, watches = [], []

    def open_page(**options: object) -> tuple[Page, Watch]:
        context = chromium.new_context(**({"viewport": {"width": 1200, "height": 900}} | options))
        page, watch = context.new_page(), Watch(allowed=(site.url, "file:"))
        page.on("console", watch.console)
        page.on("pageerror", lambda error: watch.errors.append(str(error)))
        context.on("request", watch.request)
        contexts.append(context)
        watches.append(watch)
        return page, watch

    yield open_page
    for context in contexts:
        context.close()
    for watch in watches:
        watch.verdict()


def ready(page: Page, state: str = "ready") -> str:
    """Wait until Python has arrived (or whatever state is asked for); the status line."""
    page.locator(f"html[data-state={state}]").wait_for(state="attached", timeout=LOAD_MS)
    return page.locator("#status").inner_text()
