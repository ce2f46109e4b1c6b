"""The infersize page: what the view hands to the template, not how the HTML reads (STYLE: starlette, datasette)."""

import dataclasses
import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest
from jinja2 import meta
from page_fields import Seen, documented, watched

from pycore import knobs
from pycore.errors import StudioError
from pycore.knobs import from_url
from pycore.ledger import BASES
from studios import explain, render
from studios.infersize import charts, files, view

EXAMPLES = {row["name"]: row for row in render.examples("infersize")}
HOSTILE = "\"><script>alert(1)</script>{{ 7*7 }}{% for x in y %}<img src=x onerror=alert(2)>"
SOURCE = "../source/{path}.html#L{line}"
READ_ELSEWHERE = {"answer"}  # by downloads and by the Python drawer


@pytest.fixture(scope="module")
def pages() -> dict[str, Any]:
    """The Page of every example question."""
    return {name: page_of(row["query"]) for name, row in EXAMPLES.items()}


def page_of(query: str) -> Any:
    *_, page = view.steps(from_url(view.Query, query))
    return page


def test_there_are_telling_examples():
    queries = [from_url(view.Query, row["query"]) for row in EXAMPLES.values()]
    assert EXAMPLES and next(iter(EXAMPLES.values()))["query"] == ""
    assert len(EXAMPLES) >= 8 and {query.engine for query in queries} >= {"vllm", "llama.cpp"}
    assert sum(row["preset"] for row in EXAMPLES.values()) >= 6
    assert any(query.config for query in queries) and any(query.draft_model for query in queries)
    assert any("<script>" in query.engine_log for query in queries)


def test_examples_show_both_verdicts(pages):
    verdicts = {name: page.fits for name, page in pages.items()}
    assert verdicts["default"] and not verdicts["not-fit"]
    assert pages["not-fit"].remedies and not pages["default"].remedies
    assert view.headline(pages["default"]).startswith("Fits on 1 × L40S: 16 users at ")
    assert view.headline(pages["not-fit"]).startswith("Does not fit on 1 × L40S: it needs ")


def test_the_answers_numbers_reach_the_page(pages):
    for page in pages.values():
        answer = page.answer
        assert page.memory.bar.total.text == answer.memory.total.text
        assert [row.exact for row in page.memory.rows] == [f"{row.value:,}" for row in answer.memory.rows]
        shown = sum(int(row.exact.replace(",", "")) for row in page.memory.rows)
        assert f"{shown:,}" == page.memory.total.exact  # the rows add up to the byte, as they are written
        assert page.tiles[0].number.text == answer.speed.tpot_s.text


def test_the_bar_is_to_scale(pages):
    for page in pages.values():
        bar, plan = page.memory.bar, page.answer.memory
        widths = [float(piece.width.rstrip("%")) for piece in bar.segments]
        scale = 100 * plan.total.value / max(sum(widths), 1e-9)
        assert all(0 <= float(piece.x.rstrip("%")) <= 100 for piece in bar.segments)
        assert float(bar.budget_x.rstrip("%")) == pytest.approx(100 * plan.budget.value / scale, abs=0.1)
        assert bool(bar.over_width) == (plan.total.value > plan.budget.value)


def test_each_number_has_exactly_one_explanation(pages):
    for page in pages.values():
        entries = [entry for group in page.ledger for entry in group.entries]
        ids = [entry.id for entry in entries]
        assert len(ids) == len(set(ids))
        numbers = list(found(page, explain.Number))
        assert {number.id for number in numbers} <= set(ids)
        assert {one.id for entry in entries for one in entry.inputs if one.id} <= set(ids)
        by_id = {entry.id: entry for entry in entries}
        assert all(number.kind == by_id[number.id].kind for number in numbers)
        assert all(entry.basis in BASES and entry.meaning for entry in entries)
        assert all(entry.formula or entry.source or entry.note for entry in entries), [
            entry.name for entry in entries if not (entry.formula or entry.source or entry.note)]


def test_what_rests_on_a_fit_is_called_predicted(pages):
    page = pages["default"]
    kinds = {entry.name: entry.kind for group in page.ledger for entry in group.entries}
    assert kinds["Time per output token"] == "predicted" and kinds["Tokens per second per user"] == "predicted"
    assert kinds["Weights"] == "exact" and kinds["Usable memory"] == "reported" and kinds["Total"] == "predicted"


def test_the_ledger_leads_to_lines_that_exist(pages):
    for entry in (entry for group in pages["default"].ledger for entry in group.entries if entry.code):
        path, _, line = entry.code.partition(":")
        text = render.read(path).splitlines()
        assert line.isdigit() and 0 < int(line) <= len(text), entry


def test_links_ask_what_they_say(pages):
    page = pages["draft"]
    for choice in page.matrix.choices[:20]:
        query = from_url(view.Query, choice.href)
        assert choice.way == f"{query.count} × {query.quant}"
        assert query.draft_model == page.answer.query.draft_model  # the rest of the question stays
    for remedy in pages["not-fit"].remedies:
        assert page_of(remedy.href.lstrip("?")).fits, remedy


def test_heat_map_has_a_cell_for_every_column(pages):
    matrix = pages["default"].matrix
    assert all(len(row.cells) == len(matrix.formats) * len(matrix.counts) for row in matrix.rows)
    assert sum(row.asked for row in matrix.rows) == 1
    assert {cell.style for row in matrix.rows for cell in row.cells} <= {*"123456", "late", "few", "no"}


def test_the_frontier_is_not_beaten(pages):
    swept = [point for one in pages["default"].matrix.frontier.sweeps for point in one.points]
    assert len({point[0] for point in swept}) > 3
    for _, user, device, best in swept:
        beaten = any(other[1] >= user and other[2] >= device and other[1:3] != (user, device) for other in swept)
        assert best == (not beaten)


def test_latency_targets_mark_what_misses_them(pages):
    page = pages["targets"]
    limit = page.answer.query.target_tpot_ms / 1000
    late = sum(row.fits and row.tpot_s is not None and row.tpot_s > limit for row in page.answer.matrix)
    assert late and sum(cell.style == "late" for row in page.matrix.rows for cell in row.cells) == late


# ---- template and documentation


def test_template_and_charts_use_exactly_the_documented_fields(pages):
    log: set[tuple[str, str]] = set()
    for page in pages.values():
        seen = Seen(page, log)
        context = {field.name: watched(getattr(page, field.name), log) for field in dataclasses.fields(page)}
        text = render.templates().get_template("infersize/panel.html.j2")
        text.render(context | {"source_url": lambda line: render.source_link(SOURCE, line)})
        charts.charts(seen)
    tree = render.templates().parse(render.template_source("infersize/panel.html.j2"))
    top = {field.name for field in dataclasses.fields(view.Page)}
    assert meta.find_undeclared_variables(tree) - {"source_url"} == top - READ_ELSEWHERE
    wanted = {pair for pair in documented(view.Page) if pair[0] != "Page"} | documented(explain.Number)
    used = {pair for pair in log if pair[0] != "Page"}
    assert wanted - used == set(), "documented, never shown"
    assert used - wanted == set(), "shown, not documented"


@pytest.mark.parametrize("name", EXAMPLES)
def test_panel_is_the_same_bytes_twice(name):
    first, second = (render.panel("infersize", page_of(EXAMPLES[name]["query"]), SOURCE) for _ in range(2))
    assert first == second


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
        tags = Tags(render.panel("infersize", page, SOURCE))
        assert not tags.forbidden and not {"script", "style", "iframe"} & set(tags.tags), name
        assert len(tags.ids) == len(set(tags.ids)), name
        assert set(tags.targets) <= set(tags.ids), name


TEXT_FIELDS = [knob.name for knob in knobs.knobs(view.Query) if knob.kind in ("text", "long text")]


@pytest.mark.parametrize("field", TEXT_FIELDS)
def test_hostile_text_is_shown_as_text_or_refused(field):
    """Script, attribute and template syntax in every text field: either a message, or a panel without a new element."""
    *_, last = render.replies("infersize", render.to_url(view.Query(**{field: HOSTILE})), SOURCE)
    assert last["type"] in ("answer", "invalid"), last
    if last["type"] == "answer":
        tags = Tags(last["panel"])
        assert not {"script", "img"} & set(tags.tags) and not tags.forbidden
        assert "alert(1)" not in re.sub(r"&lt;script&gt;alert\(1\)", "", last["panel"])


def test_a_hostile_model_name_in_a_config_stays_text():
    """A config.json may name its model as it likes; what the page shows of it is escaped."""
    config = json.dumps({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 1024,
                         "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 8,
                         "intermediate_size": 4096, "vocab_size": 32000, "tie_word_embeddings": True,
                         "max_position_embeddings": 32768, "torch_dtype": "bfloat16", "_name_or_path": HOSTILE})
    *_, last = render.replies("infersize", render.to_url(view.Query(config=config)), SOURCE)
    assert last["type"] == "answer", last
    assert "script" not in Tags(last["panel"]).tags
    *_, taken = render.files("infersize", render.to_url(view.Query(config=config)))
    assert all("<script" not in file["text"] or file["media"] != "text/html" for file in taken["files"].values())


def test_downloads_hold_the_same_figures(pages):
    page = pages["default"]
    found_files = view.downloads(page)
    rows = found_files["matrix.csv"][1].splitlines()
    assert rows[0] == ",".join(files.MATRIX) and len(rows) == 1 + len(page.answer.matrix)
    terms = json.loads(found_files["infersize.json"][1])["terms"]
    assert {term["name"]: term["value"] for term in terms}["Total"] == page.answer.memory.total.value


def test_a_spreadsheet_runs_no_cell():
    assert files.table(("a",), [{"a": "=1+1"}, {"a": "-2"}, {"a": -2}]).splitlines() == ["a", "'=1+1", "'-2", "-2"]


def test_charts_have_data_and_a_description(pages):
    for page in pages.values():
        for name, spec in view.charts(page).items():
            assert spec["description"] and spec["width"] == "container", name
            assert "NaN" not in json.dumps(spec) and "Infinity" not in json.dumps(spec)
    assert set(view.charts(pages["draft"])) == {"pareto", "breakeven", "draft-length", "crossover"}


def found(value: Any, cls: type) -> Any:
    """Every instance of a dataclass below a value."""
    if isinstance(value, cls):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from found(item, cls)
    elif dataclasses.is_dataclass(value) and type(value).__module__.startswith("studios."):
        for field in dataclasses.fields(value):
            yield from found(getattr(value, field.name), cls)


def test_bad_names_are_refused_before_anything_is_computed():
    with pytest.raises(StudioError):
        page_of("gpu=no+such+card+at+all")
