"""The pages: every studio's default question answered in CPython, drawn, and put into its shell."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from markupsafe import Markup

from builder.assets import Assets
from builder.cache import BuildError
from builder.drawings import draw
from builder.policy import THEME, data_script, policy, policy_tag

PATIENCE_MS = 20_000
WORKER_FILES = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json",
                "app.zip", "snapshot.bin")
EARLY = ("form.mjs", "tables.mjs", "tools.mjs", "charts.mjs", "idiomorph.mjs")
"""Modules that the client imports at once: named in the head, they arrive beside it instead of after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Painted:
    """A studio's default answer for one place of the page (`source`: its pattern of source links)."""

    name: str
    view: ModuleType
    source: str
    answer: dict  # the "answer" message
    downloads: tuple[str, ...]  # names of the files a reader may save
    check: str  # `render.check`
    panel: str  # with charts drawn


def player_role(name: str) -> str:
    """Role of a studio's own drawing module among the shared files; the client knows it by the studio's name."""
    return f"{name}.player.mjs"


def later(view: ModuleType) -> tuple[str, ...]:
    """Names of the files that a studio's answers may need, fetched by the worker when they do."""
    return tuple(getattr(view, "FILES", ()))


def studios_in(root: Path, extra: tuple[Path, ...] = ()) -> dict[str, Path]:
    """Name -> folder of every studio: the folders that hold a view.py."""
    folders = [*sorted((root / "studios").iterdir()), *extra]
    return {folder.name: folder for folder in folders if (folder / "view.py").is_file()}


def paint(name: str, source: str) -> Painted:
    """Answer the default question. Raises BuildError where it has no answer: such a page must not be built."""
    from studios import render

    *_, taken = render.files(name, "")
    replies = tuple(render.replies(name, "", source))
    if replies[-1]["type"] != "answer":
        raise BuildError(f"studio {name}: the default question is refused: {replies[-1]['message']}")
    last = replies[-1]
    return Painted(name=name, view=render.studio(name), source=source, answer=last, downloads=tuple(taken["files"]),
                   check=render.check(name, source), panel=draw(last["panel"], last["charts"], f"studio {name}"))


def head(assets: Assets, prefix: str) -> str:
    """What goes into <head> of a served page."""
    return "\n".join([
        policy_tag(policy((THEME,))), f"<script>{THEME}</script>",
        f'<link rel="stylesheet" href="{prefix}{assets.files["style.css"].path}">',
        *(f'<link rel="modulepreload" href="{prefix}{assets.files[name].path}">' for name in EARLY)])


def tail(assets: Assets, prefix: str, painted: Painted) -> str:
    """What goes before </body> of a served page: configuration, then the scripts that start everything."""
    return "\n".join([data_script("bridge", configuration(assets, prefix, painted)),
                      *(f'<script type="module" src="{prefix}{assets.files[name].path}"></script>'
                        for name in ("theme.mjs", "client.mjs"))])


def configuration(assets: Assets, prefix: str, painted: Painted, wheels: tuple[str, ...] = ()) -> dict:
    """`PageConfig` of protocol.d.ts. `wheels`: packages that a single file carries for its worker."""
    return {"studio": painted.name, "assets": prefix, "files": assets.rows(painted.name), "worker": [*WORKER_FILES, *wheels],
            "later": list(later(painted.view)), "check": painted.check.split(","),
            "packages": list(painted.view.PACKAGES), "patience": PATIENCE_MS,
            "source": painted.source}


def page(painted: Painted, *, head: str, tail: str, home: str, root: str, source: str, offline: str) -> str:
    """A whole page. `source`: URL of the source listing or repository for the header's link."""
    from pycore.knobs import knobs
    from studios import render

    view, answer = painted.view, painted.answer
    every = knobs(view.Query)
    shell = render.Shell(
        studio=painted.name, title=view.TITLE, sentence=view.SENTENCE, headline=answer["headline"],
        panel=Markup(painted.panel), front=tuple(knob for name in view.FRONT for knob in every if knob.name == name),
        groups=grouped(every, view.FRONT),
        completions={table: tuple(view.completions(table)) for table in dict.fromkeys(
            knob.suggestions for knob in every if knob.suggestions)},
        presets=tuple(render.examples(painted.name)), command=answer["command"], python=answer["python"],
        downloads=painted.downloads, charts=tuple(answer["charts"]), home=home, root=root, source=source,
        offline=offline, head=Markup(head), tail=Markup(tail))
    return render.page(shell)


def grouped(knobs: tuple, front: tuple[str, ...]) -> tuple[tuple[str, tuple], ...]:
    """The fields that are not shown first, by their group, in the order of the question."""
    rest = [knob for knob in knobs if knob.name not in front]
    return tuple((group, tuple(knob for knob in rest if knob.group == group))
                 for group in dict.fromkeys(knob.group for knob in rest))


def home_page(painted: list[Painted], assets: Assets, address: Callable[[str], str]) -> str:
    """The page of all studios, one card each with a figure from its default answer."""
    from studios import render

    cards = tuple({"name": each.name, "title": each.view.TITLE, "sentence": each.view.SENTENCE,
                   "headline": each.answer["headline"], "url": address(each.name)} for each in painted)
    return render.home(cards=cards, head=Markup(head(assets, "assets/")),
                       tail=Markup(f'<script type="module" src="assets/{assets.files["theme.mjs"].path}"></script>'))
