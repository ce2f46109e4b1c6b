"""Reads what an engine printed at start-up and sets it beside the plan: vLLM (V0 and V1), SGLang, llama.cpp.

A log is other people's text: at most `TEXT_LIMIT` characters are read, long lines are cut, patterns have bounded
repeats, and what is not understood is skipped. Where several devices or ranks report, the largest figure counts (the
plan is of the fullest device), and of token counts the smallest. Old vLLM and SGLang print "GB" and mean GiB
(vllm#15807).
"""

import re
from dataclasses import dataclass, fields

from pycore.errors import InputError
from pycore.ledger import Term
from pycore.units import GIB, MIB
from pycore.vram.capacity import Capacity
from pycore.vram.engines import Engine
from pycore.vram.plan import MemoryPlan

TEXT_LIMIT = 4 << 20
LINE_LIMIT = 2000
AMOUNT = r"(-?\d{1,9}(?:\.\d{1,9})?) {0,3}"
COUNT = r"(\d[\d,]{0,20})"

GIB_PATTERNS = (  # (field, pattern): figures in GiB, whatever unit they print
    ("weights_bytes", r"[Mm]odel weights? takes? " + AMOUNT + r"Gi?B"),
    ("weights_bytes", r"(?:Loading model weights|Model loading) took " + AMOUNT + r"Gi?B"),
    ("weights_bytes", r"; weights memory: " + AMOUNT + r"GiB"),
    ("weights_bytes", r"Load weight end\..{0,400}?mem usage=" + AMOUNT + r"GB"),
    ("non_torch_bytes", r"non_torch_memory takes " + AMOUNT + r"GiB"),
    ("non_torch_bytes", r"non-torch forward increase memory: " + AMOUNT + r"GiB"),
    ("activation_bytes", r"PyTorch activation peak memory takes " + AMOUNT + r"GiB"),
    ("activation_bytes", r"torch peak memory increase: " + AMOUNT + r"GiB"),
    ("graph_bytes", r"Estimated CUDA graph memory: " + AMOUNT + r"GiB"),
    ("graph_bytes", r"CUDA graph pool memory: " + AMOUNT + r"GiB"),
    ("graph_bytes", r"Graph capturing finished in [\d.]{1,12} secs, took " + AMOUNT + r"GiB"),
    ("graph_bytes", r"Capture cuda graph end\..{0,200}?mem usage=" + AMOUNT + r"GB"),
    ("pool_bytes", r"reserved for KV [Cc]ache is " + AMOUNT + r"GiB"),
    ("pool_bytes", r"Available KV cache memory: " + AMOUNT + r"GiB"),
    ("pool_bytes", r"KV Cache is allocated\..{0,200}?KV size: " + AMOUNT + r"GB"),
    ("visible_bytes", r"total_gpu_memory \(" + AMOUNT + r"GiB\)"),
)
COUNT_PATTERNS = (
    ("kv_tokens", r"GPU KV cache size: " + COUNT + r" tokens"),
    ("kv_tokens", r"max_total_num_tokens=" + COUNT),
    ("kv_tokens", r"KV Cache is allocated\..{0,120}?#tokens: " + COUNT),
    ("blocks", r"# (?:GPU|cuda) blocks: " + COUNT),
    ("blocks", r"num_gpu_blocks is: " + COUNT),
)
PAIR = re.compile(r"KV Cache is allocated\..{0,200}?K size: " + AMOUNT + r"GB, V size: " + AMOUNT + r"GB")
CONCURRENCY = re.compile(r"Maximum concurrency for " + COUNT + r" tokens per request: (\d{1,9}(?:\.\d{1,6})?)x")
BUFFER = re.compile(r"([A-Za-z][\w.-]{0,40}) {1,4}(model|KV|RS|compute) buffer size {0,2}= {0,10}" + AMOUNT + r"MiB")
HOST_BUFFER = re.compile(r"^(?:CPU|.*_Host|.*_Mapped)")
ENGINE_MARKS = (("llama.cpp", ("llama_", "load_tensors", "ggml_", "buffer size")),
                ("SGLang", ("Load weight end", "KV Cache is allocated", "max_total_num_tokens", "sglang")),
                ("vLLM", ("vllm", "GPU KV cache size", "# GPU blocks", "# cuda blocks", "Available KV cache memory",
                          "gpu_memory_utilization", "Model loading took", "Loading model weights took")))


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineLog:
    """What a log says, bytes per device; None where it does not. `lines`: the lines that were understood."""

    engine: str
    weights_bytes: int | None = None
    activation_bytes: int | None = None
    non_torch_bytes: int | None = None
    graph_bytes: int | None = None
    pool_bytes: int | None = None
    kv_bytes: int | None = None  # what llama.cpp allocated, states included
    host_bytes: int | None = None
    visible_bytes: int | None = None
    kv_tokens: int | None = None
    blocks: int | None = None
    concurrency: float | None = None
    context: int | None = None
    lines: tuple[str, ...] = ()

    @property
    def understood(self) -> bool:
        return bool(self.lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRow:
    """One figure of the plan against the log's. `inside` says whether the log's lies in the range shown."""

    name: str
    predicted: Term
    actual: float
    difference_percent: float
    inside: bool


def read_log(text: str) -> EngineLog:
    """The figures in a start-up log. Raises InputError on `engine_log` where nothing in it was understood."""
    found: dict[str, list[float]] = {}
    buffers: dict[tuple[str, str], float] = {}
    lines = []
    for line in text[:TEXT_LIMIT].splitlines():
        line = line[:LINE_LIMIT]
        if read_line(line, found, buffers):
            lines.append(line.strip())
    add_buffers(buffers, found)
    if not lines:
        raise InputError("engine_log", text.strip()[:200] or "an empty text",
                         "accepted: the start-up log of vLLM, SGLang or llama.cpp")
    return EngineLog(engine=engine_name(text[:TEXT_LIMIT]), lines=tuple(lines[:200]),
                     **{name: settled(name, values) for name, values in found.items()})


def read_line(line: str, found: dict[str, list[float]], buffers: dict[tuple[str, str], float]) -> bool:
    """Adds what one line says; whether it said anything."""
    known = False
    for patterns, scale in ((GIB_MATCHERS, GIB), (COUNT_MATCHERS, 1)):
        for name, pattern in patterns:
            if match := pattern.search(line):
                found.setdefault(name, []).append(float(match.group(1).replace(",", "")) * scale)
                known = True
    if match := PAIR.search(line):
        found.setdefault("pool_bytes", []).append((float(match.group(1)) + float(match.group(2))) * GIB)
        known = True
    if match := CONCURRENCY.search(line):
        found.setdefault("context", []).append(float(match.group(1).replace(",", "")))
        found.setdefault("concurrency", []).append(float(match.group(2)))
        known = True
    if match := BUFFER.search(line):
        buffers[match.group(1), match.group(2)] = float(match.group(3)) * MIB  # a later line replaces a dry run's
        known = True
    return known


def add_buffers(buffers: dict[tuple[str, str], float], found: dict[str, list[float]]) -> None:
    """llama.cpp's buffers: the fullest device's, the CPU's model buffer apart."""
    names = {"model": "weights_bytes", "compute": "activation_bytes"}
    caches: dict[str, float] = {}
    alone = all(HOST_BUFFER.match(device) for device, _ in buffers)
    for (device, kind), size in buffers.items():
        if HOST_BUFFER.match(device) and not alone:
            if kind == "model":
                found.setdefault("host_bytes", []).append(size)
        elif kind in names:
            found.setdefault(names[kind], []).append(size)
        else:
            caches[device] = caches.get(device, 0.0) + size
    if caches:
        found["kv_bytes"] = [max(caches.values())]


def settled(name: str, values: list[float]) -> float | int:
    """One figure of several: the smallest of counts (engines settle on it), the largest of sizes."""
    if name == "concurrency":
        return min(values)
    return int(min(values) if name in ("kv_tokens", "blocks", "context") else round(max(values)))


def engine_name(text: str) -> str:
    """Whose log it is, by what only that engine prints."""
    scores = {name: sum(mark in text for mark in marks) for name, marks in ENGINE_MARKS}
    return max(scores, key=lambda name: scores[name])


def mismatch(text: str, profile: Engine) -> str:
    """That a log is another engine's than the plan is for, in words; '' where they agree or there is no log."""
    if not text.strip():
        return ""
    name = engine_name(text[:TEXT_LIMIT])
    return "" if profile.name.startswith(name) else f"The log is {name}'s, the plan is for {profile.name}"


def compare(log: EngineLog, plan: MemoryPlan, capacity: Capacity) -> tuple[LogRow, ...]:
    """Each figure the log has, beside the plan's, in the ledger's order."""
    inside = next((row for row in plan.rows if row.name == "Allocations outside PyTorch"), None)
    pairs = (("Weights", plan.weights, log.weights_bytes), ("Activations", plan.activations, log.activation_bytes),
             ("Outside PyTorch", inside, log.non_torch_bytes), ("CUDA graphs", plan.graphs, log.graph_bytes),
             ("KV pool", plan.pool, log.pool_bytes), ("KV cache", plan.kv, log.kv_bytes),
             ("In main memory", plan.host, log.host_bytes), ("Visible memory", plan.visible, log.visible_bytes),
             ("KV tokens", capacity.kv_tokens, log.kv_tokens), ("Blocks", capacity.blocks, log.blocks),
             ("Concurrency", capacity.concurrency, log.concurrency))
    return tuple(beside(name, predicted, actual) for name, predicted, actual in pairs
                 if predicted is not None and actual is not None)


def beside(name: str, predicted: Term, actual: float) -> LogRow:
    """One row; the difference is of the prediction from the log's figure."""
    difference = 100.0 * (predicted.value / actual - 1.0) if actual else 0.0
    low, high = (predicted.value, predicted.value) if predicted.low is None else (predicted.low, predicted.high)
    slack = 0.005 * abs(actual)  # logs print two decimals
    return LogRow(name=name, predicted=predicted, actual=actual, difference_percent=difference,
                  inside=low - slack <= actual <= high + slack)


GIB_MATCHERS = tuple((name, re.compile(pattern)) for name, pattern in GIB_PATTERNS)
COUNT_MATCHERS = tuple((name, re.compile(pattern)) for name, pattern in COUNT_PATTERNS)
FIELDS = frozenset(field.name for field in fields(EngineLog))
