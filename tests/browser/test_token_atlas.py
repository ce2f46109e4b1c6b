"""What only token-atlas has: cells that open their story, a text that is typed, words that show their merges, own files."""

import base64
import json
from pathlib import Path

import pytest
from driving import LOAD_MS, Site, ready
from playwright.sync_api import Page, expect

TEXT = "The same words, नमस्ते"


def start(opened, site: Site, query: str = "", **options) -> Page:
    page, _ = opened(**options)
    page.goto(site.page("token_atlas", query))
    ready(page)
    return page


def typed(page: Page, text: str = TEXT) -> None:
    """Type a text and wait until it is answered."""
    page.locator("#field-text").fill(text)
    expect(page.locator("#text-line")).to_contain_text("Your text", timeout=LOAD_MS)
    expect(page.locator("#panel [aria-busy]")).to_have_count(0, timeout=LOAD_MS)


def test_the_first_paint_has_the_whole_matrix_and_a_sample_without_javascript(opened, site):
    page, _ = opened(java_script_enabled=False)
    page.goto(site.page("token_atlas"))
    expect(page.locator("#languages tbody tr")).to_have_count(52)
    assert page.locator("#languages tbody tr").first.locator("td:has(a)").count() == 9
    expect(page.locator("#tokens-o200k_base")).to_be_visible()
    assert page.locator("#tokens-o200k_base [title]").count() > 20
    expect(page.locator("#languages th.u")).to_have_count(2)


def test_a_cell_opens_its_story_and_the_text_stays(opened, site):
    page = start(opened, site)
    typed(page)
    row = page.locator("#languages tbody tr", has=page.locator("th", has_text="Burmese"))
    row.locator("a").nth(1).click()
    expect(page.locator("#panel h1")).to_contain_text("Burmese costs 11.6 times English under LLaMA-3")
    expect(page.locator("#cell")).to_have_text("Burmese under LLaMA-3")
    expect(page.locator("#field-text")).to_have_value(TEXT)
    expect(page.locator("#field-tokenizer")).to_have_value("llama3")
    expect(page.locator("#languages td.here")).to_have_count(1)
    page.go_back()
    expect(page.locator("#panel h1")).to_contain_text("Hindi costs")


def test_typing_leaves_the_matrix_alone(opened, site):
    """Sorted, filtered and scrolled as the reader left it; not one of its nodes is made anew."""
    page = start(opened, site)
    typed(page, "a")
    table = page.locator("#languages")
    table.locator("thead button").nth(4).click()
    page.locator("[data-filter='#languages'][data-column='1']").select_option("Devanagari")
    expect(table.locator("tbody tr:visible")).to_have_count(2)
    page.evaluate("() => { window.touched = 0; new MutationObserver((all) => { window.touched += all.length; })"
                  ".observe(document.getElementById('languages'), { subtree: true, childList: true, characterData: true }) }")
    for letter in "bcdef":
        page.locator("#field-text").press_sequentially(letter)
    expect(page.locator("#live-section")).to_contain_text("6 characters")
    assert page.evaluate("() => window.touched") == 0
    expect(table.locator("tbody tr:visible")).to_have_count(2)
    rows = page.evaluate("() => [...document.querySelectorAll('#languages tbody tr')].map((row) => row.cells[4].dataset.value)")
    assert [float(value) for value in rows] == sorted(map(float, rows), reverse=True)


def test_a_word_shows_its_merges_and_ids_are_copied(opened, site):
    page = start(opened, site)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    typed(page, "international words")
    page.locator("#tokens-llama3 a", has_text="international").click()
    expect(page.locator("#tree-llama3 .node").first).to_be_visible()
    expect(page.locator("#field-text")).to_have_value("international words")
    page.locator("#fold-o200k_base summary").click()
    page.locator("#fold-o200k_base button").click()
    copied = page.evaluate("() => navigator.clipboard.readText()")
    assert copied == page.locator("#ids-o200k_base").inner_text() and all(part.isdigit() for part in copied.split())
    page.locator("#field-text").fill("international words and")
    expect(page.locator("#live-section")).to_contain_text("23 characters")
    expect(page.locator("#ids-o200k_base")).to_be_visible()  # what was opened stays open


def test_tokenizers_are_switched_and_fetched_one_by_one(opened, site):
    page, _ = opened()
    asked = []
    page.context.on("request", lambda request: asked.append(request.url) if ".bpe" in request.url else None)
    page.goto(site.page("token_atlas"))
    ready(page)
    expect(page.locator("#status")).to_contain_text("it gives the figures shown", timeout=LOAD_MS)
    assert len(asked) == 2, asked
    page.locator("[aria-label=Tokenizers] a", has_text="Qwen2.5").click()
    expect(page.locator("#tokens-qwen2\\.5")).to_be_visible(timeout=LOAD_MS)
    assert len(asked) == 3 and "qwen2.5" in asked[-1]
    page.locator("[aria-label=Tokenizers] a", has_text="Qwen2.5").click()
    expect(page.locator("#tokens-qwen2\\.5")).to_have_count(0)
    page.locator("[aria-label='Special tokens'] a").click()
    expect(page.locator("#field-specials")).to_be_checked()


def test_what_is_not_understood_is_told_at_its_field(opened, site):
    page = start(opened, site)
    page.locator("#question details").evaluate_all("(all) => all.forEach((one) => { one.open = true })")
    heading = page.locator("#panel h1").inner_text()
    for field, value, words in (("language", "hindu", "Hindi"), ("tokenizers", "lama3", "llama3"), ("mix", "klingon 3", "klingon"),
                                ("tokenizers", "claude3-ctok", "only counts are known"), ("prices", "gpt-4o cheap", "USD per 1M"),
                                ("by", "nobody", "nobody"), ("model", "no such model", "no such model")):
        control = page.locator(f"#field-{field}")
        before = control.input_value()
        control.fill(value)
        slot = page.locator(f'[data-error-for="{field}"]')
        expect(slot).to_contain_text(words)
        expect(page.locator("#panel h1")).to_have_text(heading)
        control.fill(before)
        expect(slot).to_be_empty()


OWN = "\n".join(f"{base64.b64encode(piece).decode()} {rank}" for rank, piece in enumerate(
    [bytes([byte]) for byte in range(256)] + [b"he", b"ll", b"hell", b"hello"]))
BROKEN = (("broken.json", json.dumps({"model": {"type": "WordPiece", "vocab": {}}}), "WordPiece"),
          ("half.json", '{"model": {"type": "BPE"}', "JSON"), ("ranks.tiktoken", "aGVsbG8= one\n", "line 1"))


@pytest.fixture
def own(tmp_path: Path) -> Path:
    (tmp_path / "mine.tiktoken").write_text(OWN)
    for name, text, _ in BROKEN:
        (tmp_path / name).write_text(text)
    return tmp_path


def test_a_tokenizer_of_ones_own_stands_beside_the_others(opened, site, own):
    page = start(opened, site)
    page.locator("#question details").evaluate_all("(all) => all.forEach((one) => { one.open = true })")
    typed(page, "hello")
    page.locator("#file-own").set_input_files(own / "mine.tiktoken")
    expect(page.locator("#under-own")).to_contain_text("1 tokens", timeout=LOAD_MS)
    expect(page.locator("#ids-own")).to_have_text("259")
    for name, _, words in BROKEN:
        page.locator("#file-own").set_input_files(own / name)
        expect(page.locator('[data-error-for="own"]')).to_contain_text(words, timeout=LOAD_MS)
        expect(page.locator("#ids-own")).to_have_text("259")  # the last answer stays


def test_a_file_of_text_is_shown_as_it_is_read(opened, site, tmp_path):
    page = start(opened, site)
    (tmp_path / "text.txt").write_bytes(b"<b>ok</b> \x00 \xe2\x80\xaeevil")
    page.locator("#file-text").set_input_files(tmp_path / "text.txt")
    expect(page.locator("#tokens-o200k_base")).to_contain_text("U+202E", timeout=LOAD_MS)
    expect(page.locator("#tokens-o200k_base")).to_contain_text("U+0000")
    assert page.locator("#panel .tokens b b, #panel .tokens script").count() == 0
