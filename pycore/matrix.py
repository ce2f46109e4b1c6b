"""Every accelerator at once: does the load fit, how fast, at what price, for each count and weight format.

The rows use the ledger's own formulas through the quick paths of `vram` and `roofline`, about ten thousand a second.
"""

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from pycore import catalog
from pycore.cost import tokens
from pycore.cost.prices import choose
from pycore.errors import InputError, NotKnown
from pycore.layout import automatic
from pycore.nouns import Accelerator, Deployment, Format, Parallel
from pycore.roofline import quick as timing
from pycore.roofline.load import Pace, pace
from pycore.roofline.step import step_seconds
from pycore.vram import quick
from pycore.vram.engines import ENGINES, Engine, tokens_a_step

COUNTS = (1, 2, 4, 8)


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixRow:
    """One way to serve the question's load. Speeds and price are None where it does not fit or a fact is missing.

    `changes` are the Query fields that ask for this row; `reason` says in words why a row has no speed; `pace` is the
    speed model's own answer, `decode_s` a step in which the whole load decodes.
    """

    accelerator_id: str
    accelerator_name: str
    count: int
    format_id: str
    format_name: str
    fits: bool
    reason: str
    total_bytes: int
    usable_bytes: int
    max_sequences: int
    tpot_s: float | None
    tokens_per_s_user: float | None
    tokens_per_s_total: float | None
    tokens_per_s_per_gpu: float | None
    usd_per_million: float | None
    changes: dict[str, object]
    pace: Pace | None = None
    decode_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One weight format at one count, laid out: what every accelerator of the matrix is asked."""

    weights: Format
    keys: Format
    values: Format
    engine: str
    parallel: Parallel
    memory: quick.PreparedMemory
    changes: dict[str, object]


def rows(deployment: Deployment, formats: Iterable[Format], *, accelerators: Iterable[Accelerator] | None = None,
         counts: Iterable[int] = COUNTS, usd_per_gpu_hour: float = 0.0,
         utilisation: float = 1.0) -> Iterator[MatrixRow]:
    """One row for each accelerator, format and count, accelerator by accelerator.

    The load, the engine and the KV format are the deployment's; a format that its engine cannot load is asked of the
    first engine that can. `usd_per_gpu_hour` above 0 replaces the catalogue's price of the question's own accelerator.
    """
    columns = [column for weights in formats for count in counts if (column := lay_out(deployment, weights, count))]
    for accelerator in catalog.accelerators() if accelerators is None else accelerators:
        own = accelerator.id == deployment.accelerator.id
        for column in columns:
            found = row(deployment, accelerator, column)
            given = usd_per_gpu_hour if own else 0.0
            price = given or hourly_price(accelerator.id, found.count)
            yield found if price is None else priced(found, deployment, price, utilisation)


@functools.lru_cache(maxsize=1024)
def hourly_price(accelerator_id: str, devices: int) -> float | None:
    """The price of one of so many devices that `cost` would take, USD per hour; None where the catalogue has none."""
    chosen = choose(catalog.cloud_prices(accelerator_id), devices)
    return None if chosen is None else chosen.usd_per_gpu_hour


def lay_out(deployment: Deployment, weights: Format, count: int) -> Column | None:
    """A column, or None where no engine loads the format or the model cannot be split over so many devices."""
    profile = able(deployment.engine, weights)
    if profile is None:
        return None
    try:
        tensor, pipeline = automatic(deployment.model, count, weights=weights, expert=deployment.parallel.expert)
    except InputError:
        return None
    keys, values = kept(profile, deployment.keys), kept(profile, deployment.values)
    parallel = Parallel(tensor=tensor, pipeline=pipeline, expert=deployment.parallel.expert)
    changes = {"quant": catalog.short(weights), "count": count, "tp": 0, "pp": 1, "dp": 1}
    if profile.id != deployment.engine:
        changes |= {"engine": profile.id}
    if (keys, values) != (deployment.keys, deployment.values):
        changes |= {"kv_dtype": "auto", "v_dtype": "same"}
    prepared = quick.prepare_deployment(replace(deployment, weights=weights, keys=keys, values=values,
                                                parallel=parallel, engine=profile.id))
    return Column(weights=weights, keys=keys, values=values, engine=profile.id, parallel=parallel, memory=prepared,
                  changes=changes)


def able(engine_id: str, weights: Format) -> Engine | None:
    """The asked engine where it loads the format, else the first that does."""
    order = (ENGINES[engine_id], *ENGINES.values())
    return next((profile for profile in order if weights.family in profile.weight_families), None)


def kept(profile: Engine, cache: Format) -> Format:
    """The KV format where the engine stores it, else 16-bit."""
    return cache if cache.id.removeprefix("kv-").replace("-", "_") in profile.keys else catalog.kv_format("auto")


def row(deployment: Deployment, accelerator: Accelerator, column: Column) -> MatrixRow:
    """One accelerator asked one column, without its price."""
    size = quick.memory(column.memory, accelerator, deployment.context, deployment.sequences,
                        **quick.settings(deployment))
    found, decode, reason = (None, 0.0, "does not fit") if not size.fits else speed_of(deployment, accelerator, column)
    total = found and found.requests_per_s * deployment.output
    return MatrixRow(
        accelerator_id=accelerator.id, accelerator_name=accelerator.name, count=column.parallel.devices,
        format_id=column.weights.id, format_name=column.weights.name, fits=size.fits, reason=reason,
        total_bytes=size.total_bytes, usable_bytes=size.usable_bytes, max_sequences=size.max_sequences,
        tpot_s=found and found.tpot, tokens_per_s_user=found and 1.0 / found.tpot, tokens_per_s_total=total,
        tokens_per_s_per_gpu=total and total / column.parallel.devices, usd_per_million=None,
        changes={"gpu": accelerator.id} | column.changes, pace=found, decode_s=decode)


def speed_of(deployment: Deployment, accelerator: Accelerator, column: Column) -> tuple[Pace | None, float, str]:
    """(pace of a row that fits, seconds of a step in which the whole load decodes, why they are not known)."""
    budget = tokens_a_step(column.memory.engine, quick.card_bytes(accelerator)[0], accelerator.id,
                           deployment.max_batched_tokens)
    try:
        step = timing.prepare(deployment.model, column.weights, column.keys, column.values, column.parallel,
                              accelerator, column.engine, budget)
    except NotKnown as unknown:
        return None, 0.0, str(unknown)
    load = timing.requests_of(step, deployment.sequences, deployment.prompt, deployment.output,
                              deployment.cached_tokens)
    found = pace(step.step, load)
    return found, step_seconds(step.step, load.together, load.together * load.context), ""


def priced(found: MatrixRow, deployment: Deployment, price: float, utilisation: float) -> MatrixRow:
    """The row with its blended price, by the formulas of `cost.tokens`."""
    if found.pace is None:
        return found
    rate, prompt, output = found.pace.requests_per_s, deployment.prompt, deployment.output
    share = tokens.prompt_share.plain(tokens.decode_seconds.plain(output, found.decode_s, deployment.sequences), rate)
    request_s = tokens.request_seconds.plain(tokens.prompt_seconds.plain(share, rate),
                                             tokens.answer_seconds.plain(share, rate))
    second = tokens.busy_second.plain(tokens.machine_hour.plain(price, found.count), utilisation)
    return replace(found, usd_per_million=tokens.blended_price.plain(second, request_s, prompt, output))
