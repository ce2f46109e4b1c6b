"""What `mini-infer bench` asks for: an engine in, plain data out."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import torch

from pycore.errors import InputError, SourceError
from runtime.mini_infer.engine import Engine
from runtime.mini_infer.kv_formats import BITS
from runtime.mini_infer.model import Model
from runtime.mini_infer.quality import compare, logits
from runtime.mini_infer.speeds import (
    FIGURES,
    bandwidth_bytes_per_s,
    bandwidth_share,
    median_and_best,
    prompts,
    run_batch,
    speeds,
)
from runtime.mini_infer.words import Words
from runtime.processor import processor
from runtime.quantbench.speed import load_average

MOST_TEXT_TOKENS = 2048
Say = Callable[[str], None]


def bench(engine: Engine, levels: Sequence[int], prompt_tokens: int, output_tokens: int, rounds: int,
          say: Say = lambda text: None) -> dict[str, object]:
    """Each number of requests at once: the figures of `speeds`, median and best of some rounds after a first one.

    `bandwidth_share`: what a step of decodes reads, over its time, as a share of what this CPU was measured to read; None
    on other devices. Raises InputError for what does not fit the engine.
    """
    on_cpu = engine.model.device.type == "cpu"
    bandwidth = bandwidth_bytes_per_s() if on_cpu else None
    most = engine.scheduler.limits.max_sequences
    if max(levels) > most:
        raise InputError("concurrency", max(levels), f"at most {most} at once; more with --max-sequences")
    rows = []
    for level in levels:
        say(f"{level} at once")
        found = []
        for number in range(rounds + 1):
            asked = prompts(level, prompt_tokens, engine.model.configuration.vocabulary, 1000 * level + number)
            found.append(speeds(run_batch(engine, asked, output_tokens), level * prompt_tokens))
        row = {"concurrency": level}
        for name in FIGURES:
            row[name], row[name + "_best"] = median_and_best(found[1:], name)
        row["bandwidth_share"] = bandwidth_share(engine, level, prompt_tokens + output_tokens // 2,
                                                 row["decode_tokens_per_s_best"], bandwidth)
        rows.append(row)
    return machine() | pool(engine) | {"memory_bytes_per_s": bandwidth, "prompt_tokens": prompt_tokens,
                                       "output_tokens": output_tokens, "rounds": rounds, "rows": rows}


def pool(engine: Engine) -> dict[str, object]:
    """What keys and values take, and how much less that is than in 16 bits."""
    kept = engine.cache.kept
    return {"kv_format": kept.name, "kv_row_bytes": kept.row_bytes, "kv_pool_bytes": engine.cache.storage.nbytes,
            "kv_saved_against_16_bits": 1 - kept.row_bytes / (kept.head_width * BITS["float16"] // 8)}


def machine() -> dict[str, object]:
    """Where this was measured."""
    return {"processor": processor(), "threads": torch.get_num_threads(), "torch": torch.__version__,
            "load_average": load_average()}


def text_tokens(engine: Engine, words: Words, text: Path) -> tuple[int, ...]:
    """The tokens of a file, as many as the context and MOST_TEXT_TOKENS hold. Raises SourceError, InputError."""
    try:
        found = words.encode(text.read_bytes().decode("utf-8"))
    except OSError as error:
        raise SourceError(str(text), f"cannot be read: {error.strerror or error}", "text") from None
    except UnicodeDecodeError as error:
        raise SourceError(str(text), f"not UTF-8 text: byte at offset {error.start:,}", "text") from None
    if len(found) < 2:
        raise InputError("text", text, "accepted: a text of at least 2 tokens")
    return found[:min(MOST_TEXT_TOKENS, engine.model.configuration.context)]


def text_error(reference: Model, engine: Engine, tokens: tuple[int, ...]) -> dict[str, object]:
    """What this engine's numbers do to a text's logits, beside the model as its files have it. Raises InputError."""
    expected = logits(reference, tokens)
    return asdict(compare(expected, logits(engine.model, tokens, engine.cache.kept), tokens))
