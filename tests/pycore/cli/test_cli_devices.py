"""Reading GPUs: NVML played by an object that writes through the same pointers, nvidia-smi played by a script."""

import ctypes
import os
import stat

import pytest

from pycore.cli import devices
from pycore.cli.devices import nvml_devices, smi_devices
from pycore.errors import SourceError
from pycore.units import GIB, MIB


class Words:
    """nvmlErrorString: ctypes functions carry a restype."""

    restype = None

    def __call__(self, status):
        return b"Driver/library version mismatch"


class Library:
    """Two cards; `fails` names the call that returns a status other than success."""

    def __init__(self, fails=""):
        self.fails, self.closed = fails, 0
        self.cards = [(b"NVIDIA L40S", 46068 * MIB, 45 * GIB), (b"NVIDIA L40S", 46068 * MIB, 10 * GIB)]
        self.nvmlErrorString = Words()

    def status(self, call):
        return 18 if call == self.fails else 0

    def nvmlInit_v2(self):
        return self.status("init")

    def nvmlShutdown(self):
        self.closed += 1
        return 0

    def nvmlDeviceGetCount_v2(self, count):
        count._obj.value = len(self.cards)
        return self.status("count")

    def nvmlDeviceGetHandleByIndex_v2(self, index, handle):
        handle._obj.value = index.value + 1
        return self.status("handle")

    def nvmlDeviceGetName(self, handle, name, length):
        name.value = self.cards[handle.value - 1][0]
        assert length.value == ctypes.sizeof(name)
        return self.status("name")

    def nvmlDeviceGetMemoryInfo(self, handle, memory):
        _, memory._obj.total, memory._obj.free = self.cards[handle.value - 1]
        return self.status("memory")


def test_nvml_devices():
    library = Library()
    found = nvml_devices(lambda: library)
    assert [(one.index, one.name, one.total_bytes, one.free_bytes) for one in found] == [
        (0, "NVIDIA L40S", 46068 * MIB, 45 * GIB), (1, "NVIDIA L40S", 46068 * MIB, 10 * GIB)]
    assert library.closed == 1


@pytest.mark.parametrize("call", ["init", "count", "handle", "name", "memory"])
def test_nvml_failures_are_said_in_the_librarys_words(call):
    library = Library(fails=call)
    with pytest.raises(SourceError, match="version mismatch"):
        nvml_devices(lambda: library)
    assert library.closed == (call != "init"), "what was opened is closed"


@pytest.fixture
def smi(tmp_path, monkeypatch):
    def write(body):
        script = tmp_path / "nvidia-smi"
        script.write_text(f"#!/bin/sh\n{body}\n")
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")

    return write


def test_smi_devices(smi):
    smi('echo "0, NVIDIA GeForce RTX 4090, 24564, 23028"; echo "1, Card, with a comma, 100, 50"')
    found = smi_devices()
    assert [(one.index, one.name, one.free_bytes) for one in found] == [
        (0, "NVIDIA GeForce RTX 4090", 23028 * MIB), (1, "Card, with a comma", 50 * MIB)]


@pytest.mark.parametrize(("body", "words"), [
    ("echo 'NVIDIA-SMI has failed'; exit 9", "has failed"), ("exit 3", "exit status 3"),
    ("echo garbage", "not understood"), ("echo '0, X, [N/A], [N/A]'", "not understood")])
def test_smi_failures(smi, body, words):
    smi(body)
    with pytest.raises(SourceError, match=words):
        smi_devices()


def test_no_gpu_is_said_plainly(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))

    def absent():
        raise SourceError("NVML", "libnvidia-ml.so.1 is not installed")

    monkeypatch.setattr(devices, "nvml_devices", absent)
    with pytest.raises(SourceError) as caught:
        devices.local_devices()
    assert "libnvidia-ml.so.1 is not installed" in str(caught.value) and "--gpu NAME" in str(caught.value)
