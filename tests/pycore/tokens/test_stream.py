"""A long text in chunks is counted as the whole, in bounded memory."""

import random
import tracemalloc

import pytest
from fuzz import cases

from pycore.errors import InputError
from pycore.tokens import samples, stream
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
    ours, draw = tokenizer(name), random.Random(6)
    for text in cases(1500, seed=11):
        place = ours.joints.last(text[:draw.randint(0, len(text))] if len(text) > 30 else text)
        if place:
            assert ours.ids(text[:place]) + ours.ids(text[place:]) == ours.ids(text), (text, place)


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


def test_nothing_is_nothing(tokenizer):
    assert [(one.characters, one.tokens) for one in tokenizer("llama3").count_stream([])] == [(0, 0)]
