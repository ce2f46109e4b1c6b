"""Generators of `data/`: each writes its tables from named sources, or with --check compares them with what is there."""
