"""What the CPU is called."""

import platform
from pathlib import Path


def processor(info: Path = Path("/proc/cpuinfo")) -> str:
    """The CPU's name as the system tells it, else its architecture."""
    try:
        lines = info.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    named = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    return named or platform.processor() or platform.machine()
