"""Every format's codes to bytes and back, weights to codes and back, in GB/s: ours, PyPI quantbench-engine 0.1.0, gguf, a copy.

One thread each, the same arrays in the same run, best of several. Packing counts one byte a code, quantising four bytes a
weight; the limit beside each is numpy's copy of the same array.
"""

import sys
import time
from collections.abc import Callable

import numpy as np

from pycore.pack import (
    bitnet,
    formats,
    minifloat,
    nibbles,
    q4_0,
    q4_1,
    q5_0,
    q8_0,
    sparse,
    trits,
)
from tests.bench import peers

COUNT, COLUMNS, RUNS = 1 << 22, 4096, 7
SEARCHED = ("q4_k", "q6_k")
PACK_TARGET = 1 / 3  # of memory-copy speed, INT4


def best(function: Callable[[], object], runs: int = RUNS) -> float:
    """Seconds of the fastest of several runs."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def rate(size: int, function: Callable[[], object] | None, runs: int = RUNS) -> float | None:
    """GB/s over an array of `size` bytes, or None where there is nothing to run."""
    return None if function is None else size / best(function, runs) / 1e9


def peer() -> dict[str, Callable]:
    """The peer's functions by what they do, given the arrays; none where it is not to be had."""
    folder = peers.downloaded("quantbench-engine", "0.1.0")
    try:
        import torch

        if folder is None:
            raise ImportError("not installable here")
        sys.path.insert(0, str(folder))
        from quantbench.quant.blockwise import dequantize_blockwise, quantize_blockwise
        from quantbench.quant.fp8 import FP8Format, dequantize_fp8, quantize_fp8
        from quantbench.quant.packing import int4_pack, sparse_pack, ternary_pack
    except ImportError as problem:
        print(f"PyPI quantbench-engine 0.1.0: {problem}; no comparison")
        return {}
    torch.set_num_threads(1)

    def tensor(array: np.ndarray) -> object:
        return torch.from_numpy(array)

    return {
        "int4 pack": lambda codes: int4_pack.pack_int4(tensor(codes)),
        "int4 unpack": lambda data: int4_pack.unpack_int4(tensor(data)),
        "bitnet-2bit pack": lambda codes: ternary_pack.pack_ternary(tensor(codes.view(np.int8) - 1), "2bit"),
        "bitnet-2bit unpack": lambda data: ternary_pack.unpack_ternary(tensor(data), mode="2bit"),
        "bitnet-5in8 pack": lambda codes: ternary_pack.pack_ternary(tensor(codes.view(np.int8) - 1), "base3"),
        "bitnet-5in8 unpack": lambda data: ternary_pack.unpack_ternary(tensor(data), mode="base3"),
        "sparse-2:4 pack": lambda codes: sparse_pack.pack_2_4_indices(tensor(codes)),
        "sparse-2:4 unpack": lambda data: sparse_pack.unpack_2_4_indices(tensor(data)),
        "int4 quantise": lambda values: quantize_blockwise(tensor(values), group_size=64),
        "fp8-e4m3 quantise": lambda values: quantize_fp8(tensor(values), FP8Format.E4M3),
        "fp8-e5m2 quantise": lambda values: quantize_fp8(tensor(values), FP8Format.E5M2),
        "fp8-e4m3 dequantise": lambda pair: dequantize_fp8(*pair),
        "sparse-2:4 quantise": lambda values: sparse_pack.prune_and_compress_2_4(tensor(values)),
        "made fp8": lambda values: quantize_fp8(tensor(values), FP8Format.E4M3),
        "made int4": lambda values: quantize_blockwise(tensor(values), group_size=64),
        "int4 dequantise": lambda made: dequantize_blockwise(*made),
    }


def shown(name: str, ours: float, theirs: float | None, gguf: float | None, copy: float) -> None:
    """One line of the table."""
    cells = [f"{ours:8.2f}", f"{ours / copy:8.2f}"]
    cells += [f"{'-':>10}" if other is None else f"{other:6.2f} {ours / other:4.1f}x" for other in (theirs, gguf)]
    print(f"{name:24}" + "".join(f"{cell:>14}" for cell in cells))


def heading(what: str, copy: float) -> None:
    """The head of one table."""
    print(f"\n{what}; a copy: {copy:.1f} GB/s")
    print(f"{'':24}" + "".join(f"{cell:>14}" for cell in ("ours GB/s", "of a copy", "quantbench", "gguf")))


def packing(theirs: dict[str, Callable]) -> dict[str, float]:
    """Codes to bytes and back; share of memory-copy speed of each."""
    draw = np.random.default_rng(0)
    nibble = draw.integers(0, 16, COUNT, dtype=np.uint8)
    trit = draw.integers(0, 3, COUNT // 20 * 20, dtype=np.uint8)
    quads = sparse_codes(draw)
    copy, shares = rate(COUNT, nibble.copy), {}
    heading("codes to bytes and back, one byte a code", copy)
    cases = {f"int4 {order}" if order != "low-first" else "int4": (nibble, lambda codes, order=order: nibbles.pack(codes, order),
                                                                  lambda data, order=order: nibbles.unpack(data, order))
             for order in nibbles.ORDERS}
    cases["bitnet-2bit"] = trit, trits.pack_2bit, trits.unpack_2bit
    cases["bitnet-5in8"] = trit, trits.pack_base3, trits.unpack_base3
    cases["sparse-2:4"] = quads, trits.pack_2bit, trits.unpack_2bit
    for name, (codes, pack, unpack) in cases.items():
        data = pack(codes)
        for action, work, given in (("pack", pack, codes), ("unpack", unpack, data)):
            ours = rate(codes.size, lambda work=work, given=given: work(given))
            other = theirs.get(f"{name} {action}")
            peer_rate = rate(codes.size, other and (lambda other=other, given=given: other(given)), 3)
            shares[f"{name} {action}"] = ours / copy
            shown(f"{name} {action}", ours, peer_rate, None, copy)
    return shares


def sparse_codes(draw: np.random.Generator) -> np.ndarray:
    """Kept indexes of 2:4, two a group."""
    first = draw.integers(0, 3, COUNT // 2, dtype=np.uint8)
    return np.stack([first, first + 1], axis=1).reshape(-1)


def quantising(theirs: dict[str, Callable]) -> None:
    """Weights to a tensor in the format and back."""
    import gguf

    values = np.random.default_rng(1).standard_normal((COUNT // COLUMNS, COLUMNS), dtype=np.float32)
    copy = rate(values.nbytes, values.copy)
    heading("weights to a tensor in the format and back, four bytes a weight", copy)
    for one in formats.FORMATS:
        part = values[: max(1, values.shape[0] // 16)] if one.id in SEARCHED else values
        packed = formats.quantise(one.id, part)
        kind = gguf.GGMLQuantizationType.__members__.get(one.id.upper())
        for action in ("quantise", "dequantise"):
            ours = rate(part.nbytes, (lambda: formats.quantise(one.id, part)) if action == "quantise" else
                        (lambda: formats.dequantise(packed)), 3)
            shown(f"{one.id} {action}", ours, peer_rate(theirs, one.id, action, part), gguf_rate(kind, action, part, packed),
                  copy)


def peer_rate(theirs: dict[str, Callable], name: str, action: str, values: np.ndarray) -> float | None:
    """The peer's rate for a format, where it has it."""
    work = theirs.get(f"{name} {action}")
    if work is None:
        return None
    given = values
    if action == "dequantise":
        given = theirs["made fp8" if name.startswith("fp8") else "made int4"](values)
    return rate(values.nbytes, lambda: work(given), 3)


def gguf_rate(kind: object, action: str, values: np.ndarray, packed: object) -> float | None:
    """gguf-py's rate for a GGUF type, where it can."""
    import gguf

    if kind is None:
        return None
    try:
        if action == "quantise":
            return rate(values.nbytes, lambda: gguf.quantize(values, kind), 2)
        block, width = gguf.GGML_QUANT_SIZES[kind]
        data = np.frombuffer(packed.data, np.uint8)
        rows = data.reshape(values.shape[0], -1) if data.size == values.size // block * width else None
        return None if rows is None else rate(values.nbytes, lambda: gguf.dequantize(rows, kind), 2)
    except NotImplementedError:
        return None


def main() -> None:
    """Both tables, and the target."""
    theirs = peer()
    shares = packing(theirs)
    quantising(theirs)
    low = min(shares["int4 pack"], shares["int4 unpack"])
    print(f"\nINT4 pack and unpack at {low:.2f} of memory-copy speed or more (target: {PACK_TARGET:.2f})")
