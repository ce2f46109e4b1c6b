"""What only infersize has: names that are looked up, a model's own config.json, the Hub, ways out, the matrix that follows."""

import json

from driving import Site, ready
from playwright.sync_api import Page, expect

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 2048,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 8192,
    "vocab_size": 128256,
    "tie_word_embeddings": True,
    "max_position_embeddings": 131072,
    "head_dim": 64,
    "torch_dtype": "bfloat16",
}


def start(opened, site: Site, query: str = "") -> Page:
    page, _ = opened()
    page.goto(site.page("infersize", query))
    ready(page)
    return page


def unfold(page: Page) -> None:
    """Open every group of the form."""
    page.locator("#question details").evaluate_all("(all) => all.forEach((one) => { one.open = true })")


def test_unknown_names_offer_the_nearest(opened, site):
    page = start(opened, site)
    heading = page.locator("#panel h1").inner_text()
    for field, wrong in (("model", "qwenn2.5-77b"), ("gpu", "rtx 4999"), ("quant", "awqq")):
        before = page.locator(f"#field-{field}").input_value()
        page.locator(f"#field-{field}").fill(wrong)
        slot = page.locator(f'[data-error-for="{field}"]')
        expect(slot.locator("button.suggestion").first).to_be_visible()
        expect(page.locator("#panel h1")).to_have_text(heading)
        expect(page.locator(f"#field-{field}")).to_have_value(wrong)
        slot.locator("button.suggestion").first.click()
        expect(slot).to_be_empty()
        page.locator(f"#field-{field}").fill(before)
        expect(page.locator("#panel h1")).to_have_text(heading)


WRONG_NUMBERS = (("context", "0"), ("sequences", "-3"), ("count", "1e99"), ("context", "lots"), ("tp", "7"))


def test_numbers_that_cannot_be_are_told_at_their_field(opened, site):
    page = start(opened, site)
    unfold(page)
    heading = page.locator("#panel h1").inner_text()
    for field, value in WRONG_NUMBERS:
        control, slot = page.locator(f"#field-{field}"), page.locator(f'[data-error-for="{field}"]')
        before = control.input_value()
        control.fill(value)
        expect(slot).not_to_be_empty()
        expect(control).to_have_attribute("aria-invalid", "true")
        expect(page.locator("#panel h1")).to_have_text(heading)
        control.fill(before)
        expect(slot).to_be_empty()
        expect(control).not_to_have_attribute("aria-invalid", "true")


def test_the_config_comes_from_the_hub(opened, site):
    page, watch = opened()
    watch.allowed += ("https://huggingface.co/",)
    asked = []

    def hub(route):
        asked.append(route.request.url)
        route.fulfill(body=json.dumps(CONFIG), headers={"access-control-allow-origin": "*"})

    page.route("https://huggingface.co/**", hub)
    page.goto(site.page("infersize"))
    ready(page)
    heading = page.locator("#panel h1").inner_text()
    page.locator("#field-model").fill("someone/else-1b")
    unfold(page)
    page.locator("button[data-fetch]").click()
    expect(page.locator("#panel h1")).not_to_have_text(heading)
    expect(page.locator("#question [aria-invalid]")).to_have_count(0)
    assert asked == ["https://huggingface.co/someone/else-1b/resolve/main/config.json"]


WRONG_CONFIGS = (
    ("{not json", "JSON"),
    ("[]", "config"),
    ('{"model_type": "llama"}', "missing"),
    (json.dumps(CONFIG | {"hidden_size": -1}), "hidden_size"),
    (json.dumps({"model_type": "nobodys", "architectures": ["NobodysModel"]}), "nobodys"),
)


def test_a_config_that_is_not_understood_says_why(opened, site):
    page = start(opened, site)
    unfold(page)
    heading = page.locator("#panel h1").inner_text()
    for text, words in WRONG_CONFIGS:
        page.locator("#field-config").fill(text)
        expect(page.locator('[data-error-for="config"]')).to_contain_text(words, ignore_case=True)
        expect(page.locator("#panel h1")).to_have_text(heading)
        expect(page.locator("#field-config")).to_have_value(text)


def test_ways_out_are_links_that_lead_to_a_fit(opened, site):
    page = start(opened, site, "?model=llama-3.3-70b&gpu=l40s")
    expect(page.locator("#panel h1")).to_contain_text("not fit", timeout=30_000)
    page.locator("#panel .remedies a").first.click()
    expect(page.locator("#panel h1")).not_to_contain_text("not fit")
    page.go_back()
    expect(page.locator("#panel h1")).to_contain_text("not fit")


def test_the_matrix_follows_and_stays_sorted(opened, site):
    page = start(opened, site)
    table = page.locator("#matrix table[data-table]").first
    expect(table).to_be_visible()
    table.locator("th button[data-sort]").first.click()
    first = table.locator("tbody tr:visible").first.inner_text()
    page.locator("#field-context").fill("16k")
    expect(page).to_have_url(site.page("infersize", "?context=16384"))
    expect(page.locator("#panel [aria-busy]")).to_have_count(0, timeout=30_000)
    expect(table).to_be_visible()
    assert (
        table.locator("tbody tr:visible").first.inner_text().split("\n")[0].split("\t")[0]
        == first.split("\n")[0].split("\t")[0]
    )


def test_every_number_opens_its_explanation(opened, site):
    page = start(opened, site)
    for number in page.locator("#panel h1 button[popovertarget], #panel .tiles .big button[popovertarget]").all():
        explained = page.locator(f"#{number.get_attribute('popovertarget')}")
        number.click()
        assert explained.evaluate("(one) => one.matches(':popover-open')")
        expect(explained).to_contain_text(number.inner_text().split()[0])
        assert page.request.get(explained.locator("a[href*='source/pycore/']").first.evaluate("(one) => one.href")).ok
        page.keyboard.press("Escape")
        assert not explained.evaluate("(one) => one.matches(':popover-open')")
