"""The torch readers give what `pycore.pack` gives, bit for bit, whose bytes are held to the formats' own programs."""

import itertools

import numpy as np
import pytest
import torch

from pycore.errors import UnknownName
from pycore.pack import formats
from runtime.quantbench.unpack import READERS, Layout, layout_of, restore

EVERY = [(one.id, dict(zip(dict(one.options), values, strict=True))) for one in formats.FORMATS
         for values in itertools.product(*(choices for _, choices in one.options))]


def weights(rows: int, columns: int) -> np.ndarray:
    values = np.random.default_rng(rows * columns).standard_normal((rows, columns)).astype(np.float32)
    values[0, :7] = [9.5, -31.0, 0.0, -0.0, 1e-6, -1e-3, 4.0]
    values[rows // 2] = 0
    return values


@pytest.mark.parametrize(("name", "options"), EVERY, ids=lambda one: str(one))
def test_every_format_with_every_option_reads_as_the_core_does(name, options):
    for rows, columns in ((32, 256), (5, 83)):
        if options.get("metadata") == "cutlass" and columns % 16:
            continue
        packed = formats.quantise(name, weights(rows, columns), **options)
        found = restore(torch.frombuffer(bytearray(packed.data), dtype=torch.uint8), layout_of(packed))
        expected = formats.dequantise(packed)
        assert found.shape == (rows, columns) and found.dtype == torch.float32
        assert np.array_equal(found.numpy().view(np.uint32), expected.view(np.uint32)), (rows, columns)


@pytest.mark.parametrize("one", formats.FORMATS, ids=lambda one: one.id)
def test_everything_is_computed_where_the_bytes_are(one):
    """On torch's device without memory: a constant left on the processor would raise."""
    for options in ({}, *({name: value} for name, values in one.options for value in values)):
        packed = formats.quantise(one.id, weights(32, 256), **options)
        found = restore(torch.empty(len(packed.data), dtype=torch.uint8, device="meta"), layout_of(packed))
        assert found.device.type == "meta" and found.shape == (32, 256)


def test_no_format_is_left_out():
    assert set(READERS) == {one.id for one in formats.FORMATS}
    with pytest.raises(UnknownName, match="int3"):
        Layout(format="int3", shape=(1, 1), stride=1)
