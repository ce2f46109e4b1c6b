"""Fit the shares of datasheet rates that real kernels reach, and write them with their residuals.

    python -m runtime.measure.efficiency --facts ../shared/facts [--check]

Reads facts/kernels (aiconfigurator-core 0.12.0, Vidur, LLMServingSim), writes data/catalog/efficiency.csv. Time of a
kernel, per card generation, number format and engine (shares are of the datasheet's figure):

    product    launch + (read + work + sqrt((read - work)^2 + 4 x blend x read x work)) / 2, which is the larger of both
               at blend 0 and their sum at blend 1 (a square root, so that every machine gets the same bits)
    experts    launch + read + work, where read holds `extra` passes over the routed activations
    decode     launch + extra x sequences x KV heads + KV bytes / (share x bandwidth)
    prefill    launch + bytes / (share x bandwidth) + FLOP / (share x rate)
    allreduce  launch + min(one shot, extra + two shots): a one-shot exchange sends the message to every peer
               ((n - 1) x message), a two-shot one moves 2 (n - 1) / n x message as a ring does and syncs once more
    elementwise  launch + bytes / (share x bandwidth)
    stream     as product, decode and prefill, from reports of whole llama.cpp runs; launch is that of one kernel,
    extra the share of the fp32 rate at which weights are unpacked (empty: not told apart from reading)
    host       launch x layers, the least a step takes
"""

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from runtime.measure import single_stream
from runtime.measure.fitting import Residuals, fit, residuals
from runtime.measure.kernels import GENERATIONS, Card, cards, column, grouped, rows
from runtime.measure.tables import csv_text, settle

COLUMNS = ("operation", "generation", "compute", "engine", "launch_us", "bandwidth_share", "compute_share", "blend",
           "extra", "rows", "median_error_pct", "p90_error_pct", "low", "high", "cards", "source")
AIC = "aiconfigurator-core 0.12.0 (PyPI, Apache-2.0)"
VIDUR = "microsoft/vidur @7d475133 (MIT)"
SIMULATOR = "casys-kaist/LLMServingSim @5daddb21 (MIT)"
MICRO, NANO = 1e-6, 1e-9

# dtype in the tables -> (compute kind, weight bytes, activation bytes, dense rate used)
PRODUCTS = {
    "bfloat16": ("bf16", 2, 2, "bf16"), "fp8": ("fp8", 1, 1, "fp8"),
    "fp8_block": ("fp8-block", 1 + 4 / 16384, 1, "fp8"), "nvfp4": ("fp4", 0.5625, 0.5625, "fp4"),
    "int8_wo": ("w8a16", 1, 2, "bf16"), "int4_wo": ("w4a16", 0.53125, 2, "bf16"), "sq": ("int8", 1, 1, "int8"),
    "w4a16_mxfp4": ("w4a16", 0.53125, 2, "bf16"), "w4a8_mxfp4_mxfp8": ("fp8-fp4", 0.53125, 1, "fp8"),
}
SHARES = (0.02, 1.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of efficiency.csv."""

    operation: str
    generation: str
    compute: str
    engine: str
    launch_us: float
    residuals: Residuals
    systems: tuple[str, ...]
    source: str
    bandwidth_share: float | None = None
    compute_share: float | None = None
    blend: float | None = None
    extra: float | None = None

    def cells(self) -> dict[str, object]:
        found = {name: getattr(self, name) for name in COLUMNS[:9]} | {"cards": " ".join(self.systems),
                                                                       "source": self.source}
        return found | {name: getattr(self.residuals, name) for name in COLUMNS[9:14]}


def by_generation(found: list[dict[str, str]], *names: str) -> Iterator[tuple[tuple[str, ...], list[dict[str, str]]]]:
    """Rows by card generation and the named columns, in a fixed order."""
    for row in found:
        row["generation"] = GENERATIONS[row["system"]]
    yield from grouped(found, "generation", *names).items()


def figures(found: list[dict[str, str]], table: dict[str, Card], what: Callable[[Card], float]) -> object:
    """A datasheet figure of each row's system, as an array."""
    import numpy

    return numpy.array([what(table[row["system"]]) for row in found])


def systems(found: list[dict[str, str]]) -> tuple[str, ...]:
    return tuple(sorted({row["system"] for row in found}))


def products(facts: Path, table: dict[str, Card]) -> Iterator[Row]:
    """Matrix products, from gemm.csv. Left out: vLLM's fp8_block table, whose 60 to 400 us at every size is a start-up
    cost of that benchmark (served MiniMax-M2.5 on B200 takes 14 ms a step for 124 such products)."""
    found = [row for row in rows(facts / "kernels/gemm.csv.gz") if (row["framework"], row["dtype"]) != ("vllm",
                                                                                                        "fp8_block")]
    for (generation, engine, dtype), part in by_generation(found, "framework", "dtype"):
        compute, weight, activation, rate = PRODUCTS[dtype]
        yield product_row(part, table, generation, compute, engine, (weight, activation, rate), AIC)
    yield from vidur_products(facts, table)


def product_row(part: list[dict[str, str]], table: dict[str, Card], generation: str, compute: str, engine: str,
                sizes: tuple[float, float, str], source: str) -> Row:
    """Fit one group of products: rows with m, n, k and latency_ms."""
    weight, activation, rate = sizes
    m, n, k, measured = (column(part, name) for name in ("m", "n", "k", "latency_ms"))
    read = (n * k * weight + m * k * activation + m * n * 2) / figures(part, table, lambda card: card.bandwidth)
    work = 2 * m * n * k / figures(part, table, lambda card: card.rate(rate) or card.bf16)

    def times(p: list[float]) -> object:
        launch, share, rate_share, blend = p
        x, y = read / share, work / rate_share
        return launch * MICRO + (x + y + ((x - y) ** 2 + 4 * blend * x * y) ** 0.5) / 2

    starts = [(launch, 0.8, 0.7, blend) for launch in (1, 6) for blend in (0.03, 0.5)]
    p, rest = fit(times, measured * 1e-3, starts, [(0.05, 60), SHARES, SHARES, (0.001, 1)])
    return Row(operation="product", generation=generation, compute=compute, engine=engine, launch_us=p[0],
               bandwidth_share=p[1], compute_share=p[2], blend=p[3], residuals=rest, systems=systems(part),
               source=source)


def vidur_products(facts: Path, table: dict[str, Card]) -> Iterator[Row]:
    """GA10x (A40), which only Vidur profiled: its projections as products."""
    found = []
    for row in rows(facts / "kernels/vidur_mlp_extract.csv.gz"):
        if row["device"] != "a40":
            continue
        hidden, wide, tp = int(row["n_embd"]), int(row["n_expanded_embd"]), int(row["tp"])
        head = hidden // int(row["n_head"])
        shapes = {"attn_pre_proj": ((int(row["n_head"]) + 2 * int(row["n_kv_head"])) * head // tp, hidden),
                  "attn_post_proj": (hidden, hidden // tp), "mlp_down_proj": (hidden, wide // tp),
                  "mlp_up_proj": (wide // tp * (2 if row["use_gated_mlp"] == "True" else 1), hidden)}
        found += [{"system": "a40", "m": row["num_tokens"], "n": str(n), "k": str(k), "latency_ms": row[f"{name}_ms"]}
                  for name, (n, k) in shapes.items() if row[f"{name}_ms"] and float(row[f"{name}_ms"]) > 0]
    yield product_row(found, table, "ampere", "bf16", "any", (2, 2, "bf16"), VIDUR)


def experts(facts: Path, table: dict[str, Card]) -> Iterator[Row]:
    """Mixture-of-experts layers, from moe_small.csv. The "balanced" rows spread m x top-k choices over min(E, m x
    top-k) experts; GPUs whose table has no balanced row are left out, since a power law leaves open which experts are
    read."""
    found = [row for row in rows(facts / "kernels/moe_small.csv.gz") if row["distribution"] == "balanced"]
    for (generation, engine, dtype), part in by_generation(found, "framework", "dtype"):
        compute, weight, activation, rate = PRODUCTS[dtype]
        m, hidden, inter, topk, count, tp = (column(part, name) for name in
                                             ("num_tokens", "hidden", "inter", "topk", "experts", "tp"))
        import numpy

        bandwidth = figures(part, table, lambda card: card.bandwidth)
        read = numpy.minimum(count, m * topk) * 3 * hidden * inter / tp * weight / bandwidth
        moved = m * topk * hidden * 2 / bandwidth
        rates = figures(part, table, lambda card, rate=rate: card.rate(rate) or card.bf16)
        work = 2 * m * topk * 3 * hidden * inter / tp / rates

        def times(p: list[float], read=read, moved=moved, work=work) -> object:
            return p[0] * MICRO + (read + p[3] * moved) / p[1] + work / p[2]

        starts = [(15, 0.8, 0.4, passes) for passes in (0.5, 3)]
        p, rest = fit(times, column(part, "latency_ms") * 1e-3, starts, [(1, 100), SHARES, SHARES, (0.01, 20)])
        yield Row(operation="experts", generation=generation, compute=compute, engine=engine, launch_us=p[0],
                  bandwidth_share=p[1], compute_share=p[2], extra=p[3], residuals=rest, systems=systems(part),
                  source=AIC)


def decode(facts: Path, table: dict[str, Card]) -> Iterator[Row]:
    """One query token a sequence against its KV cache, from attention_decode.csv, 64 cached tokens and more. Rows that
    read faster than the datasheet's bandwidth were served by the cache of the card and are left out."""
    found = [row for row in rows(facts / "kernels/attention_decode.csv.gz") if int(row["kv_len"]) >= 64]
    for (generation, engine, dtype), part in by_generation(found, "framework", "kv_dtype"):
        yield decode_row(part, table, generation, engine, 1 if dtype == "fp8" else 2, AIC)


def decode_row(part: list[dict[str, str]], table: dict[str, Card], generation: str, engine: str, element: int,
               source: str) -> Row:
    """Fit one group of decoding kernels: rows with batch, kv_len, kv_heads, head_dim and latency_ms."""
    import numpy

    def size(row: dict[str, str]) -> float:
        return 2 * element * int(row["batch"]) * int(row["kv_len"]) * int(row["kv_heads"]) * int(row["head_dim"])

    part = [row for row in part if size(row) / (float(row["latency_ms"]) * 1e-3) <= table[row["system"]].bandwidth]
    read = numpy.array([size(row) for row in part]) / figures(part, table, lambda card: card.bandwidth)
    heads = column(part, "batch") * column(part, "kv_heads")

    def times(p: list[float]) -> object:
        return p[0] * MICRO + p[2] * NANO * heads + read / p[1]

    p, rest = fit(times, column(part, "latency_ms") * 1e-3, [(10, 0.8, 3), (10, 0.8, 20)], [(1, 200), SHARES, (0.01,
                                                                                                               200)])
    return Row(operation="decode", generation=generation, compute=f"kv{8 * element}", engine=engine, launch_us=p[0],
               bandwidth_share=p[1], extra=p[2], residuals=rest, systems=systems(part), source=source)


def prefill(facts: Path, table: dict[str, Card]) -> Iterator[Row]:
    """Causal attention of whole prompts, from attention_prefill.csv, 128 tokens and more; 16-bit arithmetic."""
    found = [row for row in rows(facts / "kernels/attention_prefill.csv.gz")
             if int(row["isl"]) >= 128 and row["attn_dtype"] == "bfloat16"]
    for (generation, engine, dtype), part in by_generation(found, "framework", "kv_dtype"):
        yield prefill_row(part, table, generation, engine, 1 if dtype == "fp8" else 2, AIC)


def prefill_row(part: list[dict[str, str]], table: dict[str, Card], generation: str, engine: str, element: int,
                source: str) -> Row:
    """Fit one group of prompt kernels: rows with batch, isl, heads, kv_heads, head_dim and latency_ms."""
    batch, tokens, heads, kv, dim = (column(part, name) for name in ("batch", "isl", "heads", "kv_heads", "head_dim"))
    read = batch * tokens * dim * (4 * heads + 2 * kv * element) / figures(part, table, lambda card: card.bandwidth)
    work = 2 * batch * heads * dim * tokens * (tokens + 1) / figures(part, table, lambda card: card.bf16)

    def times(p: list[float]) -> object:
        return p[0] * MICRO + read / p[1] + work / p[2]

    p, rest = fit(times, column(part, "latency_ms") * 1e-3, [(10, 0.4, 0.5)], [(1, 200), SHARES, SHARES])
    return Row(operation="prefill", generation=generation, compute=f"kv{8 * element}", engine=engine, launch_us=p[0],
               bandwidth_share=p[1], compute_share=p[2], residuals=rest, systems=systems(part), source=source)


def allreduce(facts: Path, table: dict[str, Card]) -> Iterator[Row]:
    """All-reduce inside one machine by number of devices, the kernels that engines use there (`served`). Shares are of
    the link's one-way rate (cards without a link: PCIe's): bandwidth_share one shot, compute_share two shots.

    `message_size` counts elements: NCCL's rows take twice as long for half as for int8 at the same size, and only so do
    they agree with Vidur's (bytes) on the same machines. Messages of 2 KiB to 64 MiB are fitted: what steps send.
    """
    found = [row for row in rows(facts / "kernels/allreduce.csv.gz")
             if served(row, table[row["system"]]) and 1024 <= int(row["message_size"]) <= 1 << 25]
    for (generation, count), part in by_generation(found, "num_gpus"):
        n = int(count)
        message = 2 * column(part, "message_size") / figures(part, table, lambda card: card.link or card.pcie)

        def times(p: list[float], message=message, n=n) -> object:
            import numpy

            two_shots = p[3] * MICRO + 2 * (n - 1) / n * message / p[2]
            return p[0] * MICRO + numpy.minimum((n - 1) * message / p[1], two_shots)

        starts = [(5, share, share, 5) for share in (0.03, 0.2, 0.4)]
        p, rest = fit(times, column(part, "latency_ms") * 1e-3, starts, [(1, 100), (0.005, 1.2), (0.005, 1.2), (0.1,
                                                                                                                500)])
        yield Row(operation="allreduce", generation=generation, compute=count, engine="any", launch_us=p[0],
                  bandwidth_share=p[1], compute_share=p[2], extra=p[3], residuals=rest, systems=systems(part),
                  source=AIC)


def served(row: dict[str, str], card: Card) -> bool:
    """Whether engines use this kernel on such cards: their own inside CUDA graphs where a link joins the devices or two
    share PCIe; NCCL's for more over PCIe (vllm custom_all_reduce: "not supported on more than two PCIe-only GPUs")."""
    if not card.link and int(row["num_gpus"]) > 2:
        return row["framework"] == "nccl" and row["kernel"] == "all_reduce" and row["dtype"] == "half"
    return row["framework"] != "nccl" and not row["kernel"].endswith("_eager")


def profiled(facts: Path, name: str, system: str = "RTX4090") -> list[dict[str, str]]:
    """Rows of one of LLMServingSim's tables of Llama-3.1-8B (32 heads, 8 KV heads, head size 128) under vLLM."""
    return [row | {"system": system}
            for row in rows(facts / f"kernels/llmservingsim_{system}_Llama-3.1-8B_{name}.csv.gz")]


def geforce(facts: Path, table: dict[str, Card]) -> Iterator[Row]:
    """GeForce Ada, whose matrix units run at half the professional cards' rate and so reach more of it. The same
    authors' profile of the RTX PRO 6000 is left for testing."""
    shapes = {"qkv_proj": (6144, 4096), "o_proj": (4096, 4096), "gate_up_proj": (28672, 4096), "down_proj": (4096,
                                                                                                             14336)}
    part = [row | {"m": row["tokens"], "n": str(shapes[row["layer"]][0]), "k": str(shapes[row["layer"]][1]),
                   "latency_ms": str(float(row["time_us"]) / 1e3)}
            for row in profiled(facts, "dense") if row["layer"] in shapes]
    yield product_row(part, table, "ada-geforce", "bf16", "vllm", (2, 2, "bf16"), SIMULATOR)
    attention = profiled(facts, "attention")
    alone = [row | {"batch": row["n_decode"], "kv_len": row["kv_decode"], "kv_heads": "8", "head_dim": "128",
                    "latency_ms": str(float(row["time_us"]) / 1e3)} for row in attention
             if row["prefill_chunk"] == "0" and row["n_decode"] != "0" and int(row["kv_decode"]) >= 64]
    yield decode_row(alone, table, "ada-geforce", "vllm", 2, SIMULATOR)
    prompts = [row | {"batch": "1", "isl": row["prefill_chunk"], "heads": "32", "kv_heads": "8", "head_dim": "128",
                      "latency_ms": str(float(row["time_us"]) / 1e3)} for row in attention
               if row["n_decode"] == "0" and row["kv_prefill"] == "0" and int(row["prefill_chunk"]) >= 128]
    yield prefill_row(prompts, table, "ada-geforce", "vllm", 2, SIMULATOR)


def elementwise(facts: Path, table: dict[str, Card]) -> Iterator[Row]:
    """Norm, rotary and activation kernels of Llama-3.1-8B under vLLM, from LLMServingSim's profiles of two cards."""
    sizes = {"layernorm": 4 * 4096 * 2, "rotary_emb": 2 * 5120 * 2, "act_fn": 3 * 14336 * 2}  # bytes moved per token
    for system in ("RTX4090", "RTXPRO6000"):
        part = [row for row in profiled(facts, "dense", system) if row["layer"] in sizes]
        import numpy

        moved = numpy.array([sizes[row["layer"]] * int(row["tokens"]) for row in part]) / table[system].bandwidth

        def times(p: list[float], moved=moved) -> object:
            return p[0] * MICRO + moved / p[1]

        p, rest = fit(times, column(part, "time_us") * MICRO, [(2.5, 1.0)], [(0.5, 20), (0.1, 4)])
        yield Row(operation="elementwise", generation=GENERATIONS[system], compute="bf16", engine="any", launch_us=p[0],
                  bandwidth_share=p[1], residuals=rest, systems=(system,), source=SIMULATOR)


def sampling(facts: Path) -> Iterator[Row]:
    """The sampler of vLLM 0.19 by sequences in the step (time = launch + extra x sequences), same profiles."""
    for system in ("RTX4090", "RTXPRO6000"):
        part = [row for row in profiled(facts, "per_sequence", system) if row["layer"] == "sampler"]
        count = column(part, "sequences")

        def times(p: list[float], count=count) -> object:
            return p[0] * MICRO + p[1] * NANO * count

        p, rest = fit(times, column(part, "time_us") * MICRO, [(25, 300)], [(1, 500), (1, 5000)])
        yield Row(operation="sampling", generation=GENERATIONS[system], compute="bf16", engine="any", launch_us=p[0],
                  extra=p[1], residuals=rest, systems=(system,), source=SIMULATOR)


def streams(facts: Path) -> Iterator[Row]:
    """llama.cpp, one stream: launch per kernel, share of the bandwidth, share of the rate while a prompt is read."""
    for name, found in single_stream.fits(facts):
        for kind, share in found.shares.items():
            prompt = found.prompts.get(kind) or min(found.prompts.values())
            yield Row(operation="stream", generation=name, compute=kind, engine="llama.cpp", launch_us=found.launch_us,
                      bandwidth_share=share, compute_share=prompt, extra=found.unpack.get(kind),
                      residuals=found.residuals, systems=found.cards,
                      source="speed_reports (data/validation/single_stream.csv)")


def hosts(facts: Path) -> Iterator[Row]:
    """transformers' generate: the host's time a layer, which the device has to wait for."""
    import numpy

    for kind, seconds in sorted(single_stream.host_reports(facts).items()):
        middle = float(f"{numpy.median(seconds) / MICRO:.3g}")
        rest = residuals(numpy.full(len(seconds), middle * MICRO), numpy.array(seconds))
        yield Row(operation="host", generation="any", compute=kind, engine="transformers", launch_us=middle,
                  residuals=rest, systems=("H20",), source="QwenLM/Qwen3 speed page @7a2f61ff")


def table_rows(facts: Path) -> list[Row]:
    """Every fit, in the order of the file."""
    table = cards(facts)
    return [*products(facts, table), *experts(facts, table), *decode(facts, table), *prefill(facts, table),
            *geforce(facts, table), *allreduce(facts, table), *elementwise(facts, table), *sampling(facts),
            *streams(facts), *hosts(facts)]


def main(arguments: list[str] | None = None) -> int:
    """Write the tables, or compare them; the exit status."""
    parser = argparse.ArgumentParser(description="Fit kernel efficiencies from the facts folder.")
    parser.add_argument("--facts", type=Path, required=True, help="the facts folder")
    parser.add_argument("--check", action="store_true", help="compare with the committed tables instead of writing")
    given = parser.parse_args(arguments)
    text = csv_text(COLUMNS, (row.cells() for row in table_rows(given.facts)))
    return settle({"data/catalog/efficiency.csv": text}, check=given.check)


if __name__ == "__main__":
    raise SystemExit(main())
