"""Weights in few bits: formats bit by bit, what each costs in error, and the methods that lessen it.

A format is a module with the same four functions, no class and no registry: `quantise(values, ...) -> Packed`,
`read(data, shape, ...) -> Packed` (from bytes that another program wrote), `dequantise(packed)` and `sections(packed)`,
which says where in the bytes each weight's code, scale, zero and metadata lie. `formats.py` lists them.
"""
