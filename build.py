"""Build the pages into dist/, or build and serve them. `python build.py --help`.

Studios are found by listing folders: what has a view.py is one. The parts of the build lie in site/builder/.
"""

import sys
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / "site"))  # site/ is no package: its name belongs to the standard library

from builder.cache import BuildError  # noqa: E402
from builder.effects import Folder  # noqa: E402
from builder.server import address, server  # noqa: E402
from builder.site import Options, build  # noqa: E402


def shared(command: click.Command) -> click.Command:
    """The options of both commands."""
    for option in reversed((
        click.option("--studio", default="", metavar="NAME", help="Build one studio only."),
        click.option("--offline", is_flag=True, help="Also dist/offline/NAME.html: one file that works from file://."),
        click.option("--spaces", is_flag=True, help="Also dist/spaces/NAME/: a whole Hugging Face static Space."),
        click.option("--source-url", default="", metavar="URL", help="Base URL for links to lines of code, such as a "
                     "repository's page of a commit. Without it the code is built as pages too."),
        click.option("--out", type=click.Path(path_type=Path), default=ROOT / "dist", metavar="DIR",
                     help="Where to write (default: dist)."),
        click.option("--studio-folder", "extra", type=click.Path(path_type=Path, exists=True), multiple=True,
                     metavar="DIR", help="A studio that lies elsewhere; may be given again."),
        click.option("--no-snapshot", is_flag=True, help="Leave the memory snapshot out: pages then start slowly."),
    )):
        command = option(command)
    return command


@click.group()
def main() -> None:
    """Build the pages of Inference Studios. Files from elsewhere are fetched once and verified at every build."""


@main.command("build")
@shared
def build_command(out: Path, **chosen: object) -> None:
    """Write every page into dist/."""
    write(out, **chosen)


@main.command("serve")
@shared
@click.option("--port", default=8000, show_default=True, help="Port on 127.0.0.1; the next free one if it is taken.")
def serve_command(out: Path, port: int, **chosen: object) -> None:
    """Write every page into dist/ and serve it on this machine."""
    write(out, **chosen)
    running = server(out, port)
    click.echo(f"\nServing {out} at {address(running)} (Ctrl+C ends it)")
    try:
        running.serve_forever()
    except KeyboardInterrupt:
        running.server_close()


def write(out: Path, *, studio: str, offline: bool, spaces: bool, source_url: str, extra: tuple[Path, ...],
          no_snapshot: bool) -> None:
    """Build into a folder; a BuildError becomes one message and exit status 1."""
    effects = Folder(out)
    try:
        build(Options(root=ROOT, only=studio, offline=offline, spaces=spaces, source=source_url,
                      extra=tuple(path.resolve() for path in extra), snapshot=not no_snapshot), effects)
    except BuildError as error:
        raise click.ClickException(str(error)) from None
    effects.finish()


if __name__ == "__main__":
    main()
