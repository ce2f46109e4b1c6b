"""`python -m runtime.measure.pack_vectors [--check]`: what other quantisers make of a few tensors, as test vectors.

    pip install torch==2.13.0 bitsandbytes==0.50.2 torchao==0.18.0 hqq==0.2.8.post1 termcolor

Writes data/validation/pack_vectors.jsonl: one line a vector with the program, its version, what was asked, the tensor's
bytes and the bytes that came out. The programs are large and needed only here; the tests read the file. `--check` makes
the vectors again and compares.
"""

import argparse
import importlib.metadata
import json
import sys
from collections.abc import Iterator
from pathlib import Path

PLACE = Path(__file__).resolve().parents[2] / "data" / "validation" / "pack_vectors.jsonl"
SHAPE = (4, 512)


def tensor(seed: int, scale: float = 0.02) -> object:
    """Heavy-tailed weights with runs of zeros and of a constant, and outliers; float32 (4, 512) that float16 holds."""
    import torch

    draw = torch.Generator().manual_seed(seed)
    values = torch.randn(SHAPE, generator=draw) * scale
    values *= 1 + 3 * (torch.rand(SHAPE, generator=draw) > 0.98)
    values[0, :128] = 0
    values[1, :256] = scale
    values[2, ::50] *= 30
    return values.half().float()


def vector(program: str, what: str, values: object, expected: dict[str, object], **options: object) -> dict:
    """One line of the file; tensors as the hex of their bytes, the values as float16."""
    return {"program": program, "version": importlib.metadata.version(program), "what": what, "options": options,
            "shape": list(values.shape), "values": raw(values.half()),
            "expected": {name: raw(one) for name, one in expected.items()}}


def raw(values: object) -> str:
    """The hex of a tensor's bytes, in order."""
    import torch

    return values.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes().hex()


def bitsandbytes_vectors() -> Iterator[dict]:
    """NF4 with plain and with doubly quantised scales, and the dynamic 8-bit map."""
    import bitsandbytes.functional as functional

    for seed, block in ((1, 64), (2, 128), (3, 64)):
        values = tensor(seed)
        codes, state = functional.quantize_4bit(values, blocksize=block, quant_type="nf4")
        yield vector("bitsandbytes", "nf4", values, {"codes": codes, "scales": state.absmax}, block=block, double=False)
        codes, state = functional.quantize_4bit(values, blocksize=block, quant_type="nf4", compress_statistics=True)
        yield vector("bitsandbytes", "nf4", values,
                     {"codes": codes, "scales": state.absmax, "second": state.state2.absmax, "offset": state.offset,
                      "map": state.state2.code},
                     block=block, double=True)


def torchao_vectors() -> Iterator[dict]:
    """MXFP4, NVFP4, and INT8 and INT4 by torchao's affine quantiser."""
    import torch
    from torchao.prototype.mx_formats.mx_tensor import to_mx
    from torchao.prototype.mx_formats.nvfp4_tensor import nvfp4_quantize, per_tensor_amax_to_scale

    for seed in (4, 5):
        values = tensor(seed)
        scales, codes = to_mx(values, torch.float4_e2m1fn_x2, 32)
        yield vector("torchao", "mxfp4", values, {"codes": codes, "scales": scales})
        whole = per_tensor_amax_to_scale(values.abs().max())
        values[0, :128] = 2**-10  # its block scales are clamped to E4M3's smallest normal number: no all-zero block here
        scales, codes = nvfp4_quantize(values, 16, whole)
        yield vector("torchao", "nvfp4", values, {"codes": codes, "scales": scales, "tensor": whole})
        yield affine("int8", values, 512, "SYMMETRIC_NO_CLIPPING_ERR", (-127, 127))
        yield affine("int4", values, 32, "SYMMETRIC", (0, 15))
        yield affine("int4", values, 64, "ASYMMETRIC", (0, 15))


def affine(what: str, values: object, group: int, mapping: str, ends: tuple[int, int]) -> dict:
    """One vector of torchao's group-wise affine quantiser with float32 scales."""
    import torch
    from torchao.quantization.quant_primitives import MappingType, choose_qparams_affine, quantize_affine

    target = torch.int8 if what == "int8" else torch.uint8
    scales, zeros = choose_qparams_affine(values, MappingType[mapping], (1, group), target, *ends, eps=1e-30,
                                          scale_dtype=torch.float32, zero_point_dtype=torch.int32)
    codes = quantize_affine(values, (1, group), scales, zeros, target, *ends)
    return vector("torchao", what, values, {"codes": codes, "scales": scales, "zeros": zeros}, group=group, mapping=mapping)


def hqq_vectors() -> Iterator[dict]:
    """HQQ's grid without its optimisation: smallest value and step of each group, codes unpacked."""
    import torch
    from hqq.core.quantize import Quantizer

    for seed in (6,):
        values = tensor(seed)
        values[0, :128] = torch.linspace(-0.02, 0.02, 128)
        values[1, :256] = torch.linspace(-0.01, 0.03, 256)
        values = values.half().float()
        codes, meta = Quantizer.quantize(values, nbits=4, group_size=32, axis=1, optimize=False, bitpack=False, device="cpu",
                                         compute_dtype=torch.float32)
        yield vector("hqq", "q4", values, {"codes": codes.to(torch.uint8), "scales": meta["scale"].float(),
                                           "zeros": meta["zero"].float()}, group=32)


def lines() -> list[str]:
    """The whole file, line by line."""
    found = [*bitsandbytes_vectors(), *torchao_vectors(), *hqq_vectors()]
    return [json.dumps(one, separators=(",", ":")) for one in found]


def main() -> int:
    """Write the file, or with --check compare; exit status 1 when it differs."""
    parser = argparse.ArgumentParser(prog="python -m runtime.measure.pack_vectors", description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare with what is committed, write nothing")
    options = parser.parse_args()
    text = "\n".join(lines()) + "\n"
    if options.check:
        same = PLACE.read_text(encoding="utf-8") == text
        print("same" if same else f"{PLACE} differs")
        return int(not same)
    PLACE.write_text(text, encoding="utf-8", newline="\n")
    print(f"{PLACE}: {text.count(chr(10))} vectors, {len(text):,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
