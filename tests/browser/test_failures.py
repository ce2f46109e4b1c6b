"""Sabotage: every file of the runtime missing, cut short or wrong, old browsers, dead workers. The painted answer stays."""

import pytest
from driving import LOAD_MS, Site, ready
from playwright.sync_api import Page, expect
from test_page import impatient, start

NOISE = ("Failed to load resource", "net::ERR")


def sabotaged(opened, site: Site, pattern: str, **answer) -> Page:
    page, watch = opened()
    watch.expect(*NOISE)
    page.route(pattern, lambda route: route.fulfill(**answer) if answer else route.abort())
    page.goto(site.page("slowcount"))
    return page


def works(page: Page) -> None:
    page.get_by_label("Limit").fill("500")
    expect(page.locator("#panel h1")).to_have_text("95 primes below 500")


def cut(site: Site, role: str) -> bytes:
    data = site.asset(role).read_bytes()
    return data[: len(data) // 2]


def damaged(site: Site, role: str) -> bytes:
    data = bytearray(site.asset(role).read_bytes())
    for place in range(len(data) // 2, len(data) // 2 + 4096):
        data[place] ^= 0x5A
    return bytes(data)


@pytest.mark.parametrize("how", ["missing", "unreachable", "cut", "damaged", "not gzip"])
def test_without_a_good_snapshot_the_boot_is_plain(opened, site, how):
    answer = {
        "missing": {"status": 404, "body": ""},
        "unreachable": {},
        "cut": {"body": cut(site, "snapshot.bin")},
        "damaged": {"body": damaged(site, "snapshot.bin")},
        "not gzip": {"body": b"\0" * site.asset("snapshot.bin").stat().st_size},
    }
    page = sabotaged(opened, site, "**/snapshot.*", **answer[how])
    assert "Without the snapshot" in ready(page)
    works(page)


@pytest.mark.parametrize(
    "role",
    [
        "pyodide.asm.wasm",
        "python_stdlib.zip",
        "app.zip",
        "pyodide.mjs",
        "pyodide.asm.mjs",
        "pyodide-lock.json",
        "worker.mjs",
    ],
)
def test_a_missing_file_is_told_and_the_answer_stays(opened, site, role):
    page = sabotaged(opened, site, f"**/{site.asset(role).name}", status=404, body="")
    assert "Python could not be loaded" in ready(page, "failed")
    expect(page.locator("#panel h1")).to_have_text("25 primes below 100")
    expect(page.locator("[data-show=failed]")).to_be_visible()
    assert "Traceback" not in page.locator("body").inner_text()


@pytest.mark.parametrize(
    "role,how", [("pyodide.asm.wasm", cut), ("pyodide.asm.wasm", damaged), ("python_stdlib.zip", cut), ("app.zip", cut)]
)
def test_a_broken_file_is_told_and_the_answer_stays(opened, site, role, how):
    page = sabotaged(
        opened,
        site,
        f"**/{site.asset(role).name}",
        body=how(site, role),
        content_type="application/wasm" if role.endswith("wasm") else "application/zip",
    )
    assert "Python could not be loaded" in ready(page, "failed")
    expect(page.locator("#panel h1")).to_have_text("25 primes below 100")


def test_a_server_with_the_wrong_media_type_does(opened, site):
    page, _ = opened()
    page.route(
        "**/*.wasm",
        lambda route: route.fulfill(body=site.asset("pyodide.asm.wasm").read_bytes(), content_type="text/plain"),
    )
    page.goto(site.page("slowcount"))
    ready(page)
    works(page)


def test_browser_without_decompression_stream(opened, site):
    page, _ = opened()
    page.route(
        "**/worker.*",
        lambda route: route.fulfill(
            body="delete self.DecompressionStream;\n" + site.asset("worker.mjs").read_text(),
            content_type="text/javascript",
        ),
    )
    page.goto(site.page("slowcount"))
    assert "no DecompressionStream" in ready(page)
    works(page)


def test_single_file_without_decompression_stream_says_so(opened, site):
    page, _ = opened()
    page.add_init_script("delete window.DecompressionStream")
    page.goto((site.folder / "offline" / "slowcount.html").as_uri())
    assert "cannot unpack" in ready(page, "failed")
    expect(page.locator("#panel h1")).to_have_text("25 primes below 100")


def kill_worker(page: Page) -> None:
    """End the worker without a word, as an operating system short of memory does."""
    page.get_by_role("button", name="Run it here").click()
    page.locator("[data-code]").fill("import js\njs.close()")
    page.locator("#drawer [data-action=run]").click()
    page.locator("#drawer [data-action=drawer]").click()


def test_a_killed_worker_is_restarted_once_and_asked_again(opened, site):
    page, _ = opened()
    impatient(page)
    page.goto(site.page("slowcount"))
    ready(page)
    kill_worker(page)
    page.get_by_label("Limit").fill("500")
    expect(page.locator("#panel h1")).to_have_text("95 primes below 500", timeout=LOAD_MS)
    kill_worker(page)
    page.get_by_label("Limit").fill("30")
    assert "Python could not be kept running" in ready(page, "failed")
    expect(page.locator("#panel h1")).to_have_text("95 primes below 500")
    expect(page.get_by_label("Limit")).to_have_value("30")


def test_a_worker_caught_in_a_loop_is_replaced(opened, site):
    page, _ = start(opened, site)
    page.get_by_role("button", name="Run it here").click()
    page.locator("[data-code]").fill("while True: pass")
    page.locator("#drawer [data-action=run]").click()
    page.locator("#drawer [data-action=stop]").click()
    ready(page)
    page.locator("#drawer [data-action=drawer]").click()
    works(page)


def test_scripts_that_do_not_arrive_leave_a_readable_page(opened, site):
    page, watch = opened()
    watch.expect(*NOISE)
    page.route("**/form.*", lambda route: route.abort())
    page.goto(site.page("slowcount"))
    expect(page.locator("#panel h1")).to_have_text("25 primes below 100")
