"""A smoke test in Firefox: every studio's page and one single file become ready from the snapshot and answer a question."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from builder import node
from builder.cache import cache_folder
from driving import STUDIOS, Site
from setup_browser import find_firefox

PUPPETEER = "puppeteer-core@24.43.1"


@pytest.fixture(scope="session")
def puppeteer() -> Path:
    """puppeteer-core in the cache folder: the one driver that speaks to an unpatched Firefox and comes without a browser."""
    folder = cache_folder() / PUPPETEER
    if not (folder / "node_modules" / "puppeteer-core").is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "package.json").write_text("{}")
        result = subprocess.run(
            [*node.find().npm, "install", "--silent", "--ignore-scripts", "--no-audit", "--no-fund", PUPPETEER],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        if result.returncode:
            shutil.rmtree(folder)
            pytest.fail(f"npm could not install {PUPPETEER}: {result.stderr[-500:]}", pytrace=False)
    return folder


def test_firefox_runs_every_studio(site: Site, puppeteer: Path):
    firefox = find_firefox()
    if not firefox:
        pytest.fail("no Firefox for the browser tests; install one with: make browser", pytrace=False)
    pages = [site.page(name) for name in (*STUDIOS, "slowcount")]
    pages.append((site.folder / "offline" / f"{(*STUDIOS, 'slowcount')[0]}.html").as_uri())
    script = Path(__file__).with_name("firefox.mjs")
    results = json.loads(node.run(script, str(puppeteer), firefox, json.dumps(pages)))
    assert [result["url"] for result in results] == pages
    for result in results:
        assert result["state"] == "ready" and "Python ready" in result["ready"], result
        assert "Without the snapshot" not in result["ready"], result
        assert result["after"] != result["before"] and not result["faults"], result
