"""When it does not fit: the smallest change in each direction that makes it fit, each a link to a new question."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from pycore.catalog import accelerators, kv_format, weight_format
from pycore.errors import InputError, NotKnown
from pycore.layout import automatic, together
from pycore.nouns import Deployment, Parallel
from pycore.roofline.interconnect import joined_by
from pycore.units import binary_bytes
from pycore.vram import quick
from pycore.vram.engines import engine
from pycore.vram.hardware import refuses
from pycore.vram.validity import faults, loads

FORMATS = ("fp8-tensor", "int8-channel", "awq-int4-g128", "nvfp4", "mxfp4", "gguf-file-q8_0", "gguf-file-q6_k",
           "gguf-file-q5_k_m", "gguf-file-q4_k_m", "gguf-file-iq4_xs", "gguf-file-q3_k_m", "gguf-file-iq3_xxs",
           "gguf-file-iq2_m")
CACHES = ("fp8", "int8", "q8_0", "iq4_nl", "q4_0")
SERVERS = (1, 2, 4, 8, 16, 24, 32, 48, 64)  # device counts that machines come in


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """One way out. `changes` are fields of the question with new values; `cost` says in words what is given up."""

    text: str
    changes: dict[str, str | int | float]
    total_bytes: int  # per device, afterwards
    cost: str


def remedies(deployment: Deployment) -> tuple[Remedy, ...]:
    """The smallest change that fits, one per direction; () where the deployment fits as it is."""
    if measured(deployment).fits:
        return ()
    ways = (own_fraction, shorter, fewer, smaller_cache, smaller_weights, more_devices, larger_device)
    return tuple(remedy for way in ways for remedy in way(deployment))


def measured(deployment: Deployment) -> quick.QuickMemory:
    """The quick answer of a deployment."""
    return quick.memory(quick.prepare_deployment(deployment), deployment.accelerator, deployment.context,
                        deployment.sequences, **quick.settings(deployment))


def own_fraction(deployment: Deployment) -> Iterator[Remedy]:
    """The engine's own memory fraction where the asked one is too small, or more than is free."""
    if not deployment.memory_fraction:
        return
    after = measured(replace(deployment, memory_fraction=0.0))
    if after.fits:
        yield Remedy(text=f"the engine's own memory fraction instead of {deployment.memory_fraction:g}",
                     changes={"memory_fraction": 0.0}, total_bytes=after.total_bytes,
                     cost=f"a budget of {binary_bytes(after.budget_bytes)}")


def shorter(deployment: Deployment) -> Iterator[Remedy]:
    """The longest context at which the asked sequences fit, if it holds the asked prompt and answer."""
    prepared = quick.prepare_deployment(deployment)
    context = quick.longest_context(prepared, deployment.accelerator, deployment.sequences, deployment.context - 1,
                                    **quick.settings(deployment))
    if context >= deployment.prompt + deployment.output:
        after = measured(replace(deployment, context=context, prompt=min(deployment.prompt, context)))
        yield Remedy(text=f"{context:,} tokens of context instead of {deployment.context:,}",
                     changes={"context": context}, total_bytes=after.total_bytes,
                     cost=f"{1 - context / deployment.context:.0%} less context")


def fewer(deployment: Deployment) -> Iterator[Remedy]:
    """The most sequences at the asked context."""
    after = measured(deployment).max_sequences
    if after:
        left = measured(replace(deployment, sequences=after))
        noun = "sequence" if after == 1 else "sequences"
        yield Remedy(text=f"{after:,} {noun} instead of {deployment.sequences:,}", changes={"sequences": after},
                     total_bytes=left.total_bytes, cost=f"{1 - after / deployment.sequences:.0%} fewer at a time")


def smaller_cache(deployment: Deployment) -> Iterator[Remedy]:
    """The widest smaller cache format of the engine that fits."""
    profile, now = engine(deployment.engine), deployment.keys.bits_per_weight
    for name in CACHES:
        form = kv_format(name)
        if name not in profile.keys or form.bits_per_weight >= now:
            continue
        changed = replace(deployment, keys=form, values=form)
        after = measured(changed)
        if after.fits and not faults(changed):
            yield Remedy(text=f"KV cache in {name}", changes={"kv_dtype": name, "v_dtype": "same"},
                         total_bytes=after.total_bytes,
                         cost=f"{form.bits_per_weight:g} bits a cached number instead of {now:g}")
            return


def smaller_weights(deployment: Deployment) -> Iterator[Remedy]:
    """The widest smaller weight format that the engine loads and that fits."""
    now = measured(deployment).weights_bytes
    profile = engine(deployment.engine)
    for identity in FORMATS:
        form = weight_format(identity)
        if (not loads(profile, form.id, form.family) or form.id == deployment.weights.id
                or refuses(profile, form, deployment.accelerator)):
            continue
        changed = replace(deployment, weights=form)
        after = measured(changed)
        if after.weights_bytes < now and after.fits and not faults(changed):
            quality = f", {form.perplexity_delta:+.3g} perplexity on Llama-3-8B" if form.perplexity_delta else ""
            bits = f"{form.bits_per_weight:.3g} bits a weight instead of {deployment.weights.bits_per_weight:.3g}"
            yield Remedy(text=f"weights in {form.name}", changes={"quant": form.id}, total_bytes=after.total_bytes,
                         cost=bits + quality)
            return


def more_devices(deployment: Deployment) -> Iterator[Remedy]:
    """The fewest devices of the same kind for one replica that fit, split as the engine would by itself. None where no
    source says how several are joined: they could not be timed."""
    parallel = deployment.parallel
    try:
        joined_by(deployment.accelerator, 2)
    except NotKnown:
        return
    for devices in SERVERS:
        if devices <= parallel.tensor * parallel.pipeline:
            continue
        try:
            tensor, pipeline = automatic(deployment.model, devices, most=together(deployment.accelerator),
                                         weights=deployment.weights, expert=parallel.expert)
        except InputError:
            continue
        changed = replace(deployment, parallel=Parallel(tensor=tensor, pipeline=pipeline, data=parallel.data,
                                                        expert=parallel.expert))
        if faults(changed):
            continue
        after = measured(changed)
        if after.fits:
            count = devices * parallel.data
            yield Remedy(text=f"{count} × {deployment.accelerator.name}",
                         changes={"count": count, "tp": tensor, "pp": pipeline}, total_bytes=after.total_bytes,
                         cost=f"{devices - parallel.tensor * parallel.pipeline} more for each replica")
            return


def larger_device(deployment: Deployment) -> Iterator[Remedy]:
    """The smallest larger device of the same maker that fits, of the same segment where there is one."""
    own, size = deployment.accelerator, quick.card_bytes(deployment.accelerator)[0]
    larger = [card for card in accelerators() if card.vendor == own.vendor and quick.card_bytes(card)[0] > size]
    larger.sort(key=lambda card: (card.segment != own.segment, quick.card_bytes(card)[0], card.id))
    profile = engine(deployment.engine)
    for card in larger:
        if refuses(profile, deployment.weights, card):
            continue
        after = measured(replace(deployment, accelerator=card))
        if after.fits:
            yield Remedy(text=f"{card.name} instead", changes={"gpu": card.id}, total_bytes=after.total_bytes,
                         cost=f"a device of {binary_bytes(after.usable_bytes)}")
            return
