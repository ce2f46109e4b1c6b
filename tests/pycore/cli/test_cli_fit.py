"""`infersize fit` on machines played by a list of devices."""

import json
import shlex

import pytest

from pycore import catalog
from pycore.cli import devices, errors
from pycore.cli import infersize as program
from pycore.cli.devices import Device
from pycore.cli.infersize import fit
from pycore.errors import NotKnown
from pycore.units import GIB, MIB


def device(name, mebibytes, free=None, index=0):
    return Device(index=index, name=name, total_bytes=mebibytes * MIB, source="test",
                  free_bytes=(mebibytes if free is None else free) * MIB)


# Names and sizes as drivers report them (data/catalog/accelerators.csv holds the sizes with their sources).
@pytest.mark.parametrize(("name", "mebibytes", "card"), [
    ("NVIDIA L40S", 46068, "nvidia-l40s"), ("NVIDIA H100 80GB HBM3", 81559, "nvidia-h100-sxm5-80gb"),
    ("NVIDIA A100-SXM4-80GB", 81920, "nvidia-a100-sxm4-80gb"),
    ("NVIDIA A100-SXM4-40GB", 40960, "nvidia-a100-sxm4-40gb"),
    ("NVIDIA GeForce RTX 4090", 24564, "nvidia-rtx-4090"), ("Tesla T4", 15360, "nvidia-t4"),
    ("NVIDIA H200", 143771, "nvidia-h200-sxm-141gb"), ("NVIDIA L4", 23034, "nvidia-l4"),
    ("NVIDIA A10G", 23028, "nvidia-a10g"), ("NVIDIA H100 PCIe", 81559, "nvidia-h100-pcie-80gb"),
    ("NVIDIA GeForce RTX 3090", 24576, "nvidia-rtx-3090")])
def test_driver_names_find_their_card(name, mebibytes, card):
    assert fit.matched(device(name, mebibytes)).id == card


@pytest.mark.parametrize(("name", "mebibytes"), [
    ("NVIDIA GeForce RTX 4090 Laptop GPU", 16376), ("NVIDIA Graphics Device", 8192), ("Quadro K1100M", 2048),
    ("", 1000)])
def test_a_card_of_another_size_or_name_is_not_taken_for_a_known_one(name, mebibytes):
    with pytest.raises(NotKnown, match="--gpu"):
        fit.matched(device(name, mebibytes))


@pytest.fixture
def run(capsys, monkeypatch):
    def call(found, *arguments):
        monkeypatch.setattr(devices, "local_devices", lambda: found)
        status = errors.run(program.infersize, ["fit", *arguments], "infersize")
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return call


def test_lists_what_fits_in_what_is_free(run):
    status, out, _ = run([device("NVIDIA L40S", 46068, free=46068 - 500)], "--context", "4096", "--sequences", "1")
    assert status == 0
    assert "Qwen2.5 7B" in out and "Llama 3.1 70B" not in out and "free of" in out
    less = run([device("NVIDIA L40S", 46068, free=9000)], "--context", "4096", "--sequences", "1")
    assert less[0] == 0 and "Qwen2.5 7B" not in less[1] and "Qwen2.5 0.5B" in less[1]


def test_json_rows_are_plans_of_the_same_card(run, capsys):
    free = 30_000
    status, out, _ = run([device("NVIDIA L40S", 46068, free=free)], "--json", "--context", "2048", "--sequences", "2")
    found = json.loads(out)
    assert status == 0 and len(found["models"]) == len(catalog.models())
    assert found["query"]["used_gib"] == pytest.approx((46068 - free) * MIB / GIB)
    for row in (found["models"][0], next(one for one in found["models"] if not one["fits"])):
        status = errors.run(program.infersize, [*shlex.split(row["command"])[1:], "--json"], "infersize")
        assert status == 1 - row["fits"]
        plan = json.loads(capsys.readouterr().out)
        assert (plan["fits"], plan["per_gpu"]["total_bytes"]) == (row["fits"], row["total_bytes"])


def test_the_emptiest_device_is_taken_unless_one_is_named(run):
    pair = [device("NVIDIA L40S", 46068, free=1000), device("NVIDIA L40S", 46068, free=40000, index=1)]
    assert "GPU 1" in run(pair)[1]
    status, out, _ = run(pair, "--device", "0")
    assert status == 1 and "GPU 0" in out and "0 of" in out
    status, _, err = run(pair, "--device", "7")
    assert status == 2 and "accepted: 0, 1" in err


def test_what_does_not_fit_is_listed_on_request_with_its_reason(run):
    _, out, _ = run([device("NVIDIA L40S", 46068)], "--all", "--count", "2", "--tp", "2")
    assert "too large" in out and "does not divide" in out
    _, out, _ = run([device("NVIDIA L40S", 46068)], "--all", "--count", "3")  # a split nobody asked for is never a fault
    assert "too large" in out and "does not divide" not in out


def test_no_gpu_and_unknown_gpu_are_exit_status_2(run, capsys, monkeypatch):
    status, out, err = run([device("NVIDIA GeForce RTX 4090 Laptop GPU", 16376)])
    assert (status, out) == (2, "") and "does not hold" in err
    assert run([device("NVIDIA GeForce RTX 4090 Laptop GPU", 16376)], "--gpu", "rtx 4090")[0] == 0
    monkeypatch.undo()
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr(devices, "nvml_devices", lambda: ())
    assert errors.run(program.infersize, ["fit"], "infersize") == 2
    captured = capsys.readouterr()
    assert captured.out == "" and "no NVIDIA GPU can be read" in captured.err
