"""GGUF: read as llama.cpp's own reader does; files that lie are refused in words, whatever they say."""

import struct
from pathlib import Path

import gguf
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pycore.errors import SourceError
from runtime.models.gguf import open_gguf, parse
from runtime.models.gguf_kinds import KINDS, OTHERS, numbers

QUANTISED = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K", "TQ1_0", "TQ2_0", "MXFP4"]


def written(path: Path, **tensors: np.ndarray) -> bytes:
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_uint32("llama.block_count", 2)
    writer.add_string("general.name", "näme")
    writer.add_array("some.numbers", [1, 2, 3])
    writer.add_array("some.words", ["a", "b c"])
    writer.add_float32("a.float", 0.5)
    writer.add_bool("a.truth", True)
    for name, tensor in (tensors or {"x": np.arange(64, dtype=np.float32).reshape(2, 32), "y": np.ones(3, np.float16)}).items():
        writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path.read_bytes()


@pytest.fixture(scope="module")
def sound(tmp_path_factory) -> bytes:
    return written(tmp_path_factory.mktemp("gguf") / "sound.gguf")


def test_metadata_and_tensors_are_read_as_they_were_written(sound):
    file = parse(memoryview(sound), "sound")
    assert file.metadata["general.name"] == "näme" and file.metadata["some.words"] == ["a", "b c"]
    assert file.metadata["some.numbers"] == [1, 2, 3] and file.metadata["a.float"] == 0.5 and file.metadata["a.truth"] is True
    assert file.value("llama.block_count", int) == 2
    assert np.array_equal(file.numbers("x"), np.arange(64, dtype=np.float32).reshape(2, 32))
    assert np.array_equal(file.numbers("y"), np.ones(3, np.float32)) and file.numbers("y").dtype == np.float32


def test_kinds_are_ggml_s():
    assert {number: kind.name for number, kind in KINDS.items()} | OTHERS == {
        one.value: one.name for one in gguf.GGMLQuantizationType if one.value in KINDS or one.value in OTHERS}
    for number, kind in KINDS.items():
        assert (kind.block, kind.size) == gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType(number)]


@pytest.mark.parametrize("name", QUANTISED)
def test_blocks_become_the_numbers_that_gguf_s_own_reader_gives(name):
    kind = next(one for one in KINDS.values() if one.name == name)
    data = np.random.default_rng(7).integers(0, 256, (4, 512 // kind.block * kind.size), dtype=np.uint8)
    blocks = data.reshape(-1, kind.size)
    scale = np.frombuffer(np.float16(0.01).tobytes(), np.uint8)
    places = {"Q6_K": (208,), "TQ1_0": (52,), "TQ2_0": (64,), "Q4_1": (0, 2), "Q5_1": (0, 2), "Q4_K": (0, 2), "Q5_K": (0, 2), "MXFP4": ()}.get(name, (0,))
    for place in places:
        blocks[:, place:place + 2] = scale
    if name == "MXFP4":
        blocks[:, 0] = 120
    if name == "TQ2_0":  # code 3 is no ternary weight
        blocks[:, :64] &= 0b10101010
    expected = gguf.dequantize(data, gguf.GGMLQuantizationType[name])
    assert np.array_equal(numbers(kind, data.tobytes(), (4, 512)), expected)


@pytest.mark.parametrize("name", ["F16", "BF16"])
def test_plain_floats_are_widened(name):
    values = np.random.default_rng(1).standard_normal((3, 32)).astype(np.float32)
    data = gguf.quantize(values, gguf.GGMLQuantizationType[name])
    kind = next(one for one in KINDS.values() if one.name == name)
    assert np.array_equal(numbers(kind, data.tobytes(), (3, 32)), gguf.dequantize(data, gguf.GGMLQuantizationType[name]))


def test_every_truncation_is_told(sound):
    for size in range(0, len(sound) - 26, 3):  # the last tensor ends 26 bytes before the padded end
        with pytest.raises(SourceError):
            parse(memoryview(sound[:size]), "cut")


@given(place=st.integers(0, 600), value=st.integers(0, 255))
@settings(max_examples=150)
def test_any_changed_byte_gives_a_file_or_an_error_in_words(sound, place, value):
    data = bytearray(sound)
    data[place % len(data)] = value
    try:
        file = parse(memoryview(bytes(data)), "changed")
        for name in file.tensors:
            file.numbers(name)
    except SourceError as error:
        assert str(error).startswith("changed: ")


@pytest.mark.parametrize(("data", "said"), [
    (b"", "not a GGUF file"), (b"GGML" + bytes(40), "not a GGUF file"), (b"GGUF", "ends within the version"),
    (b"GGUF" + struct.pack("<IQQ", 1, 0, 0), "version 1"), (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "big-endian"),
    (b"GGUF" + struct.pack("<IQQ", 3, 2**63, 0), "more than the file has room for"),
    (b"GGUF" + struct.pack("<IQQ", 3, 0, 2**60), "more than the file has room for"),
    (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 2**62) + bytes(20), "at most 65,535"),
    (b"GGUF" + struct.pack("<IQQQ1sI", 3, 0, 1, 1, b"k", 77) + bytes(20), "type 77"),
    (b"GGUF" + struct.pack("<IQQQ1sIIQ", 3, 0, 1, 1, b"k", 9, 8, 2**61) + bytes(20), "more than the file has room for"),
    (b"GGUF" + struct.pack("<IQQQ1sIIQ", 3, 0, 1, 1, b"k", 9, 4, 2**61) + bytes(20), "ends within"),
    (b"GGUF" + struct.pack("<IQQQ1sIQ", 3, 0, 1, 1, b"k", 8, 2) + b"\xff\xfe" + bytes(9), "not UTF-8"),
])
def test_headers_that_lie_are_refused_by_name(data, said):
    with pytest.raises(SourceError, match=said):
        parse(memoryview(data), "liar")


def declared(*tensors: tuple[str, tuple[int, ...], int, int], data: bytes = bytes(256)) -> memoryview:
    out = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), 0)
    for name, shape, kind, offset in tensors:
        out += struct.pack("<Q", len(name)) + name.encode() + struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
        out += struct.pack("<IQ", kind, offset)
    return memoryview(out + bytes(-len(out) % 32) + data)


@pytest.mark.parametrize(("tensors", "said"), [
    ([("a", (8,), 0, 0), ("a", (8,), 0, 32)], "twice"), ([("a", (16,), 0, 0), ("b", (8,), 0, 32)], "overlap"),
    ([("a", (8,), 0, 4)], "aligned"), ([("a", (8,), 0, 256)], "the file has"), ([("a", (2**40, 2**40), 0, 0)], "the file has"),
    ([("a", (0,), 0, 0)], "whole blocks"), ([("a", (31,), 2, 0)], "whole blocks of 32"), ([("a", (256,), 10, 0)], "Q2_K; read are"),
    ([("a", (8,), 99, 0)], "number 99"), ([("a", (1, 1, 1, 1, 1), 0, 0)], "5 dimensions"), ([("a", (), 0, 0)], "0 dimensions"),
])
def test_tensors_that_lie_are_refused_by_name(tensors, said):
    with pytest.raises(SourceError, match=said):
        parse(declared(*tensors), "liar")


def test_what_is_not_there_is_said(sound, tmp_path):
    file = parse(memoryview(sound), "sound")
    for call, said in ((lambda: file.numbers("z"), "no tensor 'z'"), (lambda: file.value("q", int), "no metadata 'q'"),
                       (lambda: file.value("general.name", int), "not the expected type")):
        with pytest.raises(SourceError, match=said):
            call()
    with pytest.raises(SourceError, match=r"missing\.gguf"):
        open_gguf(tmp_path / "missing.gguf")
