"""The one door for the build and for the browser's worker: a question comes in as JSON text, replies go out as JSON text.

A studio is a folder `studios/<name>/` whose `view.py` gives:

    TITLE     name shown in headers                     SENTENCE  what it answers, one sentence
    Query     its question (pycore.knobs)               FRONT     names of the fields shown first; the rest is folded
    COMMAND   "infersize plan": the same from a shell   MODULE    "pycore.systems.infersize": the same from Python
    PACKAGES  () or ("numpy",): loaded after start      COMPLETIONS(table) -> names that complete a field
    steps(query)     generator: yields objects with `.stage` and `.fraction`, and last the Page
    charts(page)     {chart id: Vega-Lite spec}; `width` is "container"; colours as "var(--name)"
    downloads(page)  {file name: (media type, text)}
    headline(page)   one line: title of the page, figure on the home card

A Page is a dataclass whose fields are the context of `panel.html.j2`; it has an `answer` (what the Python drawer binds).
Beside it: `page.html.j2` (extends "shell/studio.html.j2", context `Shell`) and `examples.json`
([{"name", "label", "query"}, ...]; the first is the default question, query "").
Templates are named "<studio>/panel.html.j2" and "shell/studio.html.j2" (the folder site/templates).
"""

import dataclasses
import hashlib
import importlib
import json
from collections.abc import Iterator
from functools import cache
from pathlib import PurePosixPath
from types import ModuleType
from typing import Any

import jinja2
from markupsafe import Markup

from pycore import units
from pycore.errors import InvalidQuery, StudioError
from pycore.knobs import Knob, from_url, knobs, to_command, to_python, to_url

ROOT = PurePosixPath(__file__.replace("\\", "/")).parents[1]

CHART_CONFIG: dict[str, Any] = {
    "background": None,
    "font": "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif",
    "axis": {"labelColor": "var(--soft)", "titleColor": "var(--soft)", "gridColor": "var(--line)",
             "domainColor": "var(--line)", "tickColor": "var(--line)", "labelFontSize": 12, "titleFontSize": 12,
             "titleFontWeight": "normal"},
    "legend": {"labelColor": "var(--ink)", "titleColor": "var(--soft)", "labelFontSize": 12, "titleFontSize": 12},
    "title": {"color": "var(--ink)", "fontSize": 13, "anchor": "start"},
    "header": {"labelColor": "var(--ink)", "titleColor": "var(--soft)"},
    "text": {"color": "var(--ink)"},
    "mark": {"color": "var(--c1)"},
    "rule": {"color": "var(--soft)"},
    "view": {"stroke": None},
    "range": {"category": [f"var(--c{index})" for index in range(1, 7)]},
}
"""One look for every chart, named after the CSS custom properties that both the static and the live drawing resolve."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Shell:
    """The context of a page's own template: everything around the panel."""

    studio: str
    title: str
    sentence: str
    headline: str
    panel: Markup  # inside of #panel, charts drawn
    front: tuple[Knob, ...]
    groups: tuple[tuple[str, tuple[Knob, ...]], ...]  # (group name, its folded fields)
    completions: dict[str, tuple[str, ...]]  # table name -> names, for datalists
    presets: tuple[dict, ...]  # examples.json
    command: str
    python: str
    downloads: tuple[str, ...]  # file names
    charts: tuple[str, ...]  # chart ids
    home: str  # URL of the home page, "" where there is none (a Space, a single file)
    source: str  # URL that a path such as "pycore/vram/kv.py#L16" is put behind; "" where there is none
    offline: str  # URL of the single file, "" where it was not built
    head: Markup  # policy, styles and the theme's script; goes into <head>
    tail: Markup  # configuration and scripts; goes before </body>


def studio(name: str) -> ModuleType:
    """The view of a studio."""
    return importlib.import_module(f"studios.{name}.view")
