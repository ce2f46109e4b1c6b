"""Parameter counts against what is published on the Hub, and against what transformers builds from the same config."""

import csv
import json
from pathlib import Path

import pytest

from pycore import catalog
from pycore.config_json import read_config
from pycore.vram.parameters import matrices, mtp_matrices, parameters

VALIDATION = Path(__file__).resolve().parents[3] / "data" / "validation"
FACTS = {row["id"]: row for row in csv.DictReader((VALIDATION / "parameters.csv").open(encoding="utf-8", newline=""))}
FIXTURES = [json.loads(line) for line in (VALIDATION / "configs.jsonl").read_text(encoding="utf-8").splitlines()]
TOLERANCE = 1e-6  # 0.0001 %: Llama 2 and Kimi-K2 store a few thousand numbers of rotary buffers besides


def block_scales(model):
    """One 32-bit scale for every 128 x 128 block of the weights that DeepSeek stores in FP8."""
    return sum(-(-matrix.rows // 128) * -(-matrix.columns // 128) * matrix.count
               for matrix in matrices(model) + mtp_matrices(model)
               if matrix.kind == "linear" and matrix.component not in ("router", "mtp"))


def second_head(model):
    return model.vocabulary * model.hidden_size


def gemma_vision(model):
    return 416_867_184 + 1152 * model.hidden_size  # SigLIP tower, and a projector of its width to the hidden size


def llama_vision(model):
    return 871_932_416


def mtp(model):
    return parameters(model).mtp


# What a checkpoint stores besides the language model, for the twelve models whose published count has it.
EXCEPTIONS = {
    "qwen--qwen3-0.6b": second_head, "qwen--qwen3-1.7b": second_head, "tiiuae--falcon-40b": second_head,
    "google--gemma-3-4b-it": gemma_vision, "google--gemma-3-12b-it": gemma_vision,
    "google--gemma-3-27b-it": gemma_vision, "meta-llama--llama-4-scout-17b-16e-instruct": llama_vision,
    "meta-llama--llama-4-maverick-17b-128e-instruct": llama_vision, "zai-org--glm-4.5": mtp,
    "zai-org--glm-4.5-air": mtp,
    "deepseek-ai--deepseek-v3": lambda model: mtp(model) + block_scales(model),
    "deepseek-ai--deepseek-r1": lambda model: mtp(model) + block_scales(model),
}


def test_the_catalogue_and_the_published_counts_are_the_same_models():
    assert {model.id for model in catalog.models()} == set(FACTS)
    assert len(FACTS) == 83
    assert sum(bool(row["published"]) for row in FACTS.values()) == 71


@pytest.mark.parametrize("key", [key for key, row in FACTS.items() if row["published"] and key not in EXCEPTIONS])
def test_published_count(key):
    published = int(FACTS[key]["published"])
    assert parameters(catalog.model(key)).total == pytest.approx(published, rel=TOLERANCE)


def test_nearly_all_published_counts_are_reproduced_to_the_last_digit():
    exact = [key for key, row in FACTS.items() if row["published"] and key not in EXCEPTIONS
             and parameters(catalog.model(key)).total == int(row["published"])]
    assert len(exact) == 55


@pytest.mark.parametrize("key", sorted(EXCEPTIONS))
def test_exception_is_reproduced_to_the_last_digit(key):
    model = catalog.model(key)
    difference = int(FACTS[key]["published"]) - parameters(model).total
    assert difference == EXCEPTIONS[key](model)
    assert abs(difference) / int(FACTS[key]["published"]) > TOLERANCE  # else it would be no exception
    assert FACTS[key]["exception"]


@pytest.mark.parametrize("key", [key for key, row in FACTS.items() if not row["published"]])
def test_unpublished_count_agrees_with_the_facts_own_recomputation(key):
    assert parameters(catalog.model(key)).total == int(FACTS[key]["facts_computed"])


@pytest.mark.parametrize("key", [key for key, row in FACTS.items() if row["facts_active"] or row["facts_mtp"]])
def test_active_and_mtp_counts_agree_with_the_facts(key):
    counted = parameters(catalog.model(key))
    if FACTS[key]["facts_active"]:
        assert counted.active == int(FACTS[key]["facts_active"])
    if FACTS[key]["facts_mtp"]:
        assert counted.mtp == int(FACTS[key]["facts_mtp"])


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda one: f"{one['config']['model_type']} {one['name']}")
def test_count_is_what_transformers_builds(fixture):
    assert parameters(read_config(json.dumps(fixture["config"]))).total == fixture["parameters"]


@pytest.mark.parametrize("model", catalog.models(), ids=lambda model: model.id)
def test_parts_add_up(model):
    counted, found = parameters(model), matrices(model)
    assert sum(matrix.total for matrix in found) == counted.total == sum(size for _, size in counted.roles)
    assert counted.stored == counted.total + counted.mtp + counted.vision
    assert sum(matrix.total for matrix in mtp_matrices(model)) == counted.mtp
    assert counted.active <= counted.total
    assert (counted.active == counted.total) is not model.mixture
    assert sum(group.layers for group in model.groups) == model.layers
    for index, group in enumerate(model.groups):
        assert sum(model.group_of(layer) is model.groups[index] for layer in range(model.layers)) == group.layers


def test_every_layer_has_one_mixer_and_one_mlp():
    for model in catalog.models():
        for roles in (("o", "linear_o"), ("down", "expert_down")):
            layers = [layer for matrix in matrices(model) if matrix.role in roles for layer in matrix.layers]
            assert sorted(layers) == list(range(model.layers)), model.id
        assert sum(map(model.holds_experts, range(model.layers))) == model.expert_layers


def test_weights_of_one_layer_by_hand():
    """Llama-3.1-8B, one layer of 32: q 4096 x 4096, k and v 1024 x 4096, o, three MLP matrices, two norms."""
    shapes = {matrix.role: (matrix.rows, matrix.columns) for matrix in matrices(catalog.model("llama-3.1-8b"))}
    assert shapes["q"] == shapes["o"] == (4096, 4096)
    assert shapes["k"] == shapes["v"] == (1024, 4096)
    assert shapes["gate"] == shapes["up"] == (14336, 4096) and shapes["down"] == (4096, 14336)
    layer = 2 * 4096**2 + 2 * 1024 * 4096 + 3 * 4096 * 14336 + 2 * 4096
    assert parameters(catalog.model("llama-3.1-8b")).total == 32 * layer + 2 * 128256 * 4096 + 4096
