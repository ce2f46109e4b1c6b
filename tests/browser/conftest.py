"""One build and one server for the session, a browser for each file; a page fails its test on any console error and on any
request that leaves the folder. A missing browser fails the tests with the command that installs it: nothing is skipped."""

import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

for folder in (
    Path(__file__).resolve().parents[2],
    Path(__file__).resolve().parents[2] / "site",
    Path(__file__).parent,
):
    sys.path.insert(0, str(folder))

from builder.effects import Folder  # noqa: E402
from builder.server import address, server  # noqa: E402
from builder.site import Options, build  # noqa: E402
from driving import FIXTURES, ROOT, Site, Watch  # noqa: E402
from setup_browser import find  # noqa: E402

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Every studio, and the one that only tests have, with offline files and Spaces."""
    folder = tmp_path_factory.mktemp("pages") / "dist"
    effects = Folder(folder)
    build(Options(root=ROOT, offline=True, spaces=True, extra=(FIXTURES / "slowcount", FIXTURES / "lateread")), effects)
    running = server(folder, 0)
    threading.Thread(target=running.serve_forever, daemon=True).start()
    yield Site(folder=folder, url=address(running))
    running.shutdown()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """A browser for the tests of a file, not of the session: while Playwright runs, the main thread has an event loop, and
    tests elsewhere that start one of their own would fail."""
    path = find()
    if not path:
        pytest.fail("no Chromium for the browser tests; install one with: make browser", pytrace=False)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def opened(chromium: Browser, site: Site) -> Iterator:
    """A function that opens pages: `page, watch = opened(viewport=...)`. All are checked at the end of the test."""
    contexts, watches = [], []

    def open_page(**options: object) -> tuple[Page, Watch]:
        context = chromium.new_context(**({"viewport": {"width": 1200, "height": 900}} | options))
        page, watch = context.new_page(), Watch(allowed=(site.url, "file:"))
        watch.follow(page)
        contexts.append(context)
        watches.append(watch)
        return page, watch

    yield open_page
    for context in contexts:
        context.close()
    for watch in watches:
        watch.verdict()
