"""The charts of mini-infer as Vega-Lite specs: layout only, every number comes from the Page's answer. None hangs on the
frame that is shown, so that a step redraws nothing, and builds nothing. Lines differ in dash as well as in colour."""

from operator import is_
from typing import Any

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
HEIGHT = 240
DASHES = [[1, 0], [6, 3], [2, 2], [9, 3, 2, 3], [12, 3]]
COLOURS = ["var(--c3)", "var(--c1)", "var(--c2)", "var(--c4)", "var(--c6)"]


_last: list[tuple[tuple[Any, ...], dict[str, dict]]] = []  # what is drawn on the page now, and of what


def charts(page: Any) -> dict[str, dict]:
    """Chart id -> spec, for those the scene has data for; as they were built the last time, if of the very same film."""
    answer = page.answer
    film = (answer.film, answer.waterfall, answer.break_even, answer.exhibit)
    if not (_last and all(map(is_, film, _last[0][0]))):
        _last[:] = [(film, built(page))]
    return _last[0][1]


def built(page: Any) -> dict[str, dict]:
    """The same, built anew."""
    answer = page.answer
    if answer.waterfall:
        return {"lengths": lengths(answer.waterfall), "batches": batches(answer.break_even)}
    if answer.film is None:
        return {}
    frames = answer.film.frames
    if answer.exhibit:
        return {"pools": pools(answer.exhibit)} if page.museum.pools else {}
    found = {"slots": slots(frames)}
    return {"hits": hits(frames)} | found if answer.conversation else found


def lengths(waterfall: Any) -> dict:
    """Tokens a step over the draft length: the closed form as a line, what was measured as points."""
    both = ("closed form", "measured")
    rows = [{"line": name, "length": one.draft_tokens, "value": rounded(value)} for one in waterfall.curve
            for name, value in zip(both, (one.expected, one.measured.value), strict=True)]
    x = {"field": "length", "type": "quantitative", "title": "draft tokens a step",
         "scale": {"nice": False, "zero": False}, "axis": {"format": "d", "tickMinStep": 1, "gridOpacity": 0.7}}
    y = {"field": "value", "type": "quantitative", "title": "tokens a step", "scale": {"zero": False},
         "axis": {"format": ".2~f", "tickCount": 5, "gridOpacity": 0.7}}
    colour = {"field": "line", "type": "nominal", "legend": {"orient": "top", "title": None},
              "scale": {"domain": list(both), "range": ["var(--c1)", "var(--c6)"]}}
    return spec("Tokens a step of the target, by draft length.", rows, [
        {"transform": [{"filter": "datum.line == 'closed form'"}], "mark": {"type": "line", "strokeWidth": 2},
         "encoding": {"x": x, "y": y, "color": colour}},
        {"transform": [{"filter": "datum.line == 'measured'"}], "mark": {"type": "point", "filled": True, "size": 60},
         "encoding": {"x": x, "y": y, "color": colour}}])


def batches(worth: Any) -> dict:
    """Speed-up over the batch, with the line where nothing is gained; dotted and hollow where the batch does not fit."""
    points, most = worth.batches, worth.most.value
    last = max((batch for batch, _ in points if batch <= most), default=0)  # the dotted line begins at it
    rows = [{"batch": batch, "gain": rounded(gain), "fits": batch <= most} for batch, gain in points]
    x = {"field": "batch", "type": "quantitative", "title": "sequences decoded together",
         "scale": {"type": "log", "base": 2, "nice": False},
         "axis": {"values": [batch for batch, _ in points], "format": "d", "gridOpacity": 0.7, "labelOverlap": True}}
    y = {"field": "gain", "type": "quantitative", "title": "speed-up", "scale": {"zero": False},
         "axis": {"format": ".2~f", "tickCount": 5, "gridOpacity": 0.7}}
    return spec("Speed-up by speculation over the batch.", rows, [
        {"data": {"values": [{"gain": 1}]}, "mark": {"type": "rule", "color": "var(--bad)", "strokeDash": [4, 3]},
         "encoding": {"y": y}},
        {"transform": [{"filter": f"datum.batch >= {last}"}], "encoding": {"x": x, "y": y},
         "mark": {"type": "line", "strokeWidth": 2, "strokeDash": [2, 3], "color": "var(--c1)"}},
        {"transform": [{"filter": "datum.fits"}], "encoding": {"x": x, "y": y},
         "mark": {"type": "line", "strokeWidth": 2, "color": "var(--c1)", "point": {"color": "var(--c1)", "size": 40}}}])


def rounded(value: float) -> float:
    """At most 5 significant digits, so that every Python writes the same text."""
    return float(f"{value:.5g}")


def spec(description: str, rows: list[dict], layers: list[dict]) -> dict:
    """What every chart has in common."""
    return {"$schema": SCHEMA, "description": description, "width": "container", "height": HEIGHT,
            "data": {"values": rows}, "layer": layers}


def lines(rows: list[tuple[str, int, float]], names: tuple[str, ...], title: str, description: str) -> dict:
    """(line, frame, value) as steps over the frames."""
    legend = {"orient": "top", "title": None, "symbolType": "stroke", "symbolStrokeWidth": 2.5, "columns": 2,
              "labelLimit": 240}
    colour = {"field": "line", "type": "nominal", "legend": legend,
              "scale": {"domain": list(names), "range": COLOURS[:len(names)]}}
    dash = {"field": "line", "type": "nominal", "legend": legend,
            "scale": {"domain": list(names), "range": DASHES[:len(names)]}}
    x = {"field": "frame", "type": "quantitative", "title": "frame", "scale": {"nice": False, "zero": False},
         "axis": {"format": "d", "tickMinStep": 1, "tickCount": 8, "gridOpacity": 0.7}}
    y = {"field": "value", "type": "quantitative", "title": title,
         "axis": {"format": ",~f", "tickCount": 5, "gridOpacity": 0.7}}
    drawn = {"mark": {"type": "line", "interpolate": "step-after", "strokeWidth": 2},
             "encoding": {"x": x, "y": y, "color": colour, "strokeDash": dash}}
    return spec(description, [dict(zip(("line", "frame", "value"), row, strict=True)) for row in rows], [drawn])


def slots(frames: Any) -> dict:
    """Slots reserved by each way of handing out memory, and those filled."""
    names = ("paged", "filled", "length known", "doubled", "longest allowed")
    rows = [(name, one.number, value) for one in frames for name, value in zip(names, (
        one.waste.paged, one.waste.stored, one.waste.exact, one.waste.doubling, one.waste.longest), strict=True)]
    return lines(rows, names, "slots reserved", "Slots that the same requests take, frame by frame.")


def hits(frames: Any) -> dict:
    """Prompt tokens admitted so far, and those of them found."""
    names = ("found in the cache", "asked")
    rows = [(name, one.number, value) for one in frames for name, value in zip(names, (
        one.hit_tokens, one.asked_tokens), strict=True)]
    return lines(rows, names, "prompt tokens so far", "Prompt tokens asked and found, frame by frame.")


def pools(exhibit: Any) -> dict:
    """Blocks in use on the right and on the broken engine."""
    names = ("repaired", "broken")
    rows = [(name, one.number, one.used) for name, film in zip(names, (exhibit.right, exhibit.wrong), strict=True)
            for one in film.frames]
    return lines(rows, names, "blocks in use", "Blocks in use on the repaired and on the broken engine, frame by frame.")
