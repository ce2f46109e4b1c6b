"""Names as people type them, and the tables behind them."""

import dataclasses
import json
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pycore import catalog, facts
from pycore.config_json import read_config
from pycore.errors import NotKnown, UnknownName
from pycore.matching import Names, atoms

ROOT = Path(__file__).resolve().parents[2]

MODELS = {
    "qwen2.5-7b": "qwen--qwen2.5-7b", "Qwen2.5-7B-Instruct": "qwen--qwen2.5-7b", "QWEN 2.5 7B": "qwen--qwen2.5-7b",
    "Qwen/Qwen2.5-7B-Instruct": "qwen--qwen2.5-7b", "Qwen/Qwen2.5-7B-Instruct-AWQ": "qwen--qwen2.5-7b",
    "llama 3.1 8b": "meta-llama--llama-3.1-8b", "llama-3.1-8b-instruct": "meta-llama--llama-3.1-8b",
    "meta-llama/Meta-Llama-3-8B": "meta-llama--meta-llama-3-8b", "llama3 8b": "meta-llama--meta-llama-3-8b",
    "meta-llama/Llama-3.1-8B": "meta-llama--llama-3.1-8b", "deepseek v3": "deepseek-ai--deepseek-v3",
    "deepseek-ai/DeepSeek-R1": "deepseek-ai--deepseek-r1", "kimi k2": "moonshotai--kimi-k2-instruct",
    "gpt-oss-20b": "openai--gpt-oss-20b", "mixtral 8x7b": "mistralai--mixtral-8x7b-v0.1",
    "gemma 3 27b": "google--gemma-3-27b-it", "google/gemma-3-27b-it": "google--gemma-3-27b-it",
    "qwen3 30b a3b": "qwen--qwen3-30b-a3b", "phi-4": "microsoft--phi-4", "llama 2 70b": "meta-llama--llama-2-70b-hf",
    "maverick": "meta-llama--llama-4-maverick-17b-128e-instruct", "glm 4.5 air": "zai-org--glm-4.5-air",
}
ACCELERATORS = {
    "l40s": "nvidia-l40s", "L40S": "nvidia-l40s", "H100": "nvidia-h100-sxm5-80gb", "h100 pcie": "nvidia-h100-pcie-80gb",
    "h100 nvl": "nvidia-h100-nvl-94gb", "a100": "nvidia-a100-sxm4-80gb", "a100 80gb": "nvidia-a100-sxm4-80gb",
    "a100 40gb": "nvidia-a100-sxm4-40gb", "a100-40g": "nvidia-a100-sxm4-40gb", "rtx 4090": "nvidia-rtx-4090",
    "4090": "nvidia-rtx-4090", "RTX4090": "nvidia-rtx-4090", "3090": "nvidia-rtx-3090", "a10": "nvidia-a10",
    "mi300x": "amd-instinct-mi300x", "m4 max": "apple-m4-max-40-core-gpu", "m4": "apple-m4",
    "b200": "nvidia-b200-sxm-180gb", "h200": "nvidia-h200-sxm-141gb", "t4": "nvidia-t4", "l4": "nvidia-l4",
    "strix halo": "amd-ryzen-ai-max-395-radeon-8060s-strix-halo", "tpu v5e": "google-tpu-v5e",
    # as nvidia-smi names them
    "NVIDIA H100 80GB HBM3": "nvidia-h100-sxm5-80gb", "NVIDIA A100-SXM4-80GB": "nvidia-a100-sxm4-80gb",
    "NVIDIA A100 80GB PCIe": "nvidia-a100-pcie-80gb", "NVIDIA H100 PCIe": "nvidia-h100-pcie-80gb",
    "NVIDIA H200": "nvidia-h200-sxm-141gb", "NVIDIA GeForce RTX 4090": "nvidia-rtx-4090", "Tesla T4": "nvidia-t4",
    "NVIDIA RTX 6000 Ada Generation": "nvidia-rtx-6000-ada", "NVIDIA L40S": "nvidia-l40s",
    "NVIDIA RTX PRO 6000 Blackwell Workstation Edition": "nvidia-rtx-pro-6000-blackwell",
    "Tesla V100-SXM2-32GB": "nvidia-v100-sxm2-32gb", "NVIDIA GeForce RTX 3090": "nvidia-rtx-3090",
}
FORMATS = {
    "bf16": "bf16", "fp16": "fp16", "fp32": "fp32", "fp8": "fp8-tensor", "int8": "int8-channel", "awq": "awq-int4-g128",
    "gptq": "gptq-int4-g128", "nf4": "bnb-nf4", "mxfp4": "mxfp4", "nvfp4": "nvfp4", "q4_k_m": "gguf-file-q4_k_m",
    "Q4_K_M": "gguf-file-q4_k_m", "q4km": "gguf-file-q4_k_m", "iq4_xs": "gguf-file-iq4_xs", "bitnet": "bitnet-i2s",
    "2:4": "sparse24-fp16", "q8_0": "gguf-file-q8_0", "gguf-q8_0": "gguf-q8_0", "q4_k": "gguf-q4_k",
    "int4": "awq-int4-g128", "fp8-block": "fp8-block-128x128", "w4a16": "w4a16-g128-sym",
    "f16": "gguf-file-f16", "gguf-f32": "gguf-f32",
}
KV = {"auto": 16, "fp16": 16, "bf16": 16, "fp8": 8, "int8": 8, "q8_0": 8.5, "q4_0": 4.5, "iq4_nl": 4.5}
LOOK = {"models": catalog.model, "accelerators": catalog.accelerator, "formats": catalog.weight_format}


@pytest.mark.parametrize(("text", "key"), MODELS.items())
def test_model_names(text, key):
    assert catalog.model(text).id == key


@pytest.mark.parametrize(("text", "key"), ACCELERATORS.items())
def test_accelerator_names(text, key):
    assert catalog.accelerator(text).id == key


@pytest.mark.parametrize(("text", "key"), FORMATS.items())
def test_format_names(text, key):
    assert catalog.weight_format(text).id == key


@pytest.mark.parametrize(("text", "bits"), KV.items())
def test_kv_formats(text, bits):
    entry = catalog.kv_format(text)
    assert entry.scope == "kv" and entry.bits_per_weight == bits == entry.block_bytes * 8 / entry.block_elements


@pytest.mark.parametrize(("table", "text", "among"), [
    ("models", "mistral 7b", {"Mistral-7B-v0.1", "Mistral-7B-v0.3"}),
    ("models", "gpt oss", {"gpt-oss-20b", "gpt-oss-120b"}),
    ("models", "llama 8b", {"Meta-Llama-3-8B", "Llama-3.1-8B"}), ("formats", "iq4", {"iq4_xs", "iq4_nl"}),
    ("accelerators", "3050", {"nvidia-rtx-3050-laptop-4gb", "nvidia-rtx-3050-laptop-6gb"}),
    ("models", "kwen2.5-7b", {"Qwen2.5-7B"}), ("accelerators", "l40x", {"nvidia-l40s", "nvidia-l40"}),
    ("formats", "q4_k_n", {"q4_k_m"}),
])
def test_unclear_and_unknown_names_are_refused_with_the_nearest(table, text, among):
    with pytest.raises(UnknownName) as caught:
        LOOK[table](text)
    assert among <= set(caught.value.suggestions)
    assert text in str(caught.value) and caught.value.field in ("model", "gpu", "quant")


def test_the_field_of_an_error_can_be_named():
    with pytest.raises(UnknownName) as caught:
        catalog.model("no such model", field="draft_model")
    assert caught.value.field == "draft_model"
    with pytest.raises(UnknownName, match="accepted: auto, fp16"):
        catalog.kv_format("q3_k")
    with pytest.raises(UnknownName):
        catalog.weight_format("kv-fp8")  # a format of the cache, not of weights


@pytest.mark.parametrize("table", LOOK)
def test_every_entry_is_reached_by_its_id_its_name_and_its_short_name(table):
    entries = {key: entry for key, entry in catalog.by_id(table).items() if getattr(entry, "scope", "") != "kv"}
    for key, entry in entries.items():
        assert LOOK[table](key) is entry
        assert LOOK[table](entry.name) is entry
        assert LOOK[table](catalog.short(entry)) is entry
    assert len(catalog.names(table)) == len(set(catalog.names(table))) == len(entries)
    for model in entries.values() if table == "models" else ():
        assert catalog.model(model.hub_repository) is model


def test_a_bare_family_name_says_what_it_was_taken_for():
    assert "SXM5 80GB" in catalog.meaning("accelerators", "h100") and "PCIe" in catalog.meaning("accelerators", "h100")
    assert catalog.meaning("accelerators", "h100 pcie") == "" == catalog.meaning("models", "no such model")
    assert "per tensor" in catalog.meaning("formats", "fp8") and catalog.meaning("formats", "q4_k_m") == ""


def test_the_default_of_a_family_is_its_most_offered_member():
    for family in ("nvidia-h100", "nvidia-a100", "nvidia-v100"):
        members = {key: count for key, count in facts.offers().items() if key.startswith(family)}
        assert catalog.accelerator(family).id == max(members, key=members.get)


@given(st.text(max_size=60))
def test_any_text_is_found_or_refused_as_text(text):
    for table, look in LOOK.items():
        try:
            assert look(text) in catalog.by_id(table).values()
        except UnknownName as error:
            assert error.suggestions and all(LOOK[table](name) for name in error.suggestions)


@given(st.lists(st.sampled_from(["a", "10", "b", "7"]), min_size=1, max_size=5))
def test_case_and_punctuation_do_not_matter(parts):
    assert atoms("-".join(parts)) == atoms(" ".join(parts).upper()) == atoms(f"({'_'.join(parts)})")


def test_exact_names_win_over_beginnings_and_beginnings_over_the_rest():
    table = Names({"x": ("alpha 1",), "y": ("alpha 1 beta",), "z": ("gamma alpha 1",)})
    assert table.candidates("Alpha-1") == ("x",)
    assert table.candidates("alpha") == ("x", "y")
    assert table.candidates("1 beta") == ("y",)
    assert table.candidates("delta") == () == table.candidates("?!")


def test_tables_hold_what_the_facts_hold():
    assert len(catalog.models()) == 83 and len(catalog.accelerators()) == 83
    assert len(catalog.formats()) == 88 + 7  # and the plain 16- and 32-bit types, and four cache types
    for entry in (*catalog.models(), *catalog.accelerators(), *catalog.formats()):
        assert entry.source, entry.id


def test_usable_memory_is_below_the_box_and_says_where_it_comes_from():
    reported = [entry for entry in catalog.accelerators() if entry.memory_usable_mib]
    assert len(reported) == 35
    for entry in catalog.accelerators():
        if entry.memory_usable_mib:
            assert entry.memory_usable_mib <= entry.memory_box_gib * 1024 + 1024
            assert entry.memory_usable_basis.startswith("reported")
        else:
            assert entry.memory_usable_basis == "datasheet: box figure, not measured"
    assert catalog.accelerator("l40s").memory_usable_mib == 46068  # of 48 GiB on the box


def test_units_are_si():
    card = catalog.accelerator("h100")
    assert card.bandwidth_bytes_per_s == 3.35e12 and card.bf16_flops == 9.89e14 and card.fp8_flops == 1.979e15
    assert card.link_bytes_per_s_one_way == 4.5e11 and card.pcie_bytes_per_s_one_way == 6.4e10


def test_layout_of_formats_gives_their_bits():
    """Bits a weight of a wide matrix follow from the block layout, for every format that has one."""
    for entry in catalog.formats():
        if entry.scope == "mix":
            continue
        assert entry.block_bytes * 8 / entry.block_elements == pytest.approx(entry.bits_per_weight, abs=1e-4), entry.id
    assert {entry.scope for entry in catalog.formats()} == {"all", "linear", "mix", "tensor", "kv"}
    assert {entry.id for entry in catalog.formats() if entry.compute == "fp4"} == {"mxfp4", "nvfp4"}


def test_gguf_blocks_are_the_sizes_of_gguf_0_19():
    """GGML_QUANT_SIZES of the gguf package (MIT), read there: elements and bytes a block."""
    sizes = {"q4_0": (32, 18), "q8_0": (32, 34), "q4_k": (256, 144), "q5_k": (256, 176), "q6_k": (256, 210),
             "iq4_xs": (256, 136), "iq2_xxs": (256, 66), "tq1_0": (256, 54), "mxfp4": (32, 17)}
    for name, (elements, size) in sizes.items():
        entry = catalog.weight_format(f"gguf-{name}")
        assert (entry.block_elements, entry.block_bytes) == (elements, size)


def test_prices():
    for accelerator in catalog.accelerators():
        prices = catalog.cloud_prices(accelerator.id)
        assert all(price.accelerator == accelerator.id and price.gpus >= 1 and price.source for price in prices)
        assert all(price.usd_per_gpu_hour or price.spot_usd_per_gpu_hour for price in prices)
        dates = [price.date for price in prices]
        assert dates == sorted(dates, reverse=True)  # newest first, undated last
    assert catalog.cloud_prices("no such card") == () == catalog.api_offers("no such model")
    assert len(catalog.closed_offers()) == 18
    offers = [offer for model in catalog.models() for offer in catalog.api_offers(model.id)]
    assert len(offers) == 444 and sum(offer.outlier for offer in offers) == 28
    assert all(offer.output_usd >= 0 <= offer.input_usd and offer.source for offer in offers)


def test_loading_everything_is_quick():
    """Every table in well under a screen refresh's worth of patience; 30 ms, with room for a busy machine."""
    code = ("import time; from pycore import catalog, facts; start = time.perf_counter();"
            "facts.models(); facts.accelerators(); facts.formats(); facts.cloud_table(); facts.offer_table();"
            "print(time.perf_counter() - start)")
    times = [float(subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True,
                                  check=True).stdout) for _ in range(3)]
    assert min(times) < 0.03
    text = "an unknown name of usual length"
    start = time.perf_counter()
    catalog.suggest("models", text)
    assert time.perf_counter() - start < 0.1


@pytest.mark.parametrize("prefix", ["", "pycore/"])
def test_tables_are_read_from_an_archive(tmp_path, prefix):
    """In the browser the package is one zip: the tables stand beside the package, or inside it as in a wheel."""
    archive = tmp_path / "app.zip"
    with zipfile.ZipFile(archive, "w") as out:
        for path in (ROOT / "pycore").rglob("*.py"):
            out.write(path, path.relative_to(ROOT))
        for path in (ROOT / "data" / "catalog").glob("*.csv"):
            out.write(path, f"{prefix}data/catalog/{path.name}")
    code = "from pycore import catalog; print(len(catalog.models()), catalog.__file__)"
    result = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True,
                            env={"PYTHONPATH": str(archive)})
    assert result.stdout.startswith("83 ") and "app.zip" in result.stdout


def test_entries_are_plain_frozen_data():
    with pytest.raises(dataclasses.FrozenInstanceError):
        catalog.model("phi-4").layers = 1
    assert hash(catalog.model("phi-4")) == hash(dataclasses.replace(catalog.model("phi-4")))


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("Qwen/Qwen2.5-72B-Instruct-AWQ", "Qwen2.5 72B"),
        ("Qwen3-8B-FP8", "Qwen3 8B"),
        ("Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf", "Llama 3.1 8B"),
        ("gemma-3-27b-it-UD-Q4_K_XL.gguf", "Gemma 3 27B"),
        ("Llama-3.3-70B-Instruct-Q4_K_M-00001-of-00002.gguf", "Llama 3.3 70B Instruct"),
        ("llama3.1:8b-instruct-q4_K_M", "Llama 3.1 8B"),
        ("Qwen2.5-7B-Instruct-GPTQ-Int4", "Qwen2.5 7B"),
    ],
)
def test_names_of_quantised_checkpoints_and_files_name_their_model(name, model):
    assert catalog.model(name).name == model


@pytest.mark.parametrize(
    ("name", "quant", "words"),
    [
        ("Qwen/Qwen2.5-72B-Instruct-AWQ", "bf16", "says AWQ, the weights asked for are BF16"),
        ("Qwen3-8B-FP8", "bf16", "says FP8"),
        ("Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf", "bf16", "says Q4_K_M"),
        ("Qwen/Qwen2.5-72B-Instruct-AWQ", "awq", ""),
        ("Qwen3-8B-FP8", "fp8-block", ""),
        ("Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf", "q4_k_m", ""),
        ("Qwen2.5-7B-Instruct-GGUF", "q8_0", ""),
        ("Qwen2.5-7B-Instruct", "bf16", ""),
    ],
)
def test_a_name_that_says_other_weights_is_told_so(name, quant, words):
    found = catalog.name_says(name, catalog.weight_format(quant))
    assert words in found if words else found == ""


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("fp4", "nvfp4"), ("fp8_e4m3", "fp8-tensor"), ("FP8-dynamic", "fp8-channel"), ("8-bit", "int8-channel"),
     ("awq-4bit", "awq-int4-g128"), ("bitsandbytes", "bnb-nf4"), ("Q8", "gguf-file-q8_0"), ("q4", "gguf-file-q4_k_m"),
     ("1.58", "bitnet-i2s"), ("marlin", "gptq-int4-g128"), ("Q4_K_M.gguf", "gguf-file-q4_k_m")],
)
def test_format_names_as_people_say_them(typed, meant):
    assert catalog.weight_format(typed).id == meant


@pytest.mark.parametrize(("name", "format_id"), [
    ("qwen2.5-7b", "bf16"), ("deepseek-v3", "fp8-block-128x128"), ("gpt-oss-20b", "mxfp4"), ("gpt2", "fp16"),
    ("Qwen/Qwen2.5-72B-Instruct-AWQ", "awq-int4-g128"), ("Llama-3.1-8B-Instruct-Q4_K_M.gguf", "gguf-file-q4_k_m"),
])
def test_auto_is_how_the_checkpoint_is_stored(name, format_id):
    assert catalog.stored(catalog.model(name), name).id == format_id


def test_a_checkpoint_quantised_in_an_unknown_way_is_not_sized_by_guess():
    text = json.dumps(dict(model_type="qwen2", hidden_size=896, num_hidden_layers=2, num_attention_heads=14,
                           num_key_value_heads=2, intermediate_size=4864, vocab_size=1000, max_position_embeddings=4096,
                           quantization_config={"quant_method": "novel"}))
    with pytest.raises(NotKnown, match="novel"):
        catalog.stored(read_config(text))
