"""What every page must do, on the studio made for tests: `slowcount` counts primes, as slowly as it is asked to."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from driving import Site, ready
from playwright.sync_api import Page, expect

PATIENCE_MS = 1500


def start(opened, site: Site, query: str = "", **options) -> tuple[Page, object]:
    page, watch = opened(**options)
    page.goto(site.page("slowcount", query))
    ready(page)
    return page, watch


def impatient(page: Page) -> None:
    """Serve the page with a short watch on silent workers, so that a test need not wait for the real one."""

    def shorter(route):
        body = route.fetch().text()
        route.fulfill(body=re.sub(r'"patience":\d+', f'"patience":{PATIENCE_MS}', body), content_type="text/html")

    page.route("**/slowcount/*", shorter)
    page.route("**/slowcount/", shorter)


def hold(page: Page, pattern) -> Callable[[], None]:
    """Keep back what the page asks for; the function that lets it go."""
    held, open_ = [], []
    page.route(pattern, lambda route: route.continue_() if open_ else held.append(route))

    def release() -> None:
        open_.append(True)
        for route in held:
            route.continue_()

    return release


def test_readable_without_javascript(opened, site):
    page, _ = opened(java_script_enabled=False)
    page.goto(site.page("slowcount"))
    expect(page.locator("#panel h1")).to_have_text("25 primes below 100")
    expect(page.locator("#panel [data-chart=growth] svg:visible")).to_have_count(1)
    expect(page.locator("#field-limit")).to_be_disabled()


def test_first_paint_needs_no_runtime(opened, site):
    page, _ = opened()
    release = hold(page, re.compile(r"\.(wasm|zip|bin)$|worker"))
    page.goto(site.page("slowcount"))
    expect(page.locator("#panel h1")).to_have_text("25 primes below 100")
    expect(page.locator("#panel [data-chart=growth] svg:visible")).to_have_count(1)
    before = page.locator("#panel").bounding_box()
    assert page.locator("html").get_attribute("data-state") in ("painted", "loading")
    release()
    ready(page)
    assert page.locator("#panel").bounding_box() == before, "the page moved when Python arrived"


def test_edit_changes_panel_address_and_words(opened, site):
    page, _ = start(opened, site)
    limit = page.get_by_label("Limit")
    limit.fill("500")
    expect(page.locator("#panel h1")).to_have_text("95 primes below 500")
    expect(page).to_have_url(site.page("slowcount", "?limit=500"))
    expect(page).to_have_title("95 primes below 500 · slowcount")
    expect(limit).to_be_focused()
    expect(page.locator("[data-out=command]:visible")).to_have_text("slowcount --limit 500")
    expect(page.locator("[data-chart=growth] .chart-live svg")).to_be_visible()
    expect(page.locator("[data-chart=growth] svg")).to_have_count(1)


def test_status_says_how_python_came(opened, site):
    page, _ = opened()
    page.goto(site.page("slowcount"))
    text = ready(page)
    assert "Python ready" in text and "Without the snapshot" not in text
    expect(page.locator("#status")).to_contain_text("it gives the figures shown")


def test_address_with_a_question_is_asked(opened, site):
    page, _ = opened()
    page.goto(site.page("slowcount", "?limit=1000&name=ada"))
    expect(page.get_by_label("Limit")).to_have_value("1000")
    expect(page.locator("#panel h1")).to_have_text("168 primes below 1000", timeout=30_000)
    expect(page.locator("[data-show=painted]")).to_be_hidden()


def test_painted_answer_is_named_as_such_meanwhile(opened, site):
    page, _ = opened()
    release = hold(page, "**/*.wasm")
    page.goto(site.page("slowcount", "?limit=1000"))
    expect(page.locator("[data-show=painted]")).to_be_visible()
    release()
    expect(page.locator("#panel h1")).to_have_text("168 primes below 1000", timeout=30_000)
    expect(page.locator("[data-show=painted]")).to_be_hidden()


def test_newer_question_supersedes_a_running_one(opened, site):
    page, _ = start(opened, site)
    page.get_by_text("More", exact=True).click()
    page.get_by_label("Steps").fill("1000000")
    expect(page.locator("#panel")).to_have_attribute("data-state", "pending")
    page.get_by_label("Steps").fill("2")
    page.get_by_label("Limit").fill("30")
    expect(page.locator("#panel h1")).to_have_text("10 primes below 30", timeout=3000)


def test_running_question_is_cancelled(opened, site):
    page, _ = start(opened, site)
    page.get_by_text("More", exact=True).click()
    page.get_by_label("Steps").fill("1000000")
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("#panel")).to_have_attribute("data-state", "stale")
    expect(page.locator("#panel h1")).to_have_text("25 primes below 100")
    page.get_by_label("Steps").fill("3")
    expect(page.locator("#panel")).to_have_attribute("data-state", "current", timeout=3000)


def test_bad_input_is_told_at_its_field_and_loses_nothing(opened, site):
    page, _ = start(opened, site)
    page.get_by_label("Limit").fill("500")
    expect(page.locator("#panel h1")).to_have_text("95 primes below 500")
    page.get_by_label("Limit").fill("many")
    slot = page.locator("[data-error-for=limit]")
    expect(slot).to_contain_text("'many' is not accepted")
    expect(page.get_by_label("Limit")).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_label("Limit")).to_have_value("many")
    expect(page.locator("#panel h1")).to_have_text("95 primes below 500")
    page.get_by_label("Limit").fill("30")
    expect(slot).to_be_empty()
    expect(page.get_by_label("Limit")).not_to_have_attribute("aria-invalid", "true")


def test_suggestion_is_taken_by_a_click(opened, site):
    page, _ = start(opened, site)
    page.get_by_label("Name").fill("sofie")
    page.get_by_role("button", name="sophie").click()
    expect(page.locator("#who")).to_have_text("sophie")


HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "{{ 7*7 }}",
    "{% raw %}",
    "</script><script>alert(1)</script>",
    "\u202e&amp;\"'",
)


def test_hostile_text_is_shown_as_text(opened, site):
    page, _ = start(opened, site)
    page.on("dialog", lambda dialog: pytest.fail("a script ran"))
    for text in HOSTILE:
        page.get_by_label("Name").fill(text)
        expect(page.locator("#who")).to_have_text(text)
        assert page.locator("#who img, #who script").count() == 0


def test_our_own_fault_is_told_without_a_traceback(opened, site):
    page, _ = start(opened, site)
    page.get_by_label("Name").fill("crash")
    expect(page.locator('[data-error-for=""]')).to_contain_text("fault of ours")
    assert "Traceback" not in page.locator("body").inner_text()
    expect(page.locator("#panel h1")).to_have_text("25 primes below 100")
    page.get_by_label("Name").fill("ada")
    expect(page.locator("#who")).to_have_text("ada")


def test_links_ask_without_leaving_and_back_returns(opened, site):
    page, _ = start(opened, site)
    page.get_by_role("link", name="Primes below 1000").click()
    expect(page.locator("#panel h1")).to_have_text("168 primes below 1000")
    expect(page.get_by_label("Limit")).to_have_value("1000")
    page.go_back()
    expect(page.locator("#panel h1")).to_have_text("25 primes below 100")


def test_what_a_reader_opened_survives_the_swap(opened, site):
    page, _ = start(opened, site)
    page.get_by_text("First primes").click()
    page.locator("#primes th button").nth(1).click()
    page.locator("#primes th button").nth(1).click()
    expect(page.locator("#primes tbody tr").first).to_contain_text("29")
    page.get_by_label("Limit").fill("20")
    expect(page.locator("#panel h1")).to_have_text("8 primes below 20")
    expect(page.locator("#panel details")).to_have_attribute("open", "")
    expect(page.locator("#primes tbody tr").first).to_contain_text("19")


def test_share_and_copy(opened, site):
    page, _ = start(opened, site, permissions=["clipboard-read", "clipboard-write"])
    page.get_by_label("Limit").fill("500")
    expect(page.locator("#panel h1")).to_have_text("95 primes below 500")
    page.get_by_role("button", name="Share").click()
    expect(page.locator("#status")).to_have_text("Address copied")
    assert page.evaluate("() => navigator.clipboard.readText()") == site.page("slowcount", "?limit=500")
    page.locator("[data-text=command]").click()
    expect(page.locator("#status")).to_have_text("Command copied")
    assert page.evaluate("() => navigator.clipboard.readText()") == "slowcount --limit 500"


def test_downloads(opened, site, tmp_path: Path):
    page, _ = start(opened, site)
    page.get_by_label("Limit").fill("20")
    expect(page.locator("#panel h1")).to_have_text("8 primes below 20")
    with page.expect_download() as download:
        page.get_by_role("button", name="primes.csv").click()
    assert download.value.path().read_text() == "prime\n2\n3\n5\n7\n11\n13\n17\n19\n"
    for kind, start_bytes in (("svg", b"<svg"), ("png", b"\x89PNG")):
        button = page.locator(f"[data-action=chart-{kind}]")
        with page.expect_download() as download:
            button.click()
        data = download.value.path().read_bytes()
        assert data.startswith(start_bytes) and b"var(--" not in data


def test_theme_is_remembered(opened, site):
    page, _ = start(opened, site, color_scheme="light")
    page.get_by_role("button", name="Theme").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


def test_long_questions_stay_out_of_the_servers_sight(opened, site):
    page, _ = start(opened, site)
    page.get_by_text("More", exact=True).click()
    page.get_by_label("Note", exact=True).fill("long " * 600)
    expect(page.locator("#panel q")).to_contain_text("long long")
    assert page.url.startswith(site.page("slowcount", "#?note="))
    page.reload()
    expect(page.locator("#panel q")).to_contain_text("long long", timeout=30_000)


def test_a_file_fills_its_field(opened, site, tmp_path):
    page, _ = start(opened, site)
    (tmp_path / "note.txt").write_text("from a file")
    page.get_by_text("More", exact=True).click()
    page.locator("input[type=file]").set_input_files(tmp_path / "note.txt")
    expect(page.locator("#panel q")).to_have_text("from a file")
    for content in (b"\xffab", b"ab\xffcd", "नमस्ते".encode()[:-1], b"\xef\xbb\xbfab\xe0\x41", b"a" * 70_000 + b"\xed\xa0\x80" + b"b" * 70_000):
        (tmp_path / "bad.txt").write_bytes(content)
        page.locator("input[type=file]").set_input_files(tmp_path / "bad.txt")
        with pytest.raises(UnicodeDecodeError) as fault:
            content.decode()
        place = fault.value.start
        expect(page.locator("[data-error-for=note]")).to_contain_text(f"byte 0x{content[place]:02x} at offset {place:,};")
        expect(page.locator("#panel q")).to_have_text("from a file")
    (tmp_path / "large.txt").write_bytes(b"x" * (5 << 20))
    page.locator("input[type=file]").set_input_files(tmp_path / "large.txt")
    expect(page.locator("[data-error-for=note]")).to_contain_text("at most 4 MB")
    expect(page.locator("#panel q")).to_have_text("from a file")


HUB_ANSWERS = {
    "found": ({"status": 200, "body": json.dumps({"layers": 3})}, "#panel q", '{"layers": 3}'),
    "missing": ({"status": 404, "body": ""}, "[data-error-for=name]", "no such file"),
    "gated": ({"status": 401, "body": ""}, "[data-error-for=name]", "gated or private"),
    "forbidden": ({"status": 403, "body": ""}, "[data-error-for=name]", "gated or private"),
    "huge": ({"status": 200, "body": "x" * (5 << 20)}, "[data-error-for=name]", "more than 4 MB"),
}


def test_text_from_the_hub(opened, site):
    page, watch = opened()
    watch.allowed += ("https://huggingface.co/",)
    watch.expect("Failed to load resource")
    answer = {}
    page.route(
        "https://huggingface.co/**",
        lambda route: route.fulfill(**answer, headers={"access-control-allow-origin": "*"}),
    )
    page.goto(site.page("slowcount"))
    ready(page)
    page.get_by_text("More", exact=True).click()
    for given, place, words in HUB_ANSWERS.values():
        answer |= given
        page.get_by_label("Name").fill("ada/prime s")
        with page.expect_request("https://huggingface.co/**") as request:
            page.get_by_role("button", name="Fetch").click()
        assert request.value.url == "https://huggingface.co/ada/prime%20s/raw/main/config.json"
        expect(page.locator(place)).to_contain_text(words)
        expect(page.get_by_label("Name")).to_have_value("ada/prime s")


def test_a_hub_that_cannot_be_reached(opened, site):
    page, watch = opened()
    watch.allowed += ("https://huggingface.co/",)
    watch.expect("Failed to load resource")
    page.route("https://huggingface.co/**", lambda route: route.abort())
    page.goto(site.page("slowcount"))
    ready(page)
    page.get_by_text("More", exact=True).click()
    page.get_by_role("button", name="Fetch").click()
    expect(page.locator("[data-error-for=name]")).to_contain_text("could not be reached")


def test_drawer_runs_lines_beside_the_page(opened, site):
    page, _ = start(opened, site)
    page.get_by_label("Limit").fill("30")
    expect(page.locator("#panel h1")).to_have_text("10 primes below 30")
    page.get_by_role("button", name="Run it here").click()
    for code, shown in [
        ("answer", "(2, 3, 5, 7, 11, 13, 17, 19, 23, 29)"),
        ("query.limit * 2", "60"),
        ("kept = 5", "(nothing printed)"),
        ("print('a'); kept + 1", "a\n6"),
        ("1/0", "ZeroDivisionError: division by zero"),
        ("import micropip, numpy\nsorted(micropip.list())[:2]", "['micropip', 'numpy']"),
        ("from pycore.units import show\nshow(2**30, 'B')", "'1 GiB'"),
    ]:
        page.locator("[data-code]").fill(code)
        page.locator("#drawer [data-action=run]").click()
        expect(page.locator("[data-output]")).to_contain_text(shown, timeout=30_000)


def test_keyboard_alone_suffices(opened, site):
    page, _ = start(opened, site)
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("() => document.activeElement.id") == "field-limit":
            break
    assert page.evaluate("() => document.activeElement.matches(':focus-visible')")
    page.keyboard.press("Control+A")
    page.keyboard.type("50")
    expect(page.locator("#panel h1")).to_have_text("15 primes below 50")
    outline = page.evaluate(
        "() => { const s = getComputedStyle(document.activeElement); return s.outlineStyle + s.boxShadow }"
    )
    assert outline != "nonenone", "the focus cannot be seen"
