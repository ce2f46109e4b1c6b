"""The answer as one JSON object. `plan`'s keys are kept stable for scripts; other keys may be added, none renamed."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from pycore.cli.infersize.remarks import notes, remedy_command, targets
from pycore.knobs import as_text, knobs, to_command, to_url
from pycore.ledger import Term
from pycore.systems.infersize import Answer, Query

WORKINGS = ("pace",)
"""Fields that a row carries for the core's own use."""


def document(answer: Answer) -> dict[str, Any]:
    """The object that `infersize plan --json` prints."""
    query = answer.query
    return {
        "model": answer.deployment.model.name,
        "accelerator": answer.deployment.accelerator.name,
        "weights": answer.deployment.weights.id,
        "query": question(query),
        "url": "?" + to_url(query),
        "command": to_command(query, "infersize plan"),
        "fits": answer.fits,
        "per_gpu": per_gpu(answer.memory),
        "capacity": capacity(answer.capacity),
        "speed": speed(answer.speed),
        "cost": cost(answer.cost),
        "speculation": data(answer.speculation),
        "remedies": [data(remedy) | {"command": remedy_command(query, remedy.changes)} for remedy in answer.remedies],
        "launch": data(answer.launch),
        "log": data(answer.log_rows),
        "notes": list(notes(answer)),
        "targets": data(targets(answer)),
        "terms": [one.as_dict() for one in answer.terms],
    }


def question(query: Query) -> dict[str, Any]:
    """Every field with its value as JSON; `parse` takes it back."""
    return {knob.name: getattr(query, knob.name) for knob in knobs(query)}


def numbers(**terms: tuple[Term | None, float]) -> dict[str, float | None]:
    """name=(term, factor) -> its value times the factor, with `name_low` and `name_high` beside it where ranged."""
    found: dict[str, float | None] = {}
    for name, (term, factor) in terms.items():
        found[name] = None if term is None else scaled(term.value, factor)
        if term is not None and term.low is not None:
            found |= {f"{name}_low": scaled(term.low, factor), f"{name}_high": scaled(term.high, factor)}
    return found


def scaled(value: float, factor: float) -> float:
    """Integers stay integers where nothing is scaled."""
    return value if factor == 1 else value * factor


def per_gpu(memory: Any) -> dict[str, Any]:
    """Bytes on the fullest GPU."""
    return numbers(
        weights_bytes=(memory.weights, 1), kv_bytes=(memory.kv, 1), kv_minimum_bytes=(memory.kv_minimum, 1),
        kv_bytes_per_token=(memory.kv_bytes_per_token, 1), activations_bytes=(memory.activations, 1),
        graphs_bytes=(memory.graphs, 1), framework_bytes=(memory.framework, 1), total_bytes=(memory.total, 1),
        usable_bytes=(memory.usable, 1), budget_bytes=(memory.budget, 1), free_bytes=(memory.free, 1))


def capacity(found: Any) -> dict[str, Any]:
    """What the engine would say it can hold."""
    return numbers(
        kv_tokens=(found.kv_tokens, 1), blocks=(found.blocks, 1), max_context=(found.max_context, 1),
        max_sequences=(found.max_sequences, 1))


def speed(found: Any) -> dict[str, Any]:
    """Predicted times in ms and rates in tokens/s, with their ranges."""
    return numbers(
        ttft_ms=(found.ttft_s, 1000), tpot_ms=(found.tpot_s, 1000), prefill_ms=(found.prefill_s, 1000),
        tokens_per_s_user=(found.tokens_per_s_user, 1), tokens_per_s_total=(found.tokens_per_s_total, 1),
        tokens_per_s_per_gpu=(found.tokens_per_s_per_gpu, 1), requests_per_s=(found.requests_per_s, 1),
        mfu_prefill_percent=(found.mfu_prefill, 1), mbu_decode_percent=(found.mbu_decode, 1),
    ) | {"calibrated": found.calibrated, "calibration": found.calibration, "bound_prefill": found.bound_prefill,
         "bound_decode": found.bound_decode}


def cost(found: Any) -> dict[str, Any]:
    """USD, per million tokens unless the name says otherwise; `usd_per_million_tokens` is the question's own mix."""
    return numbers(
        usd_per_million_tokens=(found.usd_per_million_blended, 1),
        usd_per_million_input=(found.usd_per_million_input, 1),
        usd_per_million_cached_input=(found.usd_per_million_cached_input, 1),
        usd_per_million_output=(found.usd_per_million_output, 1),
        usd_per_million_three_to_one=(found.usd_per_million_three_to_one, 1),
        usd_per_gpu_hour=(found.usd_per_gpu_hour, 1), usd_per_hour=(found.usd_per_hour, 1),
        energy_kwh_per_million_tokens=(found.energy_upper_bound, 1),
        break_even_utilisation_percent=(found.break_even_utilisation, 1),
    ) | {"price_source": found.usd_per_gpu_hour.source if found.usd_per_gpu_hour else None,
         "price_note": found.usd_per_gpu_hour.note if found.usd_per_gpu_hour else None,
         "break_even": found.break_even, "not_known": list(found.not_known)}


def data(value: Any) -> Any:
    """Dataclasses as objects, terms explained, everything JSON can hold kept as it is."""
    if isinstance(value, Term):
        return value.as_dict()
    if dataclasses.is_dataclass(value):
        return {field.name: data(getattr(value, field.name)) for field in dataclasses.fields(value)
                if field.name not in WORKINGS}
    if isinstance(value, (list, tuple)):
        return [data(one) for one in value]
    if isinstance(value, Mapping):
        return {str(key): data(one) for key, one in value.items()}
    return value if value is None or isinstance(value, (bool, int, float, str)) else as_text(value)
