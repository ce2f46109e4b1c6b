"""`formats.csv` from the facts' number formats, plus the plain 16- and 32-bit ones and the KV cache's.

Scope and compute are set by rule (`scope`, `compute`); layout is bytes a block, and bytes beside the blocks a row
(output feature), a column (input feature) or a matrix.
"""

from collections.abc import Iterable, Iterator

COLUMNS = ("id", "name", "family", "scope", "bits_per_weight", "block_elements", "block_bytes", "row_bytes",
           "column_bytes", "matrix_bytes", "compute", "formula", "perplexity_delta", "kl_divergence", "source", "note")

SCOPES = {"GGUF tensor type": "tensor", "GGUF file mix": "mix", "KV cache": "kv", "MLX": "all"}
"""Everything else quantises linear weights only: embeddings, head and norms stay 16-bit (facts' `applies_to`)."""

MLX_NOTE = ("mlx-lm quantises embedding and head too: only so do bf16, q6 and q4 of one model (vram reports v138, "
            "v140, v144) leave the same memory beside their weights")

COMPUTE = {
    "fp8-tensor": "fp8", "fp8-channel": "fp8", "fp8-block-128x128": "fp8", "mxfp8": "fp8",  # W8A8: fp8 matrix units
    "int8-channel": "int8", "bnb-int8": "int8",  # W8A8: int8 matrix units (bnb keeps outlier columns 16-bit)
    "nvfp4": "fp4", "mxfp4": "fp4",  # 4-bit matrix units where card and engine have them, else as weight-only
    "gguf-f32": "fp32",
}
"""Rate of the matrix units. Weight-only formats are widened before the multiplication, hence 16-bit rates ("bf16")."""

LAYOUTS = {  # id: (elements a block, bytes a block, bytes a row, a column, a matrix), from the facts' formula
    "gptq-int4-g128": (128, 66.5, 0, 4, 0), "gptq-int4-channel": (1, 0.5, 2.5, 0, 0),
    "bnb-int8": (1, 1, 4, 0, 0), "fp8-tensor": (1, 1, 0, 0, 4), "fp8-channel": (1, 1, 4, 0, 0),
    "fp8-block-128x128": (16384, 16388, 0, 0, 0), "nvfp4": (16, 9, 0, 0, 4), "int8-channel": (1, 1, 2, 0, 0),
    "bitnet-i2s": (4, 1, 0, 0, 4), "bitnet-tl2": (3, 0.625, 0, 0, 0), "bitnet-theory": (1, 1.585 / 8, 0, 0, 0),
    "kv-fp8": (1, 1, 0, 0, 0),
}

_TYPE = "definition of the number type"
PLAIN = (  # id, name, family, scope, bits, elements, bytes, compute, formula, source
    ("bf16", "BF16", "16/32-bit", "all", 16, 1, 2, "bf16", "2 bytes", _TYPE),
    ("fp16", "FP16", "16/32-bit", "all", 16, 1, 2, "bf16", "2 bytes", _TYPE),
    ("fp32", "FP32", "16/32-bit", "all", 32, 1, 4, "fp32", "4 bytes", _TYPE),
    ("kv-fp16", "KV cache FP16", "KV cache", "kv", 16, 1, 2, "bf16", "2 bytes", _TYPE),
    ("kv-bf16", "KV cache BF16", "KV cache", "kv", 16, 1, 2, "bf16", "2 bytes", _TYPE),
    ("kv-int8", "KV cache INT8", "KV cache", "kv", 8, 1, 1, "bf16", "1 byte (scales are per tensor or head)", _TYPE),
    ("kv-iq4-nl", "KV cache GGUF iq4_nl", "KV cache", "kv", 4.5, 32, 18, "bf16", "18*8/32",
     "gguf 0.19.0 constants.py GGML_QUANT_SIZES (PyPI, MIT)"),
)


def layout(fact: dict) -> dict:
    """Bytes of the format's blocks and beside them."""
    if fact["family"] == "GGUF file mix":
        values = (None, None, None, None, None)  # computed per model from the rule
    elif fact["id"] in LAYOUTS:
        values = LAYOUTS[fact["id"]]
    else:
        elements = fact["block_elements"] or fact["group_size"]
        values = (elements, fact["block_bytes"] or fact["bits_per_weight"] * elements / 8, 0, 0, 0)
    names = ("block_elements", "block_bytes", "row_bytes", "column_bytes", "matrix_bytes")
    return {name: value or None for name, value in zip(names, values, strict=True)}


def name(fact: dict) -> str:
    """'Q4_K_M' is a file as people name it; a single tensor's type says that it is one."""
    if fact["family"] == "GGUF file mix":
        return fact["name"].removesuffix(" (file type)")
    return f"{fact['name']} tensor" if fact["family"] == "GGUF tensor type" else fact["name"]


def rows(facts: Iterable[dict]) -> Iterator[dict]:
    """The plain formats first, then the facts' in their order."""
    names = ("id", "name", "family", "scope", "bits_per_weight", "block_elements", "block_bytes", "compute", "formula",
             "source")
    for plain in PLAIN:
        yield dict.fromkeys(COLUMNS) | dict(zip(names, plain, strict=True))
    for fact in facts:
        yield dict.fromkeys(COLUMNS) | {
            "id": fact["id"], "name": name(fact), "family": fact["family"],
            "scope": SCOPES.get(fact["family"], "linear"), "bits_per_weight": fact["bits_per_weight"],
            "compute": COMPUTE.get(fact["id"], "bf16"), "formula": fact["formula"],
            "perplexity_delta": fact["llama3_8b_ppl_delta"], "kl_divergence": fact["llama3_8b_kld"],
            "source": fact["source"], "note": MLX_NOTE if fact["family"] == "MLX" else fact["note"],
        } | layout(fact)
