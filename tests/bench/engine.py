"""mini-infer beside PyPI mini-infer 0.2.5, transformers and llama.cpp: the same weights, prompts, machine and run.

Every engine sits in a process of its own and is asked in turn, the order reversed from round to round, so that what
disturbs the machine disturbs all of them alike. Ratios hold; absolute figures are this machine's.
"""

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from runtime.mini_infer import files
from runtime.mini_infer.benching import machine
from runtime.mini_infer.kv_formats import kv_format
from runtime.mini_infer.room import token_bytes
from runtime.mini_infer.speeds import Speeds, bandwidth_bytes_per_s, prompts, speeds
from runtime.models.supply import SMOLLM2, fetch
from tests.bench.peers import CACHE, downloaded

ROOT = Path(__file__).resolve().parents[2]
LEVELS, PROMPT, OUTPUT, ROUNDS = (1, 4, 8), 64, 32, 3
PEER, LLAMA = ("mini-infer", "0.2.5"), ("xllamacpp", "2026.10.11549")
KINDS = ("ours fp32", "ours int8", "ours int8-fine", "peer", "transformers", "llama.cpp")
FP32_TIMES_PEER, INT8_TIMES_PEER, INT8_LEVEL, SAVED = 1.5, 5.0, 4, 0.70


@dataclass(slots=True, eq=False)
class Worker:
    """An engine's process, and what it did: figures by level."""

    kind: str
    process: subprocess.Popen
    found: dict[int, list[Speeds]] = field(default_factory=dict)

    def answer(self) -> object:
        """Its next line. Raises RuntimeError where it died."""
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.kind} ended with status {self.process.wait()}; its words are in {log(self.kind)}")
        return json.loads(line)

    def measure(self, level: int, number: int, vocabulary: int, *, counts: bool) -> None:
        """One batch; remembered where it counts."""
        asked = prompts(level, PROMPT, vocabulary, 1000 * level + number)
        print(json.dumps({"prompts": asked, "output": OUTPUT}), file=self.process.stdin, flush=True)
        result = speeds(self.answer(), level * PROMPT)
        if counts:
            self.found.setdefault(level, []).append(result)

    def median(self, level: int, name: str) -> float:
        return statistics.median(getattr(one, name) for one in self.found[level])

    def best(self, level: int, name: str) -> float:
        return max(getattr(one, name) for one in self.found[level])


def weights(gguf: Path) -> tuple[Path, files.Model]:
    """The file's weights as transformers writes them, in float32, made once in the cache; and the model itself."""
    from safetensors.torch import save_file

    model, folder = files.load(gguf), CACHE / "SmolLM2-135M-float32"
    if not (folder / "config.json").is_file():
        one = model.configuration
        folder.mkdir(parents=True, exist_ok=True)
        save_file({name: tensor.contiguous().clone() for name, tensor in model.places()}, folder / "model.safetensors",
                  metadata={"format": "pt"})
        (folder / "config.json").write_text(json.dumps({
            "model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": one.vocabulary,
            "hidden_size": one.width, "intermediate_size": one.feed_forward, "num_hidden_layers": one.layers,
            "num_attention_heads": one.heads, "num_key_value_heads": one.kv_heads, "head_dim": one.head_width,
            "rms_norm_eps": one.epsilon, "rope_theta": one.rope_base, "max_position_embeddings": one.context,
            "tie_word_embeddings": one.tied, "hidden_act": "silu", "torch_dtype": "float32", "bos_token_id": 1,
            "eos_token_id": 2}), encoding="utf-8")
    return folder, model


def log(kind: str) -> Path:
    """Where an engine's own words go."""
    return CACHE / f"{kind.replace(' ', '-')}.log"


def started(folder: Path, gguf: Path) -> list[Worker]:
    """A process for every engine that can be had here; what cannot is said."""
    peers = {"peer": downloaded(*PEER), "llama.cpp": downloaded(*LLAMA)}
    places = os.pathsep.join(str(place) for place in peers.values() if place)
    workers = []
    for kind in KINDS:
        if peers.get(kind, folder) is None:
            print(f"{kind}: pip cannot get it here, so no comparison")
            continue
        command = [sys.executable, "-m", "tests.bench.engine_worker", kind, str(folder), str(gguf), places]
        with open(log(kind), "w", encoding="utf-8") as words:
            workers.append(Worker(kind, subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                                         stderr=words, text=True, cwd=ROOT)))
        workers[-1].answer()
    return workers


def table(workers: Sequence[Worker]) -> None:
    """Medians, best in brackets."""
    print(f"\n{'':16}{'at once':>8}{'prefill tokens/s':>22}{'decode tokens/s':>22}{'first token s':>15}{'decode x peer':>15}")
    peer = next((one for one in workers if one.kind == "peer"), None)
    for level in LEVELS:
        for one in workers:
            figures = [f"{one.median(level, name):.1f} ({one.best(level, name):.1f})"
                       for name in ("prefill_tokens_per_s", "decode_tokens_per_s")]
            times = f"{one.median(level, 'decode_tokens_per_s') / peer.median(level, 'decode_tokens_per_s'):.2f}" if peer else "-"
            print(f"{one.kind:16}{level:>8}{figures[0]:>22}{figures[1]:>22}{one.median(level, 'ttft_s'):>15.3f}{times:>15}")


def targets(workers: Sequence[Worker]) -> None:
    """What was meant to be reached, and whether it was."""
    by_kind = {one.kind: one for one in workers}
    decode, prefill = "decode_tokens_per_s", "prefill_tokens_per_s"
    checks = []
    if peer := by_kind.get("peer"):
        for level in LEVELS:
            checks.append((f"fp32 decode x peer at {level}", by_kind["ours fp32"].median(level, decode)
                           / peer.median(level, decode), FP32_TIMES_PEER))
        checks.append((f"int8 decode x peer at {INT8_LEVEL}", by_kind["ours int8"].median(INT8_LEVEL, decode)
                       / peer.median(INT8_LEVEL, decode), INT8_TIMES_PEER))
    if llama := by_kind.get("llama.cpp"):
        for level in LEVELS:
            ours = max(by_kind[kind].median(level, prefill) for kind in ("ours fp32", "ours int8"))
            checks.append((f"best prefill x llama.cpp at {level}", ours / llama.median(level, prefill), 1.0))
    for name, found, wanted in checks:
        print(f"{name}: {found:.2f} (target {wanted:g}, {'met' if found >= wanted else 'MISSED'})")


def memory(workers: Sequence[Worker], model: files.Model) -> None:
    """Decode's share of what the memory gives, and what 4-bit keys and values save."""
    one, bandwidth = model.configuration, bandwidth_bytes_per_s()
    print(f"memory reads {bandwidth / 1e9:.1f} GB/s with these threads")
    ours = next(worker for worker in workers if worker.kind == "ours fp32")
    held = sum(tensor.nbytes for _, tensor in model.places())
    plain = token_bytes(one, kv_format("float32", one.head_width))
    for level in LEVELS:
        read = held + level * (PROMPT + OUTPUT // 2) * plain
        print(f"fp32 decode at {level}: {read * ours.best(level, 'decode_tokens_per_s') / level / bandwidth:.0%} of it")
    saved = 1 - (token_bytes(one, kv_format("int4", one.head_width))
                 / token_bytes(one, kv_format("float16", one.head_width)))
    print(f"int4 keys and values: {saved:.1%} less memory than 16 bits (target {SAVED:.0%}, "
          f"{'met' if saved >= SAVED else 'MISSED'})")


def main() -> None:
    """Measure all, print the table and the targets."""
    gguf = fetch(SMOLLM2, print)
    folder, model = weights(gguf)
    here = machine()
    print(f"SmolLM2-135M, prompts of {PROMPT} random tokens, {OUTPUT} written, median (best) of {ROUNDS} rounds; "
          f"{here['processor']}, {here['threads']} threads, load average {here['load_average']:.1f}. llama.cpp reads the "
          "4-bit file, the others the same weights in float32 or 8 bits.")
    workers = started(folder, gguf)
    try:
        for number in range(ROUNDS + 1):
            for level in LEVELS:
                for worker in workers[::-1] if number % 2 else workers:
                    worker.measure(level, number, model.configuration.vocabulary, counts=number > 0)
        table(workers)
        targets(workers)
        memory(workers, model)
    finally:
        for worker in workers:
            worker.process.stdin.close()
            worker.process.wait(timeout=60)


if __name__ == "__main__":
    main()
