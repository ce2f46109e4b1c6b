"""From options to an answer: the one way every infersize command asks."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from pycore.cli.errors import DoesNotFit
from pycore.cli.options import ask
from pycore.errors import SourceError, UnknownName
from pycore.knobs import to_url
from pycore.systems import infersize


def read_query(options: Mapping[str, Any]) -> infersize.Query:
    """The question, a Hub repository in --model turned into its config.json. Raises StudioError."""
    query = ask(infersize.Query, options)
    return query if query.config else from_hub(query)


def from_hub(query: infersize.Query) -> infersize.Query:
    """A model 'owner/name' that the catalogue does not hold by that name is asked of the Hub. Raises StudioError."""
    from pycore import catalog, hub

    if not hub.looks_like_repository(query.model) or held(query.model):
        return query
    try:
        found = hub.lookup(query.model)
    except SourceError as error:
        nearest = ", ".join(catalog.suggest("models", query.model.rsplit("/", 1)[-1]))
        raise SourceError(query.model, f"not in the catalogue (nearest: {nearest}), and the Hub gave nothing: {error}",
                          "model") from None
    return replace(query, config=found.config)


def held(repository: str) -> bool:
    """Whether the catalogue holds this repository's model, endings such as -Instruct or -AWQ aside.

    Stricter than the catalogue's own match: 'someone/small' is somebody's model, not the one catalogued "small".
    """
    from pycore import catalog
    from pycore.matching import atoms

    try:
        entry = catalog.model(repository)
    except UnknownName:
        return False
    asked = atoms(repository.rsplit("/", 1)[-1], catalog.MODEL_NOISE)
    return asked in (atoms(catalog.basename(entry), catalog.MODEL_NOISE), atoms(entry.name, catalog.MODEL_NOISE))


def answer(query: infersize.Query) -> infersize.Answer:
    """The answer without the matrix. Raises StudioError."""
    return infersize.answer(query, with_matrix=False)


def page_address(query: infersize.Query) -> str:
    """The query string that opens the same question on the page."""
    return "?" + to_url(query)


def joined(parts: Iterable[str]) -> str:
    """Texts with a middle dot between them, empty ones left out."""
    return " · ".join(part for part in parts if part)


def matrix(query: infersize.Query) -> tuple[infersize.MatrixRow, ...]:
    """Every accelerator, count and format for the question's model and load. Raises StudioError."""
    *_, last = infersize.steps(query)
    return last.matrix


def exit_unless(fitting: object) -> None:
    """Exit status 1 where nothing fits, after the answer was printed."""
    if not fitting:
        raise DoesNotFit


def memory(query: infersize.Query) -> Any:
    """The memory plan alone, for many models in a row. Raises StudioError."""
    from pycore.vram import plan

    return plan.memory(infersize.resolve(query))
