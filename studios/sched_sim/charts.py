"""The charts of sched-sim as Vega-Lite specs: layout only, every number comes from the Page. Policies differ in dash as
well as in colour."""

from typing import Any

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
COLOURS = ["var(--c1)", "var(--c6)", "var(--c3)", "var(--c4)", "var(--c2)", "var(--c7)"]
DASHES = [[1, 0], [5, 3], [2, 2], [8, 3, 2, 3], [10, 3], [1, 3]]
HEIGHT = 230
ROUND = [digit * 10**power for power in range(-3, 7) for digit in (1, 2, 5)]
"""Where a logarithmic axis is labelled."""


def charts(page: Any) -> dict[str, dict]:
    """Chart id -> spec, for those the page has data for."""
    found: dict[str, dict] = {}
    lines = page.lines
    policies = page.table.policies
    if lines.gaps:
        found["gaps"] = series(lines.gaps, policies, ("time, s", "token gap, ms"), "Longest token gap over the run",
                               log=True, step=True)
    if lines.ttft:
        found["first"] = series(lines.ttft, policies, ("arrival, s", "time to first token, ms"),
                                "Time to first token by arrival", points=True, log=True)
    if lines.tpot:
        found["pace"] = series(lines.tpot, policies, ("arrival, s", "time per output token, ms"),
                               "Time per output token by arrival", points=True, log=True)
    for name, rows, what, title in (("first-share", lines.ttft_share, "requests", "time to first token, ms"),
                              ("gap-share", lines.gap_share, "tokens", "gap to the token before, ms")):
        if rows:
            found[name] = share(rows, policies, what, title)
    if page.sweep:
        found |= sweep_charts(page.sweep)
    if page.replay.points:
        found["replay"] = replay(page.replay.points)
    if page.draws and page.draws.points:
        found["draws"] = draws(page.draws)
    return found


def spec(description: str, layers: list[dict], height: int = HEIGHT, **more: Any) -> dict:
    """What every chart has in common."""
    return {"$schema": SCHEMA, "description": description, "width": "container", "height": height, "layer": layers} | more


def values(names: tuple[str, ...], rows: Any) -> dict:
    """Rows as Vega-Lite data; at most 5 significant digits, so that every Python writes the same text."""
    return {"values": [dict(zip(names, map(rounded, row), strict=True)) for row in rows]}


def rounded(value: Any) -> Any:
    return float(f"{value:.5g}") if isinstance(value, float) else value


def axis(field: str, title: str, *, log: bool = False) -> dict:
    """A quantitative axis. In d3's format "g" a linear axis would write 20 as 2e+1."""
    scale = {"type": "log", "nice": False} if log else {"nice": False, "zero": False}
    return {"field": field, "type": "quantitative", "title": title, "scale": scale,
            "axis": {"format": ",~g" if log else ",~f", "gridOpacity": 0.7, "labelOverlap": True} | (
                {"values": ROUND} if log else {"tickCount": 5})}


def policy(policies: tuple[str, ...], channel: str) -> dict:
    """Colour or dash by policy, with the legend on top."""
    legend = {"orient": "top", "title": None, "symbolType": "stroke", "symbolStrokeWidth": 2.5, "columns": 2,
              "labelLimit": 200}
    scale = COLOURS if channel == "color" else DASHES
    return {"field": "policy", "type": "nominal", "legend": legend,
            "scale": {"domain": list(policies), "range": scale[:len(policies)]}}


def series(rows: Any, policies: tuple[str, ...], titles: tuple[str, str], description: str, *, log: bool = False,
           step: bool = False, points: bool = False) -> dict:
    """(policy, x, y) over time."""
    encoding = {"x": axis("x", titles[0]), "y": axis("y", titles[1], log=log), "color": policy(policies, "color")}
    if points:
        encoding["shape"] = {"field": "policy", "type": "nominal", "legend": encoding["color"]["legend"],
                             "scale": {"domain": list(policies), "range": ["circle", "square", "triangle-up", "diamond",
                                                                           "cross", "triangle-down"][:len(policies)]}}
        mark = {"type": "point", "filled": True, "size": 26, "opacity": 0.75}
    else:
        encoding["strokeDash"] = policy(policies, "strokeDash")
        mark = {"type": "line", "strokeWidth": 1.8} | ({"interpolate": "step-before"} if step else {})
    return spec(description, [{"mark": mark, "encoding": encoding}], data=values(("policy", "x", "y"), rows))


def share(rows: Any, policies: tuple[str, ...], what: str, title: str) -> dict:
    """(policy, value, share of requests at most that): a distribution function."""
    y = {"field": "y", "type": "quantitative", "title": f"share of {what}", "scale": {"domain": [0, 1]},
         "axis": {"format": "%", "values": [0, 0.25, 0.5, 0.75, 0.9, 1], "gridOpacity": 0.7}}
    encoding = {"x": axis("x", title, log=True), "y": y, "color": policy(policies, "color"),
                "strokeDash": policy(policies, "strokeDash")}
    return spec(f"Share of {what} with at most so much {title}.", [
        {"mark": {"type": "line", "strokeWidth": 2, "interpolate": "step-after"}, "encoding": encoding}],
        data=values(("policy", "x", "y"), rows))


def sweep_charts(sweep: Any) -> dict[str, dict]:
    """Latency and goodput over the swept quantity, the knees marked."""
    rows = values(("policy", "x", "ttft", "tpot", "good", "offered"), sweep.points)
    x = axis("x", sweep.axis, log=sweep.log)
    by = {"color": policy(sweep.policies, "color"), "strokeDash": policy(sweep.policies, "strokeDash")}
    line = {"type": "line", "strokeWidth": 2, "point": {"size": 30}}
    knee = [{"data": values(("x",), [(one,) for one in sweep.knees]),
             "mark": {"type": "rule", "color": "var(--bad)", "strokeDash": [4, 3]},
             "encoding": {"x": x}}] * bool(sweep.knees)

    def drawn(field: str, title: str, description: str, *, log: bool = False) -> dict:
        encoding = {"x": x, "y": axis(field, title, log=log)} | by
        return spec(description, [{"data": rows, "mark": line, "encoding": encoding}, *knee])

    first, pace = "p50 time to first token, ms", "mean time per output token, ms"
    return {"sweep-first": drawn("ttft", first, "Median time to first token over the sweep.", log=True),
            "sweep-pace": drawn("tpot", pace, "Mean time per output token over the sweep."),
            "sweep-good": drawn("good", "requests/s within targets", "Requests per second within the targets.")}


def replay(points: Any) -> dict:
    """Simulated against real end-to-end time of each request; colour says how far apart they are, shape which run."""
    data = values(("run", "real", "simulated", "band"), points)
    ends = [min(min(one[1], one[2]) for one in points), max(max(one[1], one[2]) for one in points)]
    x, y = axis("real", "real, s", log=True), axis("simulated", "simulated, s", log=True)
    colour = {"field": "band", "type": "nominal", "legend": {"orient": "top", "title": None}, "scale": {
        "domain": ["within 2 %", "within 5 %", "within 10 %", "further"],
        "range": ["var(--c3)", "var(--c5)", "var(--c2)", "var(--c6)"]}}
    shape = {"field": "run", "type": "nominal", "legend": {"orient": "bottom", "title": None, "labelLimit": 240}}
    return spec("Simulated against real time of each request.", [
        {"data": values(("real", "simulated"), [(end, end) for end in ends]), "encoding": {"x": x, "y": y},
         "mark": {"type": "line", "color": "var(--soft)", "strokeDash": [4, 3]}},
        {"data": data, "mark": {"type": "point", "filled": True, "size": 24, "opacity": 0.8},
         "encoding": {"x": x, "y": y, "color": colour, "shape": shape}}], height=330)


def draws(found: Any) -> dict:
    """A figure of every draw, by policy."""
    return spec("One stroke a draw.", [
        {"data": values(("policy", "y"), found.points), "mark": {"type": "tick", "thickness": 1.5, "color": "var(--c1)"},
         "encoding": {"y": {"field": "policy", "type": "nominal", "title": None},
                      "x": axis("y", f"{found.what}, ms", log=True)}}], height=140)
