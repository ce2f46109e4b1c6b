"""data/quantbench-pareto: its card, its tables against each other, and what follows from shapes alone."""

import csv
import math
import re
from pathlib import Path

import pytest

from pycore.pack import formats
from pycore.quality import table
from runtime.measure.quantbench_models import ALONE, EVERY
from runtime.measure.quantbench_rows import COLUMNS, cell, named
from runtime.quantbench.schemes import parse

FOLDER = Path(__file__).resolve().parents[3] / "data" / table.DATASET


def rows_of(name: str) -> list[dict[str, str]]:
    with open(FOLDER / f"{name}.csv", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_the_card_names_its_files_and_its_licence():
    head, _, body = (FOLDER / "README.md").read_text(encoding="utf-8").removeprefix("---\n").partition("\n---\n")
    files = [line.split(": ")[1] for line in head.splitlines() if line.strip().startswith("data_files")]
    assert sorted(files) == sorted(path.name for path in FOLDER.glob("*.csv")) and head.count("default: true") == 1
    assert all(re.search(rf"^## {name}", body, re.M) for name in files)
    keys = {line.split(":")[0] for line in head.splitlines() if line[:1].isalpha()}
    assert {"license", "license_link", "pretty_name", "language", "size_categories", "tags", "configs"} <= keys
    assert "Apache-2.0" in (FOLDER / "NOTICE").read_text()


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_are_those_of_the_generator(name):
    rows = rows_of(name)
    assert rows and tuple(rows[0]) == COLUMNS[name]
    assert all(value is not None and "\n" not in value for row in rows for value in row.values())


def test_there_are_enough_rows_and_the_core_reads_them():
    assert len(rows_of("configurations")) >= 12 and len(rows_of("sensitivity")) >= 28
    for model in table.models():
        assert len(model.configurations) >= 12 and len(model.sensitivity) >= 28 and model.verdicts
        assert {one.layer for one in model.sensitivity} == set(range(model.layers))
        assert {one.projection for one in model.sensitivity} == set(table.PROJECTIONS)


def test_names_and_labels_are_those_of_the_core():
    every = {one.id: one for one in (named(text) for text in (*EVERY, "q4_1+hqq"))} | {"bitnet-2bit-trained": named("bitnet-2bit", trained=True)}
    for row in rows_of("configurations"):
        if row["configuration"] != "reference":
            one = every[row["configuration"]]
            assert (row["label"], row["format"], row["method"]) == (one.label, one.scheme.format, one.scheme.method)
            options = ",".join(row["options"].split())
            assert dict(parse(f"{row['format']}:{options}" if options else row["format"]).options) == dict(one.scheme.options)
    assert {row["configuration"] for row in rows_of("sensitivity")} <= {named(text).id for text in ALONE}


def test_bytes_of_projections_follow_from_their_shapes():
    sizes = {}
    for row in rows_of("sensitivity"):
        shape = int(row["rows"]), int(row["columns"])
        scheme = next(one.scheme for one in map(named, ALONE) if one.id == row["configuration"])
        key = row["configuration"], shape
        if key not in sizes:
            sizes[key] = len(formats.quantise(scheme.format, [[1.0] * shape[1]] * shape[0], **dict(scheme.options)).data)
        assert int(row["bytes"]) == sizes[key]


def test_sizes_and_bits_agree():
    models = {row["model"]: row for row in rows_of("models")}
    plain = {row["model"]: row for row in rows_of("configurations") if row["configuration"] == "reference"}
    for row in rows_of("configurations"):
        weights = int(models[row["model"]]["quantised_weights"])
        saved = int(plain[row["model"]]["size_bytes"]) - int(row["size_bytes"])
        assert row["bits_per_weight"] == cell(16 - 8 * saved / weights, 8)
        assert int(plain[row["model"]]["size_bytes"]) == 2 * int(models[row["model"]]["parameters"])


def test_figures_are_possible_and_their_intervals_hold_them():
    for row in rows_of("configurations") + rows_of("sensitivity") + rows_of("plans"):
        value, low, high = (float(row[name] or "nan") for name in ("kl_divergence", "kl_low", "kl_high"))
        assert value >= 0 and (math.isnan(low) or 0 <= low <= value * 1.001 + 1e-12 and value <= high * 1.001 + 1e-12), row
    for row in rows_of("configurations"):
        assert float(row["perplexity_low"]) < float(row["perplexity"]) < float(row["perplexity_high"])
        assert 0 <= float(row["top1_agreement"]) <= 1 and bool(row["decode_tokens_per_s"]) != ("load average" in row["note"])
        if row["lossless"]:
            assert row["note"] and float(row["kl_divergence"]) < 1e-6 and row["model"] == "smollm2-135m" and row["format"] == "q4_1"


def test_the_peer_s_miracles_do_not_happen():
    """A published package shows ternary and 2:4 weights "better than FP16" and a 2:4 file larger than FP16."""
    for model in {row["model"] for row in rows_of("models")}:
        mine = {row["configuration"]: row for row in rows_of("configurations") if row["model"] == model}
        plain = float(mine["reference"]["perplexity"])
        for name in ("sparse-2:4", "bitnet-2bit"):
            assert float(mine[name]["ratio_low"]) > 1 and float(mine[name]["perplexity"]) > plain
            assert float(mine[name]["bits_per_weight"]) < 16 and int(mine[name]["size_bytes"]) < int(mine["reference"]["size_bytes"])
        assert float(mine["sparse-2:4"]["bits_per_weight"]) == 9
        assert float(mine["int4-g64-gptq"]["kl_divergence"]) < float(mine["int4-g64"]["kl_divergence"])


def test_training_for_ternary_weights_pays():
    mine = {row["configuration"]: row for row in rows_of("configurations") if row["model"] == "tiny-qwen2"}
    assert float(mine["bitnet-2bit-trained"]["perplexity"]) < 0.8 * float(mine["bitnet-2bit"]["perplexity"])
    assert mine["bitnet-2bit-trained"]["trained"] == "1" and mine["bitnet-2bit-trained"]["bits_per_weight"] == mine["bitnet-2bit"]["bits_per_weight"]


def test_plans_fit_and_beat_the_single_format_beside_them():
    for row in rows_of("plans"):
        assert int(row["size_bytes"]) <= int(row["budget_bytes"])
        given = dict(part.split("=") for part in row["plan"].split())
        layers = {model.name: model.layers for model in table.models()}[row["model"]]
        assert len(given) == 7 * layers and set(given.values()) <= {named(text).id for text in ALONE}
        assert int(row["uniform_size_bytes"]) <= int(row["budget_bytes"]) and float(row["kl_divergence"]) < float(row["uniform_kl"])
        assert float(row["elsewhere_kl"]) < float(row["elsewhere_uniform_kl"])
        assert float(row["predicted_kl"]) == pytest.approx(added(row["model"], given), rel=1e-4)


def added(model: str, plan: dict[str, str]) -> float:
    """What sensitivity.csv says of a plan's choices, added up."""
    return math.fsum(float(row["kl_divergence"]) for row in rows_of("sensitivity")
                     if row["model"] == model and plan[f"{row['layer']}.{row['projection']}"] == row["configuration"])
