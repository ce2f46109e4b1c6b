"""Every format's codes to bytes and back, weights to codes and back, in GB/s: ours, PyPI quantbench-engine 0.1.0, gguf, a copy.

One thread each, the same arrays in the same run, taking turns, best of several. Packing counts one byte a code, quantising four
bytes a weight; beside each stands numpy's copy of the same array, the limit. The peer quantises to codes, we to a packed tensor.
"""

import sys
import time
from collections.abc import Callable
from functools import partial

import numpy as np

from pycore.pack import formats, nibbles, trits
from tests.bench import peers

COUNT, COLUMNS = 1 << 22, 4096
FEWEST_RUNS, MOST_RUNS, SECONDS = 4, 30, 0.3
SEARCHED = ("q4_k", "q6_k")
PACK_TARGET = 1 / 3  # of memory-copy speed, INT4
OTHERS = ("quantbench", "gguf")


def race(size: int, contenders: dict[str, Callable[[], object] | None]) -> dict[str, float | None]:
    """GB/s over an array of `size` bytes of each contender's fastest run.

    They take turns, so that a busy spell hits all; the slow ones drop out once they have had their seconds.
    """
    times: dict[str, list[float]] = {name: [] for name, work in contenders.items() if work is not None}
    for turn in range(MOST_RUNS):
        for name, found in times.items():
            if turn < FEWEST_RUNS or sum(found) < SECONDS:
                start = time.perf_counter()
                contenders[name]()
                found.append(time.perf_counter() - start)
    return {name: size / min(times[name]) / 1e9 if name in times else None for name in contenders}


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


def shown(name: str, rates: dict[str, float | None]) -> float:
    """One line of the table; the share of a copy's speed."""
    ours, copy = rates["ours"], rates["copy"]
    cells = [f"{ours:8.2f}", f"{copy:8.2f}", f"{ours / copy:8.2f}"]
    cells += ["-" if rates.get(other) is None else f"{rates[other]:6.2f} {ours / rates[other]:5.1f}x" for other in OTHERS]
    print(f"{name:24}" + "".join(f"{cell:>16}" for cell in cells))
    return ours / copy


def heading(what: str) -> None:
    """The head of one table."""
    print(f"\n{what}")
    print(f"{'':24}" + "".join(f"{cell:>16}" for cell in ("ours GB/s", "a copy", "of a copy", *OTHERS)))


def packing(theirs: dict[str, Callable]) -> dict[str, float]:
    """Codes to bytes and back; share of memory-copy speed of each."""
    draw, shares = np.random.default_rng(0), {}
    nibble = draw.integers(0, 16, COUNT, dtype=np.uint8)
    trit = draw.integers(0, 3, COUNT // 20 * 20, dtype=np.uint8)
    heading("codes to bytes and back, one byte a code")
    cases = {f"int4 {order}" if order != "low-first" else "int4": (nibble, lambda codes, order=order: nibbles.pack(codes, order),
                                                                  lambda data, order=order: nibbles.unpack(data, order))
             for order in nibbles.ORDERS}
    cases["bitnet-2bit"] = trit, trits.pack_2bit, trits.unpack_2bit
    cases["bitnet-5in8"] = trit, trits.pack_base3, trits.unpack_base3
    cases["sparse-2:4"] = sparse_codes(draw), trits.pack_2bit, trits.unpack_2bit
    for name, (codes, pack, unpack) in cases.items():
        data = pack(codes)
        for action, work, given in (("pack", pack, codes), ("unpack", unpack, data)):
            other = theirs.get(f"{name} {action}")
            shares[f"{name} {action}"] = shown(f"{name} {action}", race(codes.size, {
                "ours": partial(work, given), "copy": codes.copy, "quantbench": other and partial(other, given)}))
    return shares


def sparse_codes(draw: np.random.Generator) -> np.ndarray:
    """Kept indexes of 2:4, two a group."""
    first = draw.integers(0, 3, COUNT // 2, dtype=np.uint8)
    return np.stack([first, first + 1], axis=1).reshape(-1)


def quantising(theirs: dict[str, Callable]) -> None:
    """Weights to a tensor in the format and back."""
    import gguf

    values = np.random.default_rng(1).standard_normal((COUNT // COLUMNS, COLUMNS), dtype=np.float32)
    heading("weights to a tensor in the format and back, four bytes a weight")
    for one in formats.FORMATS:
        part = values[: max(1, values.shape[0] // 16)] if one.id in SEARCHED else values
        packed = formats.quantise(one.id, part)
        kind = gguf.GGMLQuantizationType.__members__.get(one.id.upper())
        for action, work in (("quantise", partial(formats.quantise, one.id, part)),
                             ("dequantise", partial(formats.dequantise, packed))):
            shown(f"{one.id} {action}", race(part.nbytes, {
                "ours": work, "copy": part.copy, "quantbench": peer_work(theirs, one.id, action, part),
                "gguf": gguf_work(kind, action, part, packed.data)}))


def peer_work(theirs: dict[str, Callable], name: str, action: str, values: np.ndarray) -> Callable[[], object] | None:
    """The peer's function for a format, where it has it."""
    work = theirs.get(f"{name} {action}")
    if work is None or action == "quantise":
        return work and partial(work, values)
    return partial(work, theirs["made fp8" if name.startswith("fp8") else "made int4"](values))


def gguf_work(kind: object, action: str, values: np.ndarray, data: bytes) -> Callable[[], object] | None:
    """gguf-py's function for a GGUF type, where it has one and the bytes are in its layout."""
    import gguf

    if kind is None:
        return None
    if action == "quantise":
        try:
            gguf.quantize(values[:1], kind)
        except NotImplementedError:
            return None
        return partial(gguf.quantize, values, kind)
    block, width = gguf.GGML_QUANT_SIZES[kind]
    fits = len(data) == values.size // block * width and kind.name not in ("MXFP4", "NVFP4")
    return partial(gguf.dequantize, np.frombuffer(data, np.uint8).reshape(len(values), -1), kind) if fits else None


def main() -> None:
    """Both tables, and the target."""
    theirs = peer()
    shares = packing(theirs)
    quantising(theirs)
    low = min(shares["int4 pack"], shares["int4 unpack"])
    print(f"\nINT4 pack and unpack at {low:.2f} of memory-copy speed or more (target: {PACK_TARGET:.2f})")
