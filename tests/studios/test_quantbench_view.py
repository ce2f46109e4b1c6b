"""The quantbench page: what the view hands to the template, with and without numpy, with and without measured rows."""

import csv
import dataclasses
import html
import io
import json
import math
import re
from typing import Any

import numpy as np
import pytest
from page_fields import Seen, assert_sound, documented, watched

from pycore.knobs import from_url, to_url
from pycore.pack.formats import FORMATS
from pycore.quality import table
from pycore.systems import quantbench
from studios import explain, render
from studios.quantbench import charts, files, view
from studios.quantbench.names import Held, figure, perplexity, plain_number, small

EXAMPLES = {row["name"]: row for row in render.examples("quantbench")}
HOSTILE = "\"><script>alert(1)</script>{{ 7*7 }}{% for x in y %}<img src=x onerror=alert(2)>"
SOURCE = "../source/{path}.html#L{line}"
MADE_UP = "made up for a test"


def rows_of_a_model() -> dict[str, list[dict[str, object]]]:
    """A small dataset: two layers, Q and K the worst under int4 and not under q4_k."""
    models = [{"model": "tiny", "label": "Tiny <b>model</b>", "parameters": 1000, "layers": 2, "corpus": MADE_UP,
               "corpus_tokens": 100, "stride": 10, "device": "a pencil", "versions": "none", "date": "2026-01-01", "note": "n",
               "quantised_weights": 900, "window": 10, "calibration": "none", "source": "s", "licence": "l", "command": "c"}]
    plans = [{"model": "tiny", "budget_bytes": 5000, "size_bytes": 4900, "bits_per_weight": 4.4, "predicted_kl": 0.02,
              "kl_divergence": 0.03, "kl_low": 0.025, "kl_high": 0.035, "uniform": "q4_k", "uniform_size_bytes": 4950,
              "uniform_kl": 0.04, "uniform_kl_low": 0.03, "uniform_kl_high": 0.05, "tokens": 100, "elsewhere_kl": 0.035,
              "elsewhere_kl_low": 0.03, "elsewhere_kl_high": 0.04, "elsewhere_uniform_kl": 0.05, "elsewhere_tokens": 300}]
    kinds = [("none", "", "", 16, 30.0, 0.0, 0, 0), ("int4-g64", "int4", "group=64", 4.25, 33.0, 0.09, 0, 0),
             ("q4_1", "q4_1", "", 5, 30.0, 0.0, 1, 0), ("q4_k", "q4_k", "", 4.5, 31.0, 0.04, 0, 0),
             ("q8_0", "q8_0", "", 8.5, 29.9, 0.0003, 0, 0), ("ternary", "bitnet-2bit", "", 2.1, 60.0, 0.8, 0, 1)]
    configurations = [
        {"model": "tiny", "configuration": name, "label": f"{name} label", "format": kind, "options": options, "method": "nearest",
         "activations": "", "ratio": ppl / 30, "ratio_low": 0.99 if name == "q8_0" else "",
         "ratio_high": 1.01 if name == "q8_0" else "",
         "bits_per_weight": bits, "size_bytes": int(1000 * bits / 8), "perplexity": ppl, "perplexity_low": ppl - 1,
         "perplexity_high": ppl + 1, "kl_divergence": kl, "kl_low": kl * 0.9, "kl_high": kl * 1.1, "top1_agreement": 0.9,
         "weight_sqnr_db": 20, "decode_tokens_per_s": 7, "lossless": lossless, "trained": trained, "command": "c", "note": ""}
        for name, kind, options, bits, ppl, kl, lossless, trained in kinds]
    order = {"int4-g64": ("q", "k", "v", "down"), "q4_k": ("down", "v", "q", "k"), "q8_0": ("down", "q", "v", "k")}
    scale, bits = {"int4-g64": 1.0, "q4_k": 0.5, "q8_0": 0.01}, {"int4-g64": 4.25, "q4_k": 4.5, "q8_0": 8.5}
    sensitivity = [
        {"model": "tiny", "configuration": name, "layer": layer, "projection": projection, "rows": 64, "columns": 64,
         "bytes": int(4096 * bits[name] / 8), "weight_sqnr_db": 20, "output_sqnr_db": 21,
         "kl_divergence": scale[name] * 0.01 / (1 + place + layer), "kl_low": 0.001, "kl_high": 0.02, "tokens": 9}
        for name, names in order.items() for layer in range(2) for place, projection in enumerate(names)]
    return {"models": models, "configurations": configurations, "sensitivity": sensitivity, "plans": plans}


@pytest.fixture(scope="module", autouse=True)
def measured():
    """The made-up rows instead of whatever the dataset holds."""
    with pytest.MonkeyPatch.context() as patch:
        made = rows_of_a_model()
        patch.setattr(table, "table", lambda name, dataset: [
            {key: str(value) for key, value in row.items()} for row in made[name]])
        forget()
        yield
    forget()


def forget() -> None:
    table.models.cache_clear()
    quantbench.kept_plan.cache_clear()
    view._held = Held()


@pytest.fixture(scope="module")
def pages() -> dict[str, Any]:
    """The last Page of every example question."""
    return {name: page_of(row["query"]) for name, row in EXAMPLES.items()}


def page_of(query: str) -> Any:
    return [one for one in view.steps(from_url(view.Query, query)) if isinstance(one, view.Page)][-1]


def asked(**fields: Any) -> Any:
    return page_of(to_url(view.Query(**fields)))


def test_there_are_telling_examples():
    queries = [from_url(view.Query, row["query"]) for row in EXAMPLES.values()]
    assert next(iter(EXAMPLES.values()))["query"] == "" and sum(row["preset"] for row in EXAMPLES.values()) >= 6
    assert {query.format for query in queries} >= {"int4", "nvfp4", "q4_k", "q6_k", "sparse-2:4", "bitnet-5in8", "nf4", "int8"}
    assert any(query.bug for query in queries) and any(query.act_order for query in queries)
    assert any("nan" in query.values for query in queries) and any(query.edits for query in queries)


def test_the_verdict_says_bits_error_and_what_was_measured(pages):
    assert re.fullmatch(r"INT4 in blocks: 4\.25 bits per weight, SQNR [\d.]+ dB on these weights; measured on "
                        r"Tiny <b>model</b>: KL 0\.09 nats", view.headline(pages["default"]))
    assert "no error to measure" in view.headline(pages["fp8-nan"])
    assert "nothing to measure an error against" in view.headline(pages["zeros"])
    assert "lossless" not in view.headline(asked(format="q4_1"))  # whole model's claim, not this one's


@pytest.mark.parametrize("format_id", [one.id for one in FORMATS])
def test_registers_show_the_very_bytes(format_id):
    """Bits drawn from left to right are those of the little-endian word, and every weight's code can be read off them."""
    page = asked(format=format_id, rows=8, weight=37)
    packed = page.answer.bench.inspection.packed
    drawn = {}
    for word in page.bits.words:
        digits = re.findall(r">([01])</a>", word.html)
        start = int(word.where.removeprefix("byte ").replace(",", ""))
        assert int("".join(digits), 2) == int.from_bytes(packed.data[start:start + 4], "little") == int(word.hexadecimal, 16)
        links = re.findall(r'data-also|bit=(\d+)', word.html)
        places = [int(one) for one in links if one]
        assert places == list(range(8 * start + len(digits) - 1, 8 * start - 1, -1))
        drawn |= dict(zip(places, map(int, digits), strict=True))
    for cell, parts in zip(page.bits.cells, page.answer.bench.view.fields, strict=True):
        for part in parts:
            assert part.raw == sum(drawn[bit] << place for place, bit in enumerate(part.bits)), (cell.index, part.name)


def test_bits_name_the_weights_they_help_to_make():
    page = asked(format="sparse-2:4", weight=5)
    owners = re.findall(r'class="b (\w)[^"]*" data-l="([\d ]+)"', "".join(word.html for word in page.bits.words))
    values = {text for role, text in owners if role == "c"}
    assert all(" " not in text for text in values)
    fours = {text for role, text in owners if role == "m"}
    assert "0 1 2 3" in fours
    first, second = map(int, re.fullmatch(r"keeps (\d) and (\d) of 0 to 3", page.bits.lines[-1].value).groups())
    assert {first, second} == {cell.local - 4 for cell in page.bits.cells[4:8] if "dropped" not in cell.style}
    kept = {cell.local for cell in page.bits.cells if "dropped" not in cell.style}
    assert kept == {int(text) for text in values} and len(kept) == 16
    assert [cell.local for cell in page.bits.cells if "four" in cell.style] == list(range(0, 32, 4))
    shared = asked(format="bitnet-5in8", rows=8).bits
    assert any(len(text.split()) == 5 for text in re.findall(r'data-l="([\d ]+)"', shared.words[0].html))
    assert shared.other.href.endswith("format=bitnet-2bit")


def test_a_weight_is_made_from_its_fields():
    page = asked(format="int4", weight=70)
    code, scale = page.bits.lines
    assert (code.role, scale.role) == ("code", "scale")
    assert (float(code.value.replace("−", "-")) - 8) * float(scale.value) == pytest.approx(
        float(page.bits.restored.replace("−", "-")), rel=1e-4)
    assert page.bits.chosen == "Weight 70: row 0, column 70" and page.bits.cells[70 % 32].style == "asked"


def test_sliders_hold_the_weights_and_say_where_the_bits_are(pages):
    for page in pages.values():
        limit = float(page.bits.limit)
        for cell in page.bits.cells:
            assert 0 <= float(cell.y.rstrip("%")) <= 100
            if cell.slides and not page.answer.query.edits:
                assert abs(float(cell.value)) <= limit and math.isfinite(float(cell.value))
    assert asked(edits="3=5").bits.limit == pages["default"].bits.limit  # else it would run away under the pointer
    assert not all(cell.slides for cell in pages["fp8-nan"].bits.cells)


def test_an_edit_moves_one_weight(pages):
    before, after = pages["default"], asked(edits="3=0.05")
    assert after.bits.cells[3].value == "0.05" and "1 changed by hand" in after.lead
    assert [cell.value for cell in before.bits.cells if cell.local != 3] == [
        cell.value for cell in after.bits.cells if cell.local != 3]


def test_stored_bits_add_up(pages):
    for page in pages.values():
        total = page.answer.bench.inspection.bits_per_weight.value
        assert sum(float(one.text.replace(",", "")) for one in page.error.stored) == pytest.approx(total, rel=6e-3)
        assert float(page.error.stored[-1].x[:-1]) + float(page.error.stored[-1].width[:-1]) == pytest.approx(100, abs=0.05)


def test_every_format_is_a_point_and_links_to_itself(pages):
    rows = pages["default"].frontier.rows
    assert len(rows) == len(pages["default"].answer.bench.points) >= 28
    assert [row.name for row in rows if row.asked] == ["int4-g64"]
    for row in rows:
        again = page_of(row.href)
        assert [one.name for one in again.frontier.rows if one.asked] == [row.name], row.href
        assert figure(again.answer.bench.inspection.bits_per_weight.value, 4) == row.bits_text
    best = [row for row in rows if row.best]
    assert [row.sqnr for row in best] == sorted(row.sqnr for row in best) and not any(row.beaten for row in best)


def test_where_the_textbook_story_holds_is_said(pages):
    found = pages["default"].measured
    assert found.story == ("The textbook says that Q and K are the most sensitive. Here that holds under int4-g64 label, and "
                           "not under q4_k label, q8_0 label.")
    assert [heat.holds for heat in found.heats] == [True, False, False]
    first = found.heats[0]
    assert [layer for layer, _ in first.rows] == ["0", "1"] and first.columns == ("q", "k", "v", "down")
    assert first.rows[0][1][0][:2] == ("10", "p7") and first.rows[1][1][3][1] == "p1"


def test_measured_rows_say_what_is_no_miracle(pages):
    rows = {row.name: row for row in pages["default"].measured.rows}
    assert rows["q4_1"].says == ("lossless by construction: the model's weights lie on this grid already",)
    assert rows["q4_1"].kl is None and rows["ternary"].says == ("trained for it",)
    assert rows["q8_0"].says == ("perplexity below the reference's (ratio 0.99 to 1.01): noise, as the interval of their ratio "
                                 "holds 1",)
    assert pages["default"].measured.below == ("Perplexity below the unquantised model's is no miracle. q8_0: noise, as the "
                                               "interval of their ratio holds 1.")
    assert rows["int4-g64"].asked and not rows["q4_k"].asked
    other = {row.name: row.asked for row in asked(group="32").measured.rows}
    assert not any(other.values())  # a row that names no options has the format's own
    assert {row.name for row in asked(nibble_order="awq").measured.rows if row.asked} == {"int4-g64"}
    assert {row.name for row in asked(format="bitnet-2bit").measured.rows if row.asked} == set()
    assert rows["int4-g64"].spans == ("32 to 34", "0.081 to 0.099")


def test_plans_that_were_built_stand_beside_what_they_promised(pages):
    found = pages["default"].measured
    assert found.promises == (("4.4", "0.0049", "0.02", "0.03", "0.025 to 0.035", "0.035", "0.03 to 0.04", "q4_k", "0.04",
                               "0.05"),)
    assert found.kept == ("Plans that were built lost 1.5 times what the added losses predicted, and 1.75 times that on text "
                          "they were not made for. 1 of 1 lost less than the best single format that fits; on the other text "
                          "1 of 1.")


def test_a_plan_can_be_of_what_one_program_stores():
    plan = asked(budget=5.0).still.plan
    assert [one.text for one in plan.targets if one.chosen] == ["every measured format"]
    theirs = {one.text: page_of(one.href).still.plan for one in plan.targets}
    llama, compressor = theirs["only what llama.cpp stores"], theirs["only what llm-compressor stores"]
    assert not llama.llama_cpp_unsaid and {cell.text for _, cells in llama.rows for cell in cells} <= {"q4_k", "q8_0"}
    assert not compressor.recipe_unsaid and {cell.text for _, cells in compressor.rows for cell in cells} <= {"int4-g64", "q8_0"}
    assert plan.size.text.endswith(" kB")  # decimal, as the tables beside it


def test_models_are_changed_by_links(pages):
    links = pages["default"].measured.models
    assert [(one.text, one.chosen) for one in links] == [("Tiny <b>model</b>", True)] and "choices=" in links[0].href


def test_measured_figures_stand_beside_the_live_ones(pages):
    found = pages["default"].frontier
    rows = {row.name: row for row in found.rows}
    assert found.model == "Tiny <b>model</b>" and (rows["int4-g64"].kl, rows["int4-g64"].perplexity) == ("0.09", "33")
    assert (rows["int4-g64-asym"].kl, rows["int4-g64-asym"].perplexity) == ("–", "–")
    assert rows["bitnet-2bit"].kl == "–"  # measured after training only: another thing
    assert rows["q4_1"].kl == "lossless" and rows["q4_1"].remark.startswith("by construction")
    assert [name for name, row in rows.items() if row.kl != "–"] == ["int4-g64", "q4_k", "q4_1", "q8_0"]


def test_ternary_weights_are_seen_in_both_packings():
    for format_id, other in (("bitnet-2bit", "bitnet-5in8"), ("bitnet-5in8", "bitnet-2bit")):
        here, there = asked(format=format_id, rows=8, weight=37), asked(format=other, rows=8, weight=37)
        assert [(word.where, word.hexadecimal) for word in here.bits.twin] == [
            (word.where, word.hexadecimal) for word in there.bits.words]
        assert here.bits.other.href.endswith(f"format={other}")
        link = re.search(r'href="(\?[^"]*bit=\d+)"', here.bits.twin[0].html)[1]
        assert page_of(html.unescape(link)).answer.query.format == other
    assert asked(format="int4").bits.twin == ()


def test_a_plan_is_changed_by_links():
    page = asked(budget=4.5)
    plan = page.still.plan
    assert plan.columns == ("q", "k", "v", "down") and len(plan.rows) == 2
    cell = plan.rows[1][1][2]
    again = page_of(cell.href)
    changed = again.still.plan.rows[1][1][2]
    assert changed.text != cell.text and "fixed" in changed.style and again.answer.query.choices == f"1.v={changed.text}"
    fixed = asked(choices="down=q8_0").still.plan
    assert {cells[3].text for _, cells in fixed.rows} == {"q8_0"} and fixed.free
    assert [pick.options for pick in fixed.picks if pick.projection == "down"][0][-1] == ("q8_0", True)
    assert not asked(budget=1.0).still.plan.fits and "larger than the budget" in asked(budget=1.0).still.plan.verdict
    assert "llama-quantize" in plan.llama_cpp or plan.llama_cpp_unsaid


def test_gptq_walks_and_the_bug_is_worse(pages):
    walk = asked(step=10).walk
    assert (walk.step, walk.column, walk.width, walk.height) == (10, 9, 64, 16)
    assert walk.done.count("M") == 10 and len(walk.partial) == 65
    by_name = {one.label: one for one in walk.variants}
    assert by_name["GPTQ"].value < by_name["with the plain inverse Hessian"].value < by_name["rounding to nearest"].value
    assert [one.label for one in pages["bug"].walk.variants if one.shown] == ["with the plain inverse Hessian"]
    assert pages["act-order"].walk.done.count("M") == 64 and "no column is left" in pages["act-order"].walk.says
    assert dict(walk.moves)["on"] == "?step=11" and dict(walk.moves)["last"] == "?step=64"
    nothing = asked(values=",".join(["0"] * 64)).walk  # rounding to nearest errs by nothing: there is no ratio to it
    assert {(one.ratio, one.width) for one in nothing.variants} == {("–", "0.00%")}
    assert pages["fp8-nan"].walk is None and "need numbers" in pages["fp8-nan"].no_walk


def test_what_needs_no_numpy_comes_first(monkeypatch):
    first = next(iter(view.steps(view.Query())))
    assert first.waiting and first.still.plan and "predicted loss" in view.headline(first)
    monkeypatch.setattr("pycore.cache.absent", lambda names: names)
    replies = [json.loads(text) for text in render.respond(json.dumps(
        {"type": "ask", "id": 1, "studio": "quantbench", "form": "budget=5", "source": ""}))]
    assert replies[0]["type"] == "answer" and replies[0]["panel"].count("data-keep") == 4
    assert "measured" in replies[0]["charts"] and "pareto" not in replies[0]["charts"]
    assert replies[1] == {"id": 1, "type": "needs", "files": [], "packages": ["numpy"]}


def test_what_takes_long_is_kept_meanwhile():
    shown = [one for one in view.steps(view.Query(seed=987)) if isinstance(one, view.Page)]
    assert [page.pending for page in shown] == [True, False]
    panel = render.panel("quantbench", shown[0], SOURCE)
    assert panel.count("data-keep") == 2 and 'id="walk-part"' in panel and 'id="methods-part"' in panel
    assert "data-keep" not in render.panel("quantbench", shown[1], SOURCE)


def test_the_measured_part_is_the_same_object_while_weights_move():
    first, second = asked(edits="1=0.01"), asked(edits="1=0.02")
    assert first.still is second.still and asked(budget=5.0).still is not first.still


def test_without_measured_rows_the_page_says_so(monkeypatch):
    monkeypatch.setattr(table, "models", lambda: ())
    page = asked(seed=5)
    panel = render.panel("quantbench", page, SOURCE)
    assert page.measured is None and "measured" not in charts.charts(page)
    assert "The measured rows are not part of this copy" in panel and "No plan: the measured rows are not here." in panel


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_chart_has_its_place_and_ids_are_unique(name):
    *_, last = [one for one in render.replies("quantbench", EXAMPLES[name]["query"], SOURCE) if one["type"] != "progress"]
    assert_sound(last)


@pytest.mark.parametrize("field", [one.name for one in dataclasses.fields(view.Query)])
def test_hostile_text_is_shown_or_refused(field):
    *_, last = render.replies("quantbench", to_url(dataclasses.replace(view.Query(), **{field: HOSTILE}))
                              if isinstance(getattr(view.Query(), field), str) else f"{field}={HOSTILE}", SOURCE)
    assert last["type"] in ("answer", "invalid"), last
    if last["type"] == "answer":
        assert "<script" not in last["panel"] and "<img" not in last["panel"]
    else:
        assert last["errors"][0]["field"] in (field, "values"), last


def test_names_from_data_are_text():
    panel = render.panel("quantbench", asked(seed=3), SOURCE)
    assert "Tiny &lt;b&gt;model" in panel and "<b>model" not in panel


def test_downloads_hold_the_same_figures(pages):
    page = pages["default"]
    found = view.downloads(page)
    rows = list(csv.DictReader(io.StringIO(found["weights.csv"][1])))
    bench = page.answer.bench
    assert tuple(rows[0]) == files.WEIGHTS and len(rows) == min(files.MOST_ROWS, bench.weights.count)
    assert np.allclose([float(row["restored"]) for row in rows[:256]], bench.inspection.restored[0], rtol=1e-5)
    assert json.loads(found["packed.json"][1])["hex"] == bench.inspection.packed.data.hex()
    assert len(found["formats.csv"][1].splitlines()) == 1 + len(bench.points)
    assert len(found["plan.csv"][1].splitlines()) == 1 + len(page.answer.plan.assigned)
    assert found["recipe.yaml"][1]


def test_template_reads_what_is_documented(pages):
    log: set[tuple[str, str]] = set()
    template = render.templates().get_template("quantbench/panel.html.j2")
    for page in pages.values():
        context = {field.name: watched(getattr(page, field.name), log) for field in dataclasses.fields(page)}
        template.render(context | {"source_url": str, "kept": lambda name, thing, caller: caller()})
        charts.charts(Seen(page, log))
        list(files.formats(Seen(page, log).frontier.rows))
    wanted = {pair for pair in documented(view.Page) if pair[0] != "Page"} | documented(explain.Number)
    used = {pair for pair in log if pair[0] != "Page"}
    elsewhere = {("Number", "range_text"), ("Still", "no_plan")}  # nothing here has a range; a copy without rows is tested above
    assert wanted - used - elsewhere == set(), "documented, never shown"
    assert used - wanted == set(), "shown, not documented"


@pytest.mark.parametrize("value,text,control", [
    (0.0, "0", "0"), (-0.01234567, "−0.01235", "-0.0123"), (0.000144, "1.44e-4", "1.44e-4"), (123456.0, "1.235e5", "1.23e5"),
    (math.nan, "nan", ""), (-math.inf, "−inf", "")])
def test_numbers_are_short(value, text, control):
    assert small(value).replace("e−", "e-").replace("e+0", "e").replace("e+", "e") == text
    if control:
        assert plain_number(value).replace("e+0", "e") == control and float(plain_number(value)) == pytest.approx(value, rel=5e-3)


def test_a_ruined_models_perplexity_is_short():
    assert [perplexity(value) for value in (None, 26.2363, 3349.47, 3.22524e8, math.inf)] == ["–", "26.24", "3349", "3.2e8", "∞"]


def test_escaped_links_stay_links(pages):
    panel = render.panel("quantbench", pages["default"], SOURCE)
    for href in re.findall(r'href="(\?[^"]*)"', panel):
        from_url(view.Query, html.unescape(href))
