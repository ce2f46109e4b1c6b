"""Shapes that the catalogue lacks (or that an engine treats otherwise), and short ways to ask for a deployment."""

import csv
from pathlib import Path

from pycore import catalog
from pycore.nouns import AttentionGroup, Deployment, LinearState, Model, Parallel

VALIDATION = Path(__file__).resolve().parents[3] / "data" / "validation"


def rows(name):
    with (VALIDATION / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


REPORTS = {row["id"]: row for row in rows("vram_reports.csv")}


def shape(identity, groups, pattern="0", **fields):
    layers = sum(group.layers for group in groups)
    values = dict(
        id=identity,
        name=identity,
        hub_repository=identity,
        hidden_size=4096,
        layers=layers,
        attention_heads=32,
        kv_heads=8,
        head_dim=128,
        intermediate_size=11008,
        vocabulary=32000,
        tied_embeddings=False,
        max_context=1 << 20,
        groups=tuple(groups),
        pattern=pattern,
    )
    return Model(**values | fields)


def attention(kind, layers, heads, kv_heads, dim, value_dim=None, **fields):
    return AttentionGroup(
        kind=kind,
        layers=layers,
        query_heads=heads,
        kv_heads=kv_heads,
        key_dim=dim,
        value_dim=value_dim or dim,
        **fields,
    )


SHAPES = {
    # Gemma-4-31B config.json: 60 layers, 5 sliding : 1 full, 16 KV heads of 256, global 4 of 512, window 1,024
    "gemma-4-31b": shape(
        "gemma-4-31b",
        [attention("sliding", 50, 32, 16, 256, window=1024), attention("full", 10, 32, 4, 512, values_are_keys=True)],
        "000001",
        hidden_size=5376,
        intermediate_size=21504,
        vocabulary=262144,
        tied_embeddings=True,
    ),
    "qwen1.5-72b": shape(
        "qwen1.5-72b", [attention("full", 80, 64, 64, 128)]
    ),  # Qwen1.5-72B: no GQA, as v055's note says
    "glm-z1-32b": shape("glm-z1-32b", [attention("full", 61, 48, 2, 128)]),  # GLM-4-32B-0414: 61 layers, 2 KV heads
    "nemotron-ultra": shape(
        "nemotron-ultra", [attention("full", 64, 128, 8, 128)]
    ),  # 64 of its layers attend (v087's note)
    "deepseek-plain": shape(
        "deepseek-plain", [attention("full", 61, 128, 128, 192, 128)]
    ),  # no latent cache (v093, v094)
    "deepseek-lite-plain": shape("deepseek-lite-plain", [attention("full", 27, 16, 16, 192, 128)]),
    # Kimi-Linear-48B-A3B: 27 layers, 20 KDA (32 heads of 128, kernel 4) and 7 MLA (512 + 64)
    "kimi-linear": shape(
        "kimi-linear",
        [
            AttentionGroup(
                kind="linear",
                layers=20,
                linear=LinearState(key_heads=32, value_heads=32, key_dim=128, value_dim=128, convolution_kernel=4),
            ),
            AttentionGroup(
                kind="latent",
                layers=7,
                query_heads=32,
                kv_heads=32,
                key_dim=192,
                value_dim=128,
                latent_rank=512,
                rope_dim=64,
            ),
        ],
        "000100010001000100010001001",
        hidden_size=2304,
        vocabulary=163840,
    ),
}


def model_of(row):
    return SHAPES[row["shape"]] if row["shape"] else catalog.model(row["model"])


def deployment(
    model="qwen2.5-7b",
    quant="bf16",
    gpu="l40s",
    engine="vllm",
    *,
    tp=1,
    pp=1,
    dp=1,
    ep=False,
    context=8192,
    sequences=16,
    kv="auto",
    v=None,
    prompt=1024,
    output=256,
    **fields,
):
    keys = catalog.kv_format(kv)
    return Deployment(
        model=catalog.model(model) if isinstance(model, str) else model,
        weights=catalog.weight_format(quant),
        keys=keys,
        values=catalog.kv_format(v) if v else keys,
        accelerator=catalog.accelerator(gpu),
        parallel=Parallel(tensor=tp, pipeline=pp, data=dp, expert=ep),
        engine=engine,
        context=context,
        sequences=sequences,
        prompt=prompt,
        output=output,
        **fields,
    )
