"""The dataset `data/quantbench-pareto`: whole models measured in several configurations, and projections one by one.

    models.csv          model, label, parameters, layers, corpus, corpus_tokens, stride, device, versions, date, note
    configurations.csv  model, configuration, label, format, options, method, bits_per_weight, size_bytes, perplexity,
                        perplexity_low, perplexity_high, kl_divergence, kl_low, kl_high, top1_agreement, weight_sqnr_db,
                        decode_tokens_per_s, lossless, trained, command, note
    sensitivity.csv     model, configuration, layer, projection, rows, columns, bytes, weight_sqnr_db, output_sqnr_db,
                        kl_divergence, kl_low, kl_high

`format` is an id of `pycore.pack.formats` ('' for the unquantised model), `options` as "group=64 symmetric=no".
"""

from dataclasses import dataclass

DATASET = "quantbench-pareto"
PROJECTIONS = ("q", "k", "v", "o", "gate", "up", "down")


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A measured value and its interval; low and high are None where none was measured."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One configuration of a whole model, as it was measured. None: not measured.

    `lossless`: the model's own weights already lie on this format's grid, so that nothing can be lost (said instead of
    showing a miracle). `trained`: weights were trained for the format. `dominated_by`: a configuration that is no larger
    and has no higher KL divergence, '' on the frontier. `better_than_reference`: its perplexity is below the unquantised
    model's: noise, with its interval.
    """

    configuration: str
    label: str
    format: str
    options: tuple[tuple[str, str], ...]
    method: str
    bits_per_weight: float
    size_bytes: int
    perplexity: Interval
    kl_divergence: Interval | None
    top1_agreement: float | None
    weight_sqnr_db: float | None
    decode_tokens_per_s: float | None
    lossless: bool
    trained: bool
    command: str
    note: str
    dominated_by: str
    better_than_reference: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensitivity:
    """One projection of one layer quantised alone: dB of its weights and outputs, and what the whole model's answer lost."""

    configuration: str
    layer: int
    projection: str
    rows: int
    columns: int
    bytes: int
    weight_sqnr_db: float
    output_sqnr_db: float
    kl_divergence: Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether the textbook story (Q and K are the most sensitive) holds for a model and configuration.

    `per_weight`: projection -> mean KL per million weights, most sensitive first; `total`: projection -> mean KL.
    `holds`: Q and K are the two largest by `total`. `layers`, `of`: in how many layers Q or K is the largest.
    """

    configuration: str
    total: tuple[tuple[str, float], ...]
    per_weight: tuple[tuple[str, float], ...]
    holds: bool
    layers: int
    of: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A measured model with everything that was measured on it."""

    name: str
    label: str
    parameters: int
    layers: int
    corpus: str
    device: str
    versions: str
    date: str
    note: str
    configurations: tuple[Measured, ...]
    sensitivity: tuple[Sensitivity, ...]
    verdicts: tuple[Verdict, ...]
