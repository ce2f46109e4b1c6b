"""How much memory this machine has."""

import os


def physical_bytes() -> int | None:
    """All of its main memory; None where the system does not say (Windows has no such question)."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None
