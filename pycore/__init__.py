"""The analytical core of Inference Studios: standard library only at import, CPython >= 3.11 and Pyodide alike.

Layers, lowest first (a module imports only from its own layer or below; `tests/test_architecture.py` enforces it):
errors, units -> ledger, knobs, nouns -> catalog -> vram, roofline, speculative, cost -> systems -> cli.
"""

__version__ = "0.1.0"
