"""SentencePiece's BPE out of a GGUF file's metadata, beside SentencePiece itself."""

import io

import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st

from pycore.errors import SourceError
from runtime.models import tokenizer
from runtime.models.gguf import Gguf

TEXT = ["In the beginning God created the heaven and the earth.", "And the earth was without form, and void; naïve  Žlutý kůň.",
        "The quick brown fox jumps over the lazy dog. It's 12345.67 €, isn't it? def f(x):\n    return x"] * 4


@pytest.fixture(scope="module", params=[True, False], ids=["space first", "no space"])
def pair(request):
    """(theirs, the metadata of a GGUF file that holds it)."""
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT), model_writer=written, model_type="bpe", vocab_size=420, byte_fallback=True,
        normalization_rule_name="identity", remove_extra_whitespaces=False, add_dummy_prefix=request.param, character_coverage=0.98,
        split_digits=True, allow_whitespace_only_pieces=True, minloglevel=2)
    theirs = sentencepiece.SentencePieceProcessor(model_proto=written.getvalue())
    ids = range(theirs.get_piece_size())
    kinds = [2 if theirs.is_unknown(one) else 3 if theirs.is_control(one) else 6 if theirs.is_byte(one) else 1 for one in ids]
    metadata = {"tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": [theirs.id_to_piece(one) for one in ids],
                "tokenizer.ggml.scores": [theirs.get_score(one) for one in ids], "tokenizer.ggml.token_type": kinds,
                "tokenizer.ggml.eos_token_id": theirs.eos_id(), "tokenizer.ggml.add_space_prefix": request.param}
    return theirs, metadata


def ours(metadata: dict) -> tokenizer.Tokenizer:
    return tokenizer.from_gguf(Gguf(source="x", version=3, metadata=metadata, tensors={}, view=memoryview(b"")))


@settings(max_examples=150)
@given(text=st.one_of(st.text(max_size=30), st.text(" aehtn.1", max_size=30),
                      st.lists(st.sampled_from(" ".join(TEXT[:3]).split(" ") + ["", "  "]), max_size=8).map(" ".join)))
def test_ids_are_those_of_sentencepiece(pair, text):
    theirs, metadata = pair
    text = text.replace("\0", "").replace("▁", " ")  # the one ends its strings, the other is its space
    if any(piece in text for piece in ("<s>", "</s>", "<unk>")):
        return  # those written out are tokens here, as in transformers
    made = ours(metadata)
    assert made.encode(text) == theirs.encode(text)
    assert made.decode(theirs.encode(text)) == theirs.decode(theirs.encode(text)) == text


def test_pieces_are_merged_by_score_wherever_they_stand(pair):
    theirs, metadata = pair
    names = ("tokenizer.ggml.tokens", "tokenizer.ggml.scores", "tokenizer.ggml.token_type")
    made = ours(metadata | {name: metadata[name][::-1] for name in names} | {"tokenizer.ggml.eos_token_id": 0})
    for text in TEXT[:3]:
        assert [made.backend.id_to_token(one) for one in made.encode(text)] == theirs.encode(text, out_type=str)


def test_it_is_one_that_mini_infer_runs(pair):
    from runtime.mini_infer import words
    from runtime.mini_infer.detokenise import Detokeniser

    theirs, metadata = pair
    file = Gguf(source="x", version=3, metadata=metadata | {"tokenizer.ggml.bos_token_id": 1}, tensors={}, view=memoryview(b""))
    one = words.from_gguf(file, "x")
    text = "naïve 🦜 Žlutý"
    assert one.before == (1,) and one.end == (theirs.eos_id(),) and one.encode(text, specials=True) == (1, *theirs.encode(text))
    stream = Detokeniser(one)
    assert "".join(stream.push(token) for token in theirs.encode(text)) + stream.flush() == text
    assert 0 in one.special and 1 in one.special and one.token_bytes(theirs.piece_to_id("<0xE2>")) == b"\xe2"


@pytest.mark.parametrize("change", [{"tokenizer.ggml.scores": [1.0]}, {"tokenizer.ggml.tokens": ["a", "a"]},
                                    {"tokenizer.ggml.token_type": [1]}, {"tokenizer.ggml.tokens": [1, 2]},
                                    {"tokenizer.ggml.model": "bert"}], ids=str)
def test_what_does_not_hold_together_is_refused(pair, change):
    with pytest.raises(SourceError, match="vocabulary|kind"):
        ours(pair[1] | change)
