"""The dataset `data/quantbench-pareto`: whole models measured in several configurations, and projections one by one.

    models.csv          a row a model: what it is, the text, where and when it was measured, the command
    configurations.csv  a row a model and configuration: true bits, size, perplexity, KL divergence, agreement, speed
    sensitivity.csv     a row a projection and configuration, all other projections as they were
    plans.csv           plans of the allocator built and measured: what was predicted and what came out

`format` is an id of `pycore.pack.formats` ('' for the unquantised model), `options` as "group=64 symmetric=no".
"""

import difflib
import functools
from dataclasses import dataclass, replace
from math import fsum

from pycore.errors import UnknownName
from pycore.facts import integer, number, table
from pycore.quality.frontier import dominated

DATASET = "quantbench-pareto"
PROJECTIONS = ("q", "k", "v", "o", "gate", "up", "down")
BELOW = {"training": "it was trained further, which the reference was not",
         "noise": "noise, as the interval of their ratio holds 1",
         "chance": "the interval of their ratio just misses 1, as one in twenty does by chance",
         "unknown": "by how much that is more than noise was not measured"}
"""Why a perplexity lies below the unquantised model's: `Measured.below` in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A measured value and its interval; low and high are None where none was measured."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One configuration of a whole model, as it was measured. None: not measured.

    `method`: nearest, gptq, gptq-ordered, awq, smoothquant, hqq, '' for the unquantised model; `activations`: how what goes
    into layers is rounded, '' where it is not. `ratio`: perplexity over the unquantised model's, interval of the ratio.
    `lossless`: the model's own weights already lie on this format's grid, so that nothing can be lost (said instead of
    showing a miracle). `trained`: weights were trained for the format. `dominated_by`: a configuration that is no larger
    and has no higher KL divergence, '' on the frontier; what is lossless for this one model dominates nothing.
    `better_than_reference`: its perplexity is below the unquantised model's; `below` says why that is no miracle.
    """

    configuration: str
    label: str
    format: str
    options: tuple[tuple[str, str], ...]
    method: str
    activations: str
    bits_per_weight: float
    size_bytes: int
    perplexity: Interval
    ratio: Interval | None
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

    @property
    def below(self) -> str:
        """Why its perplexity is below the reference's: 'training' (it learnt on), 'noise' (the interval of the ratio holds
        1), 'chance' (it just misses 1, as one 95 % interval in twenty does), 'unknown' (no interval); '' where it is not."""
        if not self.better_than_reference:
            return ""
        if self.trained:
            return "training"
        if self.ratio is None or self.ratio.high is None:
            return "unknown"
        return "noise" if self.ratio.high >= 1 else "chance"


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
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """A plan of the allocator, built and measured, beside the best single format of its size.

    `predicted_kl`: the sum of the losses of single projections; `kl_divergence`: what the whole model then lost over the
    same `tokens`; `elsewhere_...`: over others, which the plan was not made for; None where that was not measured.
    """

    budget_bytes: int
    size_bytes: int
    bits_per_weight: float
    predicted_kl: float
    kl_divergence: Interval
    uniform: str
    uniform_size_bytes: int | None
    uniform_kl: Interval | None
    tokens: int
    elsewhere_kl: Interval | None
    elsewhere_uniform_kl: float | None
    elsewhere_tokens: int


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
    """A measured model with everything that was measured on it. `window` and `stride`: how perplexity was taken."""

    name: str
    label: str
    parameters: int
    quantised_weights: int
    layers: int
    corpus: str
    corpus_tokens: int
    window: int
    stride: int
    calibration: str
    source: str
    licence: str
    command: str
    device: str
    versions: str
    date: str
    note: str
    configurations: tuple[Measured, ...]
    sensitivity: tuple[Sensitivity, ...]
    promises: tuple[Promise, ...]
    verdicts: tuple[Verdict, ...]


@functools.cache
def models() -> tuple[Model, ...]:
    """Every measured model, in the table's order; () where the dataset is not here."""
    try:
        rows = table("models", DATASET)
    except OSError:
        return ()
    parts = [by_model(name) for name in ("configurations", "sensitivity", "plans")]
    return tuple(read_model(row, *(part.get(row["model"], []) for part in parts)) for row in rows)


def by_model(name: str) -> dict[str, list[dict[str, str]]]:
    """Rows of a table by model."""
    found: dict[str, list[dict[str, str]]] = {}
    for row in table(name, DATASET):
        found.setdefault(row["model"], []).append(row)
    return found


def names() -> tuple[str, ...]:
    """The models' names."""
    return tuple(one.name for one in models())


def model(name: str) -> Model | None:
    """A model by name, the first for ''; None where the dataset is not here. Raises UnknownName."""
    if not models():
        return None
    if not name:
        return models()[0]
    for one in models():
        if one.name.lower() == name.lower():
            return one
    raise UnknownName("model", name, "accepted: " + ", ".join(names()), difflib.get_close_matches(name, names(), 2))


def read_model(row: dict[str, str], configurations: list[dict[str, str]], sensitivity: list[dict[str, str]],
               plans: list[dict[str, str]]) -> Model:
    """A row of models.csv with its rows of the other tables."""
    found = tuple(read_configuration(one) for one in configurations)
    single = tuple(read_sensitivity(one) for one in sensitivity)
    return Model(
        name=row["model"],
        **{key: integer(row[key]) for key in ("parameters", "quantised_weights", "layers", "corpus_tokens", "window",
                                              "stride")},
        **{key: row[key] for key in ("label", "corpus", "calibration", "source", "licence", "command", "device", "versions",
                                     "date", "note")},
        configurations=marked(found), sensitivity=single, promises=tuple(read_promise(one) for one in plans),
        verdicts=verdicts(single))


def read_promise(row: dict[str, str]) -> Promise:
    """A row of plans.csv."""
    return Promise(
        budget_bytes=integer(row["budget_bytes"]), size_bytes=integer(row["size_bytes"]),
        bits_per_weight=float(row["bits_per_weight"]), predicted_kl=float(row["predicted_kl"]),
        kl_divergence=interval(row, "kl_divergence", "kl"), uniform=row["uniform"],
        uniform_size_bytes=integer(row["uniform_size_bytes"]) or None, uniform_kl=interval(row, "uniform_kl", "uniform_kl"),
        tokens=integer(row["tokens"]), elsewhere_kl=interval(row, "elsewhere_kl", "elsewhere_kl"),
        elsewhere_uniform_kl=number(row["elsewhere_uniform_kl"]), elsewhere_tokens=integer(row["elsewhere_tokens"]))


def read_configuration(row: dict[str, str]) -> Measured:
    """A row of configurations.csv; who dominates it is not known yet."""
    return Measured(
        configuration=row["configuration"], label=row["label"], format=row["format"], method=row["method"],
        activations=row["activations"], ratio=interval(row, "ratio", "ratio"),
        options=tuple(tuple(part.split("=", 1)) for part in row["options"].split()),
        bits_per_weight=float(row["bits_per_weight"]), size_bytes=integer(row["size_bytes"]),
        perplexity=interval(row, "perplexity", "perplexity"), kl_divergence=interval(row, "kl_divergence", "kl"),
        top1_agreement=number(row["top1_agreement"]), weight_sqnr_db=number(row["weight_sqnr_db"]),
        decode_tokens_per_s=number(row["decode_tokens_per_s"]), lossless=row["lossless"] == "1",
        trained=row["trained"] == "1", command=row["command"], note=row["note"], dominated_by="",
        better_than_reference=False)


def interval(row: dict[str, str], column: str, prefix: str) -> Interval | None:
    """A value with its low and high columns; None where it was not measured."""
    value = number(row[column])
    if value is None:
        return None
    return Interval(value=value, low=number(row[f"{prefix}_low"]), high=number(row[f"{prefix}_high"]))


def read_sensitivity(row: dict[str, str]) -> Sensitivity:
    """A row of sensitivity.csv."""
    return Sensitivity(
        configuration=row["configuration"], projection=row["projection"],
        **{name: integer(row[name]) for name in ("layer", "rows", "columns", "bytes", "tokens")},
        **{name: float(row[name]) for name in ("weight_sqnr_db", "output_sqnr_db")},
        kl_divergence=interval(row, "kl_divergence", "kl"))


def marked(found: tuple[Measured, ...]) -> tuple[Measured, ...]:
    """The configurations with who dominates them, and those whose perplexity is below the unquantised model's."""
    comparable = [(one.configuration, one.bits_per_weight, -(one.kl_divergence.value if one.kl_divergence else 0.0))
                  for one in found if (one.kl_divergence or not one.format) and not one.lossless]
    beaten = dominated(comparable)
    reference = next((one.perplexity.value for one in found if not one.format), None)
    return tuple(replace(one, dominated_by=beaten.get(one.configuration, ""), better_than_reference=bool(
        one.format and reference is not None and one.perplexity.value < reference)) for one in found)


def verdicts(found: tuple[Sensitivity, ...]) -> tuple[Verdict, ...]:
    """The textbook story held against every configuration that was measured projection by projection."""
    return tuple(verdict(name, [one for one in found if one.configuration == name])
                 for name in dict.fromkeys(one.configuration for one in found))


def verdict(name: str, rows: list[Sensitivity]) -> Verdict:
    """Where Q and K are the most sensitive, and where not."""
    total, share = {}, {}
    for projection in dict.fromkeys(one.projection for one in rows):
        mine = [one for one in rows if one.projection == projection]
        total[projection] = fsum(one.kl_divergence.value for one in mine) / len(mine)
        share[projection] = fsum(one.kl_divergence.value / (one.rows * one.columns) for one in mine) * 1e6 / len(mine)
    ranked, by_weight = (tuple(sorted(each.items(), key=lambda pair: -pair[1])) for each in (total, share))
    layers = {}
    for one in rows:
        if one.layer not in layers or one.kl_divergence.value > layers[one.layer].kl_divergence.value:
            layers[one.layer] = one
    return Verdict(configuration=name, total=ranked, per_weight=by_weight, of=len(layers),
                   holds={projection for projection, _ in ranked[:2]} == {"q", "k"},
                   layers=sum(one.projection in ("q", "k") for one in layers.values()))
