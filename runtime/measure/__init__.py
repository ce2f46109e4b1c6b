"""Generators of `data/`: each writes its tables from named sources, or compares them with what is there (--check)."""
