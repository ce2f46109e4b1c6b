"""Kernel tables from a profile in CSV: the packaged ones of `data/serving-profiles/`, or a folder of one's own.

A profile is four tables, times in microseconds: dense (layer, tokens, time_us), per_sequence (layer, sequences,
time_us), attention (prefill_chunk, kv_prefill, n_decode, kv_decode, time_us) and, where it was made, skew (t_mean_us,
t_max_us, t_skew_us: a batch with all contexts at the mean, all at the longest, and the uneven batch itself).
"""

import csv
import functools
import math
from collections.abc import Iterable, Mapping, Sequence

from pycore import facts
from pycore.errors import InputError
from pycore.simulation.costs.interpolate import Line, grid, line
from pycore.simulation.costs.tables import KernelTables

IN_LAYER = (("layernorm", 2), ("qkv_proj", 1), ("rotary_emb", 1), ("o_proj", 1), ("gate_up_proj", 1), ("act_fn", 1),
            ("down_proj", 1))
"""Operations of one layer and how often each runs."""
ONCE, HEAD = ("embedding", "final_layernorm"), ("lm_head", "sampler")
SHAPE = ("prefill_chunk", "kv_prefill", "n_decode", "kv_decode")
DATASET = "serving-profiles"

Rows = Sequence[Mapping[str, str]]


def number(row: Mapping[str, str], column: str, table: str) -> float:
    """A cell that must be a finite number from 0 up. Raises InputError naming table, column and value."""
    text = row.get(column)
    try:
        value = float(text or "")
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise InputError("profile", f"{table}: {column} = {text}", "accepted: a number from 0 up in every row")
    return value


def lines_of(rows: Rows, table: str, axis: str, layers: Iterable[str]) -> dict[str, Line]:
    """One line a layer. Raises InputError where a layer is missing."""
    points: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        points.setdefault(row.get("layer") or "", []).append((number(row, axis, table), number(row, "time_us", table)))
    missing = [name for name in layers if name not in points]
    if missing:
        raise InputError("profile", f"{table} without {', '.join(missing)}", "accepted: every layer of the model")
    try:
        return {name: line(points[name]) for name in layers}
    except ValueError as error:
        raise InputError("profile", table, str(error)) from error


def added(lines: Mapping[str, Line], parts: Iterable[tuple[str, int]]) -> Line:
    """The sum of lines, each taken so many times, at the points of the first."""
    parts = tuple(parts)
    places = lines[parts[0][0]].at
    return Line(places, tuple(math.fsum(count * lines[name](place) for name, count in parts) for place in places))


def attention_rows(rows: Rows) -> list[tuple[float, ...]]:
    """Rows (prompt tokens, cached before, decoding, context, µs)."""
    return [(*(number(row, column, "attention") for column in SHAPE), number(row, "time_us", "attention"))
            for row in rows]


def unevenness(rows: Rows) -> float:
    """Σ (longest − mean)(uneven − mean) / Σ (longest − mean)², over shots of uneven batches; 0 without any."""
    shots = [tuple(number(row, column, "skew") for column in ("t_mean_us", "t_max_us", "t_skew_us")) for row in rows]
    down = math.fsum((longest - mean) ** 2 for mean, longest, _ in shots)
    return math.fsum((longest - mean) * (mixed - mean) for mean, longest, mixed in shots) / down if down else 0.0


def condense(tables: Mapping[str, Rows], *, id: str, layers: int, accelerator: str = "", model: str = "",
             engine: str = "", source: str = "given") -> KernelTables:
    """A profile's tables (by the names above) as kernel tables. Raises InputError where one is missing or wrong."""
    absent = [name for name in ("dense", "per_sequence", "attention") if not tables.get(name)]
    if absent:
        raise InputError("profile", "no " + ", ".join(absent), "accepted: tables dense, per_sequence and attention")
    dense = lines_of(tables["dense"], "dense", "tokens", [name for name, _ in IN_LAYER] + list(ONCE))
    heads = lines_of(tables["per_sequence"], "per_sequence", "sequences", HEAD)
    try:
        attention = grid(attention_rows(tables["attention"]))
    except ValueError as error:
        raise InputError("profile", "attention", str(error)) from error
    return KernelTables(id=id, accelerator=accelerator, model=model, engine=engine, layers=layers,
                        block=added(dense, IN_LAYER), once=added(dense, [(name, 1) for name in ONCE]),
                        head=added(heads, [(name, 1) for name in HEAD]), attention=attention,
                        unevenness=unevenness(tables.get("skew", ())), source=source)


def read_csv(text: str) -> list[dict[str, str]]:
    """Rows of a CSV text."""
    return list(csv.DictReader(text.splitlines()))


@functools.cache
def packaged() -> tuple[KernelTables, ...]:
    """The kernel tables that come with the product: Llama-3.1-8B in bf16 on two cards, profiled by LLMServingSim."""
    lines: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for row in facts.table("lines", DATASET):
        lines.setdefault((row["profile"], row["part"]), []).append((float(row["at"]), float(row["time_us"])))
    shapes: dict[str, list[tuple[float, ...]]] = {}
    for row in facts.table("attention", DATASET):
        shapes.setdefault(row["profile"], []).append(tuple(float(row[name]) for name in (*SHAPE, "time_us")))
    return tuple(KernelTables(
        id=row["profile"], accelerator=row["accelerator"], model=row["model"], engine=row["engine"],
        layers=int(row["layers"]), block=line(lines[row["profile"], "block"]), once=line(lines[row["profile"], "once"]),
        head=line(lines[row["profile"], "head"]), attention=grid(shapes[row["profile"]]),
        unevenness=float(row["unevenness"]), source=row["source"]) for row in facts.table("profiles", DATASET))
