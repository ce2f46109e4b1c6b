"""Keys and values in fewer bits: against ggml's own quantiser, torch's own float8, closed bounds, and the engine's paths."""


import numpy
import pytest
import torch
from gguf import GGMLQuantizationType
from gguf.quants import dequantize, quantize
from mini_infer_driving import drive, text

from pycore.errors import InputError
from runtime.mini_infer.cache import Cache
from runtime.mini_infer.engine import Generation
from runtime.mini_infer.kv_formats import BITS, hadamard, kv_format
from runtime.mini_infer.quality import compare, logits
from runtime.mini_infer.room import token_bytes
from runtime.mini_infer.setup import Setup

SMALL = ("fp8", "int8", "int4")


def numbers(*shape: int) -> torch.Tensor:
    """Reproducible, with a few large ones, as keys have."""
    drawn = torch.randn(*shape, generator=torch.Generator().manual_seed(1))
    drawn[..., 3] *= 8
    return drawn


def there_and_back(name: str, x: torch.Tensor) -> torch.Tensor:
    kept = kv_format(name, x.shape[-1])
    rows = kept.encode(x)
    assert rows.shape == (*x.shape[:-1], kept.row) and rows.dtype == kept.stored
    assert rows[..., 0, :].nbytes * rows.shape[-2] == rows.nbytes
    return kept.decode(rows, torch.float32)


def test_int4_is_ggmls_q4_0_where_no_rotation_comes_before():
    x = numbers(64, 96)
    assert not kv_format("int4", 96).turns
    theirs = dequantize(quantize(x.numpy(), GGMLQuantizationType.Q4_0), GGMLQuantizationType.Q4_0)
    ours = there_and_back("int4", x).numpy()
    # They round halves up and divide by the scale before it is cut to 16 bits: a code in a hundred may be the next one.
    assert (numpy.abs(ours - theirs) > 1e-3 * numpy.abs(x.numpy()).max()).mean() < 0.01
    assert numpy.square(ours - x.numpy()).sum() <= 1.01 * numpy.square(theirs - x.numpy()).sum()


def test_fp8_is_torchs_e4m3_cut_at_448():
    x = torch.cat([numbers(50, 64).flatten(), torch.tensor([500.0, -1e9, 448.0, 0.0, 2**-9, -2**-10, 1e-9, 464.0])]).view(-1, 2)
    assert torch.equal(there_and_back("fp8", x), x.clamp(-448, 448).to(torch.float8_e4m3fn).float())


@pytest.mark.parametrize("width", [6, 16, 64, 80, 128])
def test_int8_errs_by_half_a_step_at_most(width):
    x = numbers(40, width)
    kept = kv_format("int8", width)
    steps = x.unflatten(-1, (-1, kept.group)).abs().amax(-1, keepdim=True) / 127
    error = (there_and_back("int8", x) - x).unflatten(-1, (-1, kept.group)).abs()
    assert (error <= steps * (0.5 + 127 * 2**-11)).all()  # half a step, and the scale's own rounding to 11 bits


@pytest.mark.parametrize("name", BITS)
def test_zero_stays_zero_and_shape_stays_shape(name):
    assert torch.equal(there_and_back(name, torch.zeros(3, 2, 64)), torch.zeros(3, 2, 64))
    kept = kv_format(name, 64)
    assert torch.equal(kept.decode(torch.zeros(5, kept.row, dtype=kept.stored), torch.float32), torch.zeros(5, 64))


def test_the_hadamard_matrix_is_orthonormal_and_its_own_inverse():
    matrix = hadamard(64, torch.float64, "cpu")
    torch.testing.assert_close(matrix @ matrix, torch.eye(64, dtype=torch.float64))
    assert torch.equal(matrix.abs(), torch.full((64, 64), 0.125, dtype=torch.float64))


def test_rotation_helps_where_a_number_sticks_out():
    kept, x = kv_format("int4", 64), numbers(200, 64)
    matrix = hadamard(64, torch.float32, "cpu")
    turned = kept.decode(kept.encode(x @ matrix), torch.float32) @ matrix
    plain = kept.decode(kept.encode(x), torch.float32)
    assert (turned - x).square().sum() < 0.8 * (plain - x).square().sum()


def test_an_unknown_format_is_refused_by_name():
    with pytest.raises(InputError, match="int3.*float32.*int4"):
        kv_format("int3", 64)


@pytest.mark.parametrize("name", BITS)
def test_a_cache_takes_the_bytes_that_the_sizing_formulas_say(name, pairs):
    one = pairs["Llama"][0].configuration
    kept = kv_format(name, one.head_width)
    cache = Cache(one, 5, 8, kept=kept)
    assert cache.bytes_per_block == 8 * token_bytes(one, kept) == 8 * 2 * one.layers * one.kv_heads * kept.row_bytes
    assert cache.storage.nbytes == 5 * cache.bytes_per_block


@pytest.mark.parametrize("width", [64, 128])
def test_int4_takes_at_least_70_per_cent_less_than_16_bits(width):
    assert 1 - kv_format("int4", width).row_bytes / kv_format("float16", width).row_bytes >= 0.70


@pytest.mark.parametrize("kind", ["Llama", "Qwen2", "Qwen3"])
def test_fewer_bits_err_more_and_all_within_bounds(kind, pairs):
    model, tokens = pairs[kind][0], text(60)
    reference = logits(model, tokens)

    def error(name: str) -> float:
        return compare(reference, logits(model, tokens, kv_format(name, model.configuration.head_width)), tokens).logit_error

    assert error("float32") == 0
    assert error("float16") < error("int8") < error("fp8") < error("int4") < 0.5
    assert error("float16") < 2e-3 and error("int8") < 0.05 and error("fp8") < 0.2


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("chunk", [1, 7, 16])
def test_chunks_see_what_a_whole_prompt_sees(name, chunk, pairs):
    """A sum in another order may tip a number over to the next code: far below what the format itself errs."""
    model, tokens = pairs["Qwen2"][0], text(60)
    kept = kv_format(name, model.configuration.head_width)
    whole, parts = logits(model, tokens, kept), logits(model, tokens, kept, chunk)
    own = compare(logits(model, tokens), whole, tokens).logit_error
    assert compare(whole, parts, tokens).logit_error <= 0.1 * own


@pytest.mark.parametrize("name", [*SMALL, "float16", "bfloat16"])
def test_cold_hit_chunked_swapped_and_alone_write_the_same(name, pairs):
    model = pairs["Llama"][0]

    def texts(arrivals: list, **choices) -> dict[str, list[int]]:
        setup = Setup(kv_format=name, block_size=8, max_sequences=8, **choices)
        run = drive(setup.engine(model), arrivals)
        return {key: run.output(key) for key in run.texts}

    asked = {key: Generation(id=key, prompt=text(length, seed), max_tokens=12)
             for key, length, seed in (("a", 40, 0), ("b", 24, 1), ("c", 33, 2))}
    alone = {key: texts([(0, one)], kv_blocks=64)[key] for key, one in asked.items()}
    together = [(0, one) for one in asked.values()]
    again = [*together, *((40, Generation(id=key + " again", prompt=one.prompt, max_tokens=12)) for key, one in asked.items())]
    assert texts(together, kv_blocks=64, max_batched_tokens=9) == alone
    assert texts(together, kv_blocks=15, preemption="swap", host_blocks=32) == alone
    assert texts(together, kv_blocks=15) == alone
    hit = texts(again, kv_blocks=64)
    assert hit == alone | {key + " again": tokens for key, tokens in alone.items()}
