"""infersize: will it fit, how fast, what does it cost. The question, the answer, and how the core composes it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from pycore import catalog, matrix
from pycore.config_json import read_config
from pycore.cost import Cost, cost
from pycore.errors import InputError, InvalidQuery
from pycore.knobs import knob
from pycore.layout import NODE, layout, together
from pycore.ledger import Term, terms_in
from pycore.matrix import MatrixRow
from pycore.nouns import Accelerator, Deployment, Format, Model, Parallel
from pycore.roofline.speed import Speed, SpeedPoint, curve, speed
from pycore.speculative import Speculation, speculate
from pycore.units import GIB
from pycore.vram.capacity import Capacity, capacity
from pycore.vram.engine_log import LogRow, compare, read_log
from pycore.vram.launch import Launch, launch
from pycore.vram.plan import MemoryPlan, memory
from pycore.vram.remedies import Remedy, remedies
from pycore.vram.validity import check

ENGINES = ("vllm", "vllm-0.20", "sglang", "llama.cpp", "transformers")
MOST_FORMATS = 24
KV_DTYPES = ("auto", "fp16", "bf16", "fp8", "int8", "q8_0", "q4_0", "iq4_nl")

MODEL, HARDWARE, ENGINE, LOAD, MONEY, DRAFT = (
    "Model", "Hardware", "Engine", "Load", "Cost and targets", "Speculative decoding")


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """The question, every field with its meaning, unit and range."""

    model: str = knob("qwen2.5-7b", "Model", suggestions="models", group=MODEL,
                      help="A catalogue name (forgiving), or a Hugging Face repo id such as Qwen/Qwen2.5-7B.")
    config: str = knob("", "config.json", long=True, group=MODEL,
                       help="Paste or drop a model's own config.json; it replaces the catalogue's shape.")
    quant: str = knob("auto", "Weights", suggestions="formats", group=MODEL,
                      help="Number format of the weights: bf16, fp8, awq, nf4, mxfp4, q4_k_m and many more. "
                           "auto = as the checkpoint is stored.")
    kv_dtype: str = knob("auto", "KV cache", choices=KV_DTYPES, group=MODEL,
                         help="Number format of cached keys (and values, unless set apart). auto = 16-bit.")
    v_dtype: str = knob("same", "Values apart", choices=("same",) + KV_DTYPES[1:], group=MODEL,
                        help="Format of cached values where it differs from the keys' (llama.cpp can).")
    gpu: str = knob("l40s", "Accelerator", suggestions="accelerators", group=HARDWARE,
                    help="A card by name: l40s, h100 sxm, rtx 4090, mi300x, m4 max.")
    count: int = knob(1, "Count", low=1, high=1024, group=HARDWARE, help="How many of them, in all.")
    tp: int = knob(0, "Tensor parallel", low=0, high=1024, group=HARDWARE, zero="automatic: count / (pp x dp)",
                   help="Each matrix split over this many devices.")
    pp: int = knob(1, "Pipeline parallel", low=1, high=256, group=HARDWARE, help="Layers split over this many stages.")
    ep: bool = knob(False, "Expert parallel", group=HARDWARE,
                    help="Whole experts on each device instead of a slice of every expert.")
    dp: int = knob(1, "Data parallel", low=1, high=1024, group=HARDWARE,
                   help="Independent replicas that share the load.")
    context: int = knob(8192, "Context", unit="tokens", low=1, high=1 << 24, group=LOAD,
                        help="Longest sequence to hold: prompt plus output.")
    sequences: int = knob(16, "Concurrent", unit="sequences", low=1, high=1 << 20, group=LOAD,
                          help="Sequences served at the same time, over all replicas.")
    prompt: int = knob(1024, "Prompt", unit="tokens", low=1, high=1 << 24, group=LOAD,
                       help="Tokens in a typical prompt.")
    output: int = knob(256, "Output", unit="tokens", low=1, high=1 << 24, group=LOAD,
                       help="Tokens in a typical answer.")
    cached_share: float = knob(0.0, "Cached prompt share", low=0.0, high=1.0, group=LOAD,
                               help="Share of prompt tokens that a prefix cache answers.")
    engine: str = knob("vllm", "Engine", choices=ENGINES, group=ENGINE,
                       help="Whose memory rules apply. vllm = from 0.21; vllm-0.20 = up to 0.20.")
    memory_fraction: float = knob(0.0, "Memory fraction", low=0.0, high=1.0, group=ENGINE, zero="the engine's default",
                                  help="Share of the device the engine may take (--gpu-memory-utilization and kin).")
    max_batched_tokens: int = knob(0, "Tokens a step", unit="tokens", low=0, high=1 << 20, group=ENGINE,
                                   zero="the engine's default", help="Most tokens one forward pass may carry.")
    used_gib: float = knob(0.0, "Already used", unit="GiB", low=0.0, high=4096.0, group=ENGINE,
                           help="Memory of each device that other programs hold (free = usable - this).")
    usd_per_gpu_hour: float = knob(0.0, "Price", unit="USD per GPU-hour", low=0.0, high=10000.0, group=MONEY,
                                   zero="cheapest dated on-demand price in the catalogue",
                                    help="What one device costs.")
    utilisation: float = knob(0.5, "Utilisation", low=0.01, high=1.0, group=MONEY,
                              help="Share of the hour the machine is busy at the load above.")
    target_ttft_ms: float = knob(0.0, "TTFT target", unit="ms", low=0.0, high=1e7, group=MONEY, zero="none",
                                 help="Time to first token to stay under.")
    target_tpot_ms: float = knob(0.0, "TPOT target", unit="ms", low=0.0, high=1e6, group=MONEY, zero="none",
                                 help="Time per output token to stay under.")
    draft_model: str = knob("", "Draft model", suggestions="models", group=DRAFT, zero="none",
                            help="A small model that proposes tokens; empty for none.")
    acceptance: float = knob(0.7, "Acceptance", low=0.0, high=1.0, group=DRAFT,
                             help="Chance that a proposed token is accepted (alpha in Leviathan et al.).")
    draft_length: int = knob(4, "Draft length", unit="tokens", low=1, high=64, group=DRAFT,
                             help="Tokens proposed per step (gamma).")
    matrix_quants: str = knob("fp16,fp8,int8,awq,q4_k_m,mxfp4", "Matrix formats", group=HARDWARE, suggestions="formats",
                              help="Weight formats of the multi-GPU matrix, separated by commas.")
    engine_log: str = knob("", "Engine log", long=True, group=ENGINE,
                           help="Paste the engine's start-up log; each row then shows predicted against actual.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a long answer is: the stage's name and the share done."""

    stage: str
    fraction: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Everything that follows from a Query. `curve`: speed over the number of concurrent sequences."""

    query: Query
    deployment: Deployment
    memory: MemoryPlan
    capacity: Capacity
    speed: Speed
    curve: tuple[SpeedPoint, ...]
    cost: Cost
    speculation: Speculation | None
    matrix: tuple[MatrixRow, ...]
    remedies: tuple[Remedy, ...]
    launch: Launch
    log_rows: tuple[LogRow, ...]

    @property
    def fits(self) -> bool:
        return self.memory.fits

    @property
    def terms(self) -> tuple[Term, ...]:
        """Every term of the answer once, in the order of the ledger: memory, capacity, speed, cost, speculation."""
        found: dict[tuple, Term] = {}
        for part in (self.memory, self.capacity, self.speed, self.cost, self.speculation):
            for one in terms_in(part) if part else ():
                for each in one.walk():
                    found.setdefault((each.name, each.value, each.unit, each.line), each)
        return tuple(found.values())


def resolve(query: Query) -> Deployment:
    """Look every name up and lay the devices out. Raises InvalidQuery with every fault of the question at once."""
    faults: list[InputError] = []

    def found(look_up: Callable, *arguments: Any) -> Any:
        try:
            return look_up(*arguments)
        except InputError as fault:
            faults.append(fault)
        return None

    shape = found(the_model, query)
    keys = found(catalog.kv_format, query.kv_dtype)
    weights, device = found(the_weights, query, shape), found(catalog.accelerator, query.gpu)
    parts = dict(
        model=shape, weights=weights, keys=keys,
        values=keys if query.v_dtype == "same" else found(catalog.kv_format, query.v_dtype, "v_dtype"),
        accelerator=device,
        draft=found(catalog.model, query.draft_model, "draft_model") if query.draft_model else None,
        parallel=shape and found(the_layout, shape, query, weights, device))
    if faults:
        raise InvalidQuery(faults)
    deployment = Deployment(
        **parts, engine=query.engine, context=query.context, sequences=query.sequences, prompt=query.prompt,
        output=query.output, memory_fraction=query.memory_fraction, max_batched_tokens=query.max_batched_tokens,
        used_bytes=int(query.used_gib * GIB), cached_share=query.cached_share)
    check(deployment)
    return deployment


def the_model(query: Query) -> Model:
    """The model of a pasted config.json, else of the catalogue. Raises ConfigError, UnknownName."""
    return read_config(query.config, query.model) if query.config.strip() else catalog.model(query.model)


def the_weights(query: Query, shape: Model | None) -> Format | None:
    """The weight format by name, or as the checkpoint is stored. Raises UnknownName, NotKnown."""
    if query.quant.lower() not in ("", "auto"):
        return catalog.weight_format(query.quant)
    return shape and catalog.stored(shape, "" if query.config.strip() else query.model)


def the_layout(shape: Model, query: Query, weights: Format | None, device: Accelerator | None) -> Parallel:
    """How the question's devices are laid out. Raises InputError."""
    return layout(shape, count=query.count, tensor=query.tp, pipeline=query.pp, data=query.dp, expert=query.ep,
                  weights=weights, most=together(device) if device else NODE)


def matrix_formats(query: Query, own: Format) -> tuple[Format, ...]:
    """The weight formats of the matrix, each once; the question's own where the field is empty. Raises InputError."""
    names = [name.strip() for name in query.matrix_quants.split(",") if name.strip()]
    if len(names) > MOST_FORMATS:
        raise InputError("matrix_quants", f"{len(names)} formats", f"accepted: at most {MOST_FORMATS} formats")
    found = [catalog.weight_format(name, "matrix_quants") for name in names] or [own]
    return tuple(dict.fromkeys(found))


def batches(sequences: int) -> tuple[int, ...]:
    """Batch sizes of the speed curve: powers of two up to four times the load, the load itself among them."""
    return tuple(sorted({1 << power for power in range((4 * sequences).bit_length())} | {sequences}))


def steps(query: Query, *, with_matrix: bool = True) -> Iterator[Progress | Answer]:
    """The answer without the matrix as soon as it is there, progress while the matrix is made, then the whole answer.

    Raises InvalidQuery, ConfigError or NotKnown.
    """
    deployment = resolve(query)
    formats = matrix_formats(query, deployment.weights)
    answer = first_answer(query, deployment)
    yield answer
    if not with_matrix:
        return
    found, accelerators = [], catalog.accelerators()
    for index, accelerator in enumerate(accelerators):
        found += matrix.rows(deployment, formats, accelerators=(accelerator,), usd_per_gpu_hour=query.usd_per_gpu_hour,
                             utilisation=query.utilisation)
        if index % 8 == 7:
            yield Progress(stage="every accelerator", fraction=(index + 1) / len(accelerators))
    yield replace(answer, matrix=tuple(found))


def first_answer(query: Query, deployment: Deployment) -> Answer:
    """Everything but the matrix."""
    plan = memory(deployment)
    held, pace = capacity(deployment, plan), speed(deployment)
    return Answer(
        query=query, deployment=deployment, memory=plan, capacity=held, speed=pace,
        curve=curve(deployment, batches(deployment.sequences)),
        cost=cost(deployment, pace, utilisation=query.utilisation,
                  usd_per_gpu_hour=query.usd_per_gpu_hour, prices=catalog.cloud_prices(deployment.accelerator.id),
                  offers=catalog.api_offers(deployment.model.id)),
        speculation=speculate(deployment, plan, acceptance=query.acceptance, draft_length=query.draft_length)
        if deployment.draft else None, matrix=(),
        remedies=() if plan.fits else remedies(deployment),
        launch=launch(deployment, plan, held, query.draft_length),
        log_rows=compare(read_log(query.engine_log), plan, held) if query.engine_log.strip() else ())


def answer(query: Query, *, with_matrix: bool = True) -> Answer:
    """The whole answer. Raises InvalidQuery, ConfigError or NotKnown."""
    *_, last = steps(query, with_matrix=with_matrix)
    return last
