"""Real runs beside their predictions: the rows that are committed, and the generator on a small model that is no real one."""

import csv
from dataclasses import replace

import pytest

from pycore.simulation.costs.work import StepWork
from runtime.measure import engine_runs
from runtime.measure.tables import ROOT
from runtime.mini_infer import make_model


def test_what_is_committed_is_what_can_be_checked():
    assert engine_runs.check() == 0
    with open(ROOT / engine_runs.FILE, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len([row for row in rows if row["target_percent"]]) >= 12
    assert {row["decisions"] for row in rows} == {"the same"}
    cached = [row for row in rows if row["figure"] == "Cached prompt tokens"]
    assert len(cached) == len(engine_runs.TRACES) and max(int(row["measured"]) for row in cached) > 0


@pytest.mark.parametrize(("change", "fault"), [
    ({"error_percent": "0.01"}, "does not follow"), ({"device": ""}, "device is empty"), ({"decisions": "step 3: ..."}, "otherwise")])
def test_a_row_that_was_changed_by_hand_is_found(tmp_path, monkeypatch, capsys, change, fault):
    with open(ROOT / engine_runs.FILE, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    rows[0] |= change
    (tmp_path / "runs.csv").write_text(engine_runs.csv_text(engine_runs.COLUMNS, rows), encoding="utf-8")
    monkeypatch.setattr(engine_runs, "ROOT", tmp_path)
    monkeypatch.setattr(engine_runs, "FILE", "runs.csv")
    assert engine_runs.check() == 1
    assert fault in capsys.readouterr().err


def test_a_small_model_goes_all_the_way(tmp_path, monkeypatch):
    """Few requests, close together, yet enough for a p90: every figure is there, and the simulator decides as the engine did."""
    make_model.make(tmp_path / "tiny", make_model.sizes("qwen2", layers=2, width=32, heads=2, kv_heads=1))
    small = [replace(trace, requests=12, arrivals=lambda rng: engine_runs.processes.poisson(50.0, rng), prompt=(30, 60),
                                 output=(2, 6), shared=min(trace.shared, 24)) for trace in engine_runs.TRACES]
    monkeypatch.setattr(engine_runs, "TRACES", tuple(small))
    monkeypatch.setattr(engine_runs, "LEARN", small[0])
    said = []
    rows, cost = engine_runs.measured(str(tmp_path / "tiny"), said.append)
    assert len(rows) == 20 and all(set(row) == set(engine_runs.COLUMNS) for row in rows)
    assert {row["decisions"] for row in rows} == {"the same"} and cost.step_ns(StepWork(1, 10, 10)) > 1
    assert [row["measured"] for row in rows if row["figure"] == "Cached prompt tokens" and row["run"] == "shared prefixes"] != ["0"]


def test_a_busy_machine_is_refused(monkeypatch, capsys):
    monkeypatch.setattr(engine_runs.os, "getloadavg", lambda: (3.0, 3.0, 3.0))
    monkeypatch.setattr(engine_runs.sys, "argv", ["engine_runs"])
    with pytest.raises(SystemExit):
        engine_runs.main()
    assert "busy (load average 3.00, at most 0.5)" in capsys.readouterr().err
