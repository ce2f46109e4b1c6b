"""What only quantbench has: weights that are dragged and typed, bits that light up, files of gigabytes, numpy that comes late."""

import json
import re
from pathlib import Path

import numpy as np
from driving import LOAD_MS, Site, ready
from playwright.sync_api import Page, expect


def start(opened, site: Site, query: str = "", **options) -> Page:
    """A page that has numpy and the answer to its own question."""
    page, _ = opened(**options)
    page.goto(site.page("quantbench", query))
    ready(page)
    expect(page.locator("#panel [data-keep], #panel [aria-busy]")).to_have_count(0, timeout=LOAD_MS)
    if not query:
        expect(page.locator("#status")).to_contain_text("it gives the figures shown", timeout=LOAD_MS)
    return page


def test_the_first_paint_is_whole_without_javascript(opened, site):
    page, _ = opened(java_script_enabled=False)
    page.goto(site.page("quantbench"))
    expect(page.locator(".weight")).to_have_count(32)
    assert page.locator(".bits .b").count() >= 4 * 32
    assert page.locator("#formats-table tbody tr").count() >= 28
    expect(page.locator(".cells")).to_have_count(2)
    expect(page.locator(".variants tbody tr")).to_have_count(5)


def test_weights_and_bits_find_each_other(opened, site):
    page, _ = opened(java_script_enabled=False)  # the style sheet does it alone
    page.goto(site.page("quantbench"))
    code = page.locator('.bits .b.c[data-l="5"]').first
    plain = code.evaluate("(one) => getComputedStyle(one).backgroundColor")
    page.locator("#weight-5").hover()
    lit = code.evaluate("(one) => getComputedStyle(one).backgroundColor")
    assert lit != plain
    same = page.locator(".bits .b").evaluate_all(
        "(all, lit) => all.filter((one) => getComputedStyle(one).backgroundColor === lit).map((one) => one.dataset.l)", lit)
    assert [names for names in same if names == "5"] == ["5"] * 4
    assert all("5" in names.split() for names in same) and len(same) == 4 + 16  # its code, and the scale it shares
    code.hover()
    ringed = page.locator(".weight").evaluate_all(
        "(all) => all.filter((one) => getComputedStyle(one).boxShadow !== 'none').map((one) => one.dataset.l)")
    assert ringed == ["5"]
    page.locator(".bits .b.s").first.hover()
    ringed = page.locator(".weight").evaluate_all("(all) => all.filter((one) => getComputedStyle(one).boxShadow !== 'none')")
    assert len(ringed) == 32


def test_a_weight_is_dragged_and_typed_and_given_back(opened, site):
    page = start(opened, site)
    value, verdict = page.locator("#type-3"), page.locator("#panel h1")
    before, heading = value.input_value(), verdict.inner_text()
    slider = page.locator("#slide-3")
    box = slider.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] * 0.6)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 4, steps=8)
    expect(page.locator("#field-edits")).to_have_value(re.compile(r"^3=0\.\d+$"))
    page.mouse.up()
    expect(page.locator(".lead")).to_contain_text("1 changed by hand")
    assert float(slider.input_value()) > 0.03
    value.fill("0.01")
    expect(page.locator("#field-edits")).to_have_value("3=0.01")
    page.locator("#type-8").fill("-0.02")
    expect(page.locator("#field-edits")).to_have_value("3=0.01,8=-0.02")
    expect(page).to_have_url(re.compile("edits="))
    page.locator("#type-8").fill("")
    value.fill("")
    expect(page.locator("#field-edits")).to_have_value("")
    expect(verdict).to_have_text(heading)
    page.locator("#type-4").focus()
    expect(value).to_have_value(before)


def test_a_slider_moves_by_keys(opened, site):
    page = start(opened, site)
    slider = page.locator("#slide-2")
    before = float(slider.input_value())
    slider.focus()
    page.keyboard.press("ArrowUp")
    expect(page.locator("#field-edits")).not_to_have_value("")
    page.keyboard.press("ArrowUp")
    assert float(slider.input_value()) > before
    assert page.evaluate("() => document.activeElement.id") == "slide-2"


def test_what_is_no_number_is_told_at_its_field(opened, site):
    page = start(opened, site)
    page.locator("#type-3").fill("lots")
    expect(page.locator('[data-error-for="edits"]')).to_contain_text("lots")
    page.locator("#type-3").fill("0.02")
    expect(page.locator('[data-error-for="edits"]')).to_be_empty()


def test_every_format_shows_its_registers(opened, site):
    page = start(opened, site)
    names = page.locator("#field-format option").all_inner_texts()
    assert len(names) >= 16
    for name in names:
        page.locator("#field-format").select_option(name)
        expect(page.locator("html[data-state=ready]")).to_be_attached()
        link = page.locator('section.linked ul[aria-label="Format"] a[aria-current]')
        expect(link).to_have_attribute("href", re.compile(rf"format={re.escape(name)}(&|$)"))
        assert page.locator(".register .b").count() >= 32 and page.locator(".weight").count() == 32


def test_gptq_is_stepped_by_slider_and_links(opened, site):
    page = start(opened, site)
    page.locator("#step-slider").fill("40")
    expect(page.locator(".stepper b")).to_have_text("40")
    page.locator(".stepper a", has_text="on").click()
    expect(page.locator(".stepper b")).to_have_text("41")
    page.get_by_role("link", name="the common bug: plain inverse Hessian").click()
    expect(page.locator(".variants tr", has_text="shown above")).to_contain_text("plain inverse Hessian")
    expect(page.locator("#field-bug")).to_be_checked()


def file_of(folder: Path, name: str, rows: int, columns: int, filler: int = 0) -> Path:
    """A .safetensors file: a matrix, and after it a tensor of `filler` bytes that are never written."""
    values = np.random.default_rng(5).normal(size=(rows, columns)).astype("<f4")
    header = {"model.q.weight": {"dtype": "F32", "shape": [rows, columns], "data_offsets": [0, values.nbytes]},
              "model.<b>bias": {"dtype": "F32", "shape": [columns], "data_offsets": [values.nbytes, values.nbytes + 4 * columns]}}
    end = values.nbytes + 4 * columns
    if filler:
        header["huge"] = {"dtype": "U8", "shape": [filler], "data_offsets": [end, end + filler]}
    text = json.dumps(header).encode()
    path = folder / name
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + values.tobytes() + bytes(4 * columns))
        if filler:
            file.truncate(8 + len(text) + end + filler)
    return path


def test_weights_of_a_file_of_gigabytes(opened, site, tmp_path):
    page = start(opened, site)
    page.locator("#file-file").set_input_files(file_of(tmp_path, "vast.safetensors", 48, 96, filler=5_000_000_000))
    expect(page.locator(".lead")).to_contain_text("model.q.weight of vast.safetensors", timeout=LOAD_MS)
    expect(page.locator(".lead")).to_contain_text("32 × 96 weights")
    first = float(np.random.default_rng(5).normal(size=1).astype("f4")[0])
    assert abs(float(page.locator("#type-0").input_value()) - first) < 0.01 * abs(first)
    page.locator('select[data-sets="tensor"]').select_option("model.<b>bias")
    expect(page.locator(".lead")).to_contain_text("model.<b>bias")
    assert re.search(r"file=upload:[0-9a-f]{16}:vast", page.url)


def test_a_file_that_lies_is_refused_in_words(opened, site, tmp_path):
    page = start(opened, site)
    heading = page.locator("#panel h1").inner_text()
    (tmp_path / "bad.safetensors").write_bytes((1 << 40).to_bytes(8, "little") + b"{}")
    page.locator("#file-file").set_input_files(tmp_path / "bad.safetensors")
    expect(page.locator('[data-error-for="file"]')).to_contain_text("no safetensors file")
    expect(page.locator("#panel h1")).to_have_text(heading)


def packed(header: object, data: bytes = bytes(64), length: int | None = None) -> bytes:
    """A file with that header, whatever it says."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + data


HOSTILE = {
    "a header longer than the file": packed({}, b"", 1 << 20),
    "nothing": b"",
    "three bytes": b"abc",
    "no JSON": packed(b"{not json"),
    "deep JSON": packed(b"[" * 50_000),
    "a list": packed([1, 2]),
    "offsets beyond the end": packed({"w": {"dtype": "F32", "shape": [64], "data_offsets": [0, 256]}}),
    "offsets that overlap": packed({"a": {"dtype": "F32", "shape": [8], "data_offsets": [0, 32]},
                                    "b": {"dtype": "F32", "shape": [8], "data_offsets": [16, 48]}}),
    "a shape that lies": packed({"w": {"dtype": "F32", "shape": [1 << 40, 1 << 40], "data_offsets": [0, 64]}}),
    "a shape below zero": packed({"w": {"dtype": "F32", "shape": [-4, -4], "data_offsets": [0, 64]}}),
    "a dtype of its own": packed({"<img src=x onerror=alert(1)>": {"dtype": "X9", "shape": [16], "data_offsets": [0, 64]}}),
}


def test_hostile_files_are_refused_one_after_the_other_and_the_answer_stays(opened, site, tmp_path):
    page, _ = opened()
    held = []
    page.context.route("**/numpy-*.whl", lambda route: held.append(route))  # as long as numpy is not there, too
    page.goto(site.page("quantbench"))
    ready(page)
    heading, told = page.locator("#panel h1").inner_text(), page.locator('[data-error-for="file"]')
    for name, content in HOSTILE.items():
        path = tmp_path / f"{name.replace(' ', '-')}.safetensors"
        path.write_bytes(content)
        page.locator("#file-file").set_input_files(path)
        expect(told, name).to_contain_text(path.name[:20], timeout=LOAD_MS)
        assert "Traceback" not in page.locator("body").inner_text(), name
        if name == "deep JSON":
            expect(page.locator(".weight")).to_have_count(32)
            held[0].continue_()
        elif name in list(HOSTILE)[5:]:
            expect(page.locator("#panel h1"), name).to_have_text(heading, timeout=LOAD_MS)
    assert page.locator("img[src=x]").count() == 0


def test_numbers_that_are_none_are_shown_as_the_format_takes_them(opened, site, tmp_path):
    values = np.array([[1, np.nan, np.inf, -500, 0.5, 1e-3, -0.0, 448]], "<f4")
    (tmp_path / "nan.safetensors").write_bytes(packed(
        {"w": {"dtype": "F32", "shape": [1, 8], "data_offsets": [0, 32]}}, values.tobytes()))
    page = start(opened, site, "?format=fp8-e4m3&granularity=none&overflow=nan")
    page.locator("#file-file").set_input_files(tmp_path / "nan.safetensors")
    expect(page.locator("#panel h1")).to_contain_text("no error to measure", timeout=LOAD_MS)
    expect(page.locator(".remarks")).to_contain_text("2 of the weights are NaN or infinity")
    assert page.locator(".weight i").all_inner_texts()[:4] == ["1", "nan", "nan", "nan"]
    page.locator("#field-format").select_option("int4")
    expect(page.locator("[data-error-for]:not(:empty)").first).to_be_visible()


def test_both_ternary_packings_light_up_together(opened, site):
    page = start(opened, site, "?format=bitnet-5in8&rows=8")
    expect(page.locator(".words")).to_have_count(2, timeout=LOAD_MS)
    page.locator("#weight-7").hover()
    lit = page.locator(".words").evaluate_all("""(all) => all.map((words) => {
        const plain = getComputedStyle(words.querySelector('.b.o, .b.c[data-l="0"]')).backgroundColor;
        const mine = [...words.querySelectorAll('.b.c[data-l~="7"]')];
        return [mine.length, mine.every((one) => getComputedStyle(one).backgroundColor !== plain)];
    })""")
    assert lit == [[8, True], [2, True]]  # a byte of five digits; two bits of its own


def test_measured_rows_are_sorted_as_numbers_and_models_change(opened, site):
    page = start(opened, site)
    page.locator("#measured-table").get_by_role("button", name="KL, nats").click()
    cells = page.locator("#measured-table tbody td:nth-child(3)").evaluate_all("(all) => all.map((one) => Number(one.dataset.value))")
    assert len(cells) > 20 and cells == sorted(cells) and cells[-1] > 10
    page.get_by_role("link", name="tiny Qwen2").click()
    expect(page.locator("#models")).to_contain_text("tiny Qwen2")
    trained = page.locator("#measured-table tr", has_text="bitnet-2bit-trained")
    expect(trained).to_contain_text("it was trained further, which the reference was not")
    assert "noise" not in trained.inner_text()
    expect(page.locator("#formats-table tr", has_text="int4-g64-asym")).to_contain_text("12.93")


def test_a_plan_for_one_program_is_said_whole(opened, site):
    page = start(opened, site)
    expect(page.locator("#panel")).to_contain_text("llama.cpp has no type for int4-g64")
    page.get_by_role("link", name="Plan with its types only.").click()
    expect(page.locator("#panel")).not_to_contain_text("llama.cpp has no type for")
    assert "attn_v" in page.locator("#llama-line").inner_text()
    page.get_by_role("link", name="only what llm-compressor stores").click()
    expect(page.locator("#panel")).not_to_contain_text("A recipe cannot say")
    expect(page.locator("#recipe-text")).to_contain_text("the nearest there")


def test_what_needs_no_numpy_works_before_it_comes(opened, site):
    page, watch = opened()
    held = []
    page.context.route("**/numpy-*.whl", lambda route: held.append(route))
    page.goto(site.page("quantbench"))
    ready(page)
    expect(page.locator(".weight")).to_have_count(32)  # the painted answer stays
    page.locator("#field-budget").fill("6")
    expect(page.locator(".lead")).to_contain_text("when numpy has arrived")
    expect(page.locator("#weights-part")).to_have_attribute("aria-busy", "true")
    expect(page.locator(".weight")).to_have_count(32)
    held[0].continue_()
    expect(page.locator("#panel [aria-busy]")).to_have_count(0, timeout=LOAD_MS)
    expect(page.locator(".lead")).to_contain_text("32 × 256 weights")
    assert len(held) == 1


def test_numpy_that_cannot_be_had_is_told_and_the_answer_stays(opened, site):
    page, watch = opened()
    watch.expect("Failed to load resource", "net::ERR", "occurred while loading numpy", "the server answered 404")
    page.context.route("**/numpy-*.whl", lambda route: route.fulfill(status=404, body=""))
    page.goto(site.page("quantbench"))
    ready(page)
    page.locator("#field-format").select_option("nf4")
    expect(page.locator("#status")).to_contain_text("numpy")
    expect(page.locator("#status")).to_contain_text("could not be loaded")
    expect(page.locator(".weight")).to_have_count(32)
    page.context.unroute("**/numpy-*.whl")
    page.locator("#field-format").select_option("q8_0")
    expect(page.locator("#panel h1")).to_contain_text("GGUF Q8_0", timeout=LOAD_MS)


def test_a_moved_weight_reaches_the_page_quickly(opened, site, capsys):
    """64k weights: from the slider's event to the changed panel, best of three medians, as a share of what is allowed."""
    page = start(opened, site, "?rows=256&columns=256")
    best = min(sorted(page.evaluate(MOVES, step) for step in range(6 * turn, 6 * turn + 5))[2] for turn in range(3))
    with capsys.disabled():
        print(f"\na weight of 64k moved, registers and every format anew: {best / 100:.2f} of the 100 ms aimed at")
    assert best < 1500  # the aim is told above; other programs share the machine


MOVES = """(step) => new Promise((resolve) => {
    const slider = document.querySelector("#slide-7"), start = performance.now();
    const watch = new MutationObserver(() => { watch.disconnect(); setTimeout(resolve, 300, performance.now() - start); });
    watch.observe(document.getElementById("panel"), {subtree: true, childList: true, characterData: true, attributes: true, attributeFilter: ["y"]});
    slider.value = String(0.001 * (step + 1));
    slider.dispatchEvent(new Event("input", {bubbles: true}));
})"""
