"""A tiny Qwen2 and how it learns: for tests and for a curve that takes minutes, where a real model takes hours.

2.6 million parameters, a byte-level BPE of 1,024 tokens, text in the public domain (the King James Bible). Every twentieth
chapter is held out: what is measured on it was not learnt. The same seed, steps and threads give the same weights on one
machine and version of torch.
"""

import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from runtime.models.configuration import Configuration
from runtime.models.tokenizer import Tokenizer
from runtime.models.transformer import Transformer
from runtime.quantbench import ternary_training

HELD_OUT_EVERY = 20
SIZES = Configuration(architecture="qwen2", vocabulary=1024, layers=6, width=192, heads=6, kv_heads=2, head_width=32,
                      feed_forward=512, rope_base=10_000.0, epsilon=1e-6, context=512, tied=True)
END = "<|endoftext|>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """How long and how fast. A step is `batch` windows of `length` tokens; the rate rises for `warm_up` steps, then falls
    along a cosine to a tenth."""

    steps: int = 2000
    batch: int = 8
    length: int = 128
    rate: float = 3e-3
    warm_up: int = 60
    decay: float = 0.1
    seed: int = 0
    ternary: bool = False


def split(chapters: Sequence[str]) -> tuple[str, str]:
    """(to learn, held out): every twentieth chapter is held out."""
    held = [text for place, text in enumerate(chapters) if place % HELD_OUT_EVERY == HELD_OUT_EVERY - 1]
    kept = [text for place, text in enumerate(chapters) if place % HELD_OUT_EVERY != HELD_OUT_EVERY - 1]
    return "\n\n".join(kept), "\n\n".join(held)


def learnt_tokenizer(texts: Iterable[str], size: int = SIZES.vocabulary) -> Tokenizer:
    """A byte-level BPE of that many tokens, learnt from texts."""
    from tokenizers import Tokenizer as Backend
    from tokenizers import decoders, models, pre_tokenizers, trainers

    backend = Backend(models.BPE())
    backend.pre_tokenizer, backend.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    backend.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=size, special_tokens=[END], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    return Tokenizer(name="learnt", backend=backend, end=(0,))


def fresh(sizes: Configuration, seed: int) -> Transformer:
    """A model before it has learnt: normal weights of deviation 0.02, those that write into the residual smaller by
    1 / sqrt(2 layers), biases 0 (GPT-2's start)."""
    generator = torch.Generator().manual_seed(seed)
    model = Transformer(sizes)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("norm.weight"):
                continue
            if name.endswith(".bias"):
                parameter.zero_()
                continue
            smaller = math.sqrt(2 * sizes.layers) if name.endswith(("o_proj.weight", "down_proj.weight")) else 1.0
            parameter.normal_(0.0, 0.02 / smaller, generator=generator)
    return model


def rate_at(step: int, training: Training) -> float:
    """The learning rate of a step."""
    if step < training.warm_up:
        return training.rate * (step + 1) / training.warm_up
    done = (step - training.warm_up) / max(training.steps - training.warm_up, 1)
    return training.rate * (0.1 + 0.45 * (1 + math.cos(math.pi * done)))


def train(model: Transformer, ids: Sequence[int], training: Training,
          say: Callable[[int, float], None] = lambda step, loss: None) -> Transformer:
    """Let a model learn from a text's ids, in place; `say` is told the step and the loss now and then."""
    text, generator = torch.as_tensor(ids), torch.Generator().manual_seed(training.seed)
    matrices = [one for one in model.parameters() if one.dim() > 1]
    others = [one for one in model.parameters() if one.dim() <= 1]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": training.decay},
                                   {"params": others, "weight_decay": 0.0}], lr=training.rate, betas=(0.9, 0.95))
    ternary_training.switch(model, on=training.ternary)
    model.train()
    for step in range(training.steps):
        for group in optimizer.param_groups:
            group["lr"] = rate_at(step, training)
        loss = loss_of(model, text, training, generator)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 100 == 0 or step == training.steps - 1:
            say(step, loss.item())
    ternary_training.switch(model, on=False)
    return model.eval()


def loss_of(model: Transformer, text: Tensor, training: Training, generator: torch.Generator) -> Tensor:
    """Mean cross-entropy (nats) of one batch of windows drawn from the text."""
    starts = torch.randint(len(text) - training.length, (training.batch,), generator=generator)
    windows = text[starts[:, None] + torch.arange(training.length + 1)]
    logits = model(windows[:, :-1])
    return functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), windows[:, 1:].reshape(-1))


def save(model: Transformer, tokenizer: Tokenizer, folder: Path, facts: dict[str, object]) -> None:
    """Write a folder as `transformers` reads it, with how it was trained in training.json."""
    from safetensors.torch import save_file

    sizes = model.configuration
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {name: one.detach().contiguous() for name, one in model.state_dict().items()
               if not (sizes.tied and name == "lm_head.weight")}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    tokenizer.backend.save(str(folder / "tokenizer.json"))
    for name, data in (("config.json", config(sizes)), ("training.json", facts)):
        (folder / name).write_text(json.dumps(data, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def config(sizes: Configuration) -> dict[str, object]:
    """A config.json of `transformers`."""
    return {"model_type": sizes.architecture, "architectures": [sizes.architecture.capitalize() + "ForCausalLM"],
            "vocab_size": sizes.vocabulary, "num_hidden_layers": sizes.layers, "hidden_size": sizes.width,
            "num_attention_heads": sizes.heads, "num_key_value_heads": sizes.kv_heads, "head_dim": sizes.head_width,
            "intermediate_size": sizes.feed_forward, "rms_norm_eps": sizes.epsilon, "rope_theta": sizes.rope_base,
            "max_position_embeddings": sizes.context, "tie_word_embeddings": sizes.tied, "hidden_act": "silu",
            "torch_dtype": "float32", "use_sliding_window": False, "eos_token_id": 0, "bos_token_id": 0}
