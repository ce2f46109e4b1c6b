"""The catalogue of facts, looked up by forgiving names: models, accelerators, number formats and prices.

A bare family name means its most offered member (most catalogued cloud prices): "h100" is the SXM5 with 80 GB, "a100"
the SXM4 with 80 GB. A bare format name means what `FORMAT_MEANINGS` says; a GGUF type such as "q8_0" means a file of
that type. `meaning()` says in words what was taken. A name that fits several entries otherwise is refused with those.
"""

import functools
import re

from pycore import facts
from pycore.errors import NotKnown, UnknownName
from pycore.facts import accelerators, formats, models
from pycore.matching import TEXT_LIMIT, Names, atoms
from pycore.nouns import Accelerator, ApiOffer, CloudPrice, Format, Model

MODEL_NOISE = frozenset("meta instruct it chat hf base preview awq gptq gguf fp8 nvfp4 bf16 w4a16".split())
DEVICE_NOISE = frozenset("nvidia amd intel apple google geforce radeon instinct tesla rtx gtx rx arc gpu graphics "
                         "generation edition workstation server hbm2 hbm2e hbm3 hbm3e".split())  # as drivers name them

FORMAT_MEANINGS = {
    "fp8": "fp8-tensor",  # what `vllm serve --quantization fp8` makes of a 16-bit checkpoint
    "int8": "int8-channel", "w8a8": "int8-channel",  # the W8A8 of llm-compressor recipes
    "int4": "awq-int4-g128", "4bit": "awq-int4-g128", "awq": "awq-int4-g128",
    "gptq": "gptq-int4-g128",  # the group size of nearly all published checkpoints
    "nf4": "bnb-nf4", "bitnet": "bitnet-i2s", "ternary": "bitnet-i2s",
    "24": "sparse24-fp16", "sparse": "sparse24-fp16",  # "2:4" of a 16-bit model
    "mlx": "mlx-4bit-g64", "hqq": "hqq-int4-g64",
    "fp4": "nvfp4", "fp8e4m3": "fp8-tensor", "e4m3": "fp8-tensor", "float8": "fp8-tensor",
    "fp8dynamic": "fp8-channel",  # llm-compressor's FP8_DYNAMIC: a scale a channel, activations scaled as they come
    "8bit": "int8-channel", "awq4bit": "awq-int4-g128", "int4awq": "awq-int4-g128", "gptq4bit": "gptq-int4-g128",
    "bnb": "bnb-nf4", "bitsandbytes": "bnb-nf4", "marlin": "gptq-int4-g128", "autoround": "w4a16-g128-sym",
    "158": "bitnet-i2s", "q8": "gguf-file-q8_0", "q4": "gguf-file-q4_k_m",
    "float16": "fp16", "half": "fp16", "bfloat16": "bf16", "float32": "fp32", "16bit": "bf16",
}
CHECKPOINT = re.compile(  # how names of quantised checkpoints and files end
    r"(?i)[-_.:](awq|gptq|fp8|nvfp4|mxfp4|w4a16|w8a8|int4|int8|4bit|gguf|(?:ud-)?i?q\d(?:_\w{1,4}){0,2}|bf16|f16)"
    r"(?:[-_](?:int[348]|dynamic|block|\d{5}-of-\d{5}))?(?:\.gguf)?$")
PLAIN_DTYPES = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp16"}
KV_MEANINGS = {"auto": "kv-fp16", "fp16": "kv-fp16", "f16": "kv-fp16", "bf16": "kv-bf16", "fp8": "kv-fp8",
               "int8": "kv-int8", "q8_0": "kv-q8-0", "q4_0": "kv-q4-0", "iq4_nl": "kv-iq4-nl"}


@functools.cache
def spellings(table: str) -> Names:
    """Every spelling of a table's entries, by id: 'models', 'accelerators' or 'formats' (of weights)."""
    if table == "models":
        return Names({entry.id: (basename(entry), entry.name) for entry in models()}, MODEL_NOISE)
    if table == "accelerators":
        return Names({entry.id: (entry.id, entry.name) for entry in accelerators()}, DEVICE_NOISE,
                     any_order=True)
    mixes = {entry.id.removeprefix("gguf-file-") for entry in formats() if entry.scope == "mix"}
    forms = {}
    for entry in formats():
        bare = entry.id.removeprefix("gguf-file-").removeprefix("gguf-")
        if entry.scope == "mix" or entry.scope == "tensor" and bare not in mixes | {"bf16", "mxfp4", "nvfp4"}:
            forms[entry.id] = (entry.id, bare, entry.name)
        elif entry.scope != "kv":
            forms[entry.id] = (entry.id, f"{bare} tensor") if entry.scope == "tensor" else (entry.id, entry.name)
    return Names(forms)


def basename(entry: Model) -> str:
    """'Qwen2.5-7B' of 'Qwen/Qwen2.5-7B'."""
    return entry.hub_repository.rsplit("/", 1)[-1]


@functools.cache
def by_id(table: str) -> dict[str, Model | Accelerator | Format]:
    """A table's entries by id."""
    return {entry.id: entry for entry in {"models": models, "accelerators": accelerators, "formats": formats}[table]()}


def short(entry: Model | Accelerator | Format) -> str:
    """The name to type for an entry; looking it up gives the entry back."""
    return basename(entry) if isinstance(entry, Model) else entry.id.removeprefix("gguf-file-")


def names(table: str) -> tuple[str, ...]:
    """What can be typed for 'models', 'accelerators' or 'formats', one name an entry, for completion in a form."""
    return tuple(short(entry) for entry in by_id(table).values() if getattr(entry, "scope", "") != "kv")


def suggest(table: str, text: str, limit: int = 3) -> tuple[str, ...]:
    """The nearest names of a table, best first; each of them can be typed as it stands."""
    entries = by_id(table)
    return tuple(short(entries[key]) for key in spellings(table).nearest(text, limit))


def most_offered(keys: tuple[str, ...]) -> str | None:
    """Of variants of one accelerator family, the one with strictly the most cloud offers; None where there is none."""
    ranked = sorted(keys, key=lambda key: facts.offers().get(key, 0), reverse=True)
    first, second = (facts.offers().get(key, 0) for key in ranked[:2])
    return ranked[0] if first > second else None


def find(table: str, text: str, field: str) -> Model | Accelerator | Format:
    """The one entry that the text means. Raises UnknownName with the nearest names, or with those it could mean."""
    entries = by_id(table)
    if text in spellings(table).forms:
        return entries[text]
    keys = spellings(table).candidates(text)
    if len(keys) > 1 and table == "accelerators" and (chosen := most_offered(keys)):
        keys = (chosen,)
    if len(keys) == 1:
        return entries[keys[0]]
    if keys:
        raise UnknownName(field, text, f"it fits {len(keys)} {table}", tuple(short(entries[key]) for key in keys[:6]))
    raise UnknownName(field, text, f"accepted: one of {len(names(table))} {table}", suggest(table, text))


@functools.lru_cache(maxsize=1024)
def model(name: str, field: str = "model") -> Model:
    """A model by catalogue name, Hub repository or file name: 'qwen2.5-7b', 'Qwen/Qwen2.5-7B-Instruct-AWQ'.

    Raises UnknownName.
    """
    text = name.strip().rstrip("/").rsplit("/", 1)[-1]
    try:
        return find("models", text, field)
    except UnknownName:
        bare = CHECKPOINT.sub("", text[:TEXT_LIMIT])
        if bare in ("", text):
            raise
    try:
        return find("models", bare, field)
    except UnknownName as fault:
        raise UnknownName(field, name, fault.accepted, fault.suggestions) from None


def stored(entry: Model, name: str = "") -> Format:
    """The format that a checkpoint is stored in: what its name says, its configuration, else its 16-bit type.

    32-bit checkpoints are taken in 16 bits, as engines load them (vllm --dtype auto). Raises NotKnown on `quant` where
    the configuration names a quantisation that the catalogue does not hold.
    """
    said = CHECKPOINT.search(name.strip()[:TEXT_LIMIT])
    if said and said.group(1).lower() not in ("gguf", "bf16", "f16"):
        try:
            return weight_format(said.group(1).lower().removeprefix("ud-"))
        except UnknownName:
            pass
    if entry.stored_format:
        return by_id("formats")[entry.stored_format]
    if entry.native_dtype not in PLAIN_DTYPES:
        raise NotKnown(f"the weights of {entry.name or name} are stored as {entry.native_dtype}, which the catalogue "
                       "does not hold; say with --quant which format to size for", "quant")
    return by_id("formats")[PLAIN_DTYPES[entry.native_dtype]]


def name_says(name: str, weights: Format) -> str:
    """What a model's name says of its weights where the weights asked for are others, in words; '' where it fits."""
    found = CHECKPOINT.search(name.strip()[:TEXT_LIMIT])
    word = found.group(1).lower().removeprefix("ud-") if found else ""
    gguf = weights.family.startswith("GGUF")
    if not word or word == "gguf" and gguf:
        return ""
    try:
        fits = word != "gguf" and weight_format(word).family in (weights.family, "16/32-bit" if gguf else "")
    except UnknownName:
        fits = False
    return "" if fits else f"The model's name says {word.upper()}, the weights asked for are {weights.name}"


@functools.lru_cache(maxsize=1024)
def accelerator(name: str, field: str = "gpu") -> Accelerator:
    """An accelerator by name, e.g. 'l40s', 'h100 pcie', '4090', 'm4 max'. Raises UnknownName."""
    return find("accelerators", name.strip(), field)


@functools.lru_cache(maxsize=1024)
def weight_format(name: str, field: str = "quant") -> Format:
    """A format of weights by name, e.g. 'bf16', 'awq', 'Q4_K_M', '2:4'. Raises UnknownName."""
    text = name.strip()
    meant = FORMAT_MEANINGS.get("".join(atoms(text)))
    return by_id("formats")[meant] if meant else find("formats", re.sub(r"(?i)\.gguf$", "", text) or text, field)


@functools.lru_cache(maxsize=64)
def kv_format(name: str, field: str = "kv_dtype") -> Format:
    """A format of cached keys or values: auto (16-bit), fp16, bf16, fp8, int8, q8_0, ... Raises UnknownName."""
    meant = KV_MEANINGS.get(name.strip().lower(), name)
    entry = by_id("formats").get(meant)
    if entry is None or entry.scope != "kv":
        raise UnknownName(field, name, "accepted: " + ", ".join(KV_MEANINGS))
    return entry


def meaning(table: str, text: str) -> str:
    """What a name that could mean several entries was taken for, in words; '' where it was clear or is unknown."""
    if table == "formats":
        meant = FORMAT_MEANINGS.get("".join(atoms(text)))
        return f"{text} is taken as {by_id(table)[meant].name}" if meant and meant != text else ""
    keys = spellings(table).candidates(text)
    chosen = most_offered(keys) if len(keys) > 1 and table == "accelerators" else None
    if not chosen:
        return ""
    others = ", ".join(by_id(table)[key].name for key in keys if key != chosen)
    return f"{text} is taken as {by_id(table)[chosen].name}, the most offered; others: {others}"


def cloud_prices(accelerator_id: str) -> tuple[CloudPrice, ...]:
    """What clouds ask for one accelerator, by its id: newest first, undated last; empty where no source priced it."""
    return facts.cloud_table().get(accelerator_id, ())


def api_offers(model_id: str) -> tuple[ApiOffer, ...]:
    """What providers ask for a model, by its id; empty where nobody offers it."""
    return facts.offer_table().get(model_id, ())


def closed_offers() -> tuple[ApiOffer, ...]:
    """Closed models' list prices, for comparison bands."""
    return facts.offer_table()["closed"]
