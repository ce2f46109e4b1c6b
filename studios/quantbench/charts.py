"""The charts of quantbench as Vega-Lite specs: layout only, every number comes from the Page."""

import math
from typing import Any

from studios.quantbench.frontier import ORDER

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
HEIGHT = 340
SHAPES = ("circle", "diamond", "square", "triangle-up", "cross", "triangle-down")
COLOURS = ("var(--c1)", "var(--c4)", "var(--c2)", "var(--c3)", "var(--c6)", "var(--c7)")
LOG = [digit * 10.0**power for power in range(-6, 3) for digit in (1, 3)]


def charts(page: Any) -> dict[str, dict]:
    """Chart id -> spec, for those the page has data for."""
    found: dict[str, dict] = {}
    if page.frontier and any(math.isfinite(one.sqnr) for one in page.frontier.rows):
        found["pareto"] = pareto(page.frontier.rows)
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


def bits_axis(rows: list) -> dict:
    """True bits per weight along the bottom."""
    most = max((row[0] for row in rows), default=8.0)
    return {"field": "bits", "type": "quantitative", "title": "true bits per weight", "axis": {"gridOpacity": 0.7},
            "scale": {"domain": [0, float(f"{most + 0.8:.3g}")], "nice": False}}


def pareto(rows: Any) -> dict:
    """SQNR against bits: a point a configuration, the frontier as steps, the asked one ringed, 6.02 dB a bit beside."""
    drawn = [(one.bits, one.sqnr, one.name, one.label, one.family, one.best, one.asked) for one in rows
             if math.isfinite(one.bits) and math.isfinite(one.sqnr)]
    data = values(("bits", "sqnr", "name", "label", "family", "best", "asked"), drawn)
    x = bits_axis(drawn)
    y = {"field": "sqnr", "type": "quantitative", "title": "SQNR on these weights, dB", "axis": {"gridOpacity": 0.7}}
    families = [name for name in ORDER if any(row[4] == name for row in drawn)]
    colour = {"field": "family", "type": "nominal", "title": None, "legend": {"orient": "top", "symbolSize": 80}, "scale": {
        "domain": families, "range": [COLOURS[ORDER.index(name)] for name in families]}}
    shape = {"field": "family", "type": "nominal", "title": None, "scale": {
        "domain": families, "range": [SHAPES[ORDER.index(name)] for name in families]}}
    tips = [{"field": "label", "title": "Format"}, {"field": "bits", "title": "Bits per weight"},
            {"field": "sqnr", "title": "SQNR, dB"}]
    best = [{"filter": "datum.best"}]
    end = float(f"{min(x['scale']['domain'][1], max(row[1] for row in drawn) / 6.0206):.3g}")
    return spec("SQNR of every format and group size on the weights, against its true bits per weight.", [
        {"data": values(("bits", "sqnr"), ((0.0, 0.0), (end, 6.0206 * end))),
         "mark": {"type": "line", "color": "var(--soft)", "strokeDash": [2, 3], "strokeWidth": 1}, "encoding": {"x": x, "y": y}},
        {"data": data, "transform": best, "mark": {"type": "line", "color": "var(--soft)", "strokeWidth": 1.2},
         "encoding": {"x": x, "y": y, "order": {"field": "bits"}}},
        {"data": data, "mark": {"type": "point", "filled": True, "size": 62, "opacity": 0.95},
         "encoding": {"x": x, "y": y, "color": colour, "shape": shape, "tooltip": tips}},
        {"data": data, "transform": [{"filter": "datum.asked"}],
         "mark": {"type": "point", "shape": "circle", "size": 260, "color": "var(--ink)", "strokeWidth": 2, "filled": False},
         "encoding": {"x": x, "y": y}},
        {"data": data, "transform": [{"filter": "datum.asked"}],
         "mark": {"type": "text", "dx": 13, "dy": 12, "align": "left", "color": "var(--ink)", "fontSize": 12, "fontWeight": 600},
         "encoding": {"x": x, "y": y, "text": {"field": "name"}}},
    ])


def measured(rows: Any) -> dict:
    """KL divergence of whole models against bits, with intervals; what was trained for its format looks different."""
    drawn = [(one.bits, one.kl, max(one.low or one.kl, 1e-9), one.high or one.kl, one.name, one.label, one.best, one.asked,
              "trained for it" if any("trained" in text for text in one.says) else "as it is")
             for one in rows if one.kl]
    data = values(("bits", "kl", "low", "high", "name", "label", "best", "asked", "how"), drawn)
    x = bits_axis(drawn)
    y = {"field": "kl", "type": "quantitative", "title": "KL divergence, nats (less is better)",
         "scale": {"type": "log", "nice": False}, "axis": {"values": LOG, "format": "~g", "gridOpacity": 0.7}}
    tips = [{"field": "label", "title": "Configuration"}, {"field": "bits", "title": "Bits per weight"},
            {"field": "kl", "title": "KL, nats"}]
    hows = [name for name in ("as it is", "trained for it") if any(row[8] == name for row in drawn)]
    shape = {"field": "how", "type": "nominal", "title": None, "legend": {"orient": "top"} if len(hows) > 1 else None,
             "scale": {"domain": hows, "range": ["circle", "triangle-up"][:len(hows)]}}
    return spec("KL divergence of whole models against their bits per weight.", [
        {"data": data, "transform": [{"filter": "datum.best"}],
         "mark": {"type": "line", "color": "var(--soft)", "strokeWidth": 1.2},
         "encoding": {"x": x, "y": y, "order": {"field": "bits"}}},
        {"data": data, "mark": {"type": "rule", "color": "var(--c3)", "strokeWidth": 2, "opacity": 0.6},
         "encoding": {"x": x, "y": y | {"field": "low"}, "y2": {"field": "high"}}},
        {"data": data, "mark": {"type": "point", "filled": True, "size": 62, "color": "var(--c3)", "opacity": 1},
         "encoding": {"x": x, "y": y, "shape": shape, "tooltip": tips}},
        {"data": data, "transform": [{"filter": "datum.asked"}],
         "mark": {"type": "point", "shape": "circle", "size": 260, "color": "var(--ink)", "strokeWidth": 2, "filled": False},
         "encoding": {"x": x, "y": y}},
        {"data": data, "transform": [{"filter": "datum.best"}],
         "mark": {"type": "text", "dx": 8, "dy": -8, "align": "left", "color": "var(--ink)", "fontSize": 11},
         "encoding": {"x": x, "y": y, "text": {"field": "name"}}},
    ])


def gptq(walk: Any) -> dict:
    """Squared output error after each step; where the other variants end is a line each."""
    x = {"field": "step", "type": "quantitative", "title": "columns quantised", "axis": {"gridOpacity": 0.7},
         "scale": {"domain": [0, walk.width], "nice": False}}
    y = {"field": "error", "type": "quantitative", "title": "squared output error", "axis": {"gridOpacity": 0.7, "format": "~g"}}
    ends = [(one.value, one.label) for one in walk.variants if math.isfinite(one.value) and not one.shown]
    data = values(("step", "error"), ((place, float(value)) for place, value in enumerate(walk.partial)))
    return spec("Squared error of the layer's outputs after each column.", [
        {"data": values(("error", "label"), ends), "mark": {"type": "rule", "strokeDash": [4, 3], "color": "var(--soft)"},
         "encoding": {"y": y}},
        {"data": values(("error", "label"), ends),
         "mark": {"type": "text", "align": "left", "baseline": "bottom", "dx": 4, "dy": -2, "color": "var(--soft)", "fontSize": 11},
         "encoding": {"y": y, "x": {"value": 0}, "text": {"field": "label"}}},
        {"data": data, "mark": {"type": "line", "color": "var(--c1)", "strokeWidth": 2.5}, "encoding": {"x": x, "y": y}},
        {"data": values(("step", "error"), [(walk.step, float(walk.partial[walk.step]))]),
         "mark": {"type": "point", "filled": True, "size": 90, "color": "var(--c6)", "opacity": 1}, "encoding": {"x": x, "y": y}},
    ], height=260)
