"""Ids equal to those of tiktoken, tokenizers and sentencepiece: declarations in 71 languages, thousands of hard strings,
and whatever hypothesis thinks of. Whole corpora: `make check-data`."""

import ast
import inspect
from pathlib import Path

import pytest
from fuzz import cases
from hypothesis import given, settings
from hypothesis import strategies as st

from pycore.tokens import normalise, samples
from pycore.tokens.catalogue import origins
from pycore.tokens.merging import merged

NAMES = tuple(row.name for row in origins())
STRINGS = cases(3000)


def comparable(package: str, text: str) -> bool:
    """Whether a reference reads a text as its model does: for tokenizers a literal ▁▁ is an added token of Gemma's, for
    SentencePiece, the model's own program, it is two spaces."""
    return package != "tokenizers" or "▁▁" not in text


def differing(ours, theirs: dict, texts) -> list:
    found = []
    for text in texts:
        ids = ours.ids(text)
        for package, reference in theirs.items():
            if comparable(package, text) and reference(normalise.repaired(text)) != ids:
                found.append((package, text[:80], ids[:20], reference(normalise.repaired(text))[:20]))
        if ours.count(text) != len(ids):
            found.append(("count", text[:80]))
    return found


@pytest.mark.parametrize("name", NAMES)
def test_declarations_in_71_languages(name, tokenizer, references):
    texts = samples.declarations()
    assert len(texts) == 71
    assert not differing(tokenizer(name), references(name), texts.values())


@pytest.mark.parametrize("name", NAMES)
def test_thousands_of_hard_strings(name, tokenizer, references):
    assert len(STRINGS) > 4000
    assert not differing(tokenizer(name), references(name), STRINGS)[:5]


@pytest.mark.parametrize("name", NAMES)
def test_source_code(name, tokenizer, references):
    texts = [Path(inspect.getsourcefile(module)).read_text(encoding="utf-8") for module in (ast, inspect)]
    assert not differing(tokenizer(name), references(name), texts)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=300)
@given(text=st.text(st.characters(), max_size=60) | st.text("ab \n\t'1é中\u0301▁<>/h", max_size=40))
def test_whatever_text(name, tokenizer, references, text):
    assert not differing(tokenizer(name), references(name), [text])


@pytest.mark.parametrize("name", NAMES)
def test_tokens_that_their_own_bytes_do_not_merge_to(name, tokenizer, references):
    """The few pieces that merging never makes, alone and among others: looked up whole by some references, not by others."""
    texts = (" YYYY", " yyyy", " diffformul", " ::::::::", " việc", " hợp", " nhiều", " điều", " jeho", " Việt")
    assert not differing(tokenizer(name), references(name), [*texts, *(f"a{text} b{text}" for text in texts), "".join(texts)])


@pytest.mark.parametrize("name", NAMES)
def test_every_string_comes_back(name, tokenizer):
    """Pieces, joined, are the text as the tokenizer reads it; offsets rise and cover it; decoding gives it back."""
    ours = tokenizer(name)
    for text in STRINGS[::3]:
        encoding, read = ours.encode(text), ours.normalised(text)
        assert encoding.ids == tuple(ours.ids(text))
        assert b"".join(encoding.pieces).decode() == ours.plain(read)
        assert ours.decode(encoding.ids) == ours.plain(read)
        place = 0
        for start, end in encoding.offsets:
            assert 0 <= start <= place and start < end <= len(text) and end >= place, (text, encoding.offsets)
            place = end
        assert place == len(text)


@pytest.mark.parametrize("name", NAMES)
def test_a_piece_lies_where_its_offsets_say(name, tokenizer):
    """Where nothing is normalised, the text between the offsets holds the piece's bytes, and all of them."""
    ours = tokenizer(name)
    for text in STRINGS[::5]:
        encoding = ours.encode(text)
        if ours.normalised(text) == text:
            for piece, (start, end) in zip(encoding.pieces, encoding.offsets, strict=True):
                around = ours.plain(text)[start:end].encode()
                assert piece in around and len(around) - len(piece) <= 6


@pytest.mark.parametrize("name", NAMES)
def test_a_token_merges_to_itself(name, tokenizer):
    """A whole piece of bytes is looked up first. tiktoken and LLaMA-3's file do so too; for DeepSeek and Qwen2.5, whose files
    say to merge without looking, it is right because each of their tokens is what its own bytes merge to. Gemma's are not
    all, and there nothing is looked up.
    """
    ranks = tokenizer(name).engine.ranks
    other = [token for token in ranks if len(merged(token, ranks)) > 1]
    if name in ("deepseek-v3", "qwen2.5"):
        assert not other
    if name == "gemma3":
        assert " YYYY" in other
    assert len(other) < 0.01 * len(ranks)
