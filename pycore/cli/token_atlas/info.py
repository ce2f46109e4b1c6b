"""`token-atlas info`: what there is to choose from, and what of it is here."""

from typing import Any

import click

import pycore
from pycore.atlas.encoders import names
from pycore.atlas.kinds import KINDS
from pycore.atlas.languages import families, languages, scripts
from pycore.atlas.prices import UNDATED, list_prices
from pycore.atlas.table import tokenizers
from pycore.cache import cache_folder, missing
from pycore.cli import output
from pycore.cli.output import heading, table
from pycore.tokens.catalogue import origin


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(as_json: bool) -> None:
    """The tokenizers, languages and models there are, and which vocabularies are here."""
    found = everything()
    if as_json:
        output.write_json(found)
    else:
        show(found)


def everything() -> dict[str, Any]:
    """All of it."""
    return {
        "version": pycore.__version__,
        "cache": str(cache_folder()),
        "tokenizers": [vocabulary(name) for name in names()],
        "columns": [{"tokenizer": one.name, "label": one.label, "exact": one.exact, "note": one.note}
                    for one in tokenizers()],
        "languages": [{"language": one.code, "name": one.name, "code": one.iso639_1, "script": one.script_name,
                       "family": one.family, "words_are_spaced": one.spaced} for one in languages()],
        "scripts": list(scripts()),
        "families": list(families()),
        "measures": {kind.name: kind.says for kind in KINDS.values()},
        "models": [{"model": one.model, "tokenizer": one.tokenizer, "exact": one.exact, "date": one.date,
                    "provider": one.provider, "evidence": one.evidence} for one in list_prices(True)],
    }


def vocabulary(name: str) -> dict[str, Any]:
    """One tokenizer that can be run."""
    found = origin(name)
    return {"tokenizer": name, "label": found.label, "here": not missing((found.file,)),
            "package": f"{found.manager} {found.package}", "sha256": found.sha256, "licence": found.licence,
            "terms": found.terms, "notice": found.notice}


def show(found: dict[str, Any]) -> None:
    """As text."""
    heading("Tokenizers (--tokenizer, --tokenizers); a file of your own by its path")
    table(("", "", "vocabulary", "licence"), [
        (one["tokenizer"], one["label"], "here" if one["here"] else f"token-atlas fetch {one['tokenizer']}", one["licence"])
        for one in found["tokenizers"]])
    heading("Columns of the matrix (--columns)")
    table(("", "", ""), [
        (one["tokenizer"], one["label"], "" if one["exact"] else "counts only") for one in found["columns"]])
    heading("Measures (--measure)")
    table(("", ""), found["measures"].items())
    heading(f"Languages ({len(found['languages'])}): by name, by code, or as FLORES writes it")
    table(("", "", "", "", ""), [(one["name"], one["code"], one["language"], one["script"], one["family"])
                                 for one in found["languages"]])
    heading("Models with a known tokenizer and a price (--prices)")
    table(("", "", "priced"), [(one["model"], one["tokenizer"] + ("" if one["exact"] else ", unofficial"),
                                one["date"] or UNDATED) for one in found["models"]])
    output.line(f"Vocabularies are kept in {found['cache']}.")
