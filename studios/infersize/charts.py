"""The charts of infersize as Vega-Lite specs: layout only, every number comes from the Page.

Colours are the style sheet's custom properties, so a drawing follows light and dark. Width is the container's: the
build draws each twice, for a page and for a phone.
"""

from typing import Any

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
HEIGHT = 320
ROUND = [digit * 10**power for power in range(-2, 5) for digit in (1, 2, 5)]
"""Where a logarithmic axis is labelled."""


def charts(page: Any) -> dict[str, dict]:
    """Chart id -> spec, for those the page has data for."""
    found: dict[str, dict] = {}
    if page.matrix and page.matrix.frontier:
        found["pareto"] = pareto(page.matrix.frontier)
    if page.cost.curve:
        found["breakeven"] = break_even(page.cost, page.answer.query.utilisation)
    if page.speculation:
        found["draft-length"] = draft_length(page.speculation.lengths)
        found["crossover"] = crossover(page.speculation.crossover)
    return found


def spec(description: str, layers: list[dict], height: int = HEIGHT, **more: Any) -> dict:
    """What every chart has in common."""
    return {"$schema": SCHEMA, "description": description, "width": "container", "height": height, "layer": layers,
            "config": {"aria": False}} | more  # the element around it carries the label; the figures stand in tables


def values(names: tuple[str, ...], rows: Any) -> dict:
    """Rows of numbers as Vega-Lite data; at most 6 significant digits, so that every Python writes the same text."""
    return {"values": [dict(zip(names, map(rounded, row), strict=True)) for row in rows]}


def rounded(value: Any) -> Any:
    return float(f"{value:.6g}") if isinstance(value, float) else value


def log_axis(field: str, title: str) -> dict:
    return {"field": field, "type": "quantitative", "title": title, "scale": {"type": "log", "nice": False},
            "axis": {"format": "~s", "values": ROUND, "gridOpacity": 0.7}}


def pareto(found: Any) -> dict:
    """One user's speed against a card's work: a line a deployment over its batches, the frontier, the asked point."""
    rows = [(one.name, "yours" if one.asked else "other", batch, user, device, best)
            for one in found.sweeps for batch, user, device, best in one.points]
    data = values(("name", "whose", "batch", "user", "device", "best"), rows)
    x, y = log_axis("user", "tokens/s of one user"), log_axis("device", "tokens/s per device")
    tips = [{"field": "name", "title": "Deployment"}, {"field": "batch", "title": "Sequences"},
            {"field": "user", "title": "One user, tokens/s", "format": ".3~s"},
            {"field": "device", "title": "Per device, tokens/s", "format": ".3~s"}]
    mine = {"type": "nominal", "field": "whose", "legend": None, "scale": {
        "domain": ["other", "yours"], "range": ["var(--c7)", "var(--c6)"]}}
    asked = values(("user", "device"), found.asked)
    ends = values(("number", "user", "device"), (
        (number, *one.points[0][1:3]) for number, one in enumerate(found.sweeps, 1)))
    line = {"x": x, "y": y, "color": mine, "detail": {"field": "name"}, "order": {"field": "batch"}}
    layers = [
        {"data": data, "mark": {"type": "line", "strokeWidth": 1, "opacity": 0.75}, "encoding": line},
        {"data": data, "mark": {"type": "point", "filled": True, "size": 22, "opacity": 1},
         "encoding": {"x": x, "y": y, "color": mine, "tooltip": tips}},
        {"data": data, "transform": [{"filter": "datum.best"}],
         "mark": {"type": "line", "color": "var(--c1)", "strokeWidth": 2, "point": {"color": "var(--c1)", "size": 40}},
         "encoding": {"x": x, "y": y, "order": {"field": "user"}, "tooltip": tips}},
        {"data": ends, "mark": {"type": "text", "dy": 12, "color": "var(--soft)", "fontSize": 11},
         "encoding": {"x": x, "y": y, "text": {"field": "number"}}},
    ]
    if found.asked:
        layers += [
            {"data": data, "transform": [{"filter": "datum.whose == 'yours'"}],
             "mark": {"type": "line", "strokeWidth": 2.5}, "encoding": line},
            {"data": asked, "mark": {"type": "point", "shape": "diamond", "filled": True, "size": 150, "opacity": 1,
                                     "color": "var(--c6)", "stroke": "var(--panel)"}, "encoding": {"x": x, "y": y}},
            {"data": asked, "mark": {"type": "text", "dx": 9, "dy": -9, "align": "left", "color": "var(--ink)",
                                     "fontSize": 12, "fontWeight": 600, "text": "yours"}, "encoding": {"x": x, "y": y}},
        ]
    return spec("Tokens per second of one user against tokens per second per device, over the batch.", layers)


def break_even(cost: Any, utilisation: float) -> dict:
    """USD per 1M tokens against utilisation; API offers as a band from cheapest to dearest with the median in it."""
    curve = values(("busy", "usd"), ((100 * share, usd) for share, usd in cost.curve))
    x = {"field": "busy", "type": "quantitative", "title": "share of the hour the machine is busy, %",
         "scale": {"domain": [0, 100]}, "axis": {"values": [0, 20, 40, 60, 80, 100], "gridOpacity": 0.7}}
    y = {"field": "usd", "type": "quantitative", "title": "USD per 1M tokens", "scale": {"type": "log", "nice": False},
         "axis": {"format": "$~g", "gridOpacity": 0.7, "values": ROUND}}
    layers: list[dict] = []
    for kind, low, median, high in cost.bands:
        if kind == "blended":
            band = values(("low", "median", "high"), [(low, median, high)])
            layers += [
                {"data": band, "mark": {"type": "rect", "color": "var(--c2)", "opacity": 0.22},
                 "encoding": {"y": {"field": "low", "type": "quantitative"}, "y2": {"field": "high"}}},
                {"data": band, "mark": {"type": "rule", "color": "var(--c2)", "strokeDash": [6, 3], "strokeWidth": 1.5},
                 "encoding": {"y": {"field": "median", "type": "quantitative"}}},
                {"data": band, "mark": {"type": "text", "align": "right", "baseline": "bottom", "dy": -3, "dx": -4,
                                        "color": "var(--ink)", "text": "median API offer"},
                 "encoding": {"x": {"value": "width"}, "y": {"field": "median", "type": "quantitative"}}},
            ]
    layers += [
        {"data": curve, "mark": {"type": "line", "color": "var(--c1)", "strokeWidth": 2.5, "interpolate": "monotone"},
         "encoding": {"x": x, "y": y}},
        {"data": values(("busy",), [(100 * utilisation,)]),
         "mark": {"type": "rule", "color": "var(--soft)", "strokeDash": [2, 3]}, "encoding": {"x": x}},
        {"data": values(("busy",), [(100 * utilisation,)]),
         "mark": {"type": "text", "align": "left", "dx": 5, "baseline": "top", "color": "var(--soft)", "text": "asked"},
         "encoding": {"x": x, "y": {"value": 4}}},
    ]
    return spec("Price per 1M tokens against utilisation, with the span of API offers.", layers, height=300)


def draft_length(lengths: Any) -> dict:
    """Speed-up against the number of proposed tokens, with the line where nothing is gained."""
    data = values(("length", "gain"), lengths)
    x = {"field": "length", "type": "quantitative", "title": "draft length, tokens",
         "axis": {"values": list(range(0, 17, 2)), "gridOpacity": 0.7}}
    y = {"field": "gain", "type": "quantitative", "title": "speed-up",
         "axis": {"format": ".2~f", "tickCount": 5, "gridOpacity": 0.7},
         "scale": {"zero": False}}
    return spec("Speed-up against draft length.", [
        {"data": values(("gain",), [(1.0,)]), "mark": {"type": "rule", "color": "var(--soft)", "strokeDash": [4, 3]},
         "encoding": {"y": y}},
        {"data": data, "mark": {"type": "line", "color": "var(--c1)", "strokeWidth": 2,
                                "point": {"color": "var(--c1)", "size": 30}},
         "encoding": {"x": x, "y": y, "tooltip": [{"field": "length", "title": "Draft length"},
                                                  {"field": "gain", "title": "Speed-up", "format": ".3~f"}]}},
    ], height=240)


def crossover(points: Any) -> dict:
    """Speed-up over acceptance and batch: brown where it slows down, blue where it pays, the figure in each."""
    data = values(("acceptance", "batch", "gain"), points)
    x = {"field": "batch", "type": "ordinal", "title": "sequences at once", "axis": {"labelAngle": 0}}
    y = {"field": "acceptance", "type": "ordinal", "title": "acceptance", "sort": "descending",
         "axis": {"format": ".1f"}}
    color = {"field": "gain", "type": "quantitative", "legend": None, "scale": {
        "type": "threshold", "domain": [0.8, 0.98, 1.02, 1.5, 2],
        "range": [f"var(--d{step})" for step in range(1, 7)]}}
    return spec("Speed-up of speculative decoding by acceptance rate and batch.", [
        {"mark": {"type": "rect", "stroke": "var(--panel)"}, "encoding": {"x": x, "y": y, "color": color}},
        {"mark": {"type": "text", "fontSize": 11, "color": "var(--ink)"},
         "encoding": {"x": x, "y": y, "text": {"field": "gain", "format": ".1f"}}},
    ], height=240, data=data)
