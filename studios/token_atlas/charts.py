"""The charts of token-atlas as Vega-Lite specs: layout only, every number comes from the Page."""

from typing import Any

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
ROW = 30
POWERS = [1, 2, 3, 4, 6, 8, 12, 16]


def charts(page: Any) -> dict[str, dict]:
    """Chart id -> spec."""
    return page.still.charts


def drawn(fair: Any, money: Any) -> dict[str, dict]:
    """The specs of what no typed text changes."""
    return {"languages": languages(fair), "months": months(money)}


def values(names: tuple[str, ...], rows: Any) -> dict:
    """Rows as Vega-Lite data; at most 6 significant digits, so that every Python writes the same text."""
    return {"values": [dict(zip(names, map(rounded, row), strict=True)) for row in rows]}


def rounded(value: Any) -> Any:
    return float(f"{value:.6g}") if isinstance(value, float) else value


def languages(fair: Any) -> dict:
    """A dot a language, a row a tokenizer, on a logarithmic axis; the median as a bar, the asked language ringed."""
    order = [name for name, _ in fair.medians]
    dots = values(("tokenizer", "language", "premium"), fair.dots)
    x = {"field": "premium", "type": "quantitative", "title": "tokens against English, same tokenizer",
         "scale": {"type": "log", "nice": False, "domain": [0.9, 17]},
         "axis": {"values": POWERS, "format": "~f", "gridOpacity": 0.7}}
    y = {"field": "tokenizer", "type": "nominal", "sort": order, "title": None, "axis": {"domain": False, "ticks": False}}
    asked = [dot for dot in fair.dots if dot[1] == fair.asked]
    tips = [{"field": "language", "title": "Language"}, {"field": "premium", "title": "Premium", "format": ".2f"}]
    layers = [
        {"data": dots, "mark": {"type": "tick", "thickness": 1.5, "size": 14, "opacity": 0.65, "color": "var(--c1)"},
         "encoding": {"x": x, "y": y, "tooltip": tips}},
        {"data": values(("tokenizer", "premium"), fair.medians),
         "mark": {"type": "tick", "thickness": 3.5, "size": 22, "color": "var(--ink)"}, "encoding": {"x": x, "y": y}},
        {"data": values(("tokenizer", "language", "premium"), asked),
         "mark": {"type": "point", "size": 80, "filled": True, "color": "var(--c6)", "stroke": "var(--panel)", "opacity": 1},
         "encoding": {"x": x, "y": y, "tooltip": tips}},
    ]
    return {"$schema": SCHEMA, "description": "Premium of every language under every tokenizer.", "width": "container",
            "height": ROW * len(order), "layer": layers, "config": {"aria": False}}


def months(money: Any) -> dict:
    """A bar a model, a colour a language of the mix; the same traffic in English as a mark."""
    order = list(dict.fromkeys(name for name, _, _ in money.bars))
    parts = [bar for bar in money.bars if bar[1]]
    marks = [(name, usd) for name, language, usd in money.bars if not language]
    x = {"field": "usd", "type": "quantitative", "title": "USD a month", "axis": {"format": "$~s", "gridOpacity": 0.7}}
    y = {"field": "model", "type": "nominal", "sort": order, "title": None,
         "axis": {"domain": False, "ticks": False, "labelLimit": 130}}
    color = {"field": "language", "type": "nominal", "sort": list(money.languages), "title": None,
             "legend": {"orient": "top", "columns": 3}}
    layers = [
        {"data": values(("model", "language", "usd"), parts), "mark": {"type": "bar", "height": 16},
         "encoding": {"x": x | {"stack": "zero"}, "y": y, "color": color, "order": {"field": "place"}, "tooltip": [
             {"field": "model", "title": "Model"}, {"field": "language", "title": "Language"},
             {"field": "usd", "title": "USD a month", "format": ",.2f"}]},
         "transform": [{"calculate": f"indexof({list(money.languages)!r}, datum.language)", "as": "place"}]},
        {"data": values(("model", "usd"), marks),
         "mark": {"type": "tick", "thickness": 2.5, "size": 22, "color": "var(--ink)"},
         "encoding": {"x": x, "y": y}},
    ]
    return {"$schema": SCHEMA, "description": "A month's bill by model and language, beside the same traffic in English.",
            "width": "container", "height": {"step": 24}, "layer": layers, "config": {"aria": False}}
