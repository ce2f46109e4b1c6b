"""The allocator is exact, its plan is told to others in words that they understand, and measured rows are read as they are."""

import itertools
import random
import re
import shlex
import sys
import time
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
import made_up_rows

from pycore.errors import InputError, NotKnown, StudioError, UnknownName
from pycore.quality import recipes, table
from pycore.quality.allocate import Choice, Place, plan
from pycore.quality.places import places
from pycore.quality.table import PROJECTIONS
from pycore.systems.quantbench import Query, answer, steps

LOSSES = st.one_of(st.floats(-0.1, 3), st.integers(0, 3).map(float))
CHOICES = st.lists(st.builds(Choice, configuration=st.sampled_from("abcdef"), bytes=st.integers(1, 30), loss=LOSSES), min_size=1,
                   max_size=4).map(tuple)
PLACES = st.lists(st.builds(Place, layer=st.integers(0, 3), projection=st.sampled_from(PROJECTIONS), weights=st.just(100),
                            choices=CHOICES), min_size=1, max_size=6)


@pytest.fixture
def model(monkeypatch):
    """The made-up model."""
    made_up_rows.use(monkeypatch, made_up_rows.tables())
    yield table.model("")
    made_up_rows.forget()


# The knapsack ---------------------------------------------------------------------------------------------------------


@given(PLACES, st.integers(1, 120))
@settings(max_examples=300)
def test_no_other_choice_within_the_budget_loses_less(given_places, budget):
    """Every combination tried."""
    found = plan(given_places, budget)
    combinations = itertools.product(*(one.choices for one in given_places))
    possible = [sum(one.loss for one in each) for each in combinations if sum(one.bytes for one in each) <= budget]
    assert found.fits is bool(possible)
    if possible:
        assert found.size.value <= budget and abs(found.loss.value - min(possible)) < 1e-9
    else:
        assert found.size.value == sum(min(one.bytes for one in each.choices) for each in given_places)
    for one, place in zip(found.assigned, given_places, strict=True):
        assert one.choice in place.choices and (one.layer, one.projection) == (place.layer, place.projection)


@given(PLACES)
def test_without_a_budget_every_projection_takes_its_least_loss(given_places):
    found = plan(given_places)
    assert found.fits and found.loss.value == pytest.approx(sum(min(one.loss for one in each.choices)
                                                                for each in given_places), abs=1e-9)


def test_hundreds_of_projections_take_no_time(monkeypatch):
    made_up_rows.use(monkeypatch, made_up_rows.tables(layers=48))
    found = places(table.model(""))
    assert len(found) == 336
    weights, began = sum(one.weights for one in found), time.process_time()
    losses = [plan(found, int(weights * bits / 8)).loss.value for bits in (4.2, 4.3, 4.6, 5, 5.5, 6, 7, 8, 9)]
    assert time.process_time() - began < 9 and losses == sorted(losses, reverse=True)
    made_up_rows.forget()


def test_a_mix_beats_every_single_format_of_its_size(model):
    found = places(model)
    weights = sum(one.weights for one in found)
    mixed = plan(found, int(weights * 5 / 8))
    assert mixed.bits_per_weight.value <= 5 and mixed.loss.value < mixed.uniform.loss
    assert len({one.choice.configuration for one in mixed.assigned}) > 1
    exact = plan(found, mixed.size.value)
    assert exact.loss.value == mixed.loss.value and plan(found, mixed.size.value - 1).loss.value >= mixed.loss.value
    assert [one.bytes for one in mixed.uniforms] == sorted(one.bytes for one in mixed.uniforms)


# What may be chosen ---------------------------------------------------------------------------------------------------


def test_choices_by_hand_are_kept(model):
    found = plan(places(model, "q4_k,q8_0", "down=q6_k, 1.v=Q8_0"), 0)
    by_place = {(one.layer, one.projection): one for one in found.assigned}
    assert all(by_place[layer, "down"].choice.configuration == "q6_k" and by_place[layer, "down"].fixed for layer in (0, 1))
    assert by_place[1, "v"].fixed and by_place[1, "v"].choice.configuration == "q8_0" and not by_place[0, "v"].fixed
    assert {one.choice.configuration for one in found.assigned} <= {"q4_k", "q6_k", "q8_0"}


@pytest.mark.parametrize(("formats", "choices", "field", "near"), [
    ("q4k", "", "formats", "q4_k"), ("", "down=q6k", "choices", "q6_k"), ("", "dwn=q6_k", "choices", ""), ("", "x", "choices", ""),
    ("", "9.v=q8_0", "choices", ""), ("", "-1.v=q8_0", "choices", "")])
def test_choices_that_are_none(model, formats, choices, field, near):
    with pytest.raises(InputError) as found:
        places(model, formats, choices)
    assert found.value.field == field and (not near or near in found.value.suggestions)


def test_a_model_without_rows_has_no_plan(monkeypatch, model):
    made_up_rows.use(monkeypatch, made_up_rows.tables() | {"sensitivity": []})
    with pytest.raises(NotKnown):
        places(table.model(""))
    assert next(steps(Query())).plan is None and "not measured" in next(steps(Query())).no_plan


def test_the_question_plans(model):
    first = answer(Query(budget=5.0))
    assert first.plan.bits_per_weight.value <= 5 and first.model is model and first.models == ("made-up",)
    assert answer(Query(budget_mb=4.0)).plan.size.value <= 4_000_000
    assert not answer(Query(budget=2.0)).plan.fits
    assert answer(Query(budget=0.0)).plan.budget_bytes == 0
    assert {one.name for one in first.terms} >= {"Size of the planned weights", "Bits per planned weight", "Predicted loss"}
    with pytest.raises(UnknownName):
        answer(Query(model="made-op"))
    with pytest.raises(StudioError):
        answer(Query(choices="nonsense"))


# What others read -----------------------------------------------------------------------------------------------------


def names(layers):
    """(layer, projection) -> tensor as GGUF names it, module as transformers does."""
    return {(layer, projection): (f"blk.{layer}.{recipes.TENSORS[projection]}.weight",
                                  f"model.layers.{layer}.{recipes.MODULES[projection]}")
            for layer in range(layers) for projection in PROJECTIONS}


def rows(draw, layers, options):
    return [(layer, projection, *draw.choice(options)) for layer in range(layers) for projection in PROJECTIONS]


def test_llama_cpp_reads_the_plan():
    """Each tensor's type by llama-quantize's rule: the first pattern found in the name."""
    draw = random.Random(1)
    wanted = rows(draw, 12, [(name, name, ()) for name in ("q4_k", "q6_k", "q8_0", "q4_0")])
    found = recipes.commands(wanted)
    words = shlex.split(found.llama_cpp)
    assert words[0] == "llama-quantize" and words[-3:-1] == ["model-f16.gguf", "model-planned.gguf"] and not found.llama_cpp_unsaid
    patterns = [words[place + 1].split("=") for place, word in enumerate(words) if word == "--tensor-type"]
    tensors = names(12)
    for layer, projection, configuration, _, _ in wanted:
        hits = [kind for pattern, kind in patterns if re.search(pattern, tensors[layer, projection][0])]
        assert [kind.lower() for kind in hits] == [configuration]


def test_llm_compressor_reads_the_plan():
    draw = random.Random(2)
    stored = {"a": (("int4", (("group", "128"),)), {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "group",
                                                     "group_size": 128}),
              "b": (("int8", ()), {"num_bits": 8, "type": "int", "symmetric": True, "strategy": "channel"}),
              "c": (("fp8-e4m3", (("granularity", "tensor"),)), {"num_bits": 8, "type": "float", "symmetric": True,
                                                                  "strategy": "tensor"}),
              "d": (("nvfp4", ()), {"num_bits": 4, "type": "float", "symmetric": True, "strategy": "tensor_group",
                                    "group_size": 16, "scale_dtype": "torch.float8_e4m3fn"}),
              "e": (("int4", (("group", "32"), ("symmetric", "no"))), {"num_bits": 4, "type": "int", "symmetric": False,
                                                                      "strategy": "group", "group_size": 32}),
              "q8_0": (("q8_0", ()), {"num_bits": 8, "type": "int", "symmetric": True, "strategy": "group", "group_size": 32}),
              "q4_0": (("q4_0", ()), {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "group", "group_size": 32})}
    wanted = rows(draw, 8, [(name, *kind) for name, (kind, _) in stored.items()])
    text = recipes.commands(wanted).recipe
    groups = yaml.safe_load(text)["quant_stage"]["quant_modifiers"]["QuantizationModifier"]["config_groups"]
    modules = names(8)
    for layer, projection, configuration, _, _ in wanted:
        hits = [group["weights"] for group in groups.values() for target in group["targets"]
                if re.match(target.removeprefix("re:"), modules[layer, projection][1])]
        assert hits == [stored[configuration][1]]
    first = text.splitlines()[0]
    assert first.startswith("# ") and "q8_0" in first and "q4_0" in first and "the nearest there" in first
    assert set(recipes.commands(wanted).recipe_near) == {"q8_0", "q4_0"}


def test_what_a_program_lacks_is_said():
    found = recipes.commands([(0, "q", "nf4", "nf4", ()), (0, "k", "q4_k", "q4_k", ())])
    assert found.llama_cpp_unsaid == ("nf4",) and "attn_q" not in found.llama_cpp and "attn_k" in found.llama_cpp
    assert found.recipe == "" and found.recipe_unsaid == ("nf4", "q4_k")
    assert recipes.commands([(0, "q", "nf4", "nf4", ())]).llama_cpp == ""


# Measured rows --------------------------------------------------------------------------------------------------------


def test_measured_rows_are_marked(model):
    by_name = {one.configuration: one for one in model.configurations}
    assert by_name["q8_0"].better_than_reference and not by_name["q4_k"].better_than_reference
    assert by_name["int4-g64"].options == (("group", "64"),) and by_name["fp32"].kl_divergence is None
    assert by_name["q4_k"].kl_divergence.low < by_name["q4_k"].kl_divergence.value < by_name["q4_k"].kl_divergence.high
    assert not by_name["fp32"].dominated_by and not by_name["q8_0"].dominated_by


def test_a_perplexity_below_the_reference_has_a_reason(monkeypatch):
    found = made_up_rows.tables()
    for row in found["configurations"][1:]:
        row |= {"perplexity": "29.5", "ratio": "0.98"}
    by_name = {row["configuration"]: row for row in found["configurations"]}
    by_name["q4_0"] |= {"trained": "1", "ratio_low": "0.97", "ratio_high": "0.99"}
    by_name["q8_0"] |= {"ratio_low": "0.97", "ratio_high": "1.01"}
    by_name["q6_k"] |= {"ratio_low": "0.97", "ratio_high": "0.999"}
    made_up_rows.use(monkeypatch, found)
    assert {one.configuration: one.below for one in table.models()[0].configurations} == {
        "fp32": "", "q4_0": "training", "q8_0": "noise", "q6_k": "chance", "q4_k": "unknown", "int4-g64": "unknown",
        "nf4": "unknown"}
    made_up_rows.forget()


def test_the_datasets_own_rows_below_the_reference_are_told_apart():
    """In the tiny model: one learnt on, one is noise, one just misses; the other model has none."""
    made_up_rows.forget()
    below = {(model.name, one.configuration): one.below for model in table.models() for one in model.configurations if one.below}
    assert below[("tiny-qwen2", "bitnet-2bit-trained")] == "training"
    for (name, configuration), reason in below.items():
        ratio = next(one.ratio for one in table.model(name).configurations if one.configuration == configuration)
        assert ratio.value < 1 and (reason == "noise") == (ratio.high >= 1 and reason != "training")


def test_what_is_lossless_for_one_model_dominates_nothing(monkeypatch):
    rows_made = made_up_rows.tables()
    for row in rows_made["configurations"]:
        if row["configuration"] == "nf4":
            row.update(lossless="1", kl_divergence="0")
    made_up_rows.use(monkeypatch, rows_made)
    found = {one.configuration: one for one in table.model("").configurations}
    assert found["nf4"].lossless and not found["nf4"].dominated_by
    assert "nf4" not in {one.dominated_by for one in found.values()} and not found["q8_0"].dominated_by
    made_up_rows.forget()


def test_promises_of_plans_are_read(model):
    (one,) = model.promises
    assert one.predicted_kl == 0.5 and one.kl_divergence.value == 0.6 and one.uniform_kl.value == 1.1 and one.uniform == "q4_k"


def test_the_textbook_story_is_held_against_the_rows(monkeypatch):
    rows_made = made_up_rows.tables()
    for row in rows_made["sensitivity"]:
        row["kl_divergence"] = {"q": "3", "k": "2"}.get(row["projection"], "1")
        if row["configuration"] == "nf4" and row["projection"] == "down":
            row["kl_divergence"] = "9"
    made_up_rows.use(monkeypatch, rows_made)
    found = {one.configuration: one for one in table.model("").verdicts}
    assert found["q4_k"].holds and found["q4_k"].layers == found["q4_k"].of == 2
    assert not found["nf4"].holds and found["nf4"].layers == 0 and found["nf4"].total[0] == ("down", 9.0)
    assert found["q4_k"].per_weight[0][0] == "k"  # small, so the most by weight
    made_up_rows.forget()
