"""What --check holds data/quantbench-pareto against: hashes, every size from shapes alone, and one row measured again."""

import csv
import math
import sys
from pathlib import Path

import numpy as np

from pycore.pack import formats
from runtime.measure.quantbench_models import Subject, smollm2, tiny
from runtime.measure.quantbench_rows import COLUMNS, FOLDER, cell
from runtime.measure.tables import ROOT
from runtime.models.load import MORE, TINY
from runtime.models.transformer import Transformer
from runtime.quantbench.evaluate import Reference
from runtime.quantbench.measure import other_bytes, quantised
from runtime.quantbench.schemes import Scheme
from runtime.quantbench.targets import targets

AGAIN = "int4-g64"
TOLERANCE = {"perplexity": 0.005, "kl_divergence": 0.02}  # relative: processors add in different orders


def table(name: str) -> list[dict[str, str]]:
    """Rows of a committed table, its columns checked. Raises SystemExit."""
    with open(ROOT / FOLDER / f"{name}.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    if not rows or tuple(rows[0]) != COLUMNS[name]:
        raise SystemExit(f"{name}.csv: its columns are not those that the generator writes")
    return rows


def check(facts: Path) -> int:
    """Exit status."""
    if not (ROOT / FOLDER / "models.csv").is_file():
        print(f"{FOLDER} is not committed yet: nothing to check")
        return 0
    tables, faults = {name: table(name) for name in COLUMNS}, []
    for model in tables["models"]:
        if model["model"] == TINY and not is_here():
            print(f"{TINY} is not in the cache folder (it is trained, not fetched): its rows are not measured again",
                  file=sys.stderr)
            continue
        subject = tiny() if model["model"] == TINY else smollm2(facts)
        if subject.loaded.sha256 != model["sha256"] and subject.name == TINY:
            print(f"{TINY} in the cache folder is another training's: its rows are not measured again", file=sys.stderr)
            continue
        mine = [row for row in tables["configurations"] if row["model"] == subject.name]
        faults += hashes(subject, model) + sizes(subject, mine) + again(subject, mine)
    for fault in faults:
        print(f"{FOLDER}: {fault}", file=sys.stderr)
    print(f"{sum(len(rows) for rows in tables.values())} rows checked, {len(faults)} differ")
    return 1 if faults else 0


def is_here() -> bool:
    """Whether all trained models lie in the cache folder."""
    from pycore.cache import place

    return all((place(f"models/{name}") / "model.safetensors").is_file() for name in (TINY, *MORE))


def hashes(subject: Subject, row: dict[str, str]) -> list[str]:
    """Differences of model and text."""
    pairs = (("sha256", subject.loaded.sha256), ("corpus_sha256", subject.corpus_sha256),
             ("corpus_tokens", str(subject.text.counted)))
    return [f"{subject.name}: {name} is {now}, the table says {row[name]}" for name, now in pairs if row[name] != now]


def stored_bytes(scheme: Scheme, shapes: list[tuple[int, ...]]) -> int:
    """What projections of those shapes take in a scheme: it follows from the shapes alone."""
    sizes = {shape: len(formats.quantise(scheme.format, np.ones(shape, np.float32), **dict(scheme.options)).data)
             for shape in set(shapes)}
    scales = sum(2 * shape[1] for shape in shapes) if scheme.method in ("awq", "smoothquant") else 0
    return sum(sizes[shape] for shape in shapes) + scales


def sizes(subject: Subject, rows: list[dict[str, str]]) -> list[str]:
    """Configurations whose size or bits do not follow from the shapes."""
    model: Transformer = subject.model
    shapes = [tuple(target.weight().shape) for target in targets(model)]
    weights, other, faults = sum(math.prod(shape) for shape in shapes), other_bytes(model), []
    for row, named in zip(rows, subject.named(), strict=True):
        stored = stored_bytes(named.scheme, shapes) if named.scheme else 2 * weights
        now = (named.id, cell(8 * stored / weights, 8), str(stored + other))
        if now != (row["configuration"], row["bits_per_weight"], row["size_bytes"]):
            faults.append(f"{subject.name} {row['configuration']}: the shapes give {now}")
    return faults


def again(subject: Subject, rows: list[dict[str, str]]) -> list[str]:
    """One configuration measured once more."""
    row = next(one for one in rows if one["configuration"] == AGAIN)
    named = next(one for one in subject.named() if one.id == AGAIN)
    line, _ = quantised(subject.model, Reference(subject.model, subject.text), (named.rule,), subject.calibration)
    now = {"perplexity": line.perplexity.value, "kl_divergence": line.divergence.value}
    return [f"{subject.name} {AGAIN}: {name} is {now[name]:.6g}, the table says {row[name]}" for name in now
            if abs(now[name] / float(row[name]) - 1) > TOLERANCE[name]]
