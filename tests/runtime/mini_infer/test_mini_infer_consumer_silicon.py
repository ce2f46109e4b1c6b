"""The dataset of machines: its plan, its refusals, a run that dies and goes on, and what --check catches."""

import csv
import sys

import pytest

from pycore.cache import place
from runtime.measure import consumer_silicon as silicon
from runtime.measure import consumer_silicon_check as checking
from runtime.measure import consumer_silicon_rows as rows
from runtime.measure import tables
from runtime.mini_infer import files
from runtime.mini_infer.speeds import Speeds
from runtime.models import supply
from runtime.models.supply import SMOLLM2


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """Tables and kept rows in a folder of the test's own."""
    for module in (rows, tables):
        monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setenv("INFERENCE_STUDIOS_CACHE", str(tmp_path / "cache"))
    assert place(silicon.KEPT).is_relative_to(tmp_path)
    return tmp_path


@pytest.fixture
def quick(elsewhere, monkeypatch, pairs):
    """A run on a small random model, and texts of random tokens."""
    model = pairs["Llama"][0]

    class Words:
        def encode(self, text):
            return [index * 7 % 64 for index in range(40)]

    monkeypatch.setattr(silicon, "fetch", lambda origin, say: origin.file)
    monkeypatch.setattr(silicon, "open_gguf", lambda path: path)
    monkeypatch.setattr(silicon.tokenizer, "from_gguf", lambda file: Words())
    monkeypatch.setattr(silicon, "bible", lambda say: ["text"] * 40)
    monkeypatch.setattr(silicon, "bandwidth_bytes_per_s", lambda: 1e9)
    weights = {name: tensor.clone() for name, tensor in model.places()}

    def load(path, dtype, device):
        made = files.empty(model.configuration, model.rope, dtype, device)
        return files.filled(made, weights.items(), "test")

    monkeypatch.setattr(silicon.files, "load", load)
    return silicon.Plan(device="cpu", levels=(1, 3), prompt=8, output=4, rounds=2, configurations=rows.CPU[:2] + rows.CPU[5:6])


def written(folder, name: str) -> list[dict[str, str]]:
    with open(folder / rows.FOLDER / f"{name}.csv", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_a_run_writes_every_cell_and_the_other_machines_rows_stay(quick, elsewhere):
    found = silicon.run(quick, "command")
    stranger = {name: [{column: "other" if column == "machine" else "" for column in columns}]
                for name, columns in rows.COLUMNS.items()}
    tables.settle(rows.merged("other", stranger), check=False)
    for _ in range(2):  # twice: a machine's rows are replaced
        tables.settle(rows.merged(rows.machine_id("cpu"), found), check=False)
    speeds = written(elsewhere, "speeds")
    assert [(row["configuration"], row["concurrency"]) for row in speeds if row["machine"] != "other"] == [
        (one.id, str(level)) for one in quick.configurations for level in (1, 3)]
    assert len(speeds) == 7 and len(written(elsewhere, "machines")) == 2
    quality = {row["configuration"]: row for row in written(elsewhere, "configurations")}
    assert float(quality["float32/kv-float32"]["logit_error"]) == 0 < float(quality["float32/kv-int4"]["logit_error"])
    assert all(row["rounds"] == "2" and row["samples"].count(";") == 1 for row in speeds if row["machine"] != "other")


def test_a_run_that_died_goes_on_and_another_setting_begins_anew(quick, monkeypatch):
    real, calls = silicon.measured, []

    def dies(plan, engine, level, left):
        calls.append(level)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return real(plan, engine, level, left)

    monkeypatch.setattr(silicon, "measured", dies)
    with pytest.raises(KeyboardInterrupt):
        silicon.run(quick, "command")
    before = silicon.Kept(silicon.KEPT, quick.identity)
    calls.clear()
    calls.append(0)
    monkeypatch.setattr(silicon, "measured", lambda *given: calls.append(given[2]) or real(*given))
    found = silicon.run(quick, "command")
    assert calls == [0, 3, 1, 3]  # three cells of six were kept
    assert [before.get(f"{one.id} {level}") for one, level in quick.cells[:3]] == found["speeds"][:3]
    quick.prompt = 9
    anew = silicon.Kept(silicon.KEPT, quick.identity)
    assert not any(key in anew for key in ("machine", *(one.id for one in quick.configurations)))


def test_rounds_end_with_the_time(monkeypatch):
    """Each round takes ten seconds; what a cell may take decides how many there are, and one there always is."""
    now = [0.0]
    monkeypatch.setattr(silicon.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(silicon, "run_batch", lambda engine, asked, output: now.__setitem__(0, now[0] + 10 * (output > 2)))
    monkeypatch.setattr(silicon, "speeds", lambda times, tokens: tokens)

    class Engine:
        class model:
            class configuration:
                vocabulary = 64

    def rounds(deadline: float, left: int) -> int:
        now[0] = 0.0
        plan = silicon.Plan(device="cpu", rounds=3, deadline=deadline)
        return len(silicon.measured(plan, Engine, 2, left))

    assert [rounds(1000, 2), rounds(50, 2), rounds(45, 2), rounds(1, 42), rounds(-5, 1)] == [3, 2, 2, 1, 1]


def called(monkeypatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["consumer_silicon", *arguments])
    return silicon.main()


def test_the_plan_is_shown_and_nothing_measured(elsewhere, monkeypatch, capsys):
    monkeypatch.setattr(silicon, "run", lambda plan, command: pytest.fail("measured"))
    assert called(monkeypatch, "--dry-run", "--device", "cpu") == 0
    shown = capsys.readouterr().out.splitlines()
    assert len(shown) == 1 + 6 * len(rows.CPU) and "int8/kv-int8 32 at once" in shown[-1]


def test_a_busy_machine_is_refused_unless_told_otherwise(elsewhere, monkeypatch, capsys):
    asked = []
    monkeypatch.setattr(silicon, "load", lambda: 0.7)
    monkeypatch.setattr(silicon, "run", lambda plan, command: asked.append(command) or {name: [] for name in rows.COLUMNS})
    assert called(monkeypatch, "--device", "cpu") == 1 and not asked
    assert "load average 0.7" in capsys.readouterr().err
    assert called(monkeypatch, "--device", "cpu", "--busy") == 0 and len(asked) == 1
    monkeypatch.setattr(silicon, "load", lambda: 0.2)
    assert called(monkeypatch, "--device", "cpu") == 0 and len(asked) == 2
    assert called(monkeypatch, "--device", "abacus") == 1


def genuine() -> dict[str, list[dict[str, object]]]:
    """Rows as a run of SmolLM2 writes them, by hand."""
    samples = [Speeds(prefill_tokens_per_s=100.0 + at, decode_tokens_per_s=20.0 - at, ttft_s=0.5 + at,
                      overall_tokens_per_s=9.0, seconds=2.0) for at in (0, 1, 5)]
    blank = {name: dict.fromkeys(columns, "") for name, columns in rows.COLUMNS.items()}
    return {"machines": [blank["machines"] | {"machine": "m"}],
            "configurations": [blank["configurations"] | {"machine": "m", "configuration": "float32/kv-int4",
                               "kv_format": "int4", "kv_bytes_per_token": 6480, "kv_saved_against_16_bits": 0.71875,
                               "model_sha256": SMOLLM2.sha256}],
            "speeds": [blank["speeds"] | {"machine": "m", "configuration": "float32/kv-int4", "concurrency": 1}
                       | rows.speed_cells(samples)]}


@pytest.mark.parametrize(("table", "cell", "value"), [
    ("speeds", "ttft_s", 1.4), ("speeds", "decode_tokens_per_s_best", 21.0), ("speeds", "rounds", 2),
    ("configurations", "kv_bytes_per_token", 6481), ("configurations", "model_sha256", "0" * 64),
    ("configurations", "kv_saved_against_16_bits", 0.72), ("speeds", "machine", "n"), ("configurations", "machine", "n")])
def test_check_catches_what_was_changed_by_hand(table, cell, value, elsewhere):
    tables.settle(rows.merged("m", genuine()), check=False)
    assert checking.check() == 0
    changed = genuine()
    changed[table][0][cell] = value
    tables.settle(rows.merged("m", changed), check=False)
    assert checking.check() == 1


def test_what_is_committed_is_sound():
    assert checking.check() == 0


def test_the_card_names_every_column_group_and_the_command():
    card = (tables.ROOT / rows.FOLDER / "README.md").read_text(encoding="utf-8")
    assert rows.COMMAND in card and all(f"data_files: {name}.csv" in card for name in rows.COLUMNS)
    for name in ("prefill_tokens_per_s", "ttft_s", "bandwidth_share", "kv_bytes_per_token", "logit_error", "load_average"):
        assert name in card


def test_the_shape_that_sizes_are_checked_with_is_the_models_own():
    """Its file says so; it is fetched by package name where it is not here."""
    one = files.configuration_of(supply.fetch(SMOLLM2, print))
    assert (one.layers, one.kv_heads, one.head_width) == (checking.LAYERS, checking.KV_HEADS, checking.HEAD_WIDTH)


def test_figures_have_six_digits():
    assert rows.significant(1234567.8) == 1234570.0 and rows.significant(0.1 + 0.2) == 0.3
