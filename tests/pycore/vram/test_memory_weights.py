"""Weights on a device against what engines say they loaded, and conservation when a model is cut."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_shapes import REPORTS, rows

from pycore import catalog
from pycore.nouns import Parallel
from pycore.units import GIB, MIB
from pycore.vram import gguf_mix
from pycore.vram.engines import ENGINES
from pycore.vram.parameters import matrices
from pycore.vram.stages import stages
from pycore.vram.weights import copies, device_shape, host_bytes, placed, placed_bytes, weights

LOOSE = {"gemma": 6.0, "gpt-oss": 2.5, "qwen2.5": 0.9, "w4a16": 0.8}
"""Percent: vision buffers of Gemma 3; expert padding that differs by kernel; load-time rests; Marlin's workspaces."""


def gib(model, quant="bf16", engine="vllm", tp=1, pp=1, stage=0, **parallel):
    return (
        placed_bytes(
            catalog.model(model),
            catalog.weight_format(quant),
            ENGINES[engine],
            Parallel(tensor=tp, pipeline=pp, **parallel),
            stage,
        )
        / GIB
    )


@pytest.mark.parametrize("row", rows("vllm_profiles.csv"), ids=lambda row: row["id"])
def test_vllm_says_it_loaded_as_much(row):
    """43 start-up logs. Most agree to the logged hundredth of a GiB; the loose ones are named in LOOSE."""
    loaded = gib(row["model"], row["weights"], "vllm-0.20", int(row["tp"]))
    allowed = next((percent for name, percent in LOOSE.items() if name in row["model"] or name in row["weights"]), 0.4)
    assert abs(loaded / float(row["weights_gib"]) - 1) * 100 <= allowed


@pytest.mark.parametrize(
    ("identity", "tp", "quant"),
    [("v001", 1, "int8"), ("v002", 1, "bf16"), ("v003", 2, "bf16"), ("v004", 1, "bf16"), ("v068", 1, "bf16")],
)
def test_weights_of_older_logs(identity, tp, quant):
    row = REPORTS[identity]
    assert abs(gib(row["model"], quant, tp=tp) - float(row["weights_gib"])) < 0.014


def test_tied_embeddings_in_llama_cpp():
    """v078: Gemma-3-27B in Q4_K_M: 15,773.97 MiB on the device, 1,102.77 MiB of token embedding in main memory."""
    model, mix, engine = catalog.model("gemma-3-27b"), catalog.weight_format("q4_k_m"), ENGINES["llama.cpp"]
    assert abs(placed_bytes(model, mix, engine, Parallel(), 0) / MIB - 15_773.97) < 0.1
    assert f"{host_bytes(model, mix, engine) / MIB:.2f}" == "1102.77"
    assert abs(gguf_mix.file_bytes(model, "q4_k_m") / MIB - 15_773.97) < 0.1  # the file holds it once


def test_tied_head_is_not_stored_twice_in_vllm():
    """unsloth#9929 and v064: Qwen2.5-1.5B loads in 2.8875 GiB; a second head would add 0.43."""
    assert 2.87 < gib("qwen2.5-1.5b") < 2.91


def test_tied_head_is_stored_again_on_the_last_stage():
    model, form = catalog.model("qwen2.5-1.5b"), catalog.weight_format("bf16")
    parts = placed(model, form, ENGINES["vllm"], Parallel(pipeline=2), 1)
    assert sum(part.numbers for part in parts if part.component == "head") == model.vocabulary * model.hidden_size


def test_every_expert_is_resident():
    """v060: Mixtral-8x22B in Q6_K is 107.6 GiB although only 39 B of 141 B are active."""
    assert (
        abs(gguf_mix.file_bytes(catalog.model("mixtral-8x22b"), "q6_k") / GIB - float(REPORTS["v060"]["weights_gib"]))
        < 0.6
    )


def cut_exactly(model, tensor):
    """Whether every matrix divides over that many devices."""
    for matrix in matrices(model):
        rows_, columns = device_shape(model, matrix, tensor)
        if matrix.role in ("o", "down", "expert_down", "shared_down", "linear_o"):
            if columns * tensor != matrix.columns:
                return False
        elif (
            rows_ != matrix.rows
            and rows_ * tensor != matrix.rows
            and matrix.role not in ("k", "v")
            and matrix.component != "biases"
        ):
            return False
    return True


@settings(deadline=None, max_examples=60)
@given(
    name=st.sampled_from(
        [
            "llama-3.1-8b",
            "qwen2.5-7b",
            "qwen3-30b-a3b",
            "gemma-2-9b",
            "deepseek-v3",
            "mixtral-8x7b",
            "qwen3.5-27b",
            "gpt-oss-20b",
            "glm-4.5-air",
        ]
    ),
    tensor=st.sampled_from([1, 2, 4, 8]),
)
def test_splitting_conserves_every_matrix(name, tensor):
    """Summed over the devices: what is cut adds up to the whole, what is not is held once by each (replication)."""
    model = catalog.model(name)
    if not cut_exactly(model, tensor):
        return
    for matrix in matrices(model):
        rows_, columns = device_shape(model, matrix, tensor)
        elements = rows_ * columns
        if matrix.role in ("k", "v"):
            held = max(1, model.groups[-1].kv_heads // tensor) if model.groups[-1].kv_heads else 1
            assert elements * model.groups[-1].kv_heads == matrix.elements * held
        elif matrix.component == "biases":
            assert elements * tensor >= matrix.elements
        else:
            assert elements * tensor == matrix.elements or elements == matrix.elements


@settings(deadline=None, max_examples=60)
@given(layers=st.integers(1, 130), count=st.integers(1, 64), rule=st.sampled_from(["tensor", "layer"]))
def test_stages_hold_every_layer_once(layers, count, rule):
    if count > layers:
        return
    held = [layer for stage in stages(layers, count, rule) for layer in stage]
    assert held == list(range(layers))
    sizes = [len(stage) for stage in stages(layers, count, rule)]
    assert max(sizes) - min(sizes) <= (1 if rule == "tensor" else 2)  # the output matrix counts as a layer


@pytest.mark.parametrize("name", ["llama-3.1-8b", "gemma-3-27b", "deepseek-v3", "qwen3.5-27b", "llama-4-scout"])
@pytest.mark.parametrize("count", [2, 3, 8])
def test_pipeline_conserves_weights(name, count):
    """Over the stages: the single device's weights, plus a second tied head and a rotary table a stage."""
    model, form, engine = catalog.model(name), catalog.weight_format("bf16"), ENGINES["vllm"]
    pieces = [part for index in range(count) for part in placed(model, form, engine, Parallel(pipeline=count), index)]
    alone = placed(model, form, engine, Parallel(), 0)

    def numbers(parts, component):
        return sum(part.numbers for part in parts if part.component == component)

    for component in {part.component for part in alone} - {"rotary", "head"}:
        assert numbers(pieces, component) == numbers(alone, component)
    assert numbers(pieces, "rotary") == count * numbers(alone, "rotary")
    assert numbers(pieces, "head") == numbers(alone, "embedding")  # stored again where it is tied


def test_whole_experts_and_sliced_experts_weigh_the_same():
    sliced, whole = gib("qwen3-30b-a3b", tp=8), gib("qwen3-30b-a3b", tp=8, expert=True)
    assert abs(sliced - whole) < 1e-9
    spread = gib("qwen3-30b-a3b", tp=1, data=8, expert=True)
    assert gib("qwen3-30b-a3b", tp=1, data=8) > spread > sliced  # attention is not cut, experts are


def test_component_terms_add_up_and_explain_themselves():
    model, form = catalog.model("gemma-3-27b"), catalog.weight_format("q4_k_m")
    found = weights(model, form, ENGINES["llama.cpp"], Parallel(), 0)
    assert (
        found.value
        == sum(part.value for part in found.parts)
        == placed_bytes(model, form, ENGINES["llama.cpp"], Parallel(), 0)
    )
    attention = next(part for part in found.parts if part.name == "Attention")
    assert {part.name for part in attention.parts} == {"Attention, Q4_K", "Attention, Q6_K"}
    assert all(part.source and part.line for part in attention.parts)


def test_expert_copies():
    experts = next(matrix for matrix in matrices(catalog.model("qwen3-30b-a3b")) if matrix.role == "expert_up")
    assert (
        copies(experts, 48, 1) == 128 * 48 and copies(experts, 48, 8) == 16 * 48 and copies(experts, 48, 3) == 43 * 48
    )
