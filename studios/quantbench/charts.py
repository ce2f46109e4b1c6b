"""The charts of quantbench as Vega-Lite specs: layout only, every number comes from the Page."""

import math
from typing import Any

from studios.quantbench.frontier import CROWD, ORDER

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
HEIGHT = 340
SHAPES = ("circle", "diamond", "square", "triangle-up", "cross", "triangle-down")
COLOURS = ("var(--c1)", "var(--c4)", "var(--c2)", "var(--c3)", "var(--c6)", "var(--c7)")
RING = {"type": "point", "shape": "circle", "size": 260, "color": "var(--ink)", "strokeWidth": 2, "filled": False}
LEGEND = {"orient": "top", "symbolSize": 80, "columns": 3}
LOG = [digit * 10.0**power for power in range(-6, 3) for digit in (1, 3)]


def charts(page: Any) -> dict[str, dict]:
    """Chart id -> spec, for those the page has data for."""
    found: dict[str, dict] = {}
    if page.frontier and page.frontier.drawn:
        found["pareto"] = pareto(page.frontier.rows)
    if page.frontier and page.frontier.crowd:
        found["pareto-four"] = pareto([one for one in page.frontier.rows if CROWD[0] <= one.bits <= CROWD[1]], CROWD)
    if page.measured and any(one.kl for one in page.measured.rows):
        found["measured"] = measured(page.measured.rows)
    if page.walk:
        found["gptq"] = gptq(page.walk)
    return found


def spec(description: str, layers: list[dict], height: int = HEIGHT) -> dict:
    """What every chart has in common."""
    return {"$schema": SCHEMA, "description": description, "width": "container", "height": height, "layer": layers,
            "config": {"aria": False}}


def values(names: tuple[str, ...], rows: Any) -> dict:
    """Rows as Vega-Lite data; at most 4 significant digits, so that every Python writes the same text."""
    return {"values": [dict(zip(names, map(rounded, row), strict=True)) for row in rows]}


def rounded(value: Any) -> Any:
    return float(f"{value:.4g}") if isinstance(value, float) else value


def bits_axis(rows: list, span: tuple[float, float] | None = None) -> dict:
    """True bits per weight along the bottom, from 0 where no span is given."""
    most = max((row[0] for row in rows), default=8.0)
    low, high = span or (0.0, float(f"{most + 0.8:.3g}"))
    whole = list(range(0, int(high) + 1, 1 if high < 12 else 2))
    ticks = [round(low + 0.2 * step, 1) for step in range(7)] if span else whole
    return {"field": "bits", "type": "quantitative", "title": "true bits per weight",
            "axis": {"gridOpacity": 0.7, "values": ticks, "format": "~g"},
            "scale": {"domain": [low, high], "nice": False}}


def families(rows: list, legend: dict | None) -> tuple[dict, dict]:
    """(colour, shape) by family, the same in both charts."""
    base = {"field": "family", "type": "nominal", "title": None}
    names = [name for name in ORDER if any(row[4] == name for row in rows)]
    return tuple(base | {"legend": legend, "scale": {"domain": names, "range": [marks[ORDER.index(name)] for name in names]}}
                 for marks in (COLOURS, SHAPES))


def pareto(rows: Any, span: tuple[float, float] | None = None) -> dict:
    """SQNR against bits: a point a configuration, the frontier as a line, the asked one ringed, 6.02 dB a bit beside.

    With a `span` of bits it is the closer look: points are named, and the textbook's line is left out.
    """
    drawn = [(one.bits, one.sqnr, one.name, one.label, one.family, one.best, one.asked) for one in rows
             if math.isfinite(one.bits) and math.isfinite(one.sqnr)]
    data = values(("bits", "sqnr", "label", "family"), ((row[0], row[1], row[3], row[4]) for row in drawn))
    x = bits_axis(drawn, span)
    y = {"field": "sqnr", "type": "quantitative", "title": "SQNR on these weights, dB",
         "axis": {"gridOpacity": 0.7, "format": "~g"},
         "scale": {"zero": False, "padding": 8} if span else {"zero": True}}
    colour, shape = families(drawn, LEGEND if span is None else None)
    tips = [{"field": "label", "title": "Format"}, {"field": "bits", "title": "Bits per weight"},
            {"field": "sqnr", "title": "SQNR, dB"}]
    here = [row for row in drawn if row[6]]
    named = {"type": "text", "dx": 9, "dy": 4, "align": "left", "color": "var(--soft)", "fontSize": 10.5}
    layers = [
        *line([row[:2] for row in drawn if row[5]], x, y, "sqnr"),
        {"data": data, "mark": {"type": "point", "filled": True, "size": 62, "opacity": 0.95},
         "encoding": {"x": x, "y": y, "color": colour, "shape": shape, "tooltip": tips}},
        *({"data": values(("bits", "sqnr"), [row[:2]]), "mark": RING, "encoding": {"x": x, "y": y}} for row in here),
    ]
    if span:
        return spec("SQNR against true bits per weight between 4 and 5.1 bits.", [
            *layers, {"data": values(("bits", "sqnr", "name"), labelled(drawn)), "mark": named,
                      "encoding": {"x": x, "y": y, "text": {"field": "name"}}}])
    end = float(f"{min(x['scale']['domain'][1], max(row[1] for row in drawn) / 6.0206):.3g}")
    rule = {"data": values(("bits", "sqnr"), ((0.0, 0.0), (end, 6.0206 * end))), "encoding": {"x": x, "y": y},
            "mark": {"type": "line", "color": "var(--soft)", "strokeDash": [2, 3], "strokeWidth": 1}}
    mine = [{"data": values(("bits", "sqnr", "name"), [row[:3]]), "encoding": {"x": x, "y": y, "text": {"field": "name"}},
             "mark": named | {"dx": 14, "dy": 14, "color": "var(--ink)", "fontSize": 12, "fontWeight": 600}} for row in here]
    return spec("SQNR of every format and group size on the weights, against its true bits per weight.",
                [rule, *layers, *mine])


def line(points: list, x: dict, y: dict, field: str) -> list[dict]:
    """The frontier, where there is one: a layer without data would have no extent."""
    if not points:
        return []
    return [{"data": values(("bits", field), points), "mark": {"type": "line", "color": "var(--soft)", "strokeWidth": 1.2},
             "encoding": {"x": x, "y": y, "order": {"field": "bits"}}}]


def labelled(rows: list) -> list[tuple]:
    """(bits, SQNR, name) of the points whose names do not run into each other, the best first."""
    levels = [row[1] for row in rows]
    near = max((max(levels, default=0.0) - min(levels, default=0.0)) / 18, 1e-9)
    kept: list[tuple] = []
    for row in sorted(rows, key=lambda row: (not row[6], not row[5], -row[1])):
        if all(abs(row[1] - other[1]) > near or abs(row[0] - other[0]) > 0.28 for other in kept):
            kept.append(row)
    return [row[:3] for row in kept]


def measured(rows: Any) -> dict:
    """KL divergence of whole models against bits, with intervals; what was trained for its format looks different."""
    drawn = [(one.bits, one.kl, max(one.low or one.kl, 1e-9), one.high or one.kl, one.name, one.label, one.best, one.asked,
              "trained for it" if one.trained else "as it is") for one in rows if one.kl]
    data = values(("bits", "kl", "low", "high", "name", "label", "best", "asked", "how"), drawn)
    x = bits_axis(drawn)
    y = {"field": "kl", "type": "quantitative", "title": "KL divergence of the model, nats (less is better)",
         "scale": {"type": "log", "nice": False}, "axis": {"values": LOG, "format": ",.6~f", "gridOpacity": 0.7}}
    tips = [{"field": "label", "title": "Configuration"}, {"field": "bits", "title": "Bits per weight"},
            {"field": "kl", "title": "KL, nats"}]
    hows = [name for name in ("as it is", "trained for it") if any(row[8] == name for row in drawn)]
    shape = {"field": "how", "type": "nominal", "title": None, "legend": {"orient": "top"} if len(hows) > 1 else None,
             "scale": {"domain": hows, "range": ["circle", "triangle-up"][:len(hows)]}}
    return spec("KL divergence of whole models against their bits per weight.", [
        *line([row[:2] for row in drawn if row[6]], x, y, "kl"),
        {"data": data, "mark": {"type": "rule", "color": "var(--c3)", "strokeWidth": 2, "opacity": 0.6},
         "encoding": {"x": x, "y": y | {"field": "low"}, "y2": {"field": "high"}}},
        {"data": data, "mark": {"type": "point", "filled": True, "size": 62, "color": "var(--c3)", "opacity": 1},
         "encoding": {"x": x, "y": y, "shape": shape, "tooltip": tips}},
        *({"data": values(("bits", "kl"), [row[:2]]), "encoding": {"x": x, "y": y}, "mark": RING}
          for row in drawn if row[7]),
        *({"data": values(("bits", "kl", "name"), [(*row[:2], row[4])]), "mark": {
            "type": "text", "dx": 12 if row[7] else 8, "dy": -12 if row[7] else -8, "align": "left", "color": "var(--ink)",
            "fontSize": 11, "fontWeight": 600 if row[7] else "normal"},
           "encoding": {"x": x, "y": y, "text": {"field": "name"}}} for row in named(drawn)),
    ])


def named(rows: list) -> list[tuple]:
    """Those asked and those on the frontier whose names do not run into each other, the asked first."""
    levels = [math.log(row[1]) for row in rows]
    near = max((max(levels, default=0.0) - min(levels, default=0.0)) / 16, 1e-9)
    kept: list[tuple] = []
    for row in sorted((row for row in rows if row[6] or row[7]), key=lambda row: (not row[7], row[1])):
        if all(abs(math.log(row[1] / other[1])) > near or abs(row[0] - other[0]) > 2.4 for other in kept):
            kept.append(row)
    return kept


def gptq(walk: Any) -> dict:
    """Squared output error after each step; where the other variants end is a line each."""
    x = {"field": "step", "type": "quantitative", "title": "columns quantised", "axis": {"gridOpacity": 0.7},
         "scale": {"domain": [0, walk.width], "nice": False}}
    y = {"field": "error", "type": "quantitative", "title": "squared output error",
         "axis": {"gridOpacity": 0.7, "format": ".3~g"}}
    ends = sorted((one.value, one.label) for one in walk.variants if math.isfinite(one.value) and not one.shown)
    apart = 0.05 * max((value for value, _ in ends), default=0.0)
    named = [end for place, end in enumerate(ends) if place == len(ends) - 1 or ends[place + 1][0] - end[0] > apart]
    data = values(("step", "error"), ((place, float(value)) for place, value in enumerate(walk.partial)))
    return spec("Squared error of the layer's outputs after each column.", [
        {"data": values(("error", "label"), ends), "mark": {"type": "rule", "strokeDash": [4, 3], "color": "var(--soft)"},
         "encoding": {"y": y}},
        {"data": values(("error", "label"), named),
         "mark": {"type": "text", "align": "left", "baseline": "bottom", "dx": 4, "dy": -2, "color": "var(--soft)",
                  "fontSize": 11},
         "encoding": {"y": y, "x": {"value": 0}, "text": {"field": "label"}}},
        {"data": data, "mark": {"type": "line", "color": "var(--c1)", "strokeWidth": 2.5}, "encoding": {"x": x, "y": y}},
        {"data": values(("step", "error"), [(walk.step, float(walk.partial[walk.step]))]), "encoding": {"x": x, "y": y},
         "mark": {"type": "point", "filled": True, "size": 90, "color": "var(--c6)", "opacity": 1}},
    ], height=260)
