"""From options to an answer: the one way every infersize command asks."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from pycore.cli.errors import DoesNotFit
from pycore.cli.options import ask
from pycore.errors import NotKnown, SourceError, UnknownName
from pycore.knobs import to_url
from pycore.systems import infersize

DTYPES = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}


def read_query(options: Mapping[str, Any]) -> infersize.Query:
    """The question, a Hub repository in --model turned into its config.json. Raises StudioError."""
    query = ask(infersize.Query, options)
    return query if query.config else from_hub(query, explicit=options.get("quant") is not None)


def from_hub(query: infersize.Query, explicit: bool) -> infersize.Query:
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
    return with_config(query, found.config, explicit)


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


def with_config(query: infersize.Query, config: str, explicit: bool) -> infersize.Query:
    """The question about a config's model; its stored weight format counts unless --quant says otherwise."""
    return replace(query, config=config, **({} if explicit else {"quant": stored_format(config, query.model)}))


def stored_format(config: str, name: str) -> str:
    """The catalogue format a checkpoint is stored in. Raises ConfigError, NotKnown where the catalogue holds none."""
    import json

    from pycore.config_json import read_config

    model = read_config(config, name)
    if model.stored_format:
        return model.stored_format
    fields = json.loads(config)
    inner = fields.get("text_config") if isinstance(fields.get("text_config"), dict) else {}
    method = fields.get("quantization_config") or inner.get("quantization_config")
    if method:
        method = method.get("quant_method") if isinstance(method, dict) else method
        raise NotKnown(f"the weights are stored quantised ({str(method)[:40]}) in a way the catalogue does not hold; "
                       "say with --quant which format to size for", "quant")
    if model.native_dtype not in DTYPES:
        raise NotKnown(f"the weights are stored as {model.native_dtype!r}, which the catalogue does not hold; say with "
                       "--quant which format to size for", "quant")
    return DTYPES[model.native_dtype]


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
