"""The one door for the build and for the browser's worker: a question comes in as JSON text, replies go out as such.

A studio is a folder `studios/<name>/` whose `view.py` gives:

    TITLE     name shown in headers                     SENTENCE  what it answers, one sentence
    Query     its question (pycore.knobs)               FRONT     names of the fields shown first; the rest is folded
    COMMAND   "infersize plan": the same from a shell   MODULE    "pycore.systems.infersize": the same from Python
    PACKAGES  () or ("numpy",): loaded after start      DATA      folders of data/ that it stands on
    completions(table) -> names that complete a field whose knob has `suggestions=table`
    steps(query)     generator: yields objects with `.stage` and `.fraction`, last the Page. Where a part takes long,
                     a Page without it may come before: it is shown at once, and an element of its panel with an id and
                     [data-keep] leaves what stood in that place until the last Page
    charts(page)     {chart id: Vega-Lite spec}; `width` is "container"; colours as "var(--name)"
    downloads(page)  {file name: (media type, text)}
    headline(page)   one line: title of the page, figure on the home card

A studio may stand on files that do not travel with the code (vocabularies, say). Then its view.py also gives:

    FILES             their names ("vocabularies/llama3.bpe"): paths below `pycore.cache.cache_folder()`
    supply(name, say) brings one of them into the cache folder; called by the build, never in a browser
    notices()         what must be said of them (licences): a text, put into the page's NOTICES.txt

and `steps` yields `pycore.cache.Needs(files=...)` before it reads any that `pycore.cache.missing` finds absent. In a page
the worker then fetches these files, telling the bytes, puts them where `pycore.cache.place` says, and goes on; ask for
one at a time to show each as it arrives. Where it cannot, the SourceError with the reason is raised at that very `yield`:
catch it to show the rest, or let it pass, and the reader is told while the last answer stays. A newer question ends the
waiting, not the download. Nothing is fetched before a studio needs it; a single-file page has the files inside.
Yield a Page that needs no file first: the worker compares it with the painted one before it says that it is ready, and
then goes on with the default question's rest, files included, in the background.

What needs a package that is loaded after the start (PACKAGES) waits for it the same way: `Needs(packages=("numpy",))`
where `pycore.cache.absent` finds it absent.

An element input[type=file][data-store=FIELD] keeps a reader's own file of any kind in the worker's memory (at most 64 MiB)
and puts a reference into the field; `pycore.cache.upload(field, reference)` gives name and bytes, or an InputError.
With [data-open=FIELD] the file may have any size and is not read: `pycore.cache.opened(field, reference)` gives its name,
its size and a reader of ranges.

A Page is a dataclass whose fields are the context of `panel.html.j2`; its `answer` is what the Python drawer binds.
The template also has `source_url(term.line)` ("" where there is no link), the filters of `filters()`, and
`{% call kept("name", thing) %}...{% endcall %}`: what stands inside follows from `thing` alone, and is rendered anew only
when that is another object than the last time (a table that stays while a text is typed).
A link a[href^="?"][data-also] changes only the fields that it names.
Beside it: `page.html.j2` (extends "shell/studio.html.j2", context `Shell`) and `examples.json`
([{"name", "label", "query"}, ...]; the first is the default question, query "").
Templates are named "<studio>/panel.html.j2" and "shell/studio.html.j2" (the folder site/templates).
"""

import dataclasses
import functools
import hashlib
import importlib
import json
from collections.abc import Callable, Generator, Iterator
from pathlib import PurePosixPath
from types import ModuleType
from typing import Any

import jinja2
from markupsafe import Markup

from pycore import units
from pycore.cache import Needs, keep_open, keep_upload, place
from pycore.errors import InvalidQuery, SourceError, StudioError
from pycore.knobs import Knob, from_url, to_command, to_python, to_url

ROOT = PurePosixPath(__file__.replace("\\", "/")).parents[1]

CHART_CONFIG: dict[str, Any] = {
    "background": None,
    "aria": False,  # a drawing is one image with one label; its figures stand in tables beside it
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
    root: str  # URL prefix to the folder of the home page: "../", or "" where the page lies in it
    home: str  # URL of the home page, "" where there is none (a Space, a single file)
    source: str  # URL that a path such as "pycore/vram/kv.py#L16" is put behind; "" where there is none
    offline: str  # URL of the single file, "" where it was not built
    head: Markup  # policy, styles and the theme's script; goes into <head>
    tail: Markup  # configuration and scripts; goes before </body>


def studio(name: str) -> ModuleType:
    """The view of a studio."""
    return importlib.import_module(f"studios.{name}.view")


def respond(message: str) -> Generator[str, str | None, None]:
    """The replies to an "ask" or a "take" (site/bridge/protocol.d.ts) as JSON texts; the last is "complete".

    After a "needs" the caller brings the files and goes on; `send` of a text says why it could not.
    """
    asked = json.loads(message)
    kind = files if asked["type"] == "take" else replies
    yield from relayed(kind(asked["studio"], asked["form"], asked.get("source", "")), lambda reply: json.dumps(
        {"id": asked["id"]} | reply, ensure_ascii=False, allow_nan=False))
    yield json.dumps({"id": asked["id"], "type": "complete"})


def replies(name: str, form: str, source: str) -> Generator[dict, str | None, None]:
    """The replies to a question as plain data: progress, then an answer (or several, each fuller), or what went wrong.

    Expected errors become "invalid", anything else "broken"; nothing is raised.
    """
    return told(answers(name, form, source))


def answers(name: str, form: str, source: str) -> Generator[dict, str | None, None]:
    """Progress, files that are needed, and answers. Raises StudioError."""
    view = studio(name)
    query = from_url(view.Query, form)
    yield from relayed(supplied(view.steps(query)), lambda item: on_the_way(item) or answer(name, query, item, source))


def files(name: str, form: str, source: str = "") -> Generator[dict, str | None, None]:
    """What a reader may save of a question's answer; made when it is asked for, since few ever do."""
    return told(taken(name, form))


def taken(name: str, form: str) -> Generator[dict, str | None, None]:
    """The "files" message, after those of files that it needs. Raises StudioError."""
    view, sent = studio(name), None
    steps = supplied(view.steps(from_url(view.Query, form)))
    while True:
        try:
            page = steps.send(sent)
        except StopIteration:
            break
        sent = (yield on_the_way(page)) if isinstance(page, Needs) else None
    yield {"type": "files", "files": {file: {"media": media, "text": text}
                                      for file, (media, text) in view.downloads(page).items()}}


def supplied(steps: Iterator[Any]) -> Generator[Any, str | None, None]:
    """What `steps` yields. A text sent back after a `Needs` is raised in it as a SourceError, at its `yield`."""
    item = next(steps, None)
    while item is not None:
        fault = yield item
        try:
            wanted = ", ".join((*item.files, *item.packages)) if fault else ""
            item = steps.throw(SourceError(wanted, fault)) if fault else next(steps, None)
        except StopIteration:
            return


def relayed(items: Generator[Any, str | None, None], write: Callable[[Any], Any]) -> Generator[Any, str | None, None]:
    """Each item written anew; what is sent back goes on to where the item came from."""
    sent = None
    while True:
        try:
            item = items.send(sent)
        except StopIteration:
            return
        sent = yield write(item)


def on_the_way(item: Any) -> dict | None:
    """The message for what is no Page yet: a report, or files that are needed; None for a Page."""
    if isinstance(item, Needs):
        return {"type": "needs", "files": [{"name": name, "path": str(place(name))} for name in item.files],
                "packages": list(item.packages)}
    if hasattr(item, "stage") and hasattr(item, "fraction"):
        return {"type": "progress", "stage": item.stage, "fraction": item.fraction}
    return None


def keep(name: str, data: Any) -> str:
    """Keep a reader's own file (a buffer of its bytes); the reply "stored" as JSON text, less what the worker knows."""
    try:
        content = data.to_bytes() if hasattr(data, "to_bytes") else bytes(data)
        return json.dumps({"reference": keep_upload(name, content), "message": ""})
    except StudioError as error:
        return json.dumps({"reference": "", "message": str(error)})


def keep_file(name: str, size: int, mark: str, read: Callable[[int, int], Any]) -> str:
    """Keep a reader's own file open: `read(first, count)` gives a buffer of those bytes. The reply as of `keep`."""
    def ranged(first: int, count: int) -> bytes:
        try:
            part = read(first, count)
            return part.to_bytes() if hasattr(part, "to_bytes") else bytes(part)
        except Exception as error:  # the browser's own words: the file was moved or changed meanwhile
            raise SourceError(name, f"can no longer be read: {error}") from None

    return json.dumps({"reference": keep_open(name, size, ranged, mark), "message": ""})


def told(messages: Generator[dict, str | None, None]) -> Generator[dict, str | None, None]:
    """Messages, and whatever is raised on the way as one more message in words."""
    try:
        yield from messages
    except InvalidQuery as error:
        yield {"type": "invalid", "message": str(error), "errors": [fault(each) for each in error.errors]}
    except StudioError as error:
        yield {"type": "invalid", "message": str(error), "errors": [fault(error)]}
    except Exception as error:  # a fault of ours must reach the reader as words, not end the worker
        yield {"type": "broken", "message": f"{type(error).__name__}: {error}"}


def fault(error: StudioError) -> dict:
    """One error as the form needs it: the field it belongs to ("" for none), words, names to choose instead."""
    return {"field": error.field or "", "message": str(error), "suggestions": list(getattr(error, "suggestions", ()))}


def answer(name: str, query: Any, page: Any, source: str) -> dict:
    """The "answer" message for a Page."""
    view = studio(name)
    headline = view.headline(page)
    return {
        "type": "answer",
        "panel": panel(name, page, source),
        "query": to_url(query),
        "title": f"{headline} · {view.TITLE}",
        "headline": headline,
        "command": to_command(query, view.COMMAND),
        "python": to_python(query, view.MODULE),
        "charts": {chart: themed(spec) for chart, spec in view.charts(page).items()},
    }


def themed(spec: dict) -> dict:
    """A chart's spec with the common look put under its own."""
    return spec | {"config": CHART_CONFIG | spec.get("config", {})}


def panel(name: str, page: Any, source: str) -> str:
    """The inside of #panel, the same bytes in every Python. `source` as in `source_link`."""
    context = {field.name: getattr(page, field.name) for field in dataclasses.fields(page)}
    return templates().get_template(f"{name}/panel.html.j2").render(context | {
        "source_url": lambda line: source_link(source, line), "kept": functools.partial(kept, (name, source))})


def kept(page: tuple[str, str], part: str, thing: Any, caller: Callable[[], str]) -> str:
    """A part of a panel as it was rendered the last time, if it was from the very same object; with what tells it apart,
    so that a page leaves alone what it already shows, however the reader has sorted and filtered it since."""
    before = _parts.get((*page, part))
    if before is None or before[0] is not thing:
        text = caller()
        before = _parts[*page, part] = thing, Markup(
            f'<div id="part-{part}" data-same="{digest(text)[:12]}">{text}</div><!--same-->')
    return before[1]


_parts: dict[tuple[str, ...], tuple[Any, str]] = {}  # one of each: what is kept is what the page shows now


def source_link(pattern: str, line: str) -> str:
    """The URL of "pycore/vram/kv.py:16" in a pattern with {path} and {line}; "" where either is empty."""
    path, _, number = line.rpartition(":")
    return pattern.replace("{path}", path).replace("{line}", number) if pattern and path else ""


def digest(text: str) -> str:
    """sha256 of a text, hex: how the worker's first answer is compared with the painted one."""
    return hashlib.sha256(text.encode()).hexdigest()


def check(name: str, source: str) -> str:
    """Digests of the default question's panels, the first and the last, by commas: what warms a snapshot up.

    Where the rest needs files that are not there, the second is empty.
    """
    panels = []
    for reply in answers(name, "", source):
        if reply["type"] == "needs" and panels:
            return digest(panels[0]) + ","
        panels += [reply["panel"]] if reply["type"] == "answer" else []
    return ",".join((digest(panels[0]), digest(panels[-1])))


def examples(name: str) -> list[dict]:
    """examples.json of a studio: [{"name", "label", "query"}, ...], the default question first."""
    return json.loads(studio_file(name, "examples.json"))


def read(path: str) -> str:
    """A text file below the repository's root, from a folder or from inside the zip that this module came from."""
    return __loader__.get_data(str(ROOT / path)).decode()


def studio_file(name: str, file: str) -> str:
    """A text file that lies beside a studio's view.py."""
    view = studio(name)
    return view.__loader__.get_data(str(PurePosixPath(view.__file__.replace("\\", "/")).parent / file)).decode()


@functools.cache
def templates() -> jinja2.Environment:
    """The one Jinja2 environment: autoescape always, a misspelt name is an error."""
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(template_source), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=False, auto_reload=False)
    environment.filters |= filters()
    return environment


def template_source(name: str) -> str | None:
    """Text of "shell/x" or "<studio>/x"; None (TemplateNotFound) where there is none."""
    folder, _, file = name.partition("/")
    try:
        return read(f"site/templates/{file}") if folder == "shell" else studio_file(folder, file)
    except (OSError, ModuleNotFoundError):
        return None


def filters() -> dict:
    """How numbers are written: `pycore.units`, by their own names."""
    names = ("show", "significant", "binary_bytes", "decimal_bytes", "both_bytes", "seconds", "si", "dollars")
    return {name: getattr(units, name) for name in names}


def page(shell: Shell) -> str:
    """A studio's whole page."""
    return templates().get_template(f"{shell.studio}/page.html.j2").render(
        {field.name: getattr(shell, field.name) for field in dataclasses.fields(shell)})


def home(*, cards: tuple[dict, ...], head: Markup, tail: Markup) -> str:
    """The page of all studios. A card: {name, title, sentence, headline, url}."""
    return templates().get_template("shell/home.html.j2").render(cards=cards, head=head, tail=tail)
