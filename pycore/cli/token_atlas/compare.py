"""`token-atlas compare`: one text under several tokenizers."""

from typing import Any

import click

from pycore.atlas.live import Figures, figures
from pycore.atlas.story import price_term
from pycore.cli import output
from pycore.cli.errors import flag
from pycore.cli.options import QuestionCommand
from pycore.cli.progress import bar
from pycore.cli.token_atlas import asking, own, source
from pycore.cli.token_atlas.source import Source
from pycore.errors import SourceError
from pycore.knobs import TEXT_LIMIT
from pycore.ledger import Term, terms_in
from pycore.systems.token_atlas import Query
from pycore.tokens.tokenizer import Tokenizer
from pycore.units import MB, dollars, significant

SHOWN_CHARACTERS = 200
EPILOG = """\b
Examples:
  token-atlas compare --text "Hello world"
  token-atlas compare --file book.txt --tokenizers o200k_base,gemma3 --price 2.5
  cat notes.md | token-atlas compare --json
  token-atlas compare --text "नमस्ते दुनिया" --tokenizers o200k_base,./tokenizer.json

\b
Without --tokenizers: every one whose vocabulary is here. Special tokens are text unless --specials.
A file of any size is read in parts; only counts are kept.
"""


@click.command(cls=QuestionCommand, epilog=EPILOG)
@source.options
@asking.explained
@asking.options("tokenizers", "specials", "price")
def command(text: str | None, file: str | None, explain: str | None, **options: Any) -> None:
    """One text under several tokenizers: tokens, density and cost, side by side."""
    as_json, named = flag(options, "as_json"), options.pop("tokenizers")
    query = asking.read(options)
    with source.opened(text, file) as opened:
        whole = source.whole(opened, TEXT_LIMIT)
        found = own.several(named)
        tokenizers = [made for _, made in found if isinstance(made, Tokenizer)]
        size, rows = counted(opened, whole, tokenizers, query)
    missing = [(name, str(error)) for name, error in found if isinstance(error, SourceError)]
    if explain is not None:
        asking.explain(tuple(term for one in rows for term in terms_in(one)), explain)
    elif as_json:
        output.write_json(document(size, rows, missing))
    else:
        short = whole is not None and len(whole) <= SHOWN_CHARACTERS
        show(whole, size, rows, missing, {one.name: cuts(one, whole) for one in tokenizers} if short else {})


def counted(opened: Source, text: str | None, tokenizers: list[Tokenizer],
            query: Query) -> tuple[tuple[int, int], list[Figures]]:
    """((characters, bytes), figures by tokenizer) of a text, or where it is None of the source. Raises SourceError."""
    if text is not None:
        characters, counts = len(text), [one.count(text, specials=query.specials) for one in tokenizers]
    else:
        characters, counts = streamed(opened, tokenizers, query.specials)
    size = (characters, opened.size)
    return size, [figures(one, count, *size, price_term(one.name, query.price))
                  for one, count in zip(tokenizers, counts, strict=True)]


def streamed(opened: Source, tokenizers: list[Tokenizer], specials: bool) -> tuple[int, list[int]]:
    """(characters, counts) of a text too long to hold: each tokenizer reads it anew, with a bar where somebody watches."""
    counts, characters = [], 0
    with bar() as report:
        for index, one in enumerate(tokenizers):
            def seen(done: int, index: int = index, name: str = one.name) -> None:
                report(f"{name}: {done / MB:,.1f} of {opened.size / MB:,.1f} MB",
                       (index + done / opened.size) / len(tokenizers))

            *_, last = one.count_stream(source.pieces(opened, seen), specials=specials)
            counts.append(last.tokens)
            characters = last.characters
    return characters, counts


def document(size: tuple[int, int], rows: list[Figures], missing: list[tuple[str, str]]) -> dict[str, Any]:
    """The comparison as plain data."""
    return {
        "characters": size[0], "bytes": size[1],
        "tokenizers": [{
            "tokenizer": one.name, "label": one.label, "tokens": one.tokens.value,
            "tokens_per_character": asking.value(one.per_character), "tokens_per_byte": asking.value(one.per_byte),
            "usd": asking.value(one.cost), "usd_per_million": asking.value(one.price),
            "priced_as": None if one.price is None else one.price.name,
            "price_source": None if one.price is None else one.price.source} for one in rows],
        "missing": [{"tokenizer": name, "says": says} for name, says in missing],
    }


def show(text: str | None, size: tuple[int, int], rows: list[Figures], missing: list[tuple[str, str]],
         cut: dict[str, str]) -> None:
    """The table, fewest tokens first; of a short text the pieces too (`cut`, by tokenizer)."""
    output.line(f"{size[0]:,} characters, {size[1]:,} bytes", style="bold")
    output.line()
    fewest = min((one.tokens.value for one in rows), default=0)
    ordered = sorted(rows, key=lambda one: one.tokens.value)
    output.table(("tokenizer", "", "tokens", "against the fewest", "characters/token", "bytes/token", "cost",
                  "price per 1M tokens"), [
        (one.name, one.label, f"{one.tokens.value:,}", f"{one.tokens.value / fewest:.2f}×" if fewest else "–",
         inverse(one.per_character), inverse(one.per_byte), "–" if one.cost is None else one.cost.text, priced_as(one))
        for one in ordered], right=(2, 3, 4, 5, 6), indent=0)
    for name, _ in missing:
        output.line(f"{name}: its vocabulary is not here; token-atlas fetch {name}")
    if text and len(text) <= SHOWN_CHARACTERS:
        output.heading("Where they cut")
        for name, written in cut.items():
            output.line(f"  {name}: {written}")


def inverse(found: Term | None) -> str:
    """'4.2' characters or bytes a token."""
    return significant(1 / found.value) if found and found.value else "–"


def priced_as(one: Figures) -> str:
    """Whose price it is."""
    if one.price is None:
        return ""
    usd, name = dollars(one.price.value), one.price.name.removesuffix(", input")
    return usd if one.price.basis == "given" else f"{usd}, {name}"


def cuts(tokenizer: Tokenizer, text: str) -> str:
    """The pieces with a bar between them; bytes in hex where a piece is no whole character."""
    return "|".join(shown(piece) for piece in tokenizer.encode(text).pieces)


def shown(piece: bytes) -> str:
    """A piece as text, spaces and line ends made visible."""
    try:
        return piece.decode().replace(" ", "·").replace("\n", "⏎").replace("\t", "⇥")
    except UnicodeDecodeError:
        return f"<{piece.hex(' ')}>"
