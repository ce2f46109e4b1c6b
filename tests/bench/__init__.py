"""Benchmarks: ratios against a peer run beside us in the same run. `make bench`, or `python -m tests.bench NAME`."""
