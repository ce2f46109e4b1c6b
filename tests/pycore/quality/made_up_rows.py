"""Rows in the shape of the dataset, made up for tests: two layers of a model that was never measured."""

import random

from pycore.quality.table import PROJECTIONS

SIZES = {"q": (576, 576), "k": (192, 576), "v": (192, 576), "o": (576, 576), "gate": (1536, 576), "up": (1536, 576),
         "down": (576, 1536)}
FORMATS = {"q4_0": ("q4_0", "", 4.5), "q4_k": ("q4_k", "", 4.5), "q6_k": ("q6_k", "", 6.5625), "q8_0": ("q8_0", "", 8.5),
           "int4-g64": ("int4", "group=64", 4.25), "nf4": ("nf4", "", 4.127)}


def tables(layers=2, seed=1, formats=FORMATS):
    """{table: rows as text by column}."""
    draw = random.Random(seed)
    model = dict(model="made-up", label="Made up", parameters="7077888", layers=str(layers), corpus="none", device="none",
                 versions="none", date="2026-01-01", note="made up for a test", quantised_weights="7077888", window="512",
                 corpus_tokens="512", stride="512", calibration="none", source="none", licence="none", command="none")
    empty = dict(options="", method="nearest", activations="", ratio="", ratio_low="", ratio_high="", perplexity_low="", perplexity_high="", kl_divergence="", kl_low="", kl_high="",
                 top1_agreement="", weight_sqnr_db="", decode_tokens_per_s="", lossless="", trained="", command="none", note="")
    configurations = [empty | dict(model="made-up", configuration="fp32", label="unquantised", format="", method="",
                                   bits_per_weight="32", size_bytes="28311552", perplexity="30.0")]
    sensitivity = []
    for name, (kind, options, bits) in formats.items():
        loss = 2 ** (9 - 2 * bits)
        configurations.append(empty | dict(
            model="made-up", configuration=name, label=name.upper(), format=kind, options=options, bits_per_weight=str(bits),
            size_bytes=str(int(7077888 * bits / 8)), perplexity="29.9" if name == "q8_0" else str(30 + 10 * loss),
            kl_divergence=str(loss), kl_low=str(loss / 2), kl_high=str(loss * 2), top1_agreement="0.9"))
        for layer in range(layers):
            for projection in PROJECTIONS:
                rows, columns = SIZES[projection]
                sensitivity.append(dict(
                    model="made-up", configuration=name, layer=str(layer), projection=projection, rows=str(rows),
                    columns=str(columns), bytes=str(int(rows * columns * bits / 8)), weight_sqnr_db="20",
                    output_sqnr_db="19", kl_divergence=str(draw.uniform(0.5, 1.5) * loss / 14), kl_low="", kl_high="", tokens="512"))
    plans = [dict(model="made-up", budget_bytes="4000000", size_bytes="3999999", bits_per_weight="4.52", predicted_kl="0.5",
                  kl_divergence="0.6", kl_low="0.5", kl_high="0.7", uniform="q4_k", uniform_size_bytes="3981312",
                  uniform_kl="1.1", uniform_kl_low="", uniform_kl_high="", tokens="512", elsewhere_kl="0.65",
                  elsewhere_kl_low="0.6", elsewhere_kl_high="0.7", elsewhere_uniform_kl="1.2", elsewhere_tokens="900", plan="q4_k; down=q6_k")]
    return {"models": [model], "configurations": configurations, "sensitivity": sensitivity, "plans": plans}


def use(monkeypatch, found):
    """Make `pycore.quality.table` read these rows."""
    from pycore.quality import table
    from pycore.systems import quantbench

    monkeypatch.setattr(table, "table", lambda name, dataset: found[name])
    table.models.cache_clear()
    quantbench.kept_plan.cache_clear()


def forget():
    """What was read is read anew."""
    from pycore.quality import table
    from pycore.systems import quantbench

    table.models.cache_clear()
    quantbench.kept_plan.cache_clear()
