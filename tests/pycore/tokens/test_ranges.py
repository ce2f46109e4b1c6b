"""Shipped Unicode classes against two regex engines, code point by code point; graphemes and normalisation against theirs."""

import random
import unicodedata

import pytest
import tiktoken
from fuzz import cases
from pyuegc import EGC
from tokenizers import Regex, normalizers, pre_tokenizers

from pycore.errors import InputError
from pycore.tokens import graphemes, normalise, ranges
from pycore.tokens.patterns import PATTERNS, Cutter, translated

EVERY = [chr(point) for point in range(0x110000) if not 0xD800 <= point < 0xE000]
TEXT = "\x00".join(EVERY)
STRINGS = [normalise.repaired(text) for text in cases(2000, seed=9)]


def members(found: ranges.Ranges) -> set[str]:
    return {chr(point) for first, last in found for point in range(first, last + 1) if not 0xD800 <= point < 0xE000}


@pytest.mark.parametrize("name", ["L", "Lu", "Ll", "Lt", "Lm", "Lo", "M", "N", "Nd", "P", "S", "Cn", "space", "Han"])
def test_classes_are_those_of_rust(name):
    pattern = {"space": r"\s", "Cn": r"[\p{Cn}\p{Co}]"}.get(name, rf"\p{{{name}}}")
    encoding = tiktoken.Encoding("classes", pat_str=pattern, mergeable_ranks={bytes([byte]): byte for byte in range(256)}, special_tokens={})
    theirs = set(bytes(encoding.encode_ordinary(TEXT)).decode())
    assert members(ranges.named(name)) - {"\x00"} == theirs - {"\x00"}


@pytest.mark.parametrize("name", ["L", "N", "P", "S", "M", "space"])
def test_classes_are_those_of_oniguruma(name):
    pattern = {"space": r"\s"}.get(name, rf"\p{{{name}}}")
    theirs = pre_tokenizers.Split(Regex(pattern), "removed")
    inside, own = members(ranges.named(name)), []
    for start in range(0, len(EVERY), 5000):
        kept = {character for part, _ in theirs.pre_tokenize_str("".join(EVERY[start:start + 5000])) for character in part}
        own += [character for character in EVERY[start:start + 5000] if (character in kept) == (character in inside)]
    assert not own


def test_sets():
    rows = ((1, 5), (9, 12)), ((4, 10),)
    assert ranges.union(*rows) == ((1, 12),)
    assert ranges.common(*rows) == ((4, 5), (9, 10))
    assert ranges.minus(*rows) == ((1, 3), (11, 12))
    assert ranges.complement(((0, 4), (6, ranges.LAST))) == ((5, 5),)
    assert members(ranges.expression("L+N-Lu&cjk")) == members(ranges.common(ranges.minus(ranges.union(ranges.named("L"), ranges.named("N")), ranges.named("Lu")), ranges.CJK))


@pytest.mark.parametrize("name", [name for name in PATTERNS if name != "deepseek-v3"])
def test_cuts_are_those_of_the_pattern_itself(name):
    """The makers' pattern, as they write it, through PyPI's `regex`; every character of ours is assigned in its Unicode too."""
    import regex

    known = regex.compile(PATTERNS[name])
    draw, cutter = random.Random(2), Cutter(PATTERNS[name])
    letters = [chr(point) for point in range(0x250) if point != 0x1F and not 0x1C <= point <= 0x1E] + list("नमस्तेမြ中文かな🙂👍🏽ſ")
    for _ in range(4000):
        text = "".join(draw.choice(letters) for _ in range(draw.randint(0, 24)))
        assert cutter.cut(text) == known.findall(text)


@pytest.mark.parametrize(("pattern", "part"), [
    (r"\p{Klingon}", "Klingon"), (r"[a-z&&[b]]", r"&&\["), (r"^a", r"\^"), (r"a$", r"\$"), (r"(?P<x>a)", r"\(\?P"), (r"\bword", r"\\\\b"),
    (r"[z-a]", "z-a"), (r"[abc", "does not end"), (r"(?<=a)\1", r"\\\\1")])
def test_patterns_without_a_sure_meaning_are_refused(pattern, part):
    with pytest.raises(InputError, match=part):
        translated(pattern, 0x7F)


def test_graphemes_are_those_of_the_annex():
    draw = random.Random(5)
    pools = [sorted(members(found)) for name, found in ranges.shipped().items() if name.startswith(("break", "conjunct", "pict", "M"))]
    pools += [list("a \r\n\u200d")]
    for text in ["".join(draw.choice(draw.choice(pools)) for _ in range(draw.randint(1, 12))) for _ in range(20_000)] + STRINGS:
        assert graphemes.clusters(text) == EGC(text), [hex(ord(character)) for character in text]
    text = "a👩‍👩‍👧‍👦क्षि"
    assert graphemes.starts(text) == [0, 1, 8] and [graphemes.number_of(place, [0, 1, 8]) for place in (0, 1, 7, 8, 11)] == [0, 1, 1, 2, 2]


@pytest.mark.parametrize(("form", "theirs"), [("NFC", normalizers.NFC()), ("NFKC", normalizers.NFKC())])
def test_normalisation_is_that_of_the_reference(form, theirs):
    for text in STRINGS + EVERY[::7] + [f"a{mark}\u0334{mark}" for mark in EVERY[0x300:0x1000]]:
        assert normalise.normalised(text, form) == theirs.normalize_str(text), [hex(ord(character)) for character in text]


def test_no_result_hangs_on_the_version_of_python():
    """What Python's own tables know is either left alone, or has been the same since long before Python 3.11's Unicode 14."""
    left_alone = members(ranges.shipped()["frozen"])
    for character in EVERY:
        if character not in left_alone and unicodedata.category(character) == "Cn":
            assert normalise.normalised(f"a{character}\u0301", "NFC") == f"a{character}\u0301"
    assert normalise.normalised("\U00016d67\U00016d67", "NFC") == "\U00016d67\U00016d67"


@pytest.mark.parametrize("form", [None, "NFC", "NFKC"])
def test_alignment(form):
    for text in STRINGS:
        read, spans = normalise.aligned(text, form)
        assert read == normalise.normalised(text, form)
        if spans is None:
            assert read == text
            continue
        assert len(spans) == len(read)
        place = 0
        for start, end in spans:
            assert 0 <= start <= place <= end <= len(text) and start < end
            place = end
        assert place == len(text)


def test_lone_surrogates_are_read_as_tiktoken_reads_them():
    assert normalise.repaired("a\ud83d\udc4db\udc4d\ud83d") == "a👍b\ufffd\ufffd"
    assert normalise.aligned("a\ud83d\udc4db", None) == ("a👍b", [(0, 1), (1, 3), (3, 4)])
