"""Bytes of weights on one device: which matrices a stage holds, how they are cut, in which format each is stored.

A matrix is cut by rows (its outputs), by columns (its inputs), by KV heads, or not at all (every device holds it). What
a quantiser leaves alone stays 16-bit. `placed` is the integer arithmetic, `weights` the explained sum.
"""

import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace

from pycore.ledger import Term, fact, term, total
from pycore.nouns import AttentionGroup, Format, Model, Parallel
from pycore.vram import gguf_mix
from pycore.vram.engines import ENGINES, Engine, spread
from pycore.vram.kv import kv_heads_per_device
from pycore.vram.parameters import Matrix, matrices, mtp_matrices
from pycore.vram.stages import split

BY_ROWS = frozenset(("q", "q_b", "kv_b", "gate", "up", "linear_qkv", "linear_gate", "linear_beta_alpha", "linear_decay",
                     "linear_convolution", "sinks", "embedding", "head", "expert_gate", "expert_up", "shared_up"))
BY_COLUMNS = frozenset(("o", "down", "linear_o", "expert_down", "shared_down"))
WHOLE = frozenset(("linear_beta_alpha", "indexer_weights", "mtp_join"))  # small or sensitive: quantisers skip them
COMPONENTS = {"embedding": "Embedding", "positions": "Position embedding", "head": "Output head",
              "attention": "Attention",
              "linear_attention": "Linear attention", "mlp": "MLP", "router": "Router", "experts": "Experts",
              "shared_experts": "Shared experts", "norms": "Norms", "biases": "Biases and sinks",
              "absorbed": "Absorbed MLA matrices", "rotary": "Rotary table", "vision": "Vision tower"}
MARLIN_HIDDEN, MARLIN_INTERMEDIATE = 256, 128  # vLLM pads MXFP4 experts to these (mxfp4.py: n % 256 and k % 128)
SIXTEEN = (1, 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Numbers of a component on one device that share a storage: `block` = (numbers, bytes), `scales` bytes beside."""

    component: str
    block: tuple[int, float]
    numbers: int
    scales: int = 0

    @property
    def bytes(self) -> int:
        return stored_bytes.plain(self.numbers, self.block[1], self.block[0], self.scales)


@term("Weights", "B", source="number format's block size, see the catalogue's formats")
def stored_bytes(numbers, block_bytes, block_numbers, scales):
    """numbers × block_bytes / block_numbers + scales"""
    return -(-numbers * round(block_bytes * 1048576) // (block_numbers * 1048576)) + scales


def device_shape(model: Model, matrix: Matrix, tensor: int) -> tuple[int, int]:
    """(rows, columns) of one copy of the matrix on one of `tensor` devices, rounded up where it does not divide."""
    rows, columns, role = matrix.rows, matrix.columns, matrix.role
    if tensor == 1 or matrix.component == "router":
        return rows, columns
    if role in ("k", "v"):
        kv_heads = group_of(model, matrix).kv_heads
        return rows * kv_heads_per_device(kv_heads, tensor) // kv_heads, columns
    if role in BY_ROWS or role == "shared_gate":
        return -(-rows // tensor), columns
    if role in BY_COLUMNS:
        return rows, -(-columns // tensor)
    return (bias_rows(model, matrix, tensor), columns) if matrix.component == "biases" else (rows, columns)


def group_of(model: Model, matrix: Matrix) -> AttentionGroup:
    """The attention group a matrix belongs to; MTP layers count from 0 again and repeat the model's attention."""
    group = model.group_of(matrix.layers[0])
    return group if group.kind != "linear" else next(group for group in model.groups if group.kind != "linear")


def bias_rows(model: Model, matrix: Matrix, tensor: int) -> int:
    """Biases follow their matrix: those of outputs cut by rows are cut, those of row-parallel outputs stay whole."""
    if matrix.role in ("mlp_bias", "expert_bias"):
        return -(-(matrix.rows - model.hidden_size) // tensor) + model.hidden_size
    group = group_of(model, matrix)
    if matrix.role != "qkv_bias" or group.kind == "latent":
        return matrix.rows
    shared = group.kv_heads * (group.key_dim + (0 if group.values_are_keys else group.value_dim))
    return -(-(matrix.rows - shared) // tensor) + shared * kv_heads_per_device(group.kv_heads, tensor) // group.kv_heads


def quantised(model: Model, matrix: Matrix, weights: Format) -> bool:
    """Whether a linear-only format touches the matrix. gpt-oss checkpoints keep all but the experts in 16-bit."""
    if weights.scope != "linear" or matrix.kind != "linear" or matrix.component == "router" or matrix.role in WHOLE:
        return False
    return matrix.component == "experts" if weights.id == model.stored_format == "mxfp4" else True


def padded_shape(matrix: Matrix, rows: int, columns: int, weights: Format, engine: Engine) -> tuple[int, int]:
    """Rows and columns as the engine allocates them: vocabularies and MXFP4 experts are padded."""
    if matrix.kind in ("embedding", "head") and matrix.role != "positions":
        step = engine.padded_vocabulary
        return -(-rows // step) * step, columns
    if weights.id == "mxfp4" and engine.memory_rule == "total" and matrix.component == "experts" and columns > 1:
        steps = {True: MARLIN_HIDDEN, False: MARLIN_INTERMEDIATE}
        hidden_first = matrix.role == "expert_down"
        first, second = steps[hidden_first], steps[not hidden_first]
        return -(-rows // first) * first, -(-columns // second) * second
    return rows, columns


def copies(matrix: Matrix, held: int, experts_over: int) -> int:
    """How many copies of the matrix a device holds: one a layer, or its share of the experts placed whole."""
    spread_out = matrix.component == "experts" or matrix.role == "expert_bias"
    return (-(-matrix.each // experts_over) if spread_out else matrix.each) * held


def piece(model: Model, matrix: Matrix, weights: Format, engine: Engine, tensor: int, held: int,
          experts_over: int) -> Piece:
    """The matrix's numbers on one device, for formats other than GGUF mixes."""
    cut = 1 if experts_over > 1 and (matrix.component == "experts" or matrix.role == "expert_bias") else tensor
    if matrix.kind in ("embedding", "head") and matrix.role != "positions":
        rows, columns = padded_shape(matrix, matrix.rows, matrix.columns, weights, engine)
        rows = -(-rows // tensor)
    else:
        rows, columns = device_shape(model, matrix, cut)
        rows, columns = padded_shape(matrix, rows, columns, weights, engine)
    count = copies(matrix, held, experts_over)
    if weights.scope == "tensor":
        plain = matrix.kind in ("vector", "convolution")
        kind = "f32" if plain else gguf_mix.fitting(weights.id.removeprefix("gguf-"), columns)
        return Piece(component=matrix.component, block=gguf_mix.BLOCKS[kind], numbers=count * rows * columns)
    if weights.scope == "all" or not quantised(model, matrix, weights):
        block = (weights.block_elements, int(weights.block_bytes)) if weights.scope == "all" else SIXTEEN
        return Piece(component=matrix.component, block=block, numbers=count * rows * columns)
    scales = count * round(rows * weights.row_bytes + columns * weights.column_bytes + weights.matrix_bytes)
    return Piece(component=matrix.component, block=(weights.block_elements, weights.block_bytes),
                 numbers=count * rows * columns, scales=scales)


def mixed_pieces(model: Model, weights: Format, stage: range, first: bool, last: bool) -> Iterator[Piece]:
    """Pieces of a GGUF mix on a device that holds the layers of `stage`; types differ from layer to layer."""
    question = gguf_mix.mix(model, weights.id)
    for matrix in matrices(model):
        for layer, kind in gguf_mix.storage(matrix, question, model.tied_embeddings):
            here = layer in stage if layer >= 0 else first if matrix.role in ("embedding", "positions") else last
            if here:
                yield Piece(component=matrix.component, block=gguf_mix.BLOCKS[kind],
                            numbers=matrix.each * matrix.elements)


def stage_pieces(model: Model, weights: Format, engine: Engine, tensor: int, stage: range, first: bool, last: bool,
                 experts_over: int) -> Iterator[Piece]:
    """Every piece on one device of a stage, before what engines add."""
    if weights.scope == "mix":
        yield from mixed_pieces(model, weights, stage, first, last)
        return
    for matrix in matrices(model):
        held = sum(layer in stage for layer in matrix.layers)
        if not matrix.layers:
            held = int(first if matrix.role in ("embedding", "positions") else last)
        if held:
            yield piece(model, matrix, weights, engine, tensor, held, experts_over)


def head_copy(model: Model, weights: Format, engine: Engine, tensor: int, first: bool, last: bool) -> Iterator[Piece]:
    """A tied head that is stored again: on the last of several stages, or because the engine keeps two copies."""
    if not (model.tied_embeddings and last) or first and not engine.head_copy:
        return
    embedding = next(matrix for matrix in matrices(model) if matrix.role == "embedding")
    if weights.scope == "mix":
        pieces = mixed_pieces(model, weights, range(0), True, False)
        yield next(Piece(component="head", block=found.block, numbers=found.numbers) for found in pieces
                   if found.component == "embedding")
    else:
        found = piece(model, embedding, weights, engine, tensor, 1, 1)
        yield Piece(component="head", block=found.block, numbers=found.numbers, scales=found.scales)


def additions(model: Model, weights: Format, engine: Engine, tensor: int, stage: range, first: bool) -> Iterator[Piece]:
    """What serving engines keep beside the checkpoint's matrices.

    MLA: W_UK and W_UV are unpacked from kv_b in 16-bit (vllm mla/common.py process_weights_after_loading; sglang too).
    The rotary table: max positions x rotary dimensions in 16-bit (Llama-3.1-8B loads 14.9888 GiB, Llama-3-8B 14.96).
    The vision tower loads with the model in 16-bit, cut over the tensor-parallel devices.
    """
    if engine.memory_rule in ("total", "static"):
        for matrix in matrices(model):
            if matrix.role == "kv_b":
                rows, columns = device_shape(model, matrix, tensor)
                yield Piece(component="absorbed", block=SIXTEEN,
                            numbers=sum(layer in stage for layer in matrix.layers) * rows * columns)
        group = next((group for group in model.groups if group.kind != "linear"), None)
        if group is not None and not model.learned_positions:
            yield Piece(component="rotary", block=SIXTEEN,
                        numbers=model.max_context * (group.rope_dim or group.key_dim))
    if engine.loads_vision and model.vision_parameters and first:
        yield Piece(component="vision", block=SIXTEEN, numbers=-(-model.vision_parameters // tensor))


@functools.lru_cache(maxsize=4096)
def placed(model: Model, weights: Format, engine: Engine, parallel: Parallel, index: int) -> tuple[Piece, ...]:
    """The pieces on each device of stage `index`; the embedding of engines that keep it in main memory is left out."""
    tensor, count = spread(engine, parallel)
    stage, first, last = split(model, engine, count)[index], index == 0, index == count - 1
    over = tensor * parallel.data if parallel.expert and model.mixture else 1
    found: dict[tuple[str, tuple], list[int]] = {}
    for part in (*stage_pieces(model, weights, engine, tensor, stage, first, last, over),
                 *head_copy(model, weights, engine, tensor, first, last),
                 *additions(model, weights, engine, tensor, stage, first)):
        if part.component == "embedding" and engine.embedding_on_host:
            continue
        entry = found.setdefault((part.component, part.block), [0, 0])
        entry[0] += part.numbers
        entry[1] += part.scales
    return tuple(Piece(component=component, block=block, numbers=numbers, scales=scales)
                 for (component, block), (numbers, scales) in found.items())


@functools.lru_cache(maxsize=4096)
def placed_bytes(model: Model, weights: Format, engine: Engine, parallel: Parallel, index: int) -> int:
    """Bytes of weights on each device of stage `index`."""
    return sum(part.bytes for part in placed(model, weights, engine, parallel, index))


def host_bytes(model: Model, weights: Format, engine: Engine) -> int:
    """Bytes of the token embedding that the engine keeps in main memory (llama.cpp); 0 elsewhere."""
    if not engine.embedding_on_host:
        return 0
    parts = stage_pieces(model, weights, engine, 1, range(0), True, False, 1)
    return sum(part.bytes for part in parts if part.component == "embedding")


def mtp_bytes(model: Model, weights: Format, engine: Engine, tensor: int) -> int:
    """Bytes that the multi-token-prediction layers would take on one device if they were loaded to speculate."""
    form = Format(id="fp16", name="", family="", scope="all", bits_per_weight=16, block_bytes=2) if weights.scope in (
        "mix", "tensor") else weights
    return sum(piece(model, matrix, form, engine, tensor, len(matrix.layers) or 1, 1).bytes
               for matrix in mtp_matrices(model))


def weights(model: Model, weights: Format, engine: Engine, parallel: Parallel, index: int) -> Term:
    """Weights on each device of stage `index`: one part per component, each a sum over its storage types."""
    by_component: dict[str, list[Piece]] = {}
    for part in placed(model, weights, engine, parallel, index):
        by_component.setdefault(part.component, []).append(part)
    return total("Weights", [component_term(name, parts, weights, engine) for name, parts in by_component.items()])


VISION_HIGH = (7, 4)  # Gemma 3 loads 0.32 to 0.55 GiB more than the 0.78 GiB of its tower (logs p08, p09, p10)
PADDED_HIGH = (117, 100)  # gpt-oss-120b at tp 8 loads 9.98 GiB where padding explains 8.63 (v040)
PADDED_LOW = (15, 16)  # the older kernel pads one side only: 64.38 GiB of 65.91 (log p39)


def uncertain(component: str, found: Term, weights: Format, engine: Engine) -> Term:
    """A range where logs say that more (or less) is loaded than the matrices explain."""
    value = found.value
    if component == "vision":
        return replace(found, low=value, high=value * VISION_HIGH[0] // VISION_HIGH[1],
                       note="logs of Gemma 3: p08, p09, p10")
    if component == "experts" and weights.id == "mxfp4" and engine.memory_rule == "total":
        low, high = value * PADDED_LOW[0] // PADDED_LOW[1], value * PADDED_HIGH[0] // PADDED_HIGH[1]
        return replace(found, low=low, high=high, note="padding differs by kernel: v040, p38, p39")
    return found


def component_term(component: str, parts: list[Piece], weights: Format, engine: Engine) -> Term:
    """One component's bytes; where its matrices are stored in several types, a sum with one part a type."""
    gguf = weights.scope in ("mix", "tensor")
    names = {block: kind.upper() for kind, block in gguf_mix.BLOCKS.items()} if gguf else {}
    terms = []
    for part in parts:
        one = stored_bytes(numbers=part.numbers, block_bytes=part.block[1], block_numbers=part.block[0],
                           scales=part.scales)
        label = names.get(part.block, "16-bit" if part.block == SIXTEEN else weights.name)
        terms.append(one.renamed(f"{COMPONENTS[component]}, {label}"))
    whole = terms[0].renamed(COMPONENTS[component]) if len(terms) == 1 else total(COMPONENTS[component], terms)
    return uncertain(component, whole, weights, engine)


def checkpoint_term(model: Model, weights: Format) -> Term:
    """What the whole model weighs in this format on one device of no engine: the size of its checkpoint or file."""
    if weights.scope == "mix":
        size = gguf_mix.file_bytes(model, weights.id)
        note = f"{gguf_mix.bits_per_weight(model, weights.id):.4f} bits a weight"
    else:  # transformers keeps the checkpoint's matrices and nothing else
        size, note = placed_bytes(model, weights, ENGINES["transformers"], Parallel(), 0), ""
    return fact("Checkpoint", size, "B", basis="derived", source="sum over its matrices, pycore/vram/parameters.py",
                note=note)
