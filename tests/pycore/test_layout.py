"""Where the question leaves the split open, the one taken is one that engines accept and that can be timed."""

import pytest

from pycore import catalog
from pycore.errors import InputError, InvalidQuery
from pycore.layout import automatic, together
from pycore.nouns import Parallel
from pycore.systems.infersize import Query, answer


@pytest.mark.parametrize(
    ("model", "quant", "count", "split"),
    [
        ("qwen2.5-7b", "bf16", 8, (4, 2)),  # 28 heads
        ("phi-4", "bf16", 4, (2, 2)),  # 10 KV heads: neither of 4 and 10 divides the other
        ("phi-4", "bf16", 8, (2, 4)),
        ("llama-3.1-8b", "bf16", 16, (8, 2)),  # two machines: the split inside each, stages across
        ("deepseek-v3", "fp8-block", 16, (8, 2)),
        ("qwen3-235b-a22b", "fp8-block", 8, (4, 2)),  # 1,536 / 8 = 192 is no multiple of a block (vllm#52997)
        ("qwen3-235b-a22b", "bf16", 8, (8, 1)),
    ],
)
def test_an_open_split_is_one_that_can_be(model, quant, count, split):
    found = answer(Query(model=model, quant=quant, gpu="h100 sxm", count=count), with_matrix=False)
    assert found.deployment.parallel == Parallel(tensor=split[0], pipeline=split[1])
    row = next(row for row in answer(Query(model=model, quant=quant, gpu="h100 sxm", matrix_quants=quant)).matrix
               if (row.accelerator_id, row.count) == (found.deployment.accelerator.id, min(count, 8)))
    again = answer(Query(model=model, gpu="h100 sxm", **{k: v for k, v in row.changes.items() if k != "gpu"}),
                   with_matrix=False)
    assert again.memory.total.value == row.total_bytes


def test_every_model_has_a_split_for_every_count():
    """No catalogued model is refused over a split that nobody asked for."""
    for model in catalog.models():
        for count in (1, 2, 3, 4, 6, 8, 16):
            tensor, pipeline = automatic(model, count)
            assert tensor * pipeline == count and tensor <= 8


def test_racks_and_pods_are_one_link():
    assert [together(catalog.accelerator(name)) for name in ("h100", "gb200", "tpu v5e")] == [8, 72, 256]
    tensor, _ = automatic(catalog.model("llama-3.1-70b"), 16, most=72)
    assert tensor == 16


def test_a_block_format_is_not_cut_inside_a_block():
    """Qwen3-235B-A22B-FP8 does not start at tp 8: 'not divisible by weight quantization block_n = 128'."""
    asked = Query(model="qwen3-235b-a22b", quant="fp8-block", gpu="h100 sxm", count=8)
    with pytest.raises(InvalidQuery, match="192.*128.*expert parallel"):
        answer(Query(**{**vars_of(asked), "tp": 8}), with_matrix=False)
    whole = answer(Query(**{**vars_of(asked), "tp": 8, "ep": True}), with_matrix=False)
    assert whole.deployment.parallel == Parallel(tensor=8, expert=True)


def vars_of(query):
    return {name: getattr(query, name) for name in Query.__dataclass_fields__}


def test_more_stages_than_layers_is_refused():
    with pytest.raises(InputError, match="count"):
        automatic(catalog.model("qwen2.5-7b"), 4 * 29)
