"""The models that data/quantbench-pareto measures, each with its text, its calibration text and its configurations."""

import functools
import hashlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from pycore.errors import SourceError, UnknownName
from runtime.measure.quantbench_rows import REFERENCE, Named, named
from runtime.models.load import MORE, TINY, Loaded, load
from runtime.models.supply import BIBLE, SMOLLM2, bible
from runtime.models.transformer import Transformer
from runtime.quantbench.evaluate import Windows, windows
from runtime.quantbench.tiny import split

SMOL = "smollm2-135m"
EVERY = ("int8", "int8:granularity=tensor", "fp8-e4m3", "fp8-e5m2", "q8_0", "q6_k", "q5_0", "q4_1", "q4_k", "q4_0",
         "int4:group=32", "int4:group=64", "int4:group=128", "int4:group=64,symmetric=no", "nf4:block=64", "mxfp4", "nvfp4",
         "int4:group=64+gptq", "int4:group=64+gptq-ordered", "int4:group=64+awq", "int8+a8", "int8+smoothquant+a8",
         "sparse-2:4", "bitnet-2bit")
ALONE = ("int4:group=64", "q8_0", "q4_0", "q5_0")
WIKITEXT = {"wikitext2-test.txt": "d790b833", "wikitext2-valid.txt": "f0737ed3"}
WIKITEXT_NAME = "WikiText-2 test (the tokenised variant with <unk>)"
LOSSLESS = {(SMOL, "q4_1"): "lossless by construction: the published file's weights lie on this very grid (GGUF Q4_1)"}
FLATTERED = {(SMOL, "q4_k"): "flattered: like the grid that the weights lie on already, it has a minimum for every 32"}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Subject:
    """A model to measure. `text` for configurations, `short` (its beginning) for projections one by one."""

    name: str
    label: str
    loaded: Loaded
    corpus: str
    corpus_file: str
    corpus_sha256: str
    text: Windows
    short: Windows
    calibration: Tensor
    calibration_text: str
    schemes: tuple[str, ...]
    licence: str
    note: str
    ternary: Loaded | None = None
    further: Loaded | None = None

    @property
    def model(self) -> Transformer:
        return self.loaded.model

    @property
    def more(self) -> tuple[Loaded, ...]:
        """What went on learning from it."""
        return tuple(one for one in (self.ternary, self.further) if one)

    def trained(self) -> Transformer:
        """The model that was trained for ternary weights."""
        return self.ternary.model

    @property
    def elsewhere(self) -> Windows:
        """The text without its beginning: tokens that no plan was made on."""
        return Windows(rows=self.text.rows[len(self.short.rows):], length=self.text.length, stride=self.text.stride)

    @property
    def identity(self) -> str:
        """What a measurement depends on: another one is another measurement."""
        parts = (self.loaded.sha256, self.corpus_sha256, self.text.counted, self.text.length, self.text.stride,
                 self.short.counted, "".join(one.sha256 for one in self.more), torch.__version__)
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]

    def named(self) -> Iterator[Named]:
        """Every configuration, the unquantised model first."""
        yield REFERENCE
        for text in self.schemes:
            yield named(text, lossless=LOSSLESS.get((self.name, text), ""), remark=FLATTERED.get((self.name, text), ""))
        if self.ternary:
            yield named("bitnet-2bit", trained=True)

    def alone(self) -> tuple[Named, ...]:
        """The configurations that every projection is measured in alone."""
        return tuple(named(text) for text in ALONE)


def subjects(facts: Path, only: str | None = None) -> Iterator[Subject]:
    """The models, one after the other, or only one. Raises StudioError."""
    if only not in (None, SMOL, TINY):
        raise UnknownName("model", only, f"use {SMOL} or {TINY}")
    if only in (None, SMOL):
        yield smollm2(facts)
    if only in (None, TINY):
        yield tiny()


def corpus(facts: Path, name: str) -> tuple[str, str]:
    """(text, sha256) of a WikiText-2 file beside the facts. Raises SourceError where it is another text."""
    paths = [folder / name for folder in (facts / "corpora", facts.parent / "corpora")]
    path = next((one for one in paths if one.is_file()), None)
    if path is None:
        raise SourceError(name, f"is neither in {facts / 'corpora'} nor in {facts.parent / 'corpora'}")
    data = path.read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    if not digest.startswith(WIKITEXT[name]):
        raise SourceError(name, f"has sha256 {digest}; WikiText-2's begins with {WIKITEXT[name]}")
    return data.decode("utf-8"), digest


def batches(ids: list[int], length: int, count: int) -> Tensor:
    """(count, length): the first windows of a text."""
    return torch.tensor(ids[:length * count]).reshape(count, length)


def smollm2(facts: Path) -> Subject:
    """SmolLM2-135M-Instruct. Raises StudioError."""
    loaded = load(SMOL, say)
    text, digest = corpus(facts, "wikitext2-test.txt")
    ids = loaded.tokenizer.encode(text[:60_000])
    valid, _ = corpus(facts, "wikitext2-valid.txt")
    return Subject(
        name=SMOL, label="SmolLM2-135M-Instruct", loaded=loaded, corpus=WIKITEXT_NAME, corpus_file="wikitext2-test.txt",
        corpus_sha256=digest, text=windows(ids, 512, most=2560), short=windows(ids, 512, most=512), schemes=EVERY,
        licence=SMOLLM2.licence,
        calibration=batches(loaded.tokenizer.encode(valid[:60_000]), 512, 8),
        calibration_text="WikiText-2 validation, first 4,096 tokens",
        note="its published weights are GGUF Q4_1: the reference is what they stand for, so that q4_1 loses nothing and "
             "8 bits look better than on a model never quantised before; rows of 576 weights are padded to whole blocks of "
             "256 in q4_k and q6_k (llama.cpp takes another type for them)")


@functools.cache
def chapters() -> tuple[str, str]:
    """(learnt, held out) text of the tiny model. Raises SourceError."""
    return split(bible(say))


def tiny() -> Subject:
    """The tiny Qwen2, with the one that went on ternary. Raises StudioError."""
    loaded, (ternary, further) = load(TINY, say), (load(name, say) for name in MORE)
    learnt, held = chapters()
    ids = loaded.tokenizer.encode(held)
    return Subject(
        name=TINY, label="tiny Qwen2 (trained here)", loaded=loaded, ternary=ternary, further=further,
        corpus="King James Bible, every twentieth chapter (held out)", corpus_file="held-out.txt",
        corpus_sha256=hashlib.sha256(held.encode()).hexdigest(), text=windows(ids, 128, most=8192),
        short=windows(ids, 128, most=2048), schemes=(*EVERY, "q4_1+hqq"), licence=BIBLE.licence,
        calibration=batches(loaded.tokenizer.encode(learnt[:80_000]), 128, 64),
        calibration_text="the first 8,192 tokens of the text it learnt",
        note="trained by python -m runtime.quantbench.train_tiny; the row trained for ternary weights went on from it for "
             "1,000 steps; rows of 192 weights are padded to whole blocks of 256 in q4_k and q6_k")


def say(text: str) -> None:
    """Progress, not among the output."""
    print(text, file=sys.stderr)
