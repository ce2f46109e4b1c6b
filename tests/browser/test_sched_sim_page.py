"""sched-sim in Chromium: a log of twenty thousand requests, chosen as a gzipped file, run, cancelled, and looked at."""

import gzip
import random
import re
import time

import pytest
from driving import Site, Watch, ready
from playwright.sync_api import Page, expect

REQUESTS = 20_000
RUN_MS = 300_000  # two policies under Pyodide on a machine that does other things as well
LONG_MS, FROZEN = 100, 0.2  # of the time that the worker runs the page stands still for so long at most for this share
SMOOTH_MS = 150  # half of all inputs to the player are drawn sooner than this

WATCH = """() => { window.gaps = []; let last = performance.now();
    const tick = () => { const now = performance.now(); window.gaps.push(now - last); last = now; setTimeout(tick); }; tick(); }"""
MOVE = """async (what) => {
    const canvas = document.querySelector(".lanes canvas"), box = canvas.getBoundingClientRect();
    const scrub = document.querySelector(".controls input"), zoom = [...document.querySelectorAll(".controls button")].filter((one) => /^[−+]$/.test(one.textContent));
    const acts = {
        scrub: (turn) => { scrub.value = turn * 40; scrub.dispatchEvent(new Event("input", { bubbles: true })); },
        zoom: (turn) => zoom[turn % 5 ? 1 : 0].click(),
        hover: (turn) => canvas.dispatchEvent(new PointerEvent("pointermove", { bubbles: true, clientX: box.left + 20 * turn, clientY: box.top + 60 })),
    };
    const took = [];
    for (let turn = 0; turn < 25; turn += 1) {
        const start = performance.now();
        acts[what](turn);
        await new Promise((drawn) => requestAnimationFrame(() => setTimeout(drawn)));
        took.push(performance.now() - start);
    }
    return took.sort((a, b) => a - b);
}"""


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A file of requests as a service might write it."""
    generator, at, rows = random.Random(3), 0.0, ["arrival_s,prompt_tokens,output_tokens"]
    for _ in range(REQUESTS):
        at += generator.expovariate(12.0)
        rows.append(f"{at:.6f},{generator.randint(32, 400)},{generator.randint(2, 24)}")
    path = tmp_path_factory.mktemp("logs") / "night.csv.gz"
    path.write_bytes(gzip.compress("\n".join(rows).encode()))
    return str(path)


def begun(opened, site: Site) -> tuple[Page, Watch]:
    page, watch = opened()
    page.goto(site.page("sched_sim"))
    ready(page)
    return page, watch


def choose(page: Page, log: str) -> None:
    page.locator("input[type=file][data-store=trace]").set_input_files(log)


def reaches(page: Page, fraction: float) -> None:
    """Wait for the progress bar, which only grows."""
    page.wait_for_function("(share) => { const bar = document.querySelector('[data-progress]'); "
                           "return bar.max === 1 && bar.value > share; }",
                           arg=fraction, timeout=RUN_MS)


def test_twenty_thousand_requests_stay_interactive(opened, site, log):
    page, _ = begun(opened, site)
    choose(page, log)
    expect(page.locator("#panel[data-state=pending]")).to_be_attached()
    reaches(page, 0.02)
    page.evaluate(WATCH)
    reaches(page, 0.3)
    gaps = page.evaluate("() => window.gaps")
    frozen = sum(gap for gap in gaps if gap > LONG_MS) / sum(gaps)
    assert frozen < FROZEN, f"the page stood still for {frozen:.0%} of the time, at most {max(gaps):.0f} ms at once"
    expect(page.locator("#panel[data-state=current]")).to_be_attached(timeout=RUN_MS)
    counted_by_all_drawn_by_few(page)
    for what in ("scrub", "zoom", "hover"):
        took = page.evaluate(MOVE, what)
        assert took[len(took) // 2] < SMOOTH_MS, f"{what}: {[round(one) for one in took]} ms"
    page.locator(".controls select").last.select_option("steps")
    expect(page.locator("[data-player]")).to_have_attribute("data-by", "steps")


def counted_by_all_drawn_by_few(page: Page) -> None:
    """The drawing thins, the figures do not; the address holds a reference, not the log."""
    expect(page.locator("p.lead")).to_contain_text(f"{REQUESTS:,} requests of night.csv.gz, as they arrived")
    expect(page.locator(".player")).to_contain_text(re.compile(rf"Drawn: (3\d|40) of {REQUESTS:,} requests"))
    for caption in page.locator(".gantt figcaption").all():
        expect(caption).to_contain_text(f"{REQUESTS:,} of {REQUESTS:,} requests in")
    notes = page.locator(".entry .note").all_text_contents()
    assert sum(f"n = {REQUESTS:,}" in note for note in notes) >= 10, "the figures are of fewer"
    assert all(count.startswith("8 of 8") for count in page.locator(".laws summary b").all_text_contents())
    assert len(page.evaluate("() => document.querySelector('[data-scene]').textContent")) < 600_000
    assert re.search(r"[?&]trace=upload:[0-9a-f]{16}:night", page.url) and len(page.url) < 300
    assert "--trace" in page.locator("[data-out=command]").first.inner_text()


def test_a_long_run_is_cancelled_and_the_next_question_is_answered(opened, site, log):
    page, _ = begun(opened, site)
    before = page.locator("h1.headline").inner_text()
    choose(page, log)
    reaches(page, 0.01)
    page.locator("[data-action=cancel]").click()
    expect(page.locator("#status")).to_contain_text("Cancelled")
    assert page.locator("h1.headline").inner_text() == before, "the last answer stays"
    start = time.monotonic()
    page.get_by_role("link", name="A long prompt stalls the others").click()
    expect(page.locator("#panel[data-state=current]")).to_be_attached(timeout=30_000)
    assert time.monotonic() - start < 20, "the cancelled run went on"
    assert page.locator("h1.headline").inner_text() == before


def test_a_log_is_dropped_where_it_could_be_pasted(opened, site):
    page, _ = begun(opened, site)
    page.evaluate("""() => {
        const given = new DataTransfer();
        given.items.add(new File(["arrival_s,prompt_tokens,output_tokens\\n0,64,8\\n0.5,64,8\\n"], "two.csv"));
        document.querySelector("#field-trace").dispatchEvent(new DragEvent("drop", { bubbles: true, cancelable: true, dataTransfer: given }));
    }""")
    expect(page.locator("p.lead")).to_contain_text("2 requests of two.csv, as they arrived")
    expect(page.locator("#field-trace")).to_have_value(re.compile("^upload:[0-9a-f]{16}:two.csv$"))


def test_a_log_that_is_none_is_refused_with_its_place_and_the_answer_stays(opened, site):
    page, _ = begun(opened, site)
    before = page.locator("h1.headline").inner_text()
    for content, words in ((b"PK\x03\x04 not a log" * 9, "ZIP archive"),
                           (b"arrival_s,prompt_tokens,output_tokens\n0,64,8\n1,many,8\n", "line 3")):
        page.locator("input[data-store=trace]").set_input_files(
            {"name": "log.csv", "mimeType": "text/csv", "buffer": content})
        expect(page.locator("#error-trace")).to_contain_text(words)
    assert page.locator("h1.headline").inner_text() == before
