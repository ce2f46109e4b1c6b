"""Columns and cells of data/quantbench-pareto; `pycore/quality/table.py` reads them."""

import datetime
import math
import os
import platform
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy
import torch

import pycore
from pycore.pack.formats import format_of
from pycore.quality.frontier import configuration
from runtime.measure.kept import Kept
from runtime.processor import processor
from runtime.quantbench.evaluate import Mean
from runtime.quantbench.measure import Line
from runtime.quantbench.schemes import Rule, Scheme, parse, spelt
from runtime.quantbench.sensitivity import Sensitivity
from runtime.quantbench.speed import load_average

if TYPE_CHECKING:
    from runtime.measure.quantbench_models import Subject

FOLDER = "data/quantbench-pareto"
COLUMNS = {
    "models": ("model", "label", "parameters", "layers", "quantised_weights", "corpus", "corpus_tokens", "corpus_sha256",
               "window", "stride", "calibration", "source", "sha256", "licence", "device", "threads", "versions", "date",
               "load_average", "command", "note"),
    "configurations": ("model", "configuration", "label", "format", "options", "method", "activations", "bits_per_weight",
                       "size_bytes", "perplexity", "perplexity_low", "perplexity_high", "ratio", "ratio_low", "ratio_high",
                       "kl_divergence", "kl_low", "kl_high", "top1_agreement", "weight_sqnr_db", "decode_tokens_per_s",
                       "lossless", "trained", "load_average", "command", "note"),
    "sensitivity": ("model", "configuration", "layer", "projection", "rows", "columns", "bytes", "weight_sqnr_db",
                    "output_sqnr_db", "kl_divergence", "kl_low", "kl_high", "tokens"),
    "plans": ("model", "budget_bytes", "size_bytes", "bits_per_weight", "predicted_kl", "kl_divergence", "kl_low", "kl_high",
              "tokens", "uniform", "uniform_size_bytes", "uniform_kl", "uniform_kl_low", "uniform_kl_high", "elsewhere_kl",
              "elsewhere_kl_low", "elsewhere_kl_high", "elsewhere_uniform_kl", "elsewhere_tokens", "plan"),
}
METHODS = {"nearest": "", "gptq": "GPTQ", "gptq-ordered": "GPTQ, act-order", "awq": "AWQ", "smoothquant": "SmoothQuant",
           "hqq": "HQQ"}
COMMAND = "python -m runtime.measure.quantbench --facts FOLDER"


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A configuration with its id and label; `scheme` None is the unquantised model. `lossless`: why it is, if it is."""

    id: str
    label: str
    scheme: Scheme | None
    lossless: str = ""
    trained: bool = False
    remark: str = ""

    @property
    def rule(self) -> Rule:
        """For every projection."""
        return Rule(layer=None, projection=None, scheme=self.scheme)


REFERENCE = Named(id="reference", label="Unquantised", scheme=None)


def named(text: str, *, lossless: str = "", trained: bool = False, remark: str = "") -> Named:
    """A configuration by its scheme, called as the core calls format and options. Raises InputError."""
    scheme = parse(text)
    base = configuration(format_of(scheme.format), dict(scheme.options))
    method, activations = METHODS[scheme.method], "8-bit activations" if scheme.activations else ""
    return Named(
        id="-".join(filter(None, (base.id, "" if scheme.method == "nearest" else scheme.method,
                                  "a8" if scheme.activations else "", "trained" if trained else ""))),
        label=", ".join(filter(None, (base.label, method, activations, "trained for it" if trained else ""))),
        scheme=scheme, lossless=lossless, trained=trained, remark=remark)


def cell(value: float | None, digits: int = 6) -> str:
    """A number to six significant digits; empty where there is none or it is infinite."""
    if value is None or not math.isfinite(value):
        return ""
    return f"{value:.{digits}g}"


def with_interval(prefix: str, short: str, of: Mean) -> dict[str, str]:
    """A value and the ends of its interval."""
    return {prefix: cell(of.value), f"{short}_low": cell(of.low), f"{short}_high": cell(of.high)}


def divergence_cells(of: Mean) -> dict[str, str]:
    """KL divergence; what rounding left below 0 is 0."""
    return with_interval("kl_divergence", "kl", Mean(value=max(of.value, 0.0), high=of.high, low=None if of.low is None
                                                     else max(of.low, 0.0)))


def configuration_row(subject: "Subject", one: Named, line: Line) -> dict[str, object]:
    """A row of configurations.csv."""
    scheme = one.scheme
    return {
        "model": subject.name, "configuration": one.id, "label": one.label, "format": scheme.format if scheme else "",
        "options": " ".join(f"{name}={spelt(value)}" for name, value in scheme.options) if scheme else "",
        "method": scheme.method if scheme else "", "activations": "int8 per token" if scheme and scheme.activations else "",
        "bits_per_weight": cell(line.bits_per_weight, 8), "size_bytes": line.size_bytes,
        **with_interval("perplexity", "perplexity", line.perplexity), **with_interval("ratio", "ratio", line.ratio),
        **divergence_cells(line.divergence), "top1_agreement": cell(line.agreement),
        "weight_sqnr_db": "" if one.trained else cell(line.weight_sqnr_db),
        "decode_tokens_per_s": cell(line.decode_tokens_per_s, 4), "lossless": "1" if one.lossless else "",
        "trained": "1" if one.trained else "", "load_average": cell(line.load_average, 3), "command": command(subject, one),
        "note": "; ".join(filter(None, (one.lossless, one.remark, line.no_speed)))}


def command(subject: "Subject", one: Named) -> str:
    """What measures the row again by itself; calibrated methods there look at the end of the same text."""
    name, text = subject.ternary.name if one.trained else subject.name, subject.text
    plan = f"--plan '{one.scheme.text}' " if one.scheme else ""
    return (f"quantbench eval {name} {plan}--corpus {subject.corpus_file} --tokens {text.tokens} --window {text.length} "
            f"--stride {text.stride}")


def sensitivity_row(subject: "Subject", one: Named, found: Sensitivity) -> dict[str, object]:
    """A row of sensitivity.csv."""
    return {"model": subject.name, "configuration": one.id, "layer": found.layer, "projection": found.projection,
            "rows": found.rows, "columns": found.columns, "bytes": found.stored_bytes,
            "weight_sqnr_db": cell(found.weight_sqnr_db), "output_sqnr_db": cell(found.output_sqnr_db),
            **divergence_cells(found.divergence), "tokens": subject.short.counted}


def device() -> str:
    """The processor's name and how many cores there are to use."""
    return f"{processor()}, {os.cpu_count()} cores"


def model_row(subject: "Subject", kept: Kept) -> dict[str, object]:
    """A row of models.csv: where and when is that of the first measurement."""
    row = kept.get(f"models {subject.name}")
    if row is not None:
        return row
    model = subject.model
    quantised = sum(parameter.numel() for key, parameter in model.named_parameters() if key.endswith("_proj.weight"))
    row = {
        "model": subject.name, "label": subject.label, "parameters": sum(one.numel() for one in model.parameters()),
        "layers": model.configuration.layers, "quantised_weights": quantised, "corpus": subject.corpus,
        "corpus_tokens": subject.text.counted, "corpus_sha256": subject.corpus_sha256, "window": subject.text.length,
        "stride": subject.text.stride, "calibration": subject.calibration_text, "source": subject.loaded.source,
        "sha256": subject.loaded.sha256, "licence": subject.licence, "device": device(), "threads": torch.get_num_threads(),
        "versions": f"torch {torch.__version__}, numpy {numpy.__version__}, Python {platform.python_version()}, "
                    f"inference-studios {pycore.__version__}",
        "date": datetime.date.today().isoformat(), "load_average": cell(load_average(), 3),
        "command": f"{COMMAND} --model {subject.name}", "note": subject.note}
    kept.put(f"models {subject.name}", row)
    return row
