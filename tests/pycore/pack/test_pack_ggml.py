"""GGUF's blocks byte for byte: ggml's reference quantisers (libgguf), and gguf-py where it has the type."""

import gguf
import libgguf
import numpy as np
import pytest
from pack_oracles import ggml, ggml_back, weights

from pycore.pack import bitnet, formats, mxfp4, nvfp4, q4_0, q4_1, q4_k, q5_0, q6_k, q8_0, sums

MODULES = {"Q4_0": (q4_0, {}), "Q4_1": (q4_1, {}), "Q5_0": (q5_0, {}), "Q8_0": (q8_0, {}), "Q4_K": (q4_k, {}),
           "Q6_K": (q6_k, {}), "MXFP4": (mxfp4, {"layout": "gguf"}), "NVFP4": (nvfp4, {"layout": "gguf"})}
NO_PYTHON_QUANTISER = {"Q4_K", "Q6_K", "NVFP4"}
SCALES = (1e-12, 1e-5, 0.02, 1.0, 50.0)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", MODULES)
def test_bytes_are_those_of_ggml(name, scale):
    module, options = MODULES[name]
    values = weights(scale=scale)
    packed, expected = module.quantise(values, **options), ggml(name, values)
    assert packed.data == expected
    assert np.array_equal(module.dequantise(packed), ggml_back(name, expected, values.shape))


@pytest.mark.parametrize("name", [name for name in MODULES if name not in NO_PYTHON_QUANTISER])
def test_bytes_are_those_of_gguf_py_too(name):
    module, options = MODULES[name]
    values = weights(32, 1024)
    expected = gguf.quantize(values, gguf.GGMLQuantizationType[name])
    assert module.quantise(values, **options).data == expected.tobytes()


@pytest.mark.parametrize("name", MODULES)
def test_any_bytes_are_read_as_ggml_reads_them(name):
    module, options = MODULES[name]
    draw = np.random.default_rng(3)
    size = libgguf.row_size(libgguf.GGMLQuantizationType[name], 512)
    data = draw.integers(0, 256, (64, size), dtype=np.uint8)
    if name not in ("MXFP4", "NVFP4"):
        tame(data.reshape(-1, module.BLOCK_BYTES), name)
    if name == "NVFP4":
        data.reshape(-1, 36)[:, :4] &= 0x7F  # unsigned scales; ggml reads code 0x7F as 0 where OCP says NaN
        data.reshape(-1, 36)[:, :4] -= data.reshape(-1, 36)[:, :4] == 0x7F
    if name == "MXFP4":
        data.reshape(-1, 17)[:, 0] %= 250  # ggml gives large exponents an infinity
    found = module.dequantise(module.read(data.tobytes(), (64, 512), **options))
    assert np.array_equal(found, ggml_back(name, data.tobytes(), (64, 512)))


def tame(blocks: np.ndarray, name: str) -> None:
    """Clear the top exponent bit of every float16 in random blocks, so that none is NaN or infinite."""
    places = {"Q4_1": (1, 3), "Q4_K": (1, 3), "Q6_K": (209,)}.get(name, (1,))
    for place in places:
        blocks[:, place] &= 0xBF


@pytest.mark.parametrize("name", ["Q4_0", "Q4_1", "Q5_0", "Q8_0"])
def test_a_million_weights_at_rounding_borders(name):
    module, _ = MODULES[name]
    draw = np.random.default_rng(5)
    values = draw.integers(-64, 65, (256, 4096)).astype(np.float32) / np.float32(16)
    assert module.quantise(values).data == ggml(name, values)


@pytest.mark.parametrize(("packing", "name"), [("2bit", "TQ2_0"), ("5in8", "TQ1_0")])
def test_ternary_blocks_are_those_of_ggml(packing, name):
    restored = bitnet.dequantise(bitnet.quantise(weights(16, 1024), packing=packing, layout="gguf"))
    restored[:, ::256] = np.abs(restored).max()  # ggml takes each block's largest value as its scale: give it one
    packed = bitnet.read(ggml(name, restored), restored.shape, packing=packing, layout="gguf")
    assert np.array_equal(bitnet.dequantise(packed), restored)
    assert packed.data == bitnet.pack(packed.codes, packing, "gguf", packed.data[-2:])
    assert packed.data == gguf.quantize(restored, gguf.GGMLQuantizationType[name]).tobytes()


def test_a_row_that_ends_within_a_block_is_padded_and_the_padding_counted():
    values = weights(8, 288)
    for name in ("q4_k", "q6_k"):
        packed = formats.quantise(name, values)
        assert packed.stride == 512 and len(packed.data) == 8 * 2 * packed_width(name)
        assert formats.dequantise(packed).shape == (8, 288)
        assert packed.data[:packed_width(name)] == ggml(name.upper(), np.ascontiguousarray(values[:, :256]))[:packed_width(name)]


def packed_width(name: str) -> int:
    return formats.format_of(name).module.BLOCK_BYTES


def test_sums_run_in_the_order_of_a_plain_loop():
    values = np.random.default_rng(1).normal(size=(33, 1)).astype(np.float32)
    total = np.float32(0)
    for value in values[:, 0]:
        total += value
    from pycore.pack.blocks import sequential

    assert sequential(values)[0] == total
    assert abs(float(sums.folded_sum(values.astype(np.float64))[0]) - float(values.astype(np.float64).sum())) < 1e-12
