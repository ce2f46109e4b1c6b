"""mini-infer in Chromium: frames stepped, undone, played, scrubbed and linked to; blocks that find their tables; typed prompts,
faults, and files of recorded runs, good and hostile."""

import json
import re

import pytest
from driving import LOAD_MS, Site, ready
from playwright.sync_api import Page, expect

STEP_MS = 20_000


def start(opened, site: Site, query: str = "", **options) -> Page:
    """A page that has answered its own question."""
    page, _ = opened(**options)
    page.goto(site.page("mini_infer", query))
    ready(page)
    if query:
        expect(page.locator("#panel[data-state=current]")).to_be_attached(timeout=STEP_MS)
    return page


def at(page: Page, frame: int) -> None:
    """Wait until this frame is on show, in the picture, in the form and in the address."""
    expect(page.locator(".film")).to_have_attribute("data-frame", str(frame), timeout=STEP_MS)
    expect(page.locator("#field-frame")).to_have_value(str(frame))
    expect(page).to_have_url(re.compile(rf"[?&]frame={frame}(&|$)"))


def frame_of(page: Page) -> int:
    return int(page.locator(".film").get_attribute("data-frame"))


def last_of(page: Page) -> int:
    return int(page.locator(".film").get_attribute("data-last"))


def test_a_finished_scene_without_javascript(opened, site):
    page, _ = opened(java_script_enabled=False)
    page.goto(site.page("mini_infer"))
    expect(page.locator("#panel h1")).to_contain_text("Paged blocks leave")
    assert page.locator(".pool .cell").count() == 12 and page.locator(".tables > li").count() >= 3
    assert page.locator(".invariants li .met").count() == page.locator(".invariants li").count() >= 7
    expect(page.locator(".what")).to_contain_text("Step")
    expect(page.locator(".reel")).to_be_hidden()
    expect(page.locator("#frame-slider")).to_be_hidden()


def test_step_undo_first_and_last(opened, site):
    page = start(opened, site)
    first, last = frame_of(page), last_of(page)
    before = page.locator(".what").inner_text()
    page.locator("#move-3").click()
    at(page, first + 1)
    assert page.locator(".what").inner_text() != before
    page.locator("#move-2").click()
    at(page, first)
    expect(page.locator(".what")).to_have_text(before.replace("\n", " "))
    page.locator("#move-4").click()
    at(page, last)
    page.locator("#move-1").click()
    at(page, 1)
    page.locator(".happenings a").nth(3).click()
    at(page, 4)


def test_keys_step_play_and_pause(opened, site):
    page = start(opened, site)
    first = frame_of(page)
    page.locator(".film").focus()
    page.keyboard.press("ArrowRight")
    at(page, first + 1)
    page.keyboard.press("ArrowLeft")
    at(page, first)
    page.keyboard.press("Home")
    at(page, 1)
    page.keyboard.press(" ")
    expect(page.locator("[data-play]")).to_have_text("❚❚ Pause")
    expect(page.locator(".film")).to_have_attribute("data-frame", "3", timeout=STEP_MS)
    page.keyboard.press(" ")
    expect(page.locator("[data-play]")).to_have_text("▶ Play")
    here = frame_of(page)
    page.wait_for_timeout(1500)
    assert frame_of(page) <= here + 1, "it goes on although it is paused"
    assert page.evaluate("() => document.activeElement.matches('.film')"), "the focus was lost on the way"


def test_play_ends_at_the_last_frame_and_begins_anew(opened, site):
    page = start(opened, site, "?frame=17")
    page.locator("[data-pace]").select_option("fast")
    page.locator("[data-play]").click()
    expect(page.locator(".film")).to_have_attribute("data-frame", str(last_of(page)), timeout=STEP_MS)
    expect(page.locator("[data-play]")).to_have_text("▶ Play")
    assert page.locator("[data-pace]").input_value() == "350"
    page.locator("[data-pace]").select_option("slow")
    page.locator("[data-play]").click()
    expect(page.locator(".film")).to_have_attribute("data-frame", "2", timeout=STEP_MS)
    page.locator("#move-4").click()
    at(page, last_of(page))
    expect(page.locator("[data-play]")).to_have_text("▶ Play")


def test_scrubbing_follows_the_slider(opened, site):
    page = start(opened, site)
    slider = page.locator("#frame-slider")
    for frame in (3, 9, 20, 6):
        slider.fill(str(frame))
    at(page, 6)
    slider.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    at(page, 8)
    assert page.evaluate("() => document.activeElement.id") == "frame-slider"


@pytest.mark.parametrize("query", ["?frame=7", "?scene=radix&frame=12", "?scene=speculation&frame=5",
                                   "?scene=museum&fault=no-copy-on-write&frame=6"])
def test_the_address_of_a_frame_shows_it_again(opened, site, query):
    page = start(opened, site, query)
    at(page, int(query.rpartition("=")[2]))
    shown = told(page)
    page.reload()
    ready(page)
    at(page, int(query.rpartition("=")[2]))
    assert told(page) == shown
    assert told(start(opened, site, "?" + page.url.partition("?")[2])) == shown


def told(page: Page) -> list[str]:
    """The verdict and the whole frame as text; drawn charts have no text of their own until they are drawn."""
    expect(page.locator("#panel[data-state=current]")).to_be_attached(timeout=STEP_MS)
    return [page.locator(where).inner_text() for where in ("h1", ".lead", ".film")]


LIT = "(all) => all.filter((one) => one.classList.contains('lit')).map((one) => one.dataset.link.split(' ')[0])"


def test_blocks_and_tables_find_each_other(opened, site):
    page = start(opened, site, "?frame=14")
    shared = page.locator(".cell.shared").first
    shared.hover()
    link = shared.get_attribute("data-link").split(" ")[0]
    assert page.locator(".slots li").evaluate_all(LIT) == [link] * len(shared.get_attribute("data-link").split(" ")[1:])
    expect(page.locator(".told")).to_contain_text(f"Block {link[1:]}: held by")
    slot = page.locator(".slots li").last
    slot.hover()
    assert page.locator(".cell").evaluate_all(LIT) == [slot.get_attribute("data-link")]
    name = page.locator(".who button").first
    name.focus()
    held = page.locator(".tables > li").first.locator(".slots li").count()
    assert len(page.locator(".cell").evaluate_all(LIT)) == held
    page.locator("#move-3").click()
    at(page, 15)
    page.locator("h1").hover()
    assert page.locator(".lit").count() == 0


def test_typed_prompts_are_asked_and_keep_the_caret(opened, site):
    page = start(opened, site, "?scene=radix")
    field = page.locator("#typed-prompts")
    field.fill("one two three four five six\none two three four five seven")
    expect(page.locator("h1")).to_contain_text("4 of 12 prompt tokens")
    expect(page.locator(".found > li")).to_have_count(2)
    field.press("End")
    field.press_sequentially(" x y")
    expect(page.locator("#field-prompts")).to_have_value(re.compile("seven x y$"))
    expect(page.locator("h1")).to_contain_text("4 of 14 prompt tokens")
    assert field.input_value().endswith("seven x y") and page.evaluate("() => document.activeElement.id") == "typed-prompts"
    expect(page).to_have_url(re.compile("prompts=one%20two"))
    page.get_by_role("link", name="multi turn").click()
    expect(page.locator(".found > li")).to_have_count(4)
    expect(field).to_have_value(re.compile("^I plan a walk"))
    field.fill("> nothing before it")
    expect(page.locator("#error-prompts")).to_contain_text("has one before it")
    expect(page.locator(".found > li")).to_have_count(4)


def test_events_are_edited_beside_the_picture(opened, site):
    page = start(opened, site)
    page.locator("#typed-script").fill("add X 9 +3\nfork X as Y")
    expect(page.locator("#field-script")).to_have_value("add X 9 +3\nfork X as Y")
    expect(page.locator(".tables .who button").first).to_have_text("X")
    page.locator("#typed-script").fill("add X 9 +3\nfork Z as Y")
    expect(page.locator("#error-script")).to_contain_text("line 2")


def test_a_fault_is_brought_back_and_repaired(opened, site):
    page = start(opened, site)
    page.locator(".scenes").first.get_by_role("link", name="Bug museum").click()
    expect(page.locator("h1")).to_contain_text("Positions restart on a hit: caught in frame")
    expect(page.locator(".invariants li").first).to_contain_text("✗ broken")
    expect(page.locator(".sides mark")).not_to_have_count(0)
    page.locator(".faults").get_by_role("link", name="Two prefixes, one key").click()
    expect(page.locator("h1")).to_contain_text("Two prefixes, one key")
    expect(page.locator(".faults a[aria-current]")).to_contain_text("Two prefixes")
    page.get_by_role("link", name="repaired", exact=True).click()
    expect(page.locator("h1")).to_contain_text("repaired, and all laws hold")
    expect(page.locator(".invariants .missed")).to_have_count(0)
    page.get_by_role("link", name="broken", exact=True).click()
    page.locator(".ways a").first.click()
    expect(page.locator(".happenings a[aria-current]")).to_have_class("missed")


def test_a_draft_is_made_better_and_worse(opened, site):
    page = start(opened, site, "?scene=speculation")
    before = page.locator("h1").inner_text()
    page.locator("#dial-similarity").fill("10")
    expect(page.locator("#field-similarity")).to_have_value("10")
    expect(page.locator("h1")).not_to_have_text(before)
    expect(page.locator(".dials b").nth(1)).to_have_text("10")
    assert page.locator(".draft.rejected").count() > 0
    page.locator("#dial-temperature").select_option("0")
    expect(page.locator("#field-temperature")).to_have_value("0")
    page.locator("#move-1").click()
    at(page, 1)
    expect(page.locator(".cascade > li")).to_have_count(1)


def test_no_motion_where_none_is_wanted(opened, site):
    page = start(opened, site, reduced_motion="reduce")
    expect(page.locator("[data-play]")).to_be_disabled()
    expect(page.locator("[data-play]")).to_have_attribute("title", re.compile("no motion"))
    first = frame_of(page)
    page.locator(".film").focus()
    page.keyboard.press(" ")
    page.keyboard.press("ArrowRight")
    at(page, first + 1)
    expect(page.locator("[data-play]")).to_be_disabled()


def test_what_happened_is_said_aloud(opened, site):
    page = start(opened, site)
    expect(page.locator(".happened")).to_have_attribute("aria-live", "polite")
    page.locator("#move-3").click()
    at(page, 15)
    expect(page.locator(".happened")).to_contain_text("Frame 15")
    expect(page.locator("[role=group].film")).to_have_attribute("aria-label", re.compile("space plays"))


HEAD = {"mini-infer events": 1, "blocks": 6, "block_size": 4, "policy": "chunked", "model": "<b>made up</b>"}
RUN = [HEAD, {"words": {"1": "one", "2": "<img src=x onerror=alert(1)>"}}, {"add": "<i>R</i>", "prompt": [1, 2, 1, 2, 1], "output": 2},
       {"step": 1, "tokens": {"<i>R</i>": [1]}}, {"step": 2, "tokens": {"<i>R</i>": [2]}}, {"end": "closed"}]
DROP = """([text, where]) => {
    const given = new DataTransfer();
    given.items.add(new File([text], "run.jsonl"));
    document.querySelector(where).dispatchEvent(new DragEvent("drop", { bubbles: true, cancelable: true, dataTransfer: given }));
}"""


def lines(run: list[dict]) -> str:
    return "\n".join(map(json.dumps, run))


@pytest.mark.parametrize("where", ["body", "h1", "#field-events"])
def test_a_recorded_run_is_dropped_anywhere(opened, site, where):
    page = start(opened, site)
    page.on("dialog", lambda dialog: pytest.fail("a script ran"))
    page.evaluate(DROP, [lines(RUN), where])
    expect(page.locator("#field-scene")).to_have_value("recorded")
    expect(page.locator(".lead")).to_contain_text("1 request of the file", timeout=STEP_MS)
    expect(page.locator(".remarks")).to_contain_text("Recorded from <b>made up</b>")
    page.locator("#move-1").click()
    at(page, 1)
    expect(page.locator(".what")).to_contain_text("<i>R</i> arrives: 5 prompt tokens")
    page.locator("#move-3").click()
    at(page, 2)
    assert page.locator("#panel img, #panel .what i, #panel .remarks b").count() == 0
    assert "mini-infer%20events" not in page.url and re.search(r"events=upload:[0-9a-f]{16}:run.jsonl", page.url)


@pytest.mark.parametrize("text,words", [
    ("PK\x03\x04 a zip", "one JSON object a line"), (lines([HEAD | {"blocks": -1}]), "line 1"),
    (lines(RUN[:3]) + '\n{"step": 1, "tokens": {"nobody": [1]}}', "line 4"), (lines(RUN)[:-9], "line 6"),
    (json.dumps({"mini-infer events": 99}), "version 99"), ("[" * 100_000, "levels deep")])
def test_a_file_that_is_none_is_refused_with_its_line(opened, site, text, words):
    page = start(opened, site)
    before = page.locator("h1").inner_text()
    page.locator("#file-events").set_input_files({"name": "run.jsonl", "mimeType": "text/plain", "buffer": text.encode()})
    expect(page.locator("#error-events")).to_contain_text(words, timeout=STEP_MS)
    assert page.locator("h1").inner_text() == before
    page.locator("#field-events").fill(lines(RUN))
    expect(page.locator(".lead")).to_contain_text("1 request of the file", timeout=STEP_MS)


def test_a_file_from_elsewhere_is_asked_for_again(opened, site):
    page, _ = opened()
    page.goto(site.page("mini_infer", "?scene=recorded&events=upload:0123456789abcdef:theirs.jsonl"))
    ready(page, "stale")
    expect(page.locator("#error-events")).to_contain_text("chosen elsewhere", timeout=STEP_MS)


def test_a_choice_that_there_is_not_is_refused_by_name_and_another_is_taken(opened, site):
    """A select drops what is no option of it: the address said one scene, the page showed another and no word."""
    page, _ = opened()
    page.goto(site.page("mini_infer", "?scene=nope"))
    expect(page.locator("[data-error-for=scene]")).to_contain_text("nope", timeout=LOAD_MS)
    page.locator("select[name=scene]").select_option("radix")
    expect(page.locator("[data-error-for=scene]")).to_be_hidden(timeout=LOAD_MS)
    expect(page.locator("#panel h1")).to_contain_text("prefix cache")
