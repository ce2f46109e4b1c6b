"""The whole build, in order: files from elsewhere, the application, its snapshot, then every page."""

import json
from dataclasses import dataclass
from pathlib import Path

from builder.assets import Assets, bridge_assets
from builder.cache import BuildError
from builder.effects import Effects
from builder.listing import PATTERN, listings
from builder.notices import notices
from builder.pack import app_zip, on_path
from builder.pages import Painted, head, home_page, later, page, paint, player_role, studios_in, tail
from builder.single import single_head, single_tail
from builder.snapshot import RUNTIME, snapshot
from builder.space import card, within_limit
from builder.vendor import vendored
from builder.wheel import wheel
from pycore.cache import place
from pycore.errors import SourceError

PYODIDE = "pyodide-314.0.3"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What to build. `only`: one studio's name, "" for all. `source`: base URL of the code, "" for pages of our own."""

    root: Path
    only: str = ""
    offline: bool = False
    spaces: bool = False
    source: str = ""
    extra: tuple[Path, ...] = ()
    snapshot: bool = True
    wheel: bool = True

    def pattern(self, prefix: str) -> str:
        """Pattern of source links for a page that lies `prefix` below the home page's folder."""
        if self.source:
            return self.source.rstrip("/") + "/{path}#L{line}"
        return prefix + PATTERN


def build(options: Options, effects: Effects) -> list[Painted]:
    """Build everything that `options` ask for. Raises BuildError. Returns the painted default answers."""
    folders = chosen(options)
    on_path(options.root, folders)
    files = vendored(effects)
    for name in folders:
        bring(effects, name)
    served = [paint(name, options.pattern("../")) for name in folders]
    assets, digests = shared_assets(options, effects, files, folders)
    for painted in served:
        same_everywhere(painted, digests)
        effects.write(f"{painted.name}/index.html", served_page(options, assets, painted))
        effects.say(f"{painted.name}: {painted.answer['headline']}")
    effects.write("index.html", home_page(served, assets, lambda name: f"{name}/"))
    assets.write(effects, "assets/")
    for path, text in listings(options.root).items():
        effects.write(path, text)
    for name in folders:
        if options.offline:
            effects.write(f"offline/{name}.html", single_page(options, assets, name))
        if options.spaces:
            write_space(options, effects, assets, name)
    if options.wheel:
        name, data = wheel(options.root)
        effects.write(f"wheels/{name}", data)
    return served


def chosen(options: Options) -> dict[str, Path]:
    """The studios to build. Raises BuildError where there is none of that name."""
    folders = studios_in(options.root, options.extra)
    if options.only and options.only not in folders:
        raise BuildError(f"there is no studio {options.only!r}; studios: {', '.join(folders) or 'none yet'}")
    return {name: folder for name, folder in folders.items() if options.only in ("", name)}


def shared_assets(options: Options, effects: Effects, files: dict[str, Path],
                  folders: dict[str, Path]) -> tuple[Assets, dict[str, str]]:
    """Every shared file, and what Pyodide's own answers hash to (empty without a snapshot)."""
    from studios import render

    assets = Assets()
    for name, data in bridge_assets(options.root / "site").items():
        assets.add(name, data)
    for name, folder in folders.items():
        if (folder / "player.mjs").is_file():
            assets.add(player_role(name), (folder / "player.mjs").read_bytes())
    for name in ("idiomorph.mjs", "vega.js"):
        assets.add(name, files[name].read_bytes())
    for name in RUNTIME:
        data = files[name].read_bytes()
        if name == "pyodide-lock.json":
            data = short_lock(data, [name for name in files if name.endswith(".whl")])
        assets.add(name, data, folder=PYODIDE)
    for name, path in files.items():
        if name.endswith(".whl"):
            assets.add(name, path.read_bytes(), folder="packages")
    for name in folders:
        for file in later(render.studio(name)):
            assets.add(file, place(file).read_bytes(), user=name)
    effects.write("assets/NOTICES.txt", notices(files, map(render.studio, folders)))
    app = app_zip(options.root, folders)
    assets.add("app.zip", app)
    if not options.snapshot:
        return assets, {}
    taken = snapshot(effects, files, app, {name: options.pattern("../") for name in folders})
    assets.add("snapshot.bin", taken.packed)
    return assets, taken.digests


def bring(effects: Effects, name: str) -> dict[str, Path]:
    """Name -> the file, in the cache folder, of all that a studio's answers may need. Raises BuildError."""
    from studios import render

    view = render.studio(name)
    try:
        return {file: view.supply(file, effects.say) for file in later(view)}
    except SourceError as error:
        raise BuildError(str(error)) from None


def short_lock(data: bytes, wheels: list[str]) -> bytes:
    """Pyodide's lock file with only the packages that lie in our own folder."""
    lock = json.loads(data)
    lock["packages"] = {name: row for name, row in lock["packages"].items() if row["file_name"] in wheels}
    return json.dumps(lock, separators=(",", ":")).encode()


def same_everywhere(painted: Painted, digests: dict[str, str]) -> None:
    """Promise 2, kept at build time: Pyodide's panel has CPython's bytes. Raises BuildError.

    A panel that needs files which the snapshot was made without is left to tests/wasm.
    """
    if digests and not painted.check.startswith(digests[painted.name]):
        raise BuildError(f"studio {painted.name}: the default panel differs between CPython and Pyodide "
                         f"({painted.check[-12:]} and {digests[painted.name][-12:]}); tests/wasm shows where")


def served_page(options: Options, assets: Assets, painted: Painted) -> str:
    return page(painted, head=head(assets, "../assets/"), tail=tail(assets, "../assets/", painted), home="../",
                root="../", source=options.source or "../source/pycore/__init__.py.html",
                offline=f"../offline/{painted.name}.html" if options.offline else "")


def single_page(options: Options, assets: Assets, name: str) -> str:
    """The one file of a studio. Its numbers name their lines without a link, unless a repository's address is given."""
    painted = paint(name, options.pattern("") if options.source else "")
    return page(painted, head=single_head(assets), tail=single_tail(assets, painted), home="", root="",
                source=options.source, offline="")


def write_space(options: Options, effects: Effects, assets: Assets, name: str) -> None:
    """A folder that is a whole Space."""
    painted = paint(name, options.pattern(""))
    html = page(painted, head=head(assets, "assets/"), tail=tail(assets, "assets/", painted), home="", root="",
                source=options.source or "source/pycore/__init__.py.html", offline="")
    files = {"README.md": card(painted).encode(), "index.html": html.encode()}
    files["assets/NOTICES.txt"] = notices(vendored(effects), (painted.view,)).encode()
    files |= {f"assets/{path}": data for path, data in assets.written(name).items()}
    files |= {path: text.encode() for path, text in listings(options.root).items()}
    within_limit(files)
    for path, data in files.items():
        effects.write(f"spaces/{name}/{path}", data)
