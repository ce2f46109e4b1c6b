"""The tables of `data/catalog/` as nouns, and other packaged tables as rows: opened here and nowhere else, each read
once, when first asked for.

They lie beside the package in a checkout, inside it in an installed wheel, in the archive where the package is imported
from a zip.
"""

import csv
import functools
import os

import pycore
from pycore.nouns import Accelerator, ApiOffer, AttentionGroup, CloudPrice, Experts, Format, LinearState, Model

GIGA, TERA = 1e9, 1e12
KINDS = {"F": "full", "S": "sliding", "C": "chunked", "L": "linear", "M": "latent"}


def table(name: str, dataset: str = "catalog") -> list[dict[str, str]]:
    """Rows of `data/<dataset>/<name>.csv` as text by column. Raises OSError where the package has lost its data."""
    return list(csv.DictReader(text(f"{name}.csv", dataset).splitlines()))


def text(name: str, dataset: str) -> str:
    """The file `data/<dataset>/<name>`. Raises OSError where the package has lost its data."""
    loader, folder = pycore.__spec__.loader, os.path.dirname(pycore.__file__)
    for root in (folder, os.path.dirname(folder)):
        try:
            return loader.get_data(os.path.join(root, "data", dataset, name)).decode("utf-8")
        except OSError:
            continue
    raise OSError(f"{dataset}/{name} is neither in nor beside the package")


def number(text: str, scale: float = 1.0) -> float | None:
    """A cell as a number in SI units; None where it is empty."""
    return float(text) * scale if text else None


def integer(text: str) -> int:
    """A cell as a whole number; 0 where it is empty."""
    return int(text) if text else 0


@functools.cache
def models() -> tuple[Model, ...]:
    """Every model, in the table's order."""
    return tuple(map(read_model, table("models")))


@functools.cache
def accelerators() -> tuple[Accelerator, ...]:
    """Every accelerator, in the table's order."""
    return tuple(map(read_accelerator, table("accelerators")))


@functools.cache
def formats() -> tuple[Format, ...]:
    """Every number format of weights and of the KV cache, the plain 16- and 32-bit ones first."""
    return tuple(map(read_format, table("formats")))


def read_model(row: dict[str, str]) -> Model:
    """A row of models.csv."""
    kinds = tuple(dict.fromkeys(row["layer_kinds"]))
    layers = integer(row["layers"])
    period = row["layer_kinds"]
    counts = {kind: sum(period[layer % len(period)] == kind for layer in range(layers)) for kind in kinds}
    whole = {name: integer(row[name]) for name in (
        "hidden_size", "layers", "attention_heads", "kv_heads", "head_dim", "intermediate_size", "vocabulary",
        "max_context", "qk_nope_dim", "norms_per_layer", "learned_positions", "vision_parameters", "mtp_layers")}
    flags = {name: row[name] == "1" for name in (
        "tied_embeddings", "qkv_bias", "output_bias", "gated_mlp", "mlp_bias", "output_gate",
        "mtp_own_embeddings")}
    texts = {name: row[name] for name in (
        "id", "name", "hub_repository", "norm_kind", "native_dtype", "stored_format", "source", "note")}
    return Model(
        **whole, **flags, **texts, groups=tuple(read_group(row, kind, counts[kind]) for kind in kinds),
        pattern="".join(str(kinds.index(kind)) for kind in period), experts=read_experts(row),
        query_latent_rank=integer(row["query_latent_rank"]) or None, qk_norm=row["qk_norm"] or None,
        published_parameters=integer(row["published_parameters"]) or None)


def read_group(row: dict[str, str], kind: str, layers: int) -> AttentionGroup:
    """The layers of one kind."""
    if kind == "L":
        dim = integer(row["linear_head_dim"])
        state = LinearState(key_heads=integer(row["linear_key_heads"]), value_heads=integer(row["linear_value_heads"]),
                            key_dim=dim, value_dim=dim, convolution_kernel=integer(row["linear_kernel"]))
        return AttentionGroup(kind="linear", layers=layers, linear=state)
    head_dim = integer(row["head_dim"])
    return AttentionGroup(
        kind=KINDS[kind], layers=layers, query_heads=integer(row["attention_heads"]), kv_heads=integer(row["kv_heads"]),
        key_dim=head_dim, value_dim=integer(row["value_dim"]) or head_dim,
        window=integer(row["window"]) if kind in "SC" else None, latent_rank=integer(row["latent_rank"]),
        rope_dim=integer(row["rope_dim"]), indexer_dim=integer(row["indexer_dim"]),
        indexer_heads=integer(row["indexer_heads"]), sinks=row["attention_sinks"] == "1")


def read_experts(row: dict[str, str]) -> Experts | None:
    """The mixture's shape, or None for a dense model."""
    if not row["experts"]:
        return None
    return Experts(
        count=integer(row["experts"]), per_token=integer(row["experts_per_token"]),
        intermediate_size=integer(row["expert_size"]), shared_count=integer(row["shared_experts"]),
        shared_intermediate_size=integer(row["shared_size"]), first_dense_layers=integer(row["first_dense_layers"]),
        layer_step=integer(row["expert_layer_step"]) or 1, dense_intermediate_size=integer(row["dense_size"]) or None,
        router_bias=row["router_bias"] == "1", shared_gate=row["shared_gate"] == "1", bias=row["expert_bias"] == "1")


def read_accelerator(row: dict[str, str]) -> Accelerator:
    """A row of accelerators.csv; GB/s and TFLOPS become bytes/s and FLOP/s."""
    rates = {f"{kind}_flops": number(row[f"{kind}_tflops"], TERA) for kind in ("bf16", "fp16", "fp8", "fp4", "fp32")}
    texts = {name: row[name] for name in (
        "id", "name", "vendor", "segment", "architecture", "memory_usable_basis", "link_kind", "source", "note")}
    return Accelerator(
        **rates, **texts, int8_ops=number(row["int8_tops"], TERA), year=integer(row["year"]) or None,
        memory_box_gib=float(row["memory_box_gib"]), memory_usable_mib=number(row["memory_usable_mib"]),
        bandwidth_bytes_per_s=float(row["bandwidth_gb_s"]) * GIGA, tdp_w=number(row["tdp_w"]),
        link_bytes_per_s_one_way=number(row["link_gb_s_one_way"], GIGA),
        pcie_bytes_per_s_one_way=number(row["pcie_gb_s_one_way"], GIGA),
        compute_capability=row["compute_capability"] or None)


def read_format(row: dict[str, str]) -> Format:
    """A row of formats.csv."""
    texts = {name: row[name] for name in ("id", "name", "family", "scope", "compute", "formula", "source", "note")}
    sizes = {name: number(row[name]) or 0.0 for name in ("block_bytes", "row_bytes", "column_bytes", "matrix_bytes")}
    return Format(
        **texts, **sizes, bits_per_weight=float(row["bits_per_weight"]),
        block_elements=integer(row["block_elements"]) or 1,
        perplexity_delta=number(row["perplexity_delta"]), kl_divergence=number(row["kl_divergence"]))


@functools.cache
def offers() -> dict[str, int]:
    """How many catalogued cloud prices each accelerator has, by id: how common it is."""
    return {row["id"]: integer(row["offers"]) for row in table("accelerators")}


@functools.cache
def sources() -> dict[str, str]:
    """What a price table's source keys stand for."""
    return {row["key"]: row["source"] for row in table("sources")}


@functools.cache
def cloud_table() -> dict[str, tuple[CloudPrice, ...]]:
    """Every cloud price by accelerator: newest date first, undated last, then cheapest."""
    prices = [CloudPrice(
        accelerator=row["accelerator"], cloud=row["cloud"], region=row["region"], instance=row["instance"],
        gpus=float(row["gpus"]), usd_per_gpu_hour=number(row["usd_per_gpu_hour"]),
        spot_usd_per_gpu_hour=number(row["spot_usd_per_gpu_hour"]), date=row["date"],
        source=sources()[row["source"]],
    ) for row in table("cloud_prices")]
    prices.sort(key=lambda price: price.usd_per_gpu_hour or price.spot_usd_per_gpu_hour or 0)
    prices.sort(key=lambda price: price.date, reverse=True)
    return {device.id: tuple(price for price in prices if price.accelerator == device.id) for device in accelerators()}


@functools.cache
def offer_table() -> dict[str, tuple[ApiOffer, ...]]:
    """Every API offer by model id; closed models under 'closed'."""
    found: dict[str, list[ApiOffer]] = {}
    for row in table("api_offers"):
        closed, _, name = row["model"].rpartition("closed:")
        found.setdefault("closed" if row["model"].startswith("closed:") else row["model"], []).append(ApiOffer(
            model=name, provider=row["provider"], input_usd=float(row["input_usd"]),
            output_usd=float(row["output_usd"]), cached_input_usd=number(row["cached_input_usd"]), date=row["date"],
            source=sources()[row["source"]], outlier=row["outlier"] == "1"))
    return {key: tuple(offers) for key, offers in found.items()}
