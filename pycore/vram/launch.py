"""The command that starts the planned deployment, every flag traced to a field of the answer.

Flags as the engines document them: vLLM docs.vllm.ai/en/stable/cli/serve; SGLang docs.sglang.io
advanced_features/server_arguments (and sglang/srt/server_args.py); llama-server manpages.debian.org llama-server(1) and
tools/server/README.md; draft models: docs.vllm.ai features/speculative_decoding/draft_model, docs.sglang.io
advanced_features/speculative_decoding; transformers `from_pretrained(dtype=, device_map=)`, `generate(max_new_tokens=)`
"""

import json
import shlex
from dataclasses import dataclass

from pycore.nouns import Deployment
from pycore.vram.capacity import Capacity
from pycore.vram.engines import engine
from pycore.vram.plan import MemoryPlan
from pycore.vram.reservation import SGLANG_STATE_SLOTS

VLLM_QUANTIZATION = {"fp8-tensor": "fp8", "bnb-nf4": "bitsandbytes", "bnb-nf4-dq": "bitsandbytes"}
"""Formats that vLLM makes of a 16-bit checkpoint while loading; the others are read from a quantised checkpoint."""
SGLANG_QUANTIZATION = {"fp8-tensor": "fp8", "int8-channel": "w8a8_int8"}
DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """One flag, its value ('' where it takes none), and the field of the answer that it carries."""

    flag: str
    value: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A command for a POSIX shell (or, for transformers, Python lines) and where each flag comes from."""

    command: str
    flags: tuple[Flag, ...]
    note: str


def launch(deployment: Deployment, plan: MemoryPlan, capacity: Capacity, draft_length: int = 0) -> Launch:
    """The engine's own way of being asked for this deployment. `draft_length`: tokens its draft model proposes."""
    profile = engine(deployment.engine)
    build = vllm if profile.memory_rule == "total" else {
        "sglang": sglang, "llama.cpp": llama_server, "transformers": transformers}[profile.id]
    return build(deployment, plan, draft_length)


def draft_flags(deployment: Deployment, names: dict[str, str]) -> list[Flag]:
    """The flags of a draft model; `names` maps each to its value. None where the deployment has no draft."""
    if deployment.draft is None:
        return []
    return [Flag(flag=flag, value=value, why="draft model") for flag, value in names.items()]


def draft_repository(deployment: Deployment) -> str:
    """The draft model to name on the command line; '' where there is none."""
    return (deployment.draft.hub_repository or deployment.draft.id) if deployment.draft else ""


def repository(deployment: Deployment) -> str:
    """The model to name on the command line."""
    return deployment.model.hub_repository or deployment.model.id


def checkpoint_note(deployment: Deployment, made_on_load: dict[str, str]) -> str:
    """Which checkpoint the command needs where the base model's own is not it."""
    weights, stored = deployment.weights, deployment.model.stored_format
    if stored and weights.id in DTYPES:
        return f"Name a checkpoint converted to {weights.name}: the base repository is stored in {stored}."
    if weights.id in DTYPES or weights.id in made_on_load or weights.id == deployment.model.stored_format:
        return ""
    return f"Name a checkpoint of {deployment.model.name} in {weights.name}: the base repository is not quantised."


def command(program: str, flags: list[Flag], positional: str = "") -> str:
    """The command line, quoted."""
    words = [f"{program} {shlex.quote(positional)}" if positional else program]
    words += [flag.flag + (f" {shlex.quote(flag.value)}" if flag.value else "") for flag in flags]
    return " \\\n  ".join(words) if len(words) > 3 else " ".join(words)


def cache_name(deployment: Deployment) -> str:
    """The KV format's bare name: 'fp16', 'fp8', 'q8_0'."""
    return deployment.keys.id.removeprefix("kv-").replace("-", "_")


def parallel_flags(deployment: Deployment, plan: MemoryPlan, names: tuple[str, str, str, str]) -> list[Flag]:
    """Flags of the degrees that are not 1, under an engine's names for tensor, pipeline, data and expert parallel."""
    parallel = deployment.parallel
    degrees = ((names[0], plan.tensor, "tensor parallel"), (names[1], plan.stages, "pipeline stages"),
               (names[2], parallel.data, "replicas"))
    flags = [Flag(flag=flag, value=str(degree), why=why) for flag, degree, why in degrees if degree > 1]
    if parallel.expert and deployment.model.mixture:
        value = str(plan.tensor) if names[3] == "--ep-size" else ""
        flags.append(Flag(flag=names[3], value=value, why="experts placed whole"))
    return flags


def vllm(deployment: Deployment, plan: MemoryPlan, draft_length: int) -> Launch:
    """`vllm serve`."""
    flags = parallel_flags(deployment, plan, ("--tensor-parallel-size", "--pipeline-parallel-size",
                                              "--data-parallel-size", "--enable-expert-parallel"))
    flags += [Flag(flag="--max-model-len", value=str(deployment.context), why="context"),
              Flag(flag="--max-num-seqs", value=str(plan.sequences), why="concurrent sequences of a replica"),
              Flag(flag="--max-num-batched-tokens", value=str(plan.batch_tokens), why="tokens a step"),
              Flag(flag="--gpu-memory-utilization", value=f"{plan.fraction:g}", why="memory fraction")]
    if deployment.weights.id in DTYPES:
        flags.append(Flag(flag="--dtype", value=DTYPES[deployment.weights.id], why="weight format"))
    if deployment.weights.id in VLLM_QUANTIZATION:
        flags.append(Flag(flag="--quantization", value=VLLM_QUANTIZATION[deployment.weights.id], why="weight format"))
    if cache_name(deployment) in ("fp8", "int8"):
        name = {"fp8": "fp8", "int8": "int8_per_token_head"}[cache_name(deployment)]
        flags.append(Flag(flag="--kv-cache-dtype", value=name, why="KV cache format"))
    flags += draft_flags(deployment, {"--speculative-config": json.dumps({
        "model": draft_repository(deployment), "num_speculative_tokens": draft_length, "method": "draft_model"})})
    return Launch(command=command("vllm serve", flags, repository(deployment)), flags=tuple(flags),
                  note=checkpoint_note(deployment, VLLM_QUANTIZATION))


def sglang(deployment: Deployment, plan: MemoryPlan, draft_length: int) -> Launch:
    """`python -m sglang.launch_server`."""
    flags = [Flag(flag="--model-path", value=repository(deployment), why="model")]
    flags += parallel_flags(deployment, plan, ("--tp-size", "--pp-size", "--dp-size", "--ep-size"))
    flags += [Flag(flag="--context-length", value=str(deployment.context), why="context"),
              Flag(flag="--max-running-requests", value=str(plan.sequences), why="concurrent sequences of a replica"),
              Flag(flag="--chunked-prefill-size", value=str(plan.batch_tokens), why="tokens a step"),
              Flag(flag="--mem-fraction-static", value=f"{plan.fraction:g}", why="memory fraction")]
    if deployment.weights.id in DTYPES:
        flags.append(Flag(flag="--dtype", value=DTYPES[deployment.weights.id], why="weight format"))
    if deployment.weights.id in SGLANG_QUANTIZATION:
        flags.append(Flag(flag="--quantization", value=SGLANG_QUANTIZATION[deployment.weights.id], why="weight format"))
    if cache_name(deployment) == "fp8":
        flags.append(Flag(flag="--kv-cache-dtype", value="fp8_e4m3", why="KV cache format"))
    if any(group.kind == "linear" for group in deployment.model.groups):
        flags.append(Flag(flag="--max-mamba-cache-size", value=str(SGLANG_STATE_SLOTS * plan.sequences),
                          why="state slots: three a running sequence"))
    flags += draft_flags(deployment, {
        "--speculative-algorithm": "STANDALONE", "--speculative-draft-model-path": draft_repository(deployment),
        "--speculative-num-steps": str(draft_length), "--speculative-eagle-topk": "1",
        "--speculative-num-draft-tokens": str(draft_length + 1)})
    return Launch(command=command("python -m sglang.launch_server", flags), flags=tuple(flags),
                  note=checkpoint_note(deployment, SGLANG_QUANTIZATION))


def llama_server(deployment: Deployment, plan: MemoryPlan, draft_length: int) -> Launch:
    """`llama-server`: the context is shared out evenly over the slots, so it is asked for all of them."""
    per_slot = -(-deployment.context // 256) * 256
    kind = deployment.weights.id.removeprefix("gguf-file-").removeprefix("gguf-").upper()
    cache = {"fp16": "f16", "bf16": "bf16"}
    keys = cache_name(deployment)
    values = deployment.values.id.removeprefix("kv-").replace("-", "_")
    file = f"{deployment.model.id.rsplit('--', 1)[-1]}-{kind}.gguf"
    flags = [Flag(flag="--model", value=file, why="model and weight format"),
             Flag(flag="--n-gpu-layers", value="999", why="every layer on the device"),
             Flag(flag="--ctx-size", value=str(per_slot * plan.sequences), why="context × sequences, in 256 cells"),
             Flag(flag="--parallel", value=str(plan.sequences), why="concurrent sequences of a replica"),
             Flag(flag="--no-kv-unified", value="", why="a ring of cells for each sequence"),
             Flag(flag="--ubatch-size", value=str(plan.batch_tokens), why="tokens a step"),
             Flag(flag="--batch-size", value=str(max(2048, plan.batch_tokens)), why="at least the physical batch"),
             Flag(flag="--flash-attn", value="on", why="no scores in the compute buffer; needed for quantised values"),
             Flag(flag="--cache-type-k", value=cache.get(keys, keys), why="key format"),
             Flag(flag="--cache-type-v", value=cache.get(values, values), why="value format")]
    if plan.stages > 1:
        flags.append(Flag(flag="--split-mode", value="layer", why=f"{plan.stages} devices"))
    flags += draft_flags(deployment, {
        "--model-draft": f"{draft_repository(deployment).rsplit('/', 1)[-1]}-BF16.gguf", "--n-gpu-layers-draft": "999",
        "--draft-max": str(draft_length)})
    note = "" if deployment.parallel.data == 1 else f"Start it {deployment.parallel.data} times, once for each replica."
    return Launch(command=command("llama-server", flags), flags=tuple(flags), note=note)


def transformers(deployment: Deployment, plan: MemoryPlan, draft_length: int) -> Launch:
    """Python lines: transformers has no server of its own worth sizing."""
    dtype = DTYPES.get(deployment.weights.id, "auto")
    flags = (Flag(flag="dtype", value=dtype, why="weight format"), Flag(flag="device_map", value="auto", why="devices"),
             Flag(flag="max_new_tokens", value=str(deployment.output), why="output"))
    note = checkpoint_note(deployment, {}) or (
        "Assisted generation takes one prompt at a time; the draft is not in these lines." if deployment.draft else "")
    lines = ("from transformers import AutoModelForCausalLM, AutoTokenizer",
             f"name = {repository(deployment)!r}",
             "tokenizer = AutoTokenizer.from_pretrained(name)",
             f"model = AutoModelForCausalLM.from_pretrained(name, dtype={dtype!r}, device_map='auto')",
             f"prompts = ['...'] * {plan.sequences}",
             "inputs = tokenizer(prompts, return_tensors='pt', padding=True).to(model.device)",
             f"answers = model.generate(**inputs, max_new_tokens={deployment.output})")
    return Launch(command="\n".join(lines), flags=flags, note=note)
