"""Files that come when an answer needs them, one by one, and files of a reader's own."""

import hashlib
import re
import sys

from driving import FIXTURES, LOAD_MS, Site, ready
from playwright.sync_api import Page, Route, expect

sys.path.insert(0, str(FIXTURES.parent))
from test_failures import NOISE  # noqa: E402


def line(name: str, data: bytes) -> str:
    return f"{name}: {len(data):,} bytes, {hashlib.sha256(data).hexdigest()[:8]}"


def book(site: Site, name: str) -> str:
    return line(f"books/{name}.bin", site.asset(f"{name}.bin").read_bytes())


def opened_at(opened, site: Site, query: str = "") -> tuple[Page, list[str]]:
    """A page of the studio, and the names of the books that it asks for."""
    page, watch = opened()
    watch.expect(*NOISE)
    asked = []
    page.context.on("request", lambda request: asked.extend(re.findall(r"/(first|second)\.\w+\.bin", request.url)))
    page.goto(site.page("lateread", query))
    return page, asked


def test_what_the_default_needs_comes_behind_the_painted_answer(opened, site):
    page, asked = opened_at(opened, site)
    expect(page.locator("#books li")).to_have_text([book(site, "first")])
    text = ready(page)
    assert "Without the snapshot" not in text
    expect(page.locator("#status")).to_contain_text("it gives the figures shown", timeout=LOAD_MS)
    expect(page.locator("#books li")).to_have_text([book(site, "first")])
    assert asked == ["first"]


def test_each_file_is_fetched_when_it_is_needed_and_once(opened, site):
    page, asked = opened_at(opened, site)
    ready(page)
    page.get_by_label("Books").fill("2")
    expect(page.locator("#books li")).to_have_text([book(site, "first"), book(site, "second")])
    page.get_by_label("Books").fill("0")
    expect(page.locator("#books li")).to_have_count(0)
    page.get_by_label("Books").fill("2")
    expect(page.locator("#books li")).to_have_count(2)
    assert asked == ["first", "second"]
    expect(page.locator("#status")).to_have_text("2 of 2 books read")


def test_the_bytes_are_told_while_they_come(opened, site):
    page, _ = opened_at(opened, site)
    ready(page)
    page.evaluate("""() => { window.said = [];
        new MutationObserver(() => window.said.push(document.getElementById("status").textContent))
        .observe(document.getElementById("status"), { childList: true, characterData: true, subtree: true }); }""")
    page.get_by_label("Books").fill("2")
    expect(page.locator("#books li")).to_have_count(2)
    assert [text for text in page.evaluate("() => window.said") if re.fullmatch(r"Fetching second\.bin: \d\.\d of 1\.2 MB", text)]


def test_a_file_that_cannot_be_had_is_told_and_the_answer_stays(opened, site):
    page, _ = opened_at(opened, site)
    ready(page)
    expect(page.locator("#status")).to_contain_text("it gives the figures shown", timeout=LOAD_MS)
    page.route("**/second.*", lambda route: route.fulfill(status=404, body=""))
    page.get_by_label("Books").fill("2")
    expect(page.locator("#status")).to_contain_text("books/second.bin: ")
    expect(page.locator("#status")).to_contain_text("the server answered 404")
    expect(page.locator("#books li")).to_have_text([book(site, "first")])
    page.unroute("**/second.*")
    page.get_by_label("Books").fill("1")
    expect(page.locator("html[data-state=ready]")).to_be_attached()
    page.get_by_label("Books").fill("2")
    expect(page.locator("#books li")).to_have_count(2)


def test_a_file_cut_short_is_not_read(opened, site):
    page, _ = opened_at(opened, site)
    ready(page)
    page.route("**/second.*", lambda route: route.fulfill(body=site.asset("second.bin").read_bytes()[:1000]))
    page.get_by_label("Books").fill("2")
    expect(page.locator("#status")).to_contain_text("1000 bytes arrived instead of 1200000")


def test_a_studio_may_show_the_rest(opened, site):
    page, _ = opened_at(opened, site)
    ready(page)
    page.route("**/second.*", lambda route: route.abort())
    page.locator("details:has([name=careful]) > summary").first.click()
    page.get_by_label("Careful").check()
    page.get_by_label("Books").fill("2")
    expect(page.locator("#books li")).to_have_count(2)
    expect(page.locator("#books li").nth(1)).to_contain_text("books/second.bin is not here")


def test_a_newer_question_does_not_wait_for_a_file(opened, site):
    page, asked = opened_at(opened, site)
    ready(page)
    held: list[Route] = []
    page.route("**/second.*", lambda route: held.append(route))
    page.get_by_label("Books").fill("2")
    page.wait_for_timeout(300)
    page.get_by_label("Books").fill("1")
    expect(page.locator("#status")).to_have_text("1 of 1 books read")
    assert len(held) == 1
    held[0].continue_()
    page.get_by_label("Books").fill("2")
    expect(page.locator("#books li")).to_have_count(2)
    assert asked.count("second") == 1  # the download went on


def test_a_question_in_the_address_brings_its_files(opened, site):
    page, _ = opened_at(opened, site, "?books=2")
    ready(page)
    expect(page.locator("#books li")).to_have_text([book(site, "first"), book(site, "second")], timeout=LOAD_MS)


def test_a_single_file_has_them_inside(opened, site):
    page, _ = opened()
    page.goto((site.folder / "offline" / "lateread.html").as_uri() + "?books=2")
    ready(page)
    expect(page.locator("#books li")).to_have_text([book(site, "first"), book(site, "second")], timeout=LOAD_MS)


def test_files_to_take_and_the_drawer_bring_what_they_need(opened, site):
    page, asked = opened_at(opened, site)
    page.route("**/first.*", lambda route: route.abort())
    ready(page)
    page.unroute("**/first.*")
    page.get_by_role("button", name="Run it here").click()
    page.locator("[data-code]").fill("len(answer), answer[0][:15]")
    page.locator("#drawer [data-action=run]").click()
    expect(page.locator("[data-output]")).to_contain_text("(1, 'books/first.bin')")
    page.locator("#drawer [data-action=drawer]").click()
    page.get_by_label("Books").fill("0")
    expect(page.locator("#books li")).to_have_count(0)
    page.route("**/second.*", lambda route: route.abort())
    page.get_by_label("Books").fill("2")
    expect(page.locator("html[data-state=stale]")).to_be_attached()
    page.unroute("**/second.*")
    with page.expect_download() as saved:
        page.get_by_role("button", name="books.txt").click()
    assert saved.value.path().read_text().splitlines() == [book(site, "first"), book(site, "second")]
    assert asked == ["first", "first", "second", "second"]


OWN = bytes(range(256)) * 40


def choose(page: Page, content: bytes = OWN, name: str = "my <b>file.bin") -> None:
    page.locator("[data-store=own]").set_input_files({"name": name, "mimeType": "application/octet-stream", "buffer": content})


def test_a_file_of_ones_own_is_read_and_is_not_in_the_address(opened, site):
    page, _ = opened_at(opened, site)
    ready(page)
    choose(page)
    expect(page.locator("#books li").last).to_have_text(line("my <b>file.bin", OWN))
    assert re.search(r"own=upload:[0-9a-f]{16}:my%20", page.url) and len(page.url) < 200
    address = page.url
    page.goto("about:blank")
    page.goto(address)
    ready(page, "stale")
    expect(page.locator("#status")).to_contain_text("choose it again")
    choose(page)
    expect(page.locator("#books li").last).to_have_text(line("my <b>file.bin", OWN))


def test_a_file_of_ones_own_survives_the_worker(opened, site):
    page, _ = opened_at(opened, site)
    ready(page)
    choose(page)
    expect(page.locator("#books li")).to_have_count(2)
    page.get_by_role("button", name="Run it here").click()
    page.locator("[data-code]").fill("while True: pass")
    page.locator("#drawer [data-action=run]").click()
    page.locator("#drawer [data-action=stop]").click()
    ready(page)
    page.locator("#drawer [data-action=drawer]").click()
    page.get_by_label("Books").fill("0")
    expect(page.locator("#books li")).to_have_text([line("my <b>file.bin", OWN)])


def test_a_file_of_ones_own_may_be_too_large(opened, site):
    page, _ = opened_at(opened, site)
    ready(page)
    page.evaluate("""() => { const file = new File([new Uint8Array((64 << 20) + 1)], "large.bin"), given = new DataTransfer();
        given.items.add(file);
        const input = document.querySelector("[data-store=own]");
        input.files = given.files;
        input.dispatchEvent(new Event("change", { bubbles: true })); }""")
    expect(page.locator("#error-own")).to_contain_text("large.bin is 67.1 MB; accepted: at most 64 MiB")


def test_a_file_of_ones_own_in_a_single_file_page(opened, site):
    page, _ = opened()
    page.goto((site.folder / "offline" / "lateread.html").as_uri())
    ready(page)
    choose(page)
    expect(page.locator("#books li").last).to_have_text(line("my <b>file.bin", OWN))


def test_a_file_of_gigabytes_is_read_by_ranges(opened, site, tmp_path):
    page, _ = opened_at(opened, site)
    ready(page)
    with (tmp_path / "vast.bin").open("wb") as file:
        file.write(b"head")
        file.seek(5_000_000_000)
        file.write(b"tail")
    page.locator("[data-open=big]").set_input_files(tmp_path / "vast.bin")
    expect(page.locator("#books li").last).to_have_text("vast.bin: 5,000,000,004 bytes from b'head' to b'tail'")
    assert re.search(r"big=upload:[0-9a-f]{16}:vast.bin", page.url)
    (tmp_path / "vast.bin").write_bytes(b"changed meanwhile")
    page.get_by_label("Books").fill("0")
    expect(page.locator("#status")).to_contain_text("vast.bin: can no longer be read")
    page.get_by_label("Large file", exact=True).first.fill("")
    expect(page.locator("html[data-state=ready]")).to_be_attached()


def test_a_download_that_stops_is_given_up(opened, site):
    page, _ = opened()
    page.route(
        "**/worker.*",
        lambda route: route.fulfill(
            body=site.asset("worker.mjs").read_text().replace("STALL_MS = 15000", "STALL_MS = 500"), content_type="text/javascript"
        ),
    )
    page.route("**/second.*", lambda route: None)  # no answer at all
    page.goto(site.page("lateread"))
    ready(page)
    page.get_by_label("Books").fill("2")
    expect(page.locator("#status")).to_contain_text("nothing arrived for 0.5 s")
    expect(page.locator("#books li")).to_have_text([book(site, "first")])
