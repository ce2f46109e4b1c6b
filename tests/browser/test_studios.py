"""Every studio's page, as a reader meets it: what holds for all of them, whatever they are about."""

import json
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from builder.effects import Record
from builder.server import address, server
from builder.vendor import lock, vendored
from driving import STUDIOS, Site, Watch, ready
from playwright.sync_api import Browser, Page, expect

ALL = STUDIOS or ("slowcount",)  # what slowcount does is in test_page.py
HOSTILE = "<img src=x onerror=alert(1)>{{ 7*7 }}{% raw %}\"'</script>"
studio = pytest.mark.parametrize("name", ALL, scope="module")  # a studio after the other, so that its tests share one boot
DESK = {"width": 1200, "height": 900}


def start(opened, site: Site, name: str, query: str = "", **options) -> Page:
    page, _ = opened(**options)
    page.goto(site.page(name, query))
    ready(page)
    return page


def answers(page: Page) -> None:
    """Ask the first example that is a link, and see the title change with the panel."""
    before, heading = page.title(), page.locator("#panel h1").inner_text()
    page.locator('.presets a[href^="?"]:not([href="?"])').first.click()
    expect(page).not_to_have_title(before, timeout=15_000)
    expect(page.locator("#panel h1")).not_to_have_text(heading)


@dataclass(frozen=True, kw_only=True)
class Booted:
    """A page that several tests use, one after the other."""

    page: Page
    watch: Watch
    arrival: str  # the status line as Python had arrived
    title: str  # of the default question


@pytest.fixture(scope="module")
def booted(chromium: Browser, site: Site, name: str) -> Iterator[Booted]:
    """A studio at its default question at a desk, Python there, layout shifts counted, axe at hand."""
    context = chromium.new_context(viewport=DESK)
    page, watch = context.new_page(), Watch(allowed=(site.url,))
    watch.follow(page)
    page.add_init_script("""window.shifts = []; new PerformanceObserver((list) => { for (const entry of list.getEntries())
        window.shifts.push(entry.value) }).observe({type: "layout-shift", buffered: true})""")
    page.add_init_script(path=vendored(Record(), lock(Path(__file__).with_name("vendor.lock.json")))["axe.min.js"])
    page.goto(site.page(name))
    yield Booted(page=page, watch=watch, arrival=ready(page), title=page.title())
    context.close()


@pytest.fixture
def desk(booted: Booted) -> Iterator[Page]:
    """That page as it was booted: default question, light, wide, nothing focused. What it did is judged after every test."""
    page = booted.page
    page.set_viewport_size(DESK)
    page.emulate_media(color_scheme="light", reduced_motion="no-preference")
    if page.title() != booted.title:
        page.locator('.presets a[href="?"]').click()
        expect(page).to_have_title(booted.title, timeout=15_000)
    page.evaluate("""() => { document.body.tabIndex = -1; document.body.focus(); document.body.removeAttribute("tabindex") }""")
    yield page
    booted.watch.verdict()
    booted.watch.forget()


@studio
def test_readable_without_javascript(opened, site, name):
    page, _ = opened(java_script_enabled=False)
    page.goto(site.page(name))
    expect(page.locator("#panel h1")).to_be_visible()
    for chart in page.locator("[data-chart]").all():
        expect(chart.locator("svg:visible").first).to_be_visible()
    assert page.locator("noscript").count() >= 1
    assert len(page.locator("#panel").inner_text()) > 100


@studio
def test_python_arrives_and_nothing_moves(desk, booted):
    assert "Python ready" in booted.arrival and "Without the snapshot" not in booted.arrival
    expect(desk.locator("#status")).to_contain_text("it gives the figures shown", timeout=30_000)
    assert sum(desk.evaluate("() => window.shifts")) < 0.01


@studio
def test_every_control_is_reached_by_keyboard_and_seen(desk):
    seen, unseen = set(), []
    for _ in range(60):
        desk.keyboard.press("Tab")
        here = desk.evaluate("""() => { const e = document.activeElement, s = getComputedStyle(e); return {
            name: e.name || e.dataset?.action || e.textContent.trim().slice(0, 30),
            seen: e === document.body || e.matches(":focus-visible") && (s.outlineStyle !== "none" || s.boxShadow !== "none") }}""")
        seen.add(here["name"])
        if not here["seen"]:
            unseen.append(here["name"])
    front = desk.locator("#question .front [name]").evaluate_all("(all) => all.map((one) => one.name)")
    assert set(front) | {"theme", "share"} <= seen, seen
    assert not unseen, unseen


@studio
def test_downloads_come_with_content(desk):
    for button in desk.locator("button[data-action=download][data-file]").all():
        with desk.expect_download() as download:
            button.click()
        assert download.value.suggested_filename == button.get_attribute("data-file")
        text = download.value.path().read_text()
        assert len(text) > 10 and (not button.get_attribute("data-file").endswith(".json") or json.loads(text))


@studio
def test_examples_answer_and_every_chart_is_drawn_live(desk):
    answers(desk)
    expect(desk.locator("#panel")).not_to_have_attribute("aria-busy", "true", timeout=30_000)
    for chart in desk.locator("[data-chart]").all():
        expect(chart.locator("svg")).not_to_have_count(0, timeout=15_000)
    expect(desk.locator("html")).to_have_attribute("data-state", "ready")


@studio
def test_reduced_motion_is_respected(desk):
    desk.emulate_media(reduced_motion="reduce")
    answers(desk)
    moving = desk.evaluate("""() => document.getAnimations().filter((one) => one.effect.getTiming().duration > 10).map((one) =>
        [one.animationName ?? one.transitionProperty, one.effect.target?.outerHTML.slice(0, 80), one.effect.getTiming().duration])""")
    assert not moving, moving


@studio
def test_axe_finds_nothing_serious(desk):
    """Light and dark, desk and phone, with live charts in place."""
    desk.emulate_media(reduced_motion="reduce")  # what fades has no colour of its own half-way
    answers(desk)
    expect(desk.locator("[data-chart] .chart-live svg").first).to_be_visible(timeout=15_000)
    for width, scheme in ((1200, "light"), (1200, "dark"), (390, "dark"), (390, "light")):
        desk.set_viewport_size({"width": width, "height": 900})
        desk.emulate_media(color_scheme=scheme)
        desk.wait_for_timeout(300)  # charts take the colours of the theme
        found = desk.evaluate(AXE, COLOURS if scheme == "dark" else [])
        serious = [fault for fault in found if fault["impact"] in ("serious", "critical")]
        assert not serious, f"{width} px, {scheme}: {json.dumps(serious, indent=1)}"


COLOURS = ["color-contrast", "link-in-text-block"]  # the rules that a theme can break; the others are asked in the light
AXE = """(rules) => axe.run(document, {resultTypes: ["violations"], ...(rules.length && {runOnly: rules})}).then(({violations}) =>
    violations.map(({id, impact, nodes}) => ({id, impact, where: nodes.slice(0, 3).map(({html, failureSummary}) =>
        html.slice(0, 160) + failureSummary)})))"""


@studio
def test_hostile_text_in_every_text_field(opened, site, name):
    page = start(opened, site, name)
    page.on("dialog", lambda dialog: pytest.fail("a script ran"))
    for fold in page.locator("#question details").all():
        fold.evaluate("(node) => { node.open = true }")
    fields = page.locator("#question input:not([type=checkbox]):not([type=file]), #question textarea")
    for index in range(fields.count()):
        field = fields.nth(index)
        before = field.input_value()
        field.fill(HOSTILE)
        page.keyboard.press("Tab")
        page.wait_for_timeout(120)
        assert page.locator("#panel img, [data-error-for] img, #panel script").count() == 0
        assert field.input_value() == HOSTILE, "what was typed is lost"
        field.fill(before)
    expect(page.locator("#question [aria-invalid]")).to_have_count(0, timeout=15_000)


@studio
def test_a_phone_needs_no_sideways_scrolling(opened, site, name):
    page = start(opened, site, name, viewport={"width": 390, "height": 844}, has_touch=True)
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 390
    answers(page)
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 390


@studio
def test_single_file_answers_from_a_folder(opened, site, name):
    page, _ = opened()
    page.goto((site.folder / "offline" / f"{name}.html").as_uri())
    text = ready(page)
    assert "all from this file" in text and "Without the snapshot" not in text
    answers(page)


@studio
def test_a_space_stands_alone(opened, site, name):
    running = server(site.folder / "spaces" / name, 0)
    threading.Thread(target=running.serve_forever, daemon=True).start()
    page, watch = opened()
    watch.allowed += (address(running),)
    page.goto(address(running))
    ready(page)
    answers(page)
    line = page.locator("#panel a[href^='source/']").first
    if line.count():
        assert page.request.get(address(running) + line.get_attribute("href").split("#")[0]).ok
    running.shutdown()


def test_home_leads_to_every_studio(opened, site):
    page, _ = opened()
    page.goto(site.url)
    links = page.locator("a").evaluate_all("(all) => all.map((one) => one.getAttribute('href'))")
    assert {f"{name}/" for name in (*STUDIOS, "slowcount")} <= set(links)
    assert re.search(r"\d", page.locator("body").inner_text()), "no live figure on the home page"


def test_edit_reaches_the_panel_quickly(opened, site, capsys):
    """From the keystroke to the changed panel, in the page's own clock; the median over a few edits of one field."""
    page = start(opened, site, STUDIOS[0] if STUDIOS else "slowcount")
    field = page.locator("#question .front input[inputmode=numeric]").last
    expect(page.locator("#status")).to_contain_text("it gives the figures shown", timeout=30_000)
    rounds = [edits(page, field) for _ in range(3)]  # the best of three: other programs may share the machine
    median = min(sorted(times)[len(times) // 2] for times in rounds)
    with capsys.disabled():
        print(f"\nedit to changed panel: {median / 150:.2f} of the 150 ms allowed (best of three medians)")
    assert median < 150, rounds


def edits(page, field):
    """Milliseconds of a few edits."""
    return [
        page.evaluate(
            """([field, value]) => new Promise((resolve) => {
        const panel = document.getElementById("panel"), start = performance.now();
        const watch = new MutationObserver(() => { watch.disconnect(); resolve(performance.now() - start); });
        watch.observe(panel, {subtree: true, childList: true, characterData: true});
        field.value = value;
        field.dispatchEvent(new Event("input", {bubbles: true}));
    })""",
            [field.element_handle(), str(value)],
        )
        for value in (5, 7, 9, 11, 13, 6, 8)
    ]
