"""One engine in a process of its own, driven by lines of JSON: {"prompts": [[token]], "output": n} in, the seconds at which
each token of each request came out. `python -m tests.bench.engine_worker KIND FOLDER GGUF PEERS`.

Folder and GGUF file hold the same weights: the file's, restored to float32 in the folder. llama.cpp reads the file.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

Times = list[list[float]]
Run = Callable[[Sequence[Sequence[int]], int], Times]
OURS = {"ours fp32": "auto", "ours int8": "int8", "ours int8-fine": "int8-fine"}
MOST = 16  # requests at once


def ours(linear: str, folder: Path) -> Run:
    """mini-infer of this repository, as `mini-infer serve` sets it up."""
    from runtime.mini_infer import files
    from runtime.mini_infer.setup import Setup
    from runtime.mini_infer.speeds import run_batch

    engine = Setup(linear=linear, device="cpu", max_sequences=MOST, kv_blocks=1024).engine(
        files.load(folder), lambda text: print(text, file=sys.stderr))
    return lambda prompts, output: run_batch(engine, prompts, output)


def peer(folder: Path) -> Run:
    """PyPI mini-infer 0.2.5 on the same weights: the biases that its Qwen2 has and Llama has not are zero. Its prefix cache,
    which gives wrong text, is off."""
    import torch
    from mini_infer.engine import InferenceEngine
    from mini_infer.models import loader

    sys.stdout, kept = sys.stderr, sys.stdout
    model, config = loader.load_model_from_safetensors(folder, device="cpu", dtype=torch.float32)
    sys.stdout = kept
    for name, parameter in model.named_parameters():
        if name.endswith("_proj.bias"):
            parameter.data.zero_()

    def run(prompts: Sequence[Sequence[int]], output: int) -> Times:
        engine = InferenceEngine(model, config, num_blocks=1024, max_batch_size=MOST, enable_prefix_caching=False,
                                 device=torch.device("cpu"))
        start = time.perf_counter()
        asked = [engine.add_request(list(prompt), max_tokens=output) for prompt in prompts]
        times: Times = [[] for _ in asked]
        while any(len(one) < output for one in times):
            found = engine.step()
            now = time.perf_counter() - start
            for sequence, _ in found:
                times[next(place for place, one in enumerate(asked) if one is sequence)].append(now)
        return times

    return run


def transformers(folder: Path) -> Run:
    """`generate` of transformers, greedy, one batch of prompts of equal length."""
    import torch
    from transformers import LlamaForCausalLM, StoppingCriteria

    model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    model.generation_config.pad_token_id = 0

    class Watch(StoppingCriteria):
        """Notes when a step ended, and stops nothing."""

        def __init__(self) -> None:
            self.start, self.at = time.perf_counter(), []

        def __call__(self, tokens: torch.Tensor, scores: torch.Tensor, **_: object) -> torch.Tensor:
            self.at.append(time.perf_counter() - self.start)
            return torch.zeros(len(tokens), dtype=torch.bool)

    def run(prompts: Sequence[Sequence[int]], output: int) -> Times:
        asked = torch.tensor(prompts)
        watch = Watch()
        with torch.inference_mode():
            model.generate(asked, attention_mask=torch.ones_like(asked), do_sample=False, max_new_tokens=output,
                           min_new_tokens=output, stopping_criteria=[watch])
        return [list(watch.at) for _ in prompts]

    return run


def llama(gguf: Path) -> Run:
    """llama.cpp, as PyPI xllamacpp builds it: its own server in this process, one thread of ours for each request."""
    import torch
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path, parameters.n_parallel, parameters.n_ctx = str(gguf), MOST, MOST * 1024
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = torch.get_num_threads()
    parameters.cpuparams.poll, parameters.warmup, parameters.verbosity = 0, True, -1
    server = xllamacpp.Server(parameters)

    def one(prompt: Sequence[int], output: int, start: float, times: list[float]) -> None:
        def came(chunk: dict) -> bool:
            # A chunk is text, and may hold several tokens; its timings count them.
            written = chunk["timings"]["predicted_n"]
            times.extend([time.perf_counter() - start] * (written - len(times)))
            return False

        server.handle_completions({"prompt": list(prompt), "n_predict": output, "stream": True, "temperature": 0.0,
                                   "ignore_eos": True, "cache_prompt": False, "timings_per_token": True}, came)

    def run(prompts: Sequence[Sequence[int]], output: int) -> Times:
        start, times = time.perf_counter(), [[] for _ in prompts]
        threads = [threading.Thread(target=one, args=(prompt, output, start, into))
                   for prompt, into in zip(prompts, times, strict=True)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return times

    return run


def main() -> None:
    """Answer until the input ends."""
    kind, folder, gguf, peers = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4]
    sys.path += peers.split(os.pathsep)
    runs = {"peer": lambda: peer(folder), "transformers": lambda: transformers(folder), "llama.cpp": lambda: llama(gguf)}
    run = ours(OURS[kind], folder) if kind in OURS else runs[kind]()
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        print(json.dumps(run(asked["prompts"], asked["output"])), flush=True)
    os._exit(0)  # llama.cpp's server has no end of its own


if __name__ == "__main__":
    main()
