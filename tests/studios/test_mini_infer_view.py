"""The mini-infer page: what the view hands to the template, frame by frame; links, ids, fields and files."""

import csv
import dataclasses
import html
import io
import json
import re
from typing import Any
from urllib.parse import parse_qsl, urlencode

import pytest
from page_fields import Seen, assert_sound, documented, watched

from pycore.cli.mini_infer import COMMANDS
from pycore.knobs import as_text, changed, from_url, to_url
from pycore.systems.mini_infer import FAULTS, SCENES, answer
from studios import explain, render
from studios.mini_infer import charts, files, view
from studios.mini_infer.film import around
from studios.mini_infer.links import SHORT, also
from studios.mini_infer.waste import share

EXAMPLES = {row["name"]: row for row in render.examples("mini_infer")}
HOSTILE = "\"><script>alert(1)</script>{{ 7*7 }}{% for x in y %}<img src=x onerror=alert(2)>"
SOURCE = "../source/{path}.html#L{line}"


def page_of(form: str) -> Any:
    *_, last = view.steps(from_url(view.Query, html.unescape(form).lstrip("?")))
    return last


def followed(query: Any, href: str) -> Any:
    """The page that a link [data-also] leads to: it changes the fields that it names, and no other."""
    named = dict(parse_qsl(html.unescape(href).lstrip("?"), keep_blank_values=True))
    return page_of(urlencode({name: as_text(value) for name, value in changed(query).items()} | named))


def panel_of(form: str) -> str:
    return render.panel("mini_infer", page_of(form), SOURCE)


@pytest.fixture(scope="module")
def pages() -> dict[str, Any]:
    return {name: page_of(row["query"]) for name, row in EXAMPLES.items()}


def test_examples_are_few_and_show_every_scene(pages):
    assert len(EXAMPLES) <= 12
    assert {page.scene for page in pages.values()} == set(SCENES)


def test_the_first_paint_is_a_whole_scene(pages):
    page = pages["default"]
    assert page.pool.cells and page.pool.rows and page.bars and page.laws and all(law.holds for law in page.laws)
    assert page.player.frame == page.answer.film.opens < page.player.last
    headline = view.headline(page)
    assert re.fullmatch(r"Paged blocks leave \d[\d.]* % of what they reserve empty; .* would leave \d+ %", headline)


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_frame_has_an_address_that_shows_it(name, pages):
    page = pages[name]
    if page.player is None:
        return
    assert page.player.last == page.answer.count
    for number in range(1, page.player.last + 1):
        here = followed(page.answer.query, also(page.answer.query, frame=number))
        assert here.player.frame == number and here.player.what == one_sentence(page.answer, number)
        assert [one.href for one in here.player.around if one.here] == [also(page.answer.query, frame=number)]
        targets = [followed(page.answer.query, move.href).player.frame for move in here.player.moves]
        assert targets == [1, max(number - 1, 1), min(number + 1, page.player.last), page.player.last]
        assert [move.still for move in here.player.moves] == [target == number for target in targets]


def one_sentence(found: Any, number: int) -> str:
    if found.waterfall:
        step = found.waterfall.steps[number - 1]
        assert step.number == number
        return f"Step {number}: {step.accepted} of {len(step.guesses)} guesses kept, then " + (
            "one drawn anew" if step.source == "resampled" else "one on top") + f": {' '.join(step.tokens)}"
    return found.film.frames[number - 1].what


@pytest.mark.parametrize("count,here,expected", [
    (3, 2, [1, 2, 3]), (20, 1, [1, 2, 3, 4, 5, 6, 7]), (20, 10, [7, 8, 9, 10, 11, 12, 13]), (20, 20, [14, 15, 16, 17, 18, 19, 20])])
def test_the_list_of_frames_keeps_its_length(count, here, expected):
    found = around(view.Query(), here, [(f"frame {number}", number == 2) for number in range(1, count + 1)])
    assert [one.number for one in found] == expected and [one.number for one in found if one.here] == [here]
    assert [one.number for one in found if one.broken] == [2] * (2 in expected)


def test_blocks_and_tables_name_each_other(pages):
    for page in pages.values():
        if page.pool is None:
            continue
        frame = page.answer.frame
        cells = {cell.link.split(" ")[0]: set(cell.link.split(" ")[1:]) for cell in page.pool.cells}
        assert len(cells) == len(page.pool.cells) == page.answer.film.blocks
        held: dict[str, set[str]] = {}
        for row, table in zip(page.pool.rows, frame.tables, strict=True):
            assert [slot.block for slot in row.slots] == list(table.blocks)
            for slot in row.slots:
                held.setdefault(slot.link, set()).add(row.link)
        assert held == {link: names for link, names in cells.items() if names}
        assert {cell.id for cell in page.pool.cells if "fresh" in cell.style} == set(frame.touched_blocks)


def test_cells_say_state_fill_and_holders():
    page = page_of("frame=14")
    by_id = {cell.id: cell for cell in page.pool.cells}
    for block in page.answer.frame.blocks:
        cell = by_id[block.block]
        assert cell.style.split()[0] == block.state and float(cell.fill[:-1]) == pytest.approx(25 * block.filled)
        assert all(name in cell.title for name in block.holders)
    assert page.pool.counts.startswith(f"{page.answer.frame.used} in use")


def test_a_large_pool_is_drawn_small_and_long_tables_are_cut():
    page = page_of("script=add%20A%20400%20%2B8&block_size=1&blocks=256&longest=4000&step_tokens=512")
    assert len(page.pool.cells) == 256 and page.pool.small
    page = page_of("script=add%20A%20200%20%2B8&block_size=1&blocks=240&longest=4000&step_tokens=512&frame=2")
    row, = page.pool.rows
    assert not page.pool.small and len(row.slots) == 40 and row.more == f"{len(page.answer.frame.tables[0].blocks) - 40} more between"
    assert [slot.index for slot in row.slots][-1] == len(page.answer.frame.tables[0].blocks) - 1


def test_bars_compare_the_same_requests():
    page = page_of("frame=14")
    waste = page.answer.frame.waste
    filled = [bar.filled.text for bar in page.bars.bars]
    assert filled == [f"{waste.stored:,}"] + [f"{waste.unshared:,}"] * 3
    assert [bar.reserved.text for bar in page.bars.bars] == [f"{count:,}" for count in (
        waste.paged, waste.exact, waste.doubling, waste.longest)]
    widths = [float(bar.taken[:-1]) for bar in page.bars.bars]
    assert widths[3] == max(widths) <= 100 and all(float(bar.stored[:-1]) <= float(bar.taken[:-1]) for bar in page.bars.bars)


def test_what_is_broken_stands_first_and_is_marked():
    for name in FAULTS:
        page = page_of(f"scene=museum&fault={name}")
        assert [law.holds for law in page.laws] == sorted(law.holds for law in page.laws) and not page.laws[0].holds
        assert page.answer.exhibit.law.name in [law.name for law in page.laws if not law.holds]
        assert page.player.strip.broken and any(one.broken and one.here for one in page.player.around)
        panel = render.panel("mini_infer", page, SOURCE)
        assert panel.count("✗ broken") == sum(not law.holds for law in page.laws)
        right = page_of(f"scene=museum&fault={name}&broken=no")
        assert all(law.holds for law in right.laws) and right.player.strip.broken == ""
        assert "repaired, and all laws hold" in view.headline(right)


def test_outputs_stand_side_by_side_from_where_they_part():
    for name in FAULTS:
        page = page_of(f"scene=museum&fault={name}")
        for side, one in zip(page.museum.sides, page.answer.exhibit.outputs, strict=True):
            assert f"{side.same} {side.right}".split() == list(one.right)
            assert side.differs == (one.right != one.wrong)
            assert not side.differs or f"{side.same} {side.wrong}".split() == list(one.wrong)
        assert page_of(page.museum.caught.href).player.frame == page.answer.exhibit.caught
        assert [choice.chosen for choice in page.museum.faults].index(True) == list(FAULTS).index(name)


def test_the_tree_is_drawn_parents_above_children(pages):
    page = pages["radix"]
    nodes = page.tree.nodes
    assert [square.block for node in nodes for square in node.squares] == [
        block for node in page.answer.frame.tree for block in node.blocks[:8]]
    assert [node.y for node in nodes] == sorted(node.y for node in nodes) and not nodes[0].elbow
    for node, one in zip(nodes, page.answer.frame.tree, strict=True):
        assert bool(node.elbow) == (one.parent is not None)
        if node.elbow:
            above = next(other for other, each in zip(nodes, page.answer.frame.tree, strict=True) if each.id == one.parent)
            x, y = map(int, re.match(r"M(\d+) (\d+)V", node.elbow).groups())
            assert y == above.top + 20 < node.y and above.squares[0].x < x <= node.squares[0].x


def test_every_prompt_says_what_it_found(pages):
    page = pages["radix"]
    for row, one in zip(page.found, page.answer.conversation.reuse, strict=True):
        assert row.says.startswith(f"{one.hit} of {one.prompt} tokens found")
        assert float(row.hit[:-1]) <= float(row.lost[:-1]) <= float(row.ragged[:-1]) <= float(row.whole[:-1]) <= 100
    assert sum(one.hit for one in page.answer.conversation.reuse) == int(view.headline(page).split(" ")[0])
    assert [choice.chosen for choice in page.presets].count(True) == 1
    assert not any(choice.chosen for choice in page_of("scene=radix&prompts=a%20b%20c").presets)


def test_one_block_is_one_block():
    assert page_of("scene=radix&prompts=a%20b%20c%20d%20e&frame=3&answer_tokens=1").tree.says.startswith("1 block in 1 run, ")


def test_a_step_shows_every_guess_and_who_wrote_what():
    page = page_of("scene=speculation&frame=3")
    assert [fall.number for fall in page.cascade.falls] == [3, 2, 1] and [fall.here for fall in page.cascade.falls] == [True, False, False]
    steps = page.answer.waterfall.steps
    for fall, step in zip(page.cascade.falls, reversed(steps[:3]), strict=True):
        assert [draft.token for draft in fall.drafts] == [guess.token for guess in step.guesses]
        assert [draft.style for draft in fall.drafts].count("accepted") == step.accepted
        assert [float(draft.p[:-1]) / 100 for draft in fall.drafts] == pytest.approx([guess.p for guess in step.guesses], abs=1e-4)
        assert all(bool(draft.draw) == (guess.draw is not None) for draft, guess in zip(fall.drafts, step.guesses, strict=True))
    written = " ".join(words for _, words in page.cascade.text).split()
    assert written == list(page.answer.waterfall.text)[:len(written)]
    whole = page_of("scene=speculation").cascade
    assert [fall.number for fall in whole.falls] == [12, 11, 10, 9, 8, 7] and whole.before.startswith("6 steps came before")


def test_batches_that_do_not_fit_are_marked_in_table_and_chart():
    page = page_of("scene=speculation")
    most = page.answer.break_even.most.value
    marks = {batch: fits for batch, _, fits in page.cascade.batches}
    assert marks == {batch: batch <= most for batch in marks} and set(marks.values()) == {True, False}
    spec = charts.charts(page)["batches"]
    assert {row["batch"]: row["fits"] for row in spec["data"]["values"]} == marks
    crowded = dict(page_of("scene=speculation&batch=64").cascade.gains)
    assert "sequences that fit" in crowded and "speed-up at this batch" not in crowded


def test_dials_are_the_fields_of_the_question():
    page = page_of("scene=speculation&draft_tokens=6&temperature=0.5")
    by_name = {dial.field: dial for dial in page.dials}
    assert (by_name["draft_tokens"].value, by_name["draft_tokens"].low, by_name["draft_tokens"].high) == ("6", 1, 16)
    assert [choice for choice, chosen in by_name["temperature"].choices if chosen] == ["0.5"]
    assert not page_of("").dials


def test_wasted_slots_are_those_of_refused_guesses():
    for frame in (1, 3, 5):
        page = page_of(f"scene=speculation&frame={frame}")
        wasted = page.answer.waterfall.steps[frame - 1].wasted
        for drawn in (page.pool.cells, page.pool.rows[0].slots):
            assert sum(float(one.lost[:-1]) / 25 for one in drawn if one.lost) == wasted
        assert page.pool.lost == bool(wasted)


def test_a_recorded_run_is_held_against_its_file(pages):
    page = pages["recorded"]
    assert page.player.last == page.answer.count > 8 and all(law.holds for law in page.laws) and page.tree
    assert page.answer.film.first_broken() is None and page.player.strip.broken == ""
    assert any("Decided alike" == law.name for law in followed(page.answer.query, "?frame=5").laws)
    assert any("Recorded from smollm2-135m" in note for note in page.notes)
    changed_file = page.answer.query.events.replace('["0",7,1,5]', '["0",7,1,9]')
    assert changed_file != page.answer.query.events
    found = page_of(to_url(dataclasses.replace(page.answer.query, events=changed_file)))
    assert "A law is broken in it" in view.headline(found) and found.player.strip.broken
    deep = [*render.replies("mini_infer", to_url(view.Query(scene="recorded", events="[" * 100_000)), SOURCE)][-1]
    assert deep["type"] == "invalid" and "at most 8 levels deep" in deep["message"]  # parsing it would end a page's Python
    nothing = page_of("scene=recorded")
    assert nothing.player is None and nothing.pool is None and "--events" in render.panel("mini_infer", nothing, SOURCE)


@pytest.mark.parametrize("value,text", [(0, "0 %"), (0.42, "0.4 %"), (9.4, "9.4 %"), (13.7, "14 %"), (99.4, "99 %"), (99.7, "99.7 %"), (99.99, ">99.9 %"), (100, "100 %")])
def test_shares_are_short_and_not_rounded_to_all(value, text):
    assert share(value) == text


def test_links_keep_the_question_and_no_file():
    query = from_url(view.Query, "scene=radix&prompts=one%20two&blocks=20&events=upload:0123456789abcdef:x.jsonl")
    assert also(query, frame=3) == "?scene=radix&blocks=20&prompts=one%20two&frame=3"
    long = dataclasses.replace(query, prompts="word " * SHORT)
    assert "prompts" not in also(long, frame=3)
    for page in (page_of("blocks=9&preemption=swap"), page_of("scene=museum")):
        for href in re.findall(r'href="(\?[^"]*)"', render.panel("mini_infer", page, SOURCE)):
            from_url(view.Query, html.unescape(href))
        assert [page_of(one.href).scene for one in page.scenes] == list(view.SCENES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_chart_has_its_place_and_ids_are_unique(name):
    *_, last = render.replies("mini_infer", EXAMPLES[name]["query"], SOURCE)
    assert_sound(last)


@pytest.mark.parametrize("name", ["default", "radix", "positions"])
def test_a_step_leaves_the_charts_alone_and_another_film_does_not(name, monkeypatch):
    made, real = [], charts.built
    monkeypatch.setattr(charts, "built", lambda page: made.append(page) or real(page))
    charts.charts(page_of("scene=recorded"))  # another film was on the page
    made.clear()
    specs = [charts.charts(page_of(f"{EXAMPLES[name]['query']}&frame={frame}")) for frame in (2, 5)]
    assert specs[0] == specs[1] and len(made) == 1
    assert charts.charts(page_of("scene=speculation&seed=5&steps=3")) != specs[0] and len(made) == 2


@pytest.mark.parametrize("field", [one.name for one in dataclasses.fields(view.Query)])
def test_hostile_text_is_shown_or_refused(field):
    for scene in SCENES:
        query = dataclasses.replace(view.Query(), scene=scene)
        form = f"{to_url(query)}&{field}=" + to_url(dataclasses.replace(view.Query(), script=HOSTILE)).partition("=")[2]
        *_, last = render.replies("mini_infer", form, SOURCE)
        assert last["type"] in ("answer", "invalid"), last
        if last["type"] == "answer":
            assert "<script" not in last["panel"] and "<img" not in last["panel"]
        else:
            assert last["errors"][0]["field"] == field, last


def test_hostile_prompts_are_text():
    panel = panel_of(to_url(dataclasses.replace(view.Query(), scene="radix", prompts=f"{HOSTILE}\n{HOSTILE}")))
    assert "&lt;script" in panel and "<script" not in panel and "<img" not in panel


def test_downloads_hold_the_same_figures(pages):
    page = pages["default"]
    found = view.downloads(page)
    rows = list(csv.DictReader(io.StringIO(found["frames.csv"][1])))
    assert tuple(rows[0]) == files.FRAMES and len(rows) == page.player.last
    for row, frame in zip(rows, page.answer.film.frames, strict=True):
        assert sum(int(row[name]) for name in ("held", "shared", "cached", "blank")) == page.answer.film.blocks
        assert (row["what"], int(row["slots_longest"]), row["laws_broken"]) == (frame.what, frame.waste.longest, "")
    assert json.loads(found["frame.json"][1])["number"] == page.player.frame
    assert len(found["ledger.csv"][1].splitlines()) == 1 + len(page.answer.terms)
    broken = view.downloads(pages["positions"])["frames.csv"][1]
    assert "Positions run on" in broken
    assert files.table(("a",), [{"a": "=1+1"}, {"a": "a"}]).splitlines() == ["a", "'=1+1", "a"]


def test_template_reads_what_is_documented(pages):
    log: set[tuple[str, str]] = set()
    template = render.templates().get_template("mini_infer/panel.html.j2")
    extra = (page_of("script=add%20A%20400%20%2B8&block_size=1&blocks=256&longest=4000&step_tokens=512"), page_of("scene=recorded"))
    for page in (*pages.values(), *extra):
        context = {field.name: watched(getattr(page, field.name), log) for field in dataclasses.fields(page)}
        template.render(context | {"source_url": str, "kept": lambda name, thing, caller: caller()})
        charts.charts(Seen(page, log))
    wanted = {pair for pair in documented(view.Page) if pair[0] != "Page"} | documented(explain.Number)
    used = {pair for pair in log if pair[0] != "Page"}
    elsewhere = {("Number", "range_text"), ("Entry", "range_text")}  # nothing here has a range
    assert wanted - used - elsewhere == set(), "documented, never shown"
    assert used - wanted == set(), "shown, not documented"


def test_the_answer_is_the_same_from_python_and_the_command_exists():
    assert view.COMMAND.split()[1] in COMMANDS
    assert answer(view.Query(frame=3)).frame == page_of("frame=3").answer.frame
