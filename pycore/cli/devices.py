"""The GPUs of this machine and their free memory: from NVIDIA's management library, else from nvidia-smi.

The library is called through ctypes, so nothing needs to be installed besides the driver.
NVML API reference: https://docs.nvidia.com/deploy/nvml-api/
"""

import ctypes
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pycore.errors import SourceError
from pycore.units import MIB

NAME_BYTES = 96
SMI = ("nvidia-smi", "--query-gpu=index,name,memory.total,memory.free", "--format=csv,noheader,nounits")
SMI_TIMEOUT_S = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One GPU as its driver reports it."""

    index: int
    name: str
    total_bytes: int
    free_bytes: int
    source: str


class MemoryInfo(ctypes.Structure):
    """nvmlMemory_t: bytes in all, free, used."""

    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


def local_devices() -> tuple[Device, ...]:
    """Every NVIDIA GPU here. Raises SourceError, in plain words, where there is none or the driver does not answer."""
    reasons = []
    for read in (nvml_devices, smi_devices):
        try:
            devices = read()
        except SourceError as error:
            reasons.append(str(error))
            continue
        if devices:
            return devices
        reasons.append("the driver reports no GPU")
    raise SourceError("this machine", "no NVIDIA GPU can be read (" + "; ".join(reasons) + "). Use `infersize plan "
                                      "--gpu NAME` to size for a card by name")


def load_nvml() -> Any:
    """The management library. Raises SourceError where it is not installed."""
    names = ("nvml.dll",) if sys.platform == "win32" else ("libnvidia-ml.so.1", "libnvidia-ml.so")
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise SourceError("NVML", f"{names[0]} is not installed")


def nvml_devices(load: Callable[[], Any] = load_nvml) -> tuple[Device, ...]:
    """Devices through NVML. Raises SourceError."""
    library = load()
    check(library, library.nvmlInit_v2(), "nvmlInit")
    try:
        count = ctypes.c_uint()
        check(library, library.nvmlDeviceGetCount_v2(ctypes.byref(count)), "nvmlDeviceGetCount")
        return tuple(nvml_device(library, index) for index in range(count.value))
    finally:
        library.nvmlShutdown()


def nvml_device(library: Any, index: int) -> Device:
    """One device by index. Raises SourceError."""
    handle, memory, name = ctypes.c_void_p(), MemoryInfo(), ctypes.create_string_buffer(NAME_BYTES)
    check(library, library.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(index), ctypes.byref(handle)),
          "nvmlDeviceGetHandleByIndex")
    check(library, library.nvmlDeviceGetName(handle, name, ctypes.c_uint(NAME_BYTES)), "nvmlDeviceGetName")
    check(library, library.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory)), "nvmlDeviceGetMemoryInfo")
    return Device(index=index, name=name.value.decode("utf-8", "replace"), total_bytes=memory.total,
                  free_bytes=memory.free, source="NVML")


def check(library: Any, status: int, call: str) -> None:
    """Raises SourceError with the library's own words for a status that is not success."""
    if status:
        words = library.nvmlErrorString
        words.restype = ctypes.c_char_p
        text = words(status)
        raise SourceError("NVML", f"{call} failed: {text.decode('utf-8', 'replace') if text else f'status {status}'}")


def smi_devices() -> tuple[Device, ...]:
    """Devices through the driver's command-line tool. Raises SourceError."""
    try:
        done = subprocess.run(SMI, capture_output=True, text=True, timeout=SMI_TIMEOUT_S, errors="replace")
    except FileNotFoundError:
        raise SourceError("nvidia-smi", "is not installed") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SourceError("nvidia-smi", f"did not answer: {type(error).__name__}") from None
    if done.returncode:
        raise SourceError("nvidia-smi", (done.stdout + done.stderr).strip()[:200] or f"exit status {done.returncode}")
    return tuple(smi_device(row) for row in done.stdout.splitlines() if row.strip())


def smi_device(row: str) -> Device:
    """'0, NVIDIA L40S, 46068, 45000' in MiB. Raises SourceError for anything else."""
    try:
        index, rest = row.split(",", 1)
        name, total, free = rest.rsplit(",", 2)
        return Device(index=int(index), name=name.strip(), total_bytes=int(total) * MIB, free_bytes=int(free) * MIB,
                      source="nvidia-smi")
    except ValueError:
        raise SourceError("nvidia-smi", f"gave a line that is not understood: {row[:80]!r}") from None
