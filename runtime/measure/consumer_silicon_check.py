"""What --check holds data/consumer-silicon-benchmarks against: itself, the model's hash, and sizes from its shape."""

import math
import statistics
import sys

from runtime.measure.consumer_silicon_rows import COLUMNS, FIGURES, FOLDER, KEYS, committed
from runtime.mini_infer.kv_formats import BITS, kv_format
from runtime.models.supply import SMOLLM2

LAYERS, KV_HEADS, HEAD_WIDTH = 30, 3, 64  # of SmolLM2-135M, as its config.json on the Hub says
Row = dict[str, str]
ROUNDING = 1.1e-5  # samples and medians are written with six digits: two samples' mean, and itself, off by 5e-6 each


def check() -> int:
    """Exit status."""
    tables = {name: committed(name) for name in COLUMNS}
    if not any(tables.values()):
        print(f"{FOLDER} holds no rows yet: nothing to check")
        return 0
    faults = [fault for name, rows in tables.items() for fault in shape(name, rows)]
    faults = faults or references(tables) + [fault for row in tables["configurations"] for fault in sizes(row)] + [
        fault for row in tables["speeds"] for fault in figures(row)]
    for fault in faults:
        print(f"{FOLDER}: {fault}", file=sys.stderr)
    print(f"{sum(map(len, tables.values()))} rows checked, {len(faults)} differ")
    return 1 if faults else 0


def shape(name: str, rows: list[Row]) -> list[str]:
    """Columns are the generator's; no key comes twice."""
    if not rows or tuple(rows[0]) != COLUMNS[name]:
        return [f"{name}.csv has not the columns that the generator writes"]
    keys = [tuple(row[part] for part in KEYS[name]) for row in rows]
    return [f"{name}.csv has {key} twice" for key in sorted(set(keys)) if keys.count(key) > 1]


def references(tables: dict[str, list[Row]]) -> list[str]:
    """Every row's machine and configuration are there, and every configuration was measured."""
    machines = {row["machine"] for row in tables["machines"]}
    pairs = {(row["machine"], row["configuration"]) for row in tables["configurations"]}
    measured = {(row["machine"], row["configuration"]) for row in tables["speeds"]}
    return ([f"machine {name} is in no machines.csv" for name, _ in sorted(pairs) if name not in machines]
            + [f"{pair} has no speeds or no configuration" for pair in sorted(pairs ^ measured)])


def sizes(row: Row) -> list[str]:
    """Bytes of a token from the shape alone; the saving; the model's hash."""
    faults = []
    kept, plain = (kv_format(name, HEAD_WIDTH).row_bytes for name in (row["kv_format"], "float16"))
    if row["kv_format"] not in BITS or int(row["kv_bytes_per_token"]) != 2 * LAYERS * KV_HEADS * kept:
        faults.append(f"{row['configuration']}: {row['kv_bytes_per_token']} bytes a token do not follow from the shape")
    if not math.isclose(float(row["kv_saved_against_16_bits"]), 1 - kept / plain, abs_tol=1e-9):
        faults.append(f"{row['configuration']}: its saving is not that of its bytes")
    if row["model_sha256"] != SMOLLM2.sha256:
        faults.append(f"{row['configuration']}: another model's hash")
    return faults


def figures(row: Row) -> list[str]:
    """Medians and bests are those of the samples."""
    rounds = [[float(part) for part in one.split()] for one in row["samples"].split(";")]
    where, faults = f"{row['configuration']} {row['concurrency']}", []
    if len(rounds) != int(row["rounds"]):
        faults.append(f"{where}: {len(rounds)} samples, {row['rounds']} rounds")
    for name, values in zip(FIGURES, zip(*rounds, strict=True), strict=True):
        best = (min if name == "ttft_s" else max)(values)
        median = statistics.median(values)
        if not math.isclose(float(row[name]), median, rel_tol=ROUNDING) or float(row[name + "_best"]) != best:
            faults.append(f"{where}: {name} is not that of its samples")
    return faults
