"""The token-atlas page: what the view hands to the template; texts that must come out as text."""

import dataclasses
import html
import json
import re
import unicodedata
from html.parser import HTMLParser
from typing import Any

import pytest
from jinja2 import meta
from page_fields import Seen, documented, watched

from pycore import knobs
from pycore.atlas.live import Piece
from pycore.cache import Needs
from pycore.errors import SourceError
from pycore.knobs import from_url, to_url
from pycore.tokens import samples
from pycore.tokens.catalogue import origins
from pycore.tokens.graphemes import clusters
from pycore.tokens.ranges import shipped
from pycore.tokens.supply import fetch_file
from pycore.tokens.tokenizer import FORMS
from studios import explain, render
from studios.token_atlas import charts, files, view
from studios.token_atlas.names import also
from studios.token_atlas.pieces import MOST_SHOWN, groups

EXAMPLES = {row["name"]: row for row in render.examples("token_atlas")}
HOSTILE = "\"><script>alert(1)</script>{{ 7*7 }}{% for x in y %}<img src=x onerror=alert(2)>"
SOURCE = "../source/{path}.html#L{line}"
READ_ELSEWHERE = {"answer"}
EVERY = "o200k_base,llama3,qwen2.5,deepseek-v3,gemma3,claude-legacy,cl100k_base"


@pytest.fixture(scope="module", autouse=True)
def vocabularies() -> None:
    """All files are at hand, as in a build."""
    for name in view.FILES:
        fetch_file(name, print)


@pytest.fixture(scope="module")
def pages() -> dict[str, Any]:
    """The Page of every example question."""
    return {name: page_of(row["query"]) for name, row in EXAMPLES.items()}


def page_of(query: str) -> Any:
    *_, page = view.steps(from_url(view.Query, query))
    return page


def asked(**fields: Any) -> Any:
    return page_of(to_url(view.Query(**fields)))


def test_there_are_telling_examples():
    queries = [from_url(view.Query, row["query"]) for row in EXAMPLES.values()]
    assert next(iter(EXAMPLES.values()))["query"] == "" and sum(row["preset"] for row in EXAMPLES.values()) >= 6
    assert {query.measure for query in queries} >= {"premium", "absolute", "context", "fertility"}
    assert any(query.word for query in queries) and any(query.specials for query in queries)
    assert any("<script>" in query.text and "\u202e" in query.text and "\0" in query.text for query in queries)


def test_the_verdict_is_the_languages_premium(pages):
    assert view.headline(pages["default"]) == (
        "Hindi costs 1.58 times English under GPT-4o's tokenizer, 1.31 under Gemma 3's, 4.43 under Qwen2.5's")
    assert view.headline(pages["burmese"]).startswith("Burmese costs 11.6 times English under LLaMA-3's tokenizer")
    assert view.headline(pages["english"]).startswith("English takes 52,409 tokens under GPT-4o's tokenizer")


def test_every_cell_shows_its_figure_and_opens_its_story(pages):
    for page in pages.values():
        grid, heat = page.answer.matrix, page.still.heat
        assert [row.code for row in heat.rows] == [line.language.code for line in grid.rows]
        for row, line in zip(heat.rows, grid.rows, strict=True):
            for shown, one in zip(row.cells, line.cells, strict=True):
                assert shown.text == (one.text if one.value is not None else "–")
                query = from_url(view.Query, shown.href)
                assert (query.language, query.tokenizer) == (one.language, one.tokenizer)
                assert query.measure == page.answer.query.measure  # the rest of the look stays
    story = page_of(pages["default"].still.heat.rows[0].cells[1].href).still.story
    assert story.title == f"{pages['default'].still.heat.rows[0].name} under LLaMA-3"


def test_steps_of_the_scale_rise_with_the_value(pages):
    for name in ("default", "absolute", "bill"):
        cells = [cell for row in pages[name].still.heat.rows for cell in row.cells if cell.value]
        steps = [int(cell.style[1]) for cell in sorted(cells, key=lambda cell: float(cell.value))]
        assert steps == sorted(steps) and set(steps) == set(range(1, 8))
    context = [cell for row in pages["context"].still.heat.rows for cell in row.cells]
    steps = [int(cell.style[1]) for cell in sorted(context, key=lambda cell: -float(cell.value))]
    assert steps == sorted(steps)  # where more is better, less is deep


def test_unofficial_columns_look_different_and_say_so(pages):
    heat = pages["default"].still.heat
    unofficial = {index for index, one in enumerate(heat.columns) if one.standing == "unofficial, counts only"}
    assert {heat.columns[index].name for index in unofficial} == {"Claude 3–4.6", "Claude 4.7+"}
    for row in heat.rows:
        assert {index for index, cell in enumerate(row.cells) if " u" in cell.style} == unofficial
    assert not any(re.fullmatch("claude", one.name, re.IGNORECASE) for one in heat.columns)


def test_who_only_looks_fair_is_told(pages):
    assert any(text.startswith("Claude 4.7+ is number 3 by premium and number 6 by tokens: its English takes 56 % more")
               for text in pages["default"].still.fair.looks)
    assert [one.rank for one in pages["default"].still.fair.ranks][0] == "1"


def test_the_bill_adds_up(pages):
    for page in pages.values():
        for one in page.still.money.models:
            assert float(one.value) == pytest.approx(sum(float(value) for _, value in one.lines), rel=1e-4)
            assert float(one.tax) == pytest.approx(float(one.value) / float(one.english_value), abs=0.006)
    money = pages["bill"].still.money
    assert any(turns for *_, turns in money.cheapest) or any(place.passes for place in money.places)
    assert [one.name for one in pages["own-prices"].still.money.models if one.name == "mine"] == ["mine"]


# ---- the typed text


def plain(markup: str) -> str:
    """What a reader sees of tokens: marks for spaces undone, parts of characters left out."""
    text = re.sub(r"<s>.*?</s>", "", markup)
    text = re.sub(r"<em>U\+([0-9A-F]+)</em>", lambda match: chr(int(match[1], 16)), text)
    for mark, letter in (("·", " "), ("⏎", "\n"), ("␍", "\r"), ("⇥", "\t"), ("⍽", "\u00a0"), ("□", "\u3000")):
        text = text.replace(f"<u>{mark}</u>", letter)
    return html.unescape(re.sub(r"<[^>]+>", "", text))


TEXTS = (
    "Hello world", "def f(x):\n\treturn x  # <b>&amp;</b>", "नमस्ते दुनिया, आप कैसे हैं?", "မင်္ဂလာပါ ကမ္ဘာလောက",
    "你好，世界！今天天气怎么样？", "مرحبا بالعالم، كيف حالك؟", "👩‍👩‍👧‍👦 👋🏽 🇩🇪🇫🇷", "cafe\u0301 naïve 饕餮", "a\u202eb\u2066c\u200fd\ufeff\0\x1b[0m\u2028e",
    "Z\u0351\u036b\u0343\u036a\u0302\u036ba\u0334l\u0354g\u0338o", "·␣⏎ <u>·</u>", "\u00a0\u3000x", " ", "\r\n\r\n", "e\u200d\u200cf")


@pytest.mark.parametrize("text", TEXTS)
def test_no_token_display_loses_or_adds_a_letter(text):
    page = asked(text=text, tokenizers=EVERY)
    for live, one in zip(page.answer.live, page.typed.under, strict=True):
        form = FORMS.get(live.name)  # a whole token is shown as it was read
        assert (plain(one.html) == text if form is None else
                unicodedata.normalize(form, plain(one.html)) == unicodedata.normalize(form, text)), one.name


@pytest.mark.parametrize("text", TEXTS)
def test_no_character_is_torn(text):
    """Each run of tokens that is drawn as one begins and ends where a grapheme cluster does."""
    edges, at = {0}, 0
    for cluster in clusters(text):
        at += len(cluster)
        edges.add(at)
    for one in asked(text=text, tokenizers=EVERY).answer.live:
        found = list(groups(one.pieces, text))
        assert [piece for group in found for piece in group] == list(one.pieces)
        assert all(group[0].start in edges and group[-1].end in edges for group in found)
        for group in found:  # and no run is longer than it must be
            for place in range(1, len(group)):
                reached = max(piece.end for piece in group[:place])
                assert group[place].start < reached or group[place].start not in edges, (one.name, group)


def test_controls_and_marks_of_direction_are_named_not_obeyed():
    control = re.compile("|".join(re.escape(chr(code)) for first, last in shipped()["break:Control"]
                                  for code in range(first, min(last, first + 40) + 1) if not 0xD800 <= code < 0xE000))
    text = "x\u202e\u2066\u2069\u200e\u061c\x00\x07\x1b\x9d\ufeff\u00ady\u2028\u2029z"
    page = asked(text=text, tokenizers=EVERY, word="x\u202e\x00y")
    for one in page.typed.under:
        assert not control.search(one.html) and not control.search(one.tree)
        assert "U+202E" in one.html and "U+0000" in one.html


def test_bytes_stand_where_a_token_is_half_a_character():
    page = asked(text="饕餮", tokenizers="o200k_base")
    assert page.answer.live[0].ids == (31031, 243, 26127, 106)
    assert re.findall(r'<i title="(\d+)">([0-9a-f ]+)</i>', page.typed.under[0].html) == [
        ("31031", "e9 a5"), ("243", "95"), ("26127", "e9 a4"), ("106", "ae")]


def test_tokens_that_all_have_recede():
    page = asked(text="the cat 饕餮", tokenizers="o200k_base,claude-legacy")
    for one in page.typed.under:
        assert re.search(r'<i class="y\d" title="\d+">the</i>', one.html)
    alone = asked(text="the cat", tokenizers="o200k_base")
    assert 'class="y' not in alone.typed.under[0].html and alone.typed.same == ""


def test_a_words_link_asks_for_its_merges_and_keeps_the_text():
    page = asked(text="50% of a&b are #1+1", tokenizers="llama3")
    links = re.findall(r'<a href="(\?word=[^"]*)" data-also', page.typed.under[0].html)
    words = [from_url(view.Query, html.unescape(link)).word for link in links]
    assert words == ["50%", "of", "a&b", "are", "#1+1"]
    tree = asked(text="50% of a&b are #1+1", tokenizers="llama3", word="a&b").typed.under[0].tree
    assert tree.count('<span class="node">') >= 3 and ">&amp;</b>" in tree
    assert asked(text="x").typed.under[0].tree == ""


def test_long_texts_are_drawn_in_part_and_say_so():
    page = asked(text="word and another " * 4000, tokenizers="o200k_base")
    one = page.typed.under[0]
    assert one.html.count("<i ") <= MOST_SHOWN and "drawn" in one.unseen and one.ids_unseen
    assert one.tokens.text == "12,001 tokens"  # 3 a round, and the last space


def test_special_tokens_are_text_unless_asked_for():
    text = "<|endoftext|>"
    assert [asked(text=text, tokenizers="o200k_base", specials=on).typed.under[0].tokens.text for on in (False, True)] == [
        "7 tokens", "1 tokens"]
    assert 'class="z' in asked(text=text, tokenizers="o200k_base", specials=True).typed.under[0].html


def test_a_changed_reading_is_shown():
    page = asked(text="cafe\u0301 ™", tokenizers="qwen2.5,claude-legacy,o200k_base")
    assert [bool(one.read) for one in page.typed.under] == [True, True, False]
    assert all(one.round_trip for one in page.typed.under)


def test_samples_have_their_direction_and_language(pages):
    assert (pages["arabic"].typed.direction, pages["arabic"].typed.language) == ("rtl", "ar")
    assert (pages["default"].typed.direction, pages["code"].typed.direction) == ("ltr", "auto")
    without = asked(language="asm_Beng") if "asm_Beng" in view.completions("languages") else asked(language="ory_Orya")
    assert "has none in the package" in without.typed.what


def test_links_that_change_one_field_leave_the_rest():
    query = view.Query(text="mine", language="tam_Taml", measure="absolute", tokenizers="llama3")
    link = also(query, tokenizers="gemma3")
    assert link == "?language=tam_Taml&measure=absolute&tokenizers=gemma3"  # no text: it stays where it is
    assert from_url(view.Query, link).language == "tam_Taml"


# ---- files that come later


def test_what_is_missing_is_asked_for_one_by_one_and_the_rest_stands(tmp_path, monkeypatch):
    monkeypatch.setenv("INFERENCE_STUDIOS_CACHE", str(tmp_path))
    from pycore.atlas import encoders

    encoders.built.cache_clear()
    steps = view.steps(view.Query(text="Hello", tokenizers="llama3,gemma3"))
    first = next(steps)
    assert first.waiting and first.still.heat.rows and not first.typed.under
    assert next(steps) == Needs(files=("vocabularies/llama3.bpe",))
    item = steps.throw(SourceError("vocabularies/llama3.bpe", "the server answered 404"))
    assert item == Needs(files=("vocabularies/gemma3.bpe",))
    *_, last = steps
    assert not last.waiting and "the server answered 404" in last.typed.missing[0][1] and len(last.typed.missing) == 2
    assert "404" in render.panel("token_atlas", last, SOURCE)
    encoders.built.cache_clear()


def test_the_first_page_of_the_default_question_needs_no_file(tmp_path, monkeypatch):
    with_files = next(item for item in view.steps(view.Query()) if isinstance(item, view.Page))
    monkeypatch.setenv("INFERENCE_STUDIOS_CACHE", str(tmp_path))
    without = next(view.steps(view.Query()))
    assert with_files.waiting
    assert render.panel("token_atlas", with_files, SOURCE) == render.panel("token_atlas", without, SOURCE)


def test_typing_renders_the_text_alone():
    """What does not follow from the text is the very same object, and rendered once."""
    first, second = asked(text="a"), asked(text="ab", word="ab", specials=True)
    assert first.still is second.still
    assert asked(text="a", language="tam_Taml").still is not first.still


# ---- template and documentation


def test_template_and_charts_use_exactly_the_documented_fields(pages):
    log: set[tuple[str, str]] = set()
    template = render.templates().get_template("token_atlas/panel.html.j2")
    functions = {"source_url": lambda line: render.source_link(SOURCE, line), "kept": lambda part, thing, caller: caller()}
    for page in pages.values():
        seen = Seen(page, log)
        template.render({field.name: watched(getattr(page, field.name), log) for field in dataclasses.fields(page)} | functions)
        charts.drawn(seen.still.fair, seen.still.money)
        charts.charts(seen)
    tree = render.templates().parse(render.template_source("token_atlas/panel.html.j2"))
    top = {field.name for field in dataclasses.fields(view.Page)}
    assert meta.find_undeclared_variables(tree) - set(functions) == top - READ_ELSEWHERE
    wanted = {pair for pair in documented(view.Page) if pair[0] != "Page"} | documented(explain.Number)
    used = {pair for pair in log if pair[0] != "Page"}
    assert wanted - used == set(), "documented, never shown"
    assert used - wanted == set(), "shown, not documented"


@pytest.mark.parametrize("name", EXAMPLES)
def test_panel_is_the_same_bytes_whatever_was_asked_before(name):
    question = EXAMPLES[name]["query"]
    first = render.panel("token_atlas", page_of(question), SOURCE)
    render.panel("token_atlas", page_of("language=yor_Latn&measure=tokens"), SOURCE)
    assert render.panel("token_atlas", page_of(question), SOURCE) == first
    render._parts.clear()
    assert render.panel("token_atlas", page_of(question), SOURCE) == first


class Tags(HTMLParser):
    """Counts elements, collects ids, and looks for attributes that a strict policy forbids."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.targets: list[str] = []
        self.forbidden: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value)
            if name == "popovertarget":
                self.targets.append(value)
            if name == "style" or name.startswith("on"):
                self.forbidden.append(f"{tag} {name}={value}")


def test_panel_obeys_a_strict_policy_and_its_targets_exist(pages):
    for name, page in pages.items():
        tags = Tags(render.panel("token_atlas", page, SOURCE))
        assert not tags.forbidden and not {"script", "style", "iframe"} & set(tags.tags), name
        assert len(tags.ids) == len(set(tags.ids)), name
        assert set(tags.targets) <= set(tags.ids), name


def test_rows_have_the_cells_that_their_heads_name(pages):
    for name, page in pages.items():
        text = render.panel("token_atlas", page, SOURCE)
        for table in re.findall(r"<table.*?</table>", text, re.DOTALL):
            rows = re.findall(r"<tr.*?</tr>", table, re.DOTALL)
            assert len({len(re.findall(r"<t[hd][ >]", row)) for row in rows}) == 1, (name, table[:80])


TEXT_FIELDS = [knob.name for knob in knobs.knobs(view.Query) if knob.kind in ("text", "long text")]


@pytest.mark.parametrize("field", TEXT_FIELDS)
def test_hostile_text_is_shown_as_text_or_refused(field):
    *_, last = render.replies("token_atlas", to_url(view.Query(**{field: HOSTILE})), SOURCE)
    assert last["type"] in ("answer", "invalid"), last
    if last["type"] == "answer":
        tags = Tags(last["panel"])
        assert not {"script", "img"} & set(tags.tags) and not tags.forbidden
    else:
        assert last["errors"][0]["field"] == field


def test_downloads_hold_the_same_figures(pages):
    page = pages["arabic"]
    found = view.downloads(page)
    rows = found["matrix.csv"][1].splitlines()
    assert rows[0] == ",".join(files.MATRIX) and len(rows) == 1 + len(page.answer.matrix.rows) * len(page.answer.matrix.columns)
    assert len(found["tokens.csv"][1].splitlines()) == 1 + sum(len(one.pieces) for one in page.answer.live)
    taken = json.loads(found["token-atlas.json"][1])
    assert taken["counts"] == {one.name: len(one.ids) for one in page.answer.live} and taken["text"] == page.answer.text
    assert samples.article("arb_Arab") == taken["text"]


def test_charts_have_data_and_a_description(pages):
    for page in pages.values():
        for name, spec in view.charts(page).items():
            assert spec["description"] and spec["width"] == "container", name
            assert "NaN" not in json.dumps(spec) and "Infinity" not in json.dumps(spec)


def test_piece_has_the_fields_that_are_drawn():
    assert {"id", "text", "hex", "start", "end", "special"} <= set(Piece._fields)


def test_licences_and_notices_are_shown(pages):
    text = render.panel("token_atlas", pages["default"], SOURCE)
    for one in origins():
        for words in (one.notice, one.terms, one.package):
            assert html.escape(words, quote=False).replace("'", "&#39;") in text, one.name
        assert one.notice in view.notices()
