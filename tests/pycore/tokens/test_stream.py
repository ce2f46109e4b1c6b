"""A long text in chunks is counted as the whole, in bounded memory."""

import random
import tracemalloc

import pytest
from fuzz import cases

from pycore.errors import InputError
from pycore.tokens import ranges, samples, stream
from pycore.tokens.catalogue import origins

NAMES = tuple(row.name for row in origins())


def chunked(text: str, draw: random.Random) -> list[str]:
    parts = []
    while text:
        size = draw.choice((1, 7, 500, 40_000))
        parts.append(text[:size])
        text = text[size:]
    return parts


@pytest.mark.parametrize("name", NAMES)
def test_the_whole_is_the_sum_of_its_parts(name, tokenizer, monkeypatch):
    monkeypatch.setattr(stream, "PART", 300)  # many joints, so that each kind of them is tried
    ours, draw = tokenizer(name), random.Random(3)
    texts = [*samples.declarations().values(), "\n".join(cases(1500, seed=8)), " ".join(cases(500, seed=7))]
    for text in texts[::4] + texts[-2:]:
        *_, last = ours.count_stream(chunked(text, draw))
        assert (last.characters, last.tokens) == (len(text), ours.count(text))


@pytest.mark.parametrize("name", NAMES)
def test_each_joint_is_exact(name, tokenizer):
    """At every place where a text may be cut, the parts give the ids of the whole."""
    ours, draw, tried = tokenizer(name), random.Random(6), 0
    beginnings = [text[:400] for text in samples.declarations().values()]
    spaced = ["".join(letter + draw.choice(("", " ", "\n", draw.choice(stream.PUNCTUATION))) for letter in text)
              for text in cases(600, seed=11) if len(text) < 200]
    for text in [*cases(1500, seed=11), *beginnings, *spaced]:
        whole = ours.ids(text)
        for end in range(1, len(text)):
            if ours.joints.last(text[:end + 1]) == end:
                tried += 1
                assert ours.ids(text[:end]) + ours.ids(text[end:]) == whole, (text, end)
    assert tried > 5000


def test_joints_stand_before_punctuation_only():
    assert all(any(first <= ord(mark) <= last for first, last in ranges.named("P")) for mark in stream.PUNCTUATION)
    assert not any(first <= ord(mark) <= last for mark in stream.PUNCTUATION for first, last in ranges.CJK)


@pytest.mark.parametrize("line", [
    "人人生而自由，在尊严和权利上一律平等。", "ሁሉም፡ሰዎች፡ነጻና፡እኩል፡ናቸው።", "လူတိုင်း၊ လွတ်လပ်၏။ ", "ຄົນ ທຸກ ຄົນ", "قال:مرحبا،أهلا؟", "सब स्वतंत्र हैं। ", "สิทธิ์ ", "ၵူၼ်း ၵူႈ"])
def test_no_language_has_to_be_held_as_a_whole(line, tokenizer, monkeypatch):
    """Scripts whose words end as marks, or whose sentences have neither a space nor a full stop of ASCII."""
    monkeypatch.setattr(stream, "LONGEST", 100_000)
    ours = tokenizer("o200k_base")
    *_, last = ours.count_stream([line * 10_000])
    assert last.tokens == ours.count(line * 10_000)


def test_progress_and_memory(tokenizer):
    ours = tokenizer("o200k_base")
    line = "The quick brown fox jumps over the lazy dog, and नमस्ते दुनिया.\n"

    def chunks(number: int):
        for _ in range(number):
            yield line * 1000

    list(ours.count_stream(chunks(4)))
    tracemalloc.start()
    told = list(ours.count_stream(chunks(80)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert told[-1].characters == 80_000 * len(line) and told[-1].tokens == 80_000 * ours.count(line)
    assert len(told) > 30 and all(one.tokens < other.tokens for one, other in zip(told, told[1:], strict=False))
    assert peak < 10_000_000  # of 5.2 million characters, two bytes each in memory


def test_a_text_without_a_joint_is_refused_in_words(tokenizer, monkeypatch):
    monkeypatch.setattr(stream, "LONGEST", 200_000)
    with pytest.raises(InputError, match="cannot be cut"):
        list(tokenizer("cl100k_base").count_stream("a" * 1000 for _ in range(1000)))


def test_a_file_of_ones_own_is_refused_for_another_reason(monkeypatch):
    monkeypatch.setattr(stream, "LONGEST", 200_000)
    with pytest.raises(InputError, match="where a tokenizer.json lets a text be cut"):
        list(stream.counted(len, None, ("a word " * 1000 for _ in range(1000))))


def test_nothing_is_nothing(tokenizer):
    assert [(one.characters, one.tokens) for one in tokenizer("llama3").count_stream([])] == [(0, 0)]
