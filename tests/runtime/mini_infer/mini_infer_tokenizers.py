"""Small tokenizers of every kind that is run, each with a chat template's tokens: made here, not fetched."""

import json
from functools import cache

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

TEXT = ["In the beginning God created the heaven and the earth. And the earth was without form, and void; naïve, Žlutý kůň.",
        "The quick brown fox jumps over the lazy dog. It's 12345.67 €, isn't it? def f(x):\n    return x\n", "日本語のテキスト 🦜🪿"] * 3
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


@cache
def byte_level() -> Tokenizer:
    """As GPT-2, Qwen and Llama 3 have it."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    made.train_from_iterator(TEXT, trainers.BpeTrainer(vocab_size=420, special_tokens=SPECIAL, show_progress=False,
                                                       initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    made.add_tokens([AddedToken("<think>", special=False, normalized=False), AddedToken("</naïve ✓>", special=False)])
    return made


def pieces(strip: bool) -> Tokenizer:
    """As Llama 2 (its first space stripped) and Gemma (not) have it: pieces with ▁, bytes for what no piece has."""
    letters = sorted(set("".join(TEXT[:2])) - {" ", "\n", "€"})
    words = ["▁", "▁t", "▁a", "th", "▁th", "▁the", "▁and", "an", "in", "▁in", "▁▁", "▁▁▁", "�"]
    names = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *letters, *words]
    vocabulary = {name: place for place, name in enumerate(dict.fromkeys(names))}
    merges = [("▁", "t"), ("▁", "a"), ("t", "h"), ("▁", "th"), ("▁th", "e"), ("a", "n"), ("▁", "▁"), ("i", "n"), ("▁", "in"),
              ("▁▁", "▁")]
    made = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    made.normalizer = normalizers.Sequence([*([normalizers.Prepend("▁")] if strip else []), normalizers.Replace(" ", "▁")])
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    made.decoder = decoders.Sequence(steps + ([decoders.Strip(" ", 1, 0)] if strip else []))
    made.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in ("<unk>", "<s>", "</s>")])
    made.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return made


@cache
def metaspace() -> Tokenizer:
    """Words that begin with ▁."""
    made = Tokenizer(models.Unigram())
    made.pre_tokenizer, made.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    made.train_from_iterator(TEXT, trainers.UnigramTrainer(vocab_size=200, special_tokens=["<unk>", *SPECIAL], unk_token="<unk>",
                                                           show_progress=False))
    return made


KINDS = {"byte level": byte_level, "llama 2": cache(lambda: pieces(True)), "gemma": cache(lambda: pieces(False)),
         "metaspace": metaspace}

CHATML = ("{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"
          "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")


def folder(place, backend: Tokenizer, *, template: str | None = CHATML, config=None, generation=None, files=None):
    """A folder of words without a model, as `transformers` writes one."""
    backend.save(str(place / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>", "bos_token": "<|endoftext|>"} | (config or {})
    settings |= {"chat_template": template} if template is not None else {}
    (place / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    if generation is not None:
        (place / "generation_config.json").write_text(json.dumps(generation), encoding="utf-8")
    for name, text in (files or {}).items():
        (place / name).write_text(text, encoding="utf-8")
    return place
