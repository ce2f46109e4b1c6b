"""How a replica is laid out over devices when the question leaves it open, and what is wrong with a layout it names."""

from pycore.errors import InputError
from pycore.nouns import Accelerator, AttentionGroup, Format, Model, Parallel
from pycore.vram.parameters import dense_width

VOCABULARY_STEP = 64  # vLLM and SGLang pad the vocabulary to a multiple of this before they cut it
BLOCKS = {"fp8-block-128x128": 128}  # a slice of a matrix must hold whole blocks of the format
NODE = 8  # devices that share a link in one machine; rack-scale systems below
RACKS = {"nvidia-gb200-per-gpu": 72, "nvidia-gb300-per-gpu": 72}  # NVL72
POD = 256  # TPUs of a pod


def divisors(number: int) -> tuple[int, ...]:
    """All divisors, ascending: divisors(8) is (1, 2, 4, 8)."""
    return tuple(divisor for divisor in range(1, number + 1) if number % divisor == 0)


def together(accelerator: Accelerator) -> int:
    """How many such devices one link joins: a machine's, a rack's or a pod's."""
    return RACKS.get(accelerator.id, POD if accelerator.vendor == "Google" else NODE)


def tensor_fault(model: Model, tensor: int, weights: Format | None = None, expert: bool = True) -> str:
    """Why a model cannot be cut over that many devices, '' where it can. `expert`: experts are placed whole.

    Source: vllm config/model.py verify_with_parallel_config, vocab_parallel_embedding.py, linear.py divide(); slices
    of a block format: vllm#52997, sglang#10852, QwenLM/Qwen3#1485.
    """
    for group in model.groups:
        if reason := group_fault(group, tensor):
            return reason
    vocabulary = -(-model.vocabulary // VOCABULARY_STEP) * VOCABULARY_STEP
    if vocabulary % tensor:
        return f"it does not divide the vocabulary (padded to 64) of {vocabulary:,}"
    block = BLOCKS.get(weights.id, 1) if weights else 1
    for name, size in inner_sizes(model, expert).items():
        if size % tensor:
            return f"it does not divide the {name} of {size:,}"
        if size // tensor % block and tensor > 1:
            return f"it cuts the {name} of {size:,} into {size // tensor:,}, not a multiple of {weights.name}'s {block}"
    return ""


def inner_sizes(model: Model, expert: bool) -> dict[str, int]:
    """Widths of the MLPs that tensor parallelism cuts, by name."""
    sizes = {"intermediate size": dense_width(model)} if model.dense_layers else {}
    if model.mixture and model.experts.shared_count:
        sizes["shared expert size"] = model.experts.shared_intermediate_size
    if model.mixture and not expert:
        sizes["expert size"] = model.experts.intermediate_size
    return sizes


def group_fault(group: AttentionGroup, tensor: int) -> str:
    """Why one kind of attention layer cannot be cut over that many devices."""
    if group.kind == "linear":
        heads = (group.linear.key_heads, group.linear.value_heads)
        return "" if all(count % tensor == 0 for count in heads) else (
            f"it does not divide the {heads[0]} key and {heads[1]} value heads of the linear layers")
    if group.query_heads % tensor:
        return f"it does not divide the {group.query_heads} attention heads"
    if group.kind != "latent" and group.kv_heads % tensor and tensor % group.kv_heads:
        return f"neither of {tensor} and {group.kv_heads} KV heads divides the other"
    return ""


def automatic(model: Model, devices: int, *, most: int = NODE, weights: Format | None = None,
              expert: bool = False) -> tuple[int, int]:
    """(tensor, pipeline) for one replica on `devices`: as much tensor parallel as the model can be cut, up to the
    `most` devices that share a link, the rest as pipeline stages, which only need a layer each.

    Raises InputError on `count` when neither split works.
    """
    tensor = max(divisor for divisor in divisors(devices) if divisor == 1
                 or divisor <= most and not tensor_fault(model, divisor, weights, expert))
    pipeline = devices // tensor
    if pipeline > model.layers:
        raise InputError("count", devices, f"accepted: a number of devices that splits {model.attention_heads} "
                                           f"attention heads and at most {model.layers} layers")
    return tensor, pipeline


def layout(model: Model, *, count: int, tensor: int, pipeline: int, data: int, expert: bool, most: int = NODE,
           weights: Format | None = None) -> Parallel:
    """The Parallel that a question means; tensor 0 asks for the automatic split.

    Raises InputError on the field that does not fit: the product of the degrees must be the number of devices.
    """
    if tensor == 0:
        if count % (pipeline * data):
            raise InputError("count", count, f"accepted: a multiple of pipeline × data parallel = {pipeline * data}")
        if pipeline == 1:
            tensor, pipeline = automatic(model, count // data, most=most, weights=weights, expert=expert)
        else:
            tensor = count // (pipeline * data)
    if tensor * pipeline * data != count:
        raise InputError("tp", tensor, f"accepted: degrees whose product is the number of devices; tensor {tensor} × "
                                       f"pipeline {pipeline} × data {data} = {tensor * pipeline * data}, not {count}")
    return Parallel(tensor=tensor, pipeline=pipeline, data=data, expert=expert)
