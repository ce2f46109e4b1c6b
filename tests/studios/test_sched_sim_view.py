"""The sched-sim page: what the view hands to the template and to the player, not how the HTML reads."""

import csv
import dataclasses
import io
import json
import re
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

import pytest
from jinja2 import meta
from page_fields import Seen, documented, watched

from pycore import knobs
from pycore.errors import StudioError
from pycore.knobs import from_url
from pycore.simulation import sheets
from pycore.simulation.compare import compare
from pycore.simulation.latencies import LATENCIES
from pycore.simulation.records import token_times
from studios import explain, render
from studios.sched_sim import charts, files, gantt, scene, view
from studios.sched_sim.table import TIMES

EXAMPLES = {row["name"]: row for row in render.examples("sched_sim")}
HOSTILE = "\"><script>alert(1)</script>{{ 7*7 }}{% for x in y %}<img src=x onerror=alert(2)>"
SOURCE = "../source/{path}.html#L{line}"
READ_ELSEWHERE = {"answer"}  # by downloads and by the Python drawer
FOR_THE_PLAYER = {"Lane", "Strip"}


@pytest.fixture(scope="module")
def pages() -> dict[str, Any]:
    """The Page of every example question."""
    return {name: page_of(row["query"]) for name, row in EXAMPLES.items()}


def page_of(query: str) -> Any:
    *_, page = view.steps(from_url(view.Query, query))
    return page


def test_there_are_telling_examples():
    queries = [from_url(view.Query, row["query"]) for row in EXAMPLES.values()]
    assert next(iter(EXAMPLES.values()))["query"] == "" and sum(row["preset"] for row in EXAMPLES.values()) >= 7
    assert {query.scheduler for query in queries} >= {"chunked", "cache-aware", "disaggregated"}
    assert any("onoff" in query.workload for query in queries) and any("replay" in query.workload for query in queries)
    assert any(query.kv_blocks for query in queries) and any(query.preemption == "swap" for query in queries)


def test_first_paint_is_the_classic(pages):
    """A long prompt stalls the others under FCFS; chunks of 512 tokens remove the stall, in figures."""
    page = pages["default"]
    chunked, fcfs = page.answer.runs
    assert (chunked.policy, fcfs.policy) == ("chunked", "fcfs")
    assert re.fullmatch(r"Chunked prefill \(C = 512\) cuts the worst token gap from [\d.]+ m?s to [\d.]+ ms", view.headline(page))
    worst = [max(later - earlier for one in run.result.requests for earlier, later in pairs(token_times(run.result, one)))
             for run in (chunked, fcfs)]
    assert worst[0] * 5 < worst[1], "no stall, or none removed"
    assert [row.gap.text for row in page.gantt.rows] == [view.seconds(gap / 1e9) for gap in worst]


def pairs(times: list[int]) -> list[tuple[int, int]]:
    return list(zip(times, times[1:], strict=False))


# ---- the drawing


def test_marks_tile_every_drawn_request(pages):
    """Work and waiting fill the time from arrival to end without a hole or an overlap, in whole microseconds."""
    for name, page in pages.items():
        data = json.loads(page.gantt.scene)
        for run in data["runs"]:
            for lane in run["lanes"]:
                at = lane["arrival"]
                marks = unpacked(lane["marks"], 4, 1)
                for kind, start, length, _ in marks:
                    assert abs(start - at) <= 1 and length >= 0 and 0 <= kind < len(data["kinds"]), (name, lane["id"])
                    at = start + length
                assert abs(at - lane["end"]) <= 1, (name, lane["id"])


def test_strips_are_the_steps(pages):
    for page in pages.values():
        data = json.loads(page.gantt.scene)
        for run, shown in zip(page.answer.runs, data["runs"], strict=True):
            for server, strip in zip(run.result.servers, shown["strips"], strict=False):
                bins = unpacked(strip["bins"], 8, 0)
                assert len(bins) <= scene.BINS
                assert max(row[4] for row in bins) == max(step.blocks_used for step in server.steps)
                assert all(0 <= row[4] + row[5] <= server.blocks for row in bins)
                assert bins[-1][0] + bins[-1][1] == server.steps[-1].end_ns // 1000
                if strip["group"] == 1:
                    assert [row[2] for row in bins] == [step.prefill_tokens for step in server.steps]


def unpacked(flat: list[int], width: int, place: int) -> list[list[int]]:
    """Rows of a scene with their starts added up, as the player does it."""
    rows, at = [], 0
    for index in range(0, len(flat), width):
        row = flat[index:index + width]
        row[place] += at
        at = row[place] + row[place + 1]
        rows.append(row)
    return rows


def test_the_same_requests_are_drawn_under_every_policy(pages):
    for page in pages.values():
        drawn = [[lane["id"] for lane in run["lanes"]] for run in json.loads(page.gantt.scene)["runs"]]
        assert all(names == drawn[0] for names in drawn) and len(drawn[0]) <= scene.LANES
        assert bool(page.gantt.thinned) == (len(drawn[0]) < len(page.answer.runs[0].result.requests))


def test_a_long_trace_thins_the_drawing_and_not_the_figures():
    """The page of a long trace is not much larger than that of a short one, and counts every request."""
    page = page_of("workload=poisson rate=9 prompt=64 output=8 requests=3000")
    assert len(page.gantt.scene) < 500_000
    assert "of 3,000 requests" in page.gantt.thinned and page.gantt.rows[0].done.startswith("3,000 of 3,000")
    assert page.answer.runs[0].metrics.latencies["ttft"].n == 3000
    points = [row for row in page.lines.ttft if row[0] == page.answer.runs[0].label]
    assert len(points) <= 120 and max(y for _, _, y in points) == pytest.approx(
        max(one.ttft_ns for one in page.answer.runs[0].result.requests) / 1e6), "the worst request is not in the drawing"


def test_stills_lie_within_their_room(pages):
    for page in pages.values():
        for row in page.gantt.rows:
            for path in (*row.paths, *row.pool):
                for x, y in re.findall(r"M(-?[\d.]+) (-?[\d.]+)", path.d):
                    assert 0 <= float(x) <= gantt.WIDE and 0 <= float(y) <= row.height
            assert {path.style for path in row.paths} <= set(gantt.CLASSES)


def test_kinds_are_told_apart_without_colour():
    """Work and waiting differ in height or in line, for the still drawing as for the player."""
    player = render.studio_file("sched_sim", "player.mjs")
    shapes = re.search(r"const SHAPES = (\[.*?\]);\n", player).group(1)
    assert [tuple(one) for one in json.loads(shapes)] == [gantt.SHAPES[kind] for kind in range(8)]
    assert len(set(gantt.SHAPES.values())) >= 4


def test_preemption_is_drawn(pages):
    kinds = {kind for lane in json.loads(pages["tiny-pool"].gantt.scene)["runs"][0]["lanes"]
             for kind, *_ in unpacked(lane["marks"], 4, 1)}
    assert scene.LOST in kinds and sum(one.preemptions for one in pages["tiny-pool"].answer.runs[0].result.requests)


# ---- figures


def test_the_better_one_is_marked(pages):
    for page in pages.values():
        for block in page.table.blocks:
            for line in block.lines:
                assert len(line.cells) == len(page.table.policies)
                assert sum(cell.best for cell in line.cells) < max(len(line.cells), 2), "all are best"
                assert all(bool(cell.number) != bool(cell.why_not) for cell in line.cells)


def test_a_lead_is_called_sure_only_where_requests_compared_one_by_one_say_so(pages):
    """Beyond a percentile table's winner: what `compare` says of the same two runs, as a figure with its interval."""
    page = pages["chat"]
    results = {run.label: run.result for run in page.answer.runs}
    said, sure = 0, 0
    for block in page.table.blocks:
        name = next((key for key, title, _ in TIMES if title == block.title), "")
        for line in block.lines:
            assert bool(line.ahead) == any(cell.best for cell in line.cells) or name not in LATENCIES
            assert not any(cell.sure and not cell.best for cell in line.cells)
            if line.ahead is None:
                assert not any(cell.sure for cell in line.cells), "sure without a comparison"
                continue
            best = page.table.policies[[cell.best for cell in line.cells].index(True)]
            percent = None if line.name == "mean" else int(line.name[1:])
            others = [compare(results[best], other, name, percent) for label, other in results.items() if label != best]
            assert line.ahead.sure == all(one.certain and one.winner == one.first for one in others), (name, line.name)
            least = min(abs(one.difference.value) for one in others)
            assert line.ahead.number.text == view.seconds(least) and line.ahead.more.rpartition("over ")[2] in results
            said, sure = said + 1, sure + line.ahead.sure
    assert said >= 12 and 0 < sure < said


def test_what_is_remarked_and_charged_is_said(pages):
    assert any("beyond the largest measured" in note for note in pages["default"].notes), "its prompt is longer than the table"
    assert "nothing" in pages["default"].host and "12.5 µs a step" in page_of("overhead_us=12.5&against=").host
    words = "".join(piece for piece in pages["default"].lead if isinstance(piece, str))
    assert words.startswith("24 requests, one every 250 ms; prompts of 128 tokens (the 9th of 16,384), answers of 200. ")


def test_who_waits_for_a_long_run_may_ask_for_something_else():
    """Between the end of the runs and the page there are as many stops as parts, not one silence."""
    items = list(view.steps(from_url(view.Query, "workload=batch prompt=64 output=8 requests=300")))
    assert isinstance(items[-1], view.Page) and sum(item.fraction == 1.0 for item in items[:-1]) >= 10


def test_a_percentile_without_samples_is_not_given(pages):
    page = pages["default"]
    assert len(page.answer.runs[0].result.requests) < 100
    p99 = [line for block in page.table.blocks[:2] for line in block.lines if line.name == "p99"]
    assert p99 and all("n too small" in cell.why_not for line in p99 for cell in line.cells)


def test_waits_add_up_and_name_what_helped(pages):
    page = pages["default"]
    assert page.waits and page.losses
    fcfs = page.answer.runs[1]
    stalled = [one for one in page.waits if one.policy == fcfs.label]
    assert any(cause.reason.startswith("behind prefill of request 9") and cause.really.endswith("Chunked prefill")
               for one in stalled for cause in one.causes), "the stall is not explained"
    for one in page.waits:
        record = next(each for run in page.answer.runs if run.label == one.policy
                      for each in run.result.requests if each.id == one.id)
        assert one.idle.text == view.seconds(sum(gap.length_ns for gap in record.gaps) / 1e9)
        assert one.stay.text == view.seconds(record.e2e_ns / 1e9)
        for cause in one.causes:
            if cause.href:
                from_url(view.Query, cause.href.lstrip("?"))


def test_every_law_holds(pages):
    for name, page in pages.items():
        assert page.checks and all(check.holds for run in page.checks for check in run.checks), name
        assert all(run.held == len(run.checks) for run in page.checks)


def test_each_number_has_exactly_one_explanation(pages):
    for page in pages.values():
        entries = [entry for group in page.ledger for entry in group.entries]
        ids = [entry.id for entry in entries]
        assert len(ids) == len(set(ids))
        assert {number.id for number in found(page, explain.Number)} <= set(ids)
        assert {one.id for entry in entries for one in entry.inputs if one.id} <= set(ids)
        assert all(entry.formula or entry.source or entry.note for entry in entries)


def test_nothing_simulated_is_called_measured(pages):
    for page in pages.values():
        assert all(number.kind != "measured" for number in found(page, explain.Number))


def test_a_sweep_bends_and_the_first_page_stands_before_it():
    """The figures come at once, the sweep after them; what is shown is what the points say."""
    first, *_, last = [item for item in view.steps(from_url(view.Query, EXAMPLES["sweep"]["query"])) if isinstance(item, view.Page)]
    assert first.computing and not first.sweep and first.table == last.table
    assert not last.computing and len(last.sweep.places) == len(last.answer.sweep) == len(last.sweep.points)
    assert [turn.policy for turn in last.sweep.turns] == list(last.table.policies)
    knees = {found.knee.value for _, found in last.answer.bends if found.knee}
    assert set(last.sweep.knees) == knees


def test_chunk_budgets_trade_first_tokens_for_pace(pages):
    points = pages["chunks"].sweep.points
    budgets = [point[1] for point in points]
    assert budgets == sorted(budgets) and len(budgets) >= 4
    assert points[0][3] > points[-1][3] or points[0][2] > points[-1][2]


def test_draws_show_their_spread(pages):
    found = pages["draws"].draws
    assert len(found.points) == 12 and len({y for _, y in found.points}) > 6
    for row in found.rows:
        assert len(row.figures) == 3
        mine = sorted(y for label, y in found.points if label == row.policy)
        assert row.figures[0].text == view.seconds(mine[0] / 1e3) and row.figures[2].text == view.seconds(mine[-1] / 1e3)


def test_the_replay_shows_every_request_and_calls_the_log_reported(pages):
    replay = pages["default"].replay
    assert len({line.run for line in replay.lines}) == 2 and len(replay.lines) == 8
    assert all(line.reported.kind == "reported" for line in replay.lines)
    assert all(line.near == (abs(float(line.error.text.rstrip(" %").replace("−", "-"))) <= 5) for line in replay.lines)
    from studios.sched_sim.replays import validations
    assert sum(int(count.replace(",", "")) for _, count in replay.bands) == sum(len(one.end_to_end) for one in validations())


# ---- template and documentation


def test_template_and_charts_use_exactly_the_documented_fields(pages):
    log: set[tuple[str, str]] = set()
    for page in pages.values():
        context = {field.name: watched(getattr(page, field.name), log) for field in dataclasses.fields(page)}
        text = render.templates().get_template("sched_sim/panel.html.j2")
        text.render(context | {"source_url": lambda line: render.source_link(SOURCE, line)})
        charts.charts(Seen(page, log))
    tree = render.templates().parse(render.template_source("sched_sim/panel.html.j2"))
    top = {field.name for field in dataclasses.fields(view.Page)}
    assert meta.find_undeclared_variables(tree) - {"source_url"} == top - READ_ELSEWHERE
    wanted = {pair for pair in documented(view.Page) if pair[0] != "Page"} | documented(explain.Number)
    used = {pair for pair in log if pair[0] != "Page"}
    assert wanted - used == set(), "documented, never shown"
    assert used - wanted == set(), "shown, not documented"


@pytest.mark.parametrize("name", ["default", "tiny-pool"])
def test_panel_is_the_same_bytes_twice(name):
    first, second = (render.panel("sched_sim", page_of(EXAMPLES[name]["query"]), SOURCE) for _ in range(2))
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
        tags = Tags(render.panel("sched_sim", page, SOURCE))
        assert not tags.forbidden and not {"script", "style", "iframe"} & set(tags.tags), name
        assert len(tags.ids) == len(set(tags.ids)), name
        assert set(tags.targets) <= set(tags.ids), name


TEXT_FIELDS = [knob.name for knob in knobs.knobs(view.Query) if knob.kind in ("text", "long text")]


@pytest.mark.parametrize("field", TEXT_FIELDS)
def test_hostile_text_is_shown_as_text_or_refused(field):
    """Script, attribute and template syntax in every text field: either a message, or a panel without a new element."""
    *_, last = render.replies("sched_sim", render.to_url(view.Query(**{field: HOSTILE})), SOURCE)
    assert last["type"] in ("answer", "invalid"), last
    if last["type"] == "answer":
        tags = Tags(last["panel"])
        assert not {"script", "img"} & set(tags.tags) and not tags.forbidden


def test_a_hostile_request_id_stays_text():
    """A trace may name its requests as it likes: lanes, waits and the scene hold the name as text."""
    trace = f'id,arrival_s,prompt_tokens,output_tokens\n"{HOSTILE.replace(chr(34), chr(34) * 2)}",0,3000,20\nb,0.01,500,20\n'
    *_, last = render.replies("sched_sim", render.to_url(view.Query(trace=trace)), SOURCE)
    assert last["type"] == "answer", last
    tags = Tags(last["panel"])
    assert not {"script", "img"} & set(tags.tags) and not tags.forbidden


# ---- downloads and charts


def test_downloads_hold_the_same_figures(pages):
    page = pages["default"]
    found_files = view.downloads(page)
    rows = list(csv.DictReader(io.StringIO(found_files["requests.csv"][1])))
    assert len(rows) == sum(len(run.result.requests) for run in page.answer.runs)
    first = page.answer.runs[0].result.requests[0]
    assert rows[0]["id"] == first.id and int(rows[0]["ttft_ns"]) == first.ttft_ns
    assert tuple(rows[0]) == sheets.REQUEST, "the command's export has the same columns"
    steps = list(csv.DictReader(io.StringIO(found_files["steps.csv"][1])))
    assert len(steps) == sum(len(server.steps) for run in page.answer.runs for server in run.result.servers)
    assert sum(int(row["emitted"]) for row in steps) == sum(
        one.generated_tokens for run in page.answer.runs for one in run.result.requests)
    trace = json.loads(found_files["perfetto.json"][1])
    assert trace["traceEvents"] and all(event.get("dur", 0) >= 0 for event in trace["traceEvents"])
    names = {event["args"]["name"] for event in trace["traceEvents"] if event["name"] == "process_name"}
    assert any("chunked" in name for name in names) and any("fcfs" in name for name in names)
    assert len({event["pid"] for event in trace["traceEvents"]}) == 2 * len(page.answer.runs)
    ElementTree.fromstring(found_files["gantt.svg"][1])


def test_a_trace_too_large_for_a_browser_holds_the_drawn_requests_and_says_so(pages, monkeypatch):
    runs = pages["chat"].answer.runs
    whole = json.loads(files.perfetto(runs))
    monkeypatch.setattr(files, "MOST", 100)
    fewer = json.loads(files.perfetto(runs))
    lanes = json.loads(pages["chat"].gantt.scene)["runs"][0]["lanes"]
    assert "otherData" not in whole and fewer["otherData"]["requests"].startswith(f"{len(lanes)} of 200,")
    kinds = [[sum(event["ph"] == kind for event in one["traceEvents"]) for kind in ("C", "X")] for one in (whole, fewer)]
    assert kinds[0][0] == kinds[1][0] and kinds[0][1] > kinds[1][1], "counters are of all requests, slices of those drawn"


def test_a_spreadsheet_runs_no_cell():
    assert sheets.csv_text(("a",), [("=1+1",), ("-2",), (-2,)]).splitlines() == ["a", "'=1+1", "'-2", "-2"]


def test_charts_have_data_and_a_description(pages):
    for page in pages.values():
        for name, spec in view.charts(page).items():
            assert spec["description"] and spec["width"] == "container", name
            assert "NaN" not in json.dumps(spec) and "Infinity" not in json.dumps(spec)
    assert set(view.charts(pages["default"])) == {"gaps", "first", "pace", "first-share", "gap-share", "replay"}
    assert {"sweep-first", "sweep-pace", "sweep-good"} <= set(view.charts(pages["sweep"]))
    assert "draws" in view.charts(pages["draws"])


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
        page_of("against=no-such-policy")
