"""A model on a card as a `Step` of plain numbers: the work of one device divided by what the card's kernels reach."""

import functools

from pycore.nouns import Accelerator, Format, Model, Parallel
from pycore.roofline.card import Kernel, Kernels, kernels
from pycore.roofline.interconnect import link, pass_on_seconds
from pycore.roofline.step import AttentionTime, ExpertTime, ProductTime, Step
from pycore.roofline.work import AttentionWork, ExpertWork, Product, Work, work


@functools.lru_cache(maxsize=8192)
def prepare(model: Model, weights: Format, keys: Format, values: Format, parallel: Parallel, accelerator: Accelerator,
            engine: str, ideal: bool = False) -> Step:
    """A model on a card as a Step. `ideal`: the plain roofline (every share 1, no launches, no host).

    Raises NotKnown where the devices cannot be joined or no kernel like the asked ones was ever measured.
    """
    return build(work(model, weights, keys, values, parallel), kernels(accelerator, engine, weights, keys, ideal),
                 accelerator, ideal)


def build(load: Work, card: Kernels, accelerator: Accelerator, ideal: bool) -> Step:
    """The Step of given work on given kernels."""
    plain, linear, small = card.plain, card.linear, card.small
    head = load.head
    return Step(
        products=tuple([product_time(item, plain if item.sixteen_bit else linear) for item in load.products]),
        head=product_time(head, plain if head.sixteen_bit else linear),
        experts=expert_time(load.experts, card.experts, card.streamed) if load.experts else None,
        attention=tuple([attention_time(group, card.decode, card.prefill) for group in load.attention]),
        message_token=2.0 * load.hidden, messages=load.messages, reduce=reduce_terms(load, accelerator, ideal),
        exchange=exchange_terms(load, accelerator, ideal), passes=pass_terms(load, accelerator, ideal),
        elementwise=(load.elementwise * small.launch, load.elementwise_bytes / small.read), sampling=card.sampling,
        floor=load.layers * card.floor_layer, pipeline=load.pipeline, timed_prompts=card.timed_prompts,
        calibrated=card.calibrated and (card.calibrated_experts or load.experts is None))


def product_time(item: Product, reached: Kernel) -> ProductTime:
    """Seconds of a product, per step and per token."""
    flop = 2.0 * item.count * item.rows * item.columns
    fixed = item.count * item.weight_bytes / reached.read
    return ProductTime(fixed + flop / reached.unpack if reached.unpack else fixed,
                       item.count * (item.columns * reached.activation + 2.0 * item.rows) / reached.read,
                       flop / reached.work, reached.blend, item.count * reached.launch)


def expert_time(item: ExpertWork, reached: Kernel, streamed: bool) -> ExpertTime:
    """Seconds of the mixture layers. llama.cpp's come as three products a layer, with one pass over the activations."""
    routed = item.chosen * item.share * item.layers  # routed copies of one token of this replica, all layers
    flop = 2.0 * item.matrices * item.hidden * item.inner
    held = item.layers * item.held
    return ExpertTime(
        missed=1.0 - item.chosen / item.count, gathered=item.gathered,
        read_all=held * item.expert_bytes / reached.read + (held * flop / reached.unpack if reached.unpack else 0.0),
        read_token=routed * (1.0 if streamed else reached.extra) * 2.0 * item.hidden / reached.read,
        work_token=routed * flop / reached.work, launch=item.layers * reached.launch * (3 if streamed else 1))


def attention_time(group: AttentionWork, decode: Kernel, prompt: Kernel) -> AttentionTime:
    """Seconds of one attention group. Decoding with a latent (MLA) can be bound by arithmetic: its work runs at the
    share that prompts reach, no MLA kernel being in the tables."""
    width, prompt_width = group.score_dim + group.value_dim, group.prompt_score_dim + group.prompt_value_dim
    layers, flops = group.layers, prompt.work
    return AttentionTime(
        window=group.window, read_token=layers * group.token_bytes / decode.read,
        read_index=layers * group.index_bytes / decode.read,
        sequence=layers * (decode.extra * 1e-9 * group.kv_heads + group.state_bytes / decode.read),
        work_pair=layers * 2.0 * group.heads * width / flops if group.kind == "latent" else 0.0,
        launch=layers * decode.launch,
        prompt_pair=0.0 if group.kind == "linear" else layers * 2.0 * group.heads * prompt_width / flops,
        prompt_token=layers * ((2.0 * group.heads * prompt_width + group.token_bytes) / prompt.read
                               + group.state_flop / flops),
        prompt_launch=layers * prompt.launch, index_pair=layers * group.index_flop / flops)


def reduce_terms(load: Work, accelerator: Accelerator, ideal: bool) -> tuple[float, float, float, float]:
    """(launch, one shot, extra, two shots) of an all-reduce among the tensor-parallel devices."""
    if load.tensor == 1:
        return (0.0, 0.0, 0.0, 0.0)
    joined = link(accelerator, load.tensor)
    ring = 2.0 * (load.tensor - 1) / load.tensor / joined.bandwidth
    return (0.0, ring, 0.0, ring) if ideal else (joined.fit.launch_s, joined.one_shot, joined.fit.extra * 1e-6,
                                                 joined.two_shots)


def exchange_terms(load: Work, accelerator: Accelerator, ideal: bool) -> tuple[int, float, float]:
    """Sending tokens to the devices that hold their experts and back, twice a mixture layer, when replicas share
    experts."""
    if load.exchanged == 1 or load.experts is None:
        return (0, 0.0, 0.0)
    devices = load.tensor * load.exchanged
    joined = link(accelerator, devices)
    away = min(load.experts.chosen, devices) * (devices - 1) / devices / load.tensor
    share = 1.0 if ideal else joined.fit.bandwidth_share
    return (2 * load.experts.layers, 0.0 if ideal else joined.fit.launch_s,
            2.0 * load.hidden * away / (joined.bandwidth * share))


def pass_terms(load: Work, accelerator: Accelerator, ideal: bool) -> tuple[int, float, float]:
    """Handing hidden states from one pipeline stage to the next."""
    if load.pipeline == 1:
        return (0, 0.0, 0.0)
    joined = link(accelerator, 2)
    share = 1.0 if ideal else joined.fit.bandwidth_share
    seconds = pass_on_seconds(2.0 * load.hidden / load.tensor, 0.0, joined.bandwidth, share)
    return (load.pipeline - 1, 0.0 if ideal else joined.fit.launch_s, seconds)
