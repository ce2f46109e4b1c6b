"""A server of the test's own on 127.0.0.1, in a thread, on a small random model whose words are single bytes."""

import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

import httpx
import openai
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from runtime.mini_infer.pieces import CHARACTERS
from runtime.mini_infer.server import serving
from runtime.mini_infer.server.application import Settings
from runtime.mini_infer.setup import Setup
from runtime.mini_infer.source import open_source

TEMPLATE = ("{% for m in messages %}{% if m.role == 'system' and not loop.first %}{{ raise_exception('a system message comes first') }}"
            "{% endif %}<|start|>{{ m.role }}\n{{ m.content }}<|end|>\n{% endfor %}"
            "{% if loud %}LOUD{% endif %}{% if add_generation_prompt %}<|start|>assistant\n{% endif %}")
SPECIAL = ("<|begin|>", "<|end|>", "<|start|>")
END = 257


def write_model(folder, context: int = 512, width: int = 64) -> None:
    """A random Qwen3 with 256 bytes and three special tokens, as `transformers` writes it."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Tokenizer(models.BPE(vocab={letter: place for place, letter in enumerate(letters)}, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken(one, normalized=False) for one in SPECIAL])
    words = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<|end|>")
    words.chat_template = TEMPLATE
    words.save_pretrained(folder)
    torch.manual_seed(7)
    model = Qwen3ForCausalLM(Qwen3Config(
        vocab_size=264, hidden_size=width, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
        intermediate_size=96, max_position_embeddings=context, tie_word_embeddings=False, initializer_range=0.4,
        eos_token_id=END, bos_token_id=256))
    model.generation_config.eos_token_id = END
    model.save_pretrained(folder)


LOOP = "abcdefghijklmnopqrstuvwxyz"
SIGNS = "é🦜日Ž"  # no byte twice, so that each says what comes next


def write_parrot(folder, context: int = 512) -> None:
    """A Qwen3 that says after each byte the one that follows it in a list: the alphabet, round and round, after letters and
    line breaks; after '0' some characters of two, three and four bytes, then '1' and the end. Attention and MLP add nothing."""
    write_model(folder, context=context, width=272)
    model = Qwen3ForCausalLM.from_pretrained(folder)
    chain = [*b"0" + SIGNS.encode() + b"1", END]
    follows = dict(zip(chain, chain[1:], strict=False)) | dict(zip(LOOP.encode(), LOOP[1:].encode() + b"a", strict=True)) | {10: ord("a")}
    ids = {byte: sorted(CHARACTERS).index(letter) for letter, byte in CHARACTERS.items()} | {END: END}
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(("o_proj.weight", "down_proj.weight", "lm_head.weight")):
                parameter.zero_()
        model.model.embed_tokens.weight.copy_(torch.eye(264, 272))
        for byte, following in follows.items():
            model.lm_head.weight[ids[following], ids[byte]] = 4.0
    model.save_pretrained(folder)


@dataclass
class Running:
    """A server that runs; `service` looks into it."""

    url: str
    server: serving.Server
    source: object

    @property
    def service(self):
        return self.server.service

    @property
    def engine(self):
        return self.service.worker.engine

    @cached_property
    def client(self) -> openai.OpenAI:
        """The real client, without retries: what goes wrong is seen."""
        return openai.OpenAI(base_url=f"{self.url}/v1", api_key="none", max_retries=0, timeout=30)

    @cached_property
    def http(self) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=30, trust_env=False)

    def settled(self, within_s: float = 10) -> None:
        """Nobody is under way any more and every block is free; fails where that takes too long."""
        until(lambda: self.service.under_way == 0 and self.engine.idle, within_s)
        assert self.engine.scheduler.check().used == 0 and not self.engine.live
        assert not self.service.worker._samples and not self.service.worker._names


def until(true, within_s: float = 10) -> None:
    """Wait for something to become true."""
    end = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < end, "it does not come true"
        time.sleep(0.005)


@contextmanager
def running(folder, *, settings: Settings | None = None, queue: int = 64, drain_seconds: float = 10, seed: int | None = None, **choices):
    """A server on a model's folder, until the block ends."""
    source = open_source(str(folder), device="cpu")
    engine = Setup(**({"model": str(folder), "device": "cpu", "kv_blocks": 256, "max_sequences": 8} | choices)).engine(source.model)
    made = serving.server(engine, source.words, settings or Settings(), name="tiny", queue=queue, seed=seed,
                          drain_seconds=drain_seconds)
    place = serving.bind("127.0.0.1", 0)
    thread = threading.Thread(target=serving.serve, args=(made, place, lambda text: None), daemon=True)
    thread.start()
    try:
        until(lambda: made.started or not thread.is_alive())
        assert made.started
        yield Running(f"http://127.0.0.1:{place.getsockname()[1]}", made, source)
    finally:
        made.should_exit = True
        thread.join(20)
        place.close()
        assert not thread.is_alive(), "the server does not end"
