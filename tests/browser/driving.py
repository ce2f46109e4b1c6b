"""What the browser tests share: where things are, what a page must not do, how to wait for Python."""

from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import ConsoleMessage, Page, Request

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = Path(__file__).parent / "fixtures"
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
        """A shared file by its role: "snapshot.bin" (its first piece where it is served in pieces)."""
        stem, _, suffix = role.rpartition(".")
        found = [path for end in ("", ".0") for path in (self.folder / "assets").rglob(f"{stem}*.{suffix}{end}")]
        return min(found, key=lambda path: (len(path.name), path.name))


@dataclass(kw_only=True)
class Watch:
    """What a page did that it must not do. A test that sabotages something says which errors it expects."""

    allowed: tuple[str, ...]
    errors: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    expected: list[str] = field(default_factory=list)

    def follow(self, page: Page) -> None:
        """Hear all that this page and those that it opens say and ask for."""
        page.on("console", self.console)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.context.on("request", self.request)

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

    def forget(self) -> None:
        """Begin anew, for the next test of a page that several share."""
        self.errors, self.outside, self.expected = [], [], []


def ready(page: Page, state: str = "ready") -> str:
    """Wait until Python has arrived (or whatever state is asked for); the status line."""
    page.locator(f"html[data-state={state}]").wait_for(state="attached", timeout=LOAD_MS)
    return page.locator("#status").inner_text()
