"""Text as its tokens come beside what `tokenizers` makes of all of them at once, and stops beside a search of the whole."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mini_infer_tokenizers import KINDS, folder
from tokenizers import Tokenizer, decoders, models

from pycore.errors import InputError, SourceError
from runtime.mini_infer import pieces, words
from runtime.mini_infer.detokenise import Detokeniser
from runtime.mini_infer.stops import MOST_STOPS, StopStrings
from runtime.mini_infer.stream import TextStream


@pytest.fixture(scope="module", params=KINDS)
def found(request, tmp_path_factory):
    """The words of a tokenizer of each kind."""
    return words.from_folder(folder(tmp_path_factory.mktemp("words"), KINDS[request.param]()), request.param)


def streamed(one: words.Words, ids, **settings) -> list[str]:
    detokeniser = Detokeniser(one, **settings)
    return [*(detokeniser.push(token) for token in ids), detokeniser.flush()]


@settings(max_examples=150)
@given(data=st.data())
def test_the_parts_of_a_text_are_the_text(found, data):
    """Any ids: broken UTF-8, special tokens, ids that the tokenizer does not have."""
    size = found.size
    bytes_only = [token for token in range(size) if len(found.token_bytes(token)) == 1]
    ids = data.draw(st.lists(st.one_of(st.integers(0, size + 3), st.sampled_from(bytes_only or [0])), max_size=30))
    parts = streamed(found, ids)
    assert "".join(parts) == found.backend.decode(ids, skip_special_tokens=True) == found.decode(ids)


@settings(max_examples=80)
@given(text=st.text(max_size=40))
def test_no_part_of_a_sound_text_holds_half_a_character(found, text):
    text = text.replace("�", "?")
    ids = found.encode(text)
    assert "�" not in "".join(streamed(found, ids)) or found.name == "metaspace"
    assert "".join(streamed(found, ids)) == found.backend.decode(list(ids))


def test_peer_10_characters_of_several_tokens_come_whole(tmp_path):
    """The peer decodes token by token: '🦜🪿 Žlu' became '����� ��lu'."""
    one = words.from_folder(folder(tmp_path, KINDS["byte level"]()), "x")
    text = "x 🦜🪿 Žluťoučký"
    ids = one.encode(text)
    parts = streamed(one, ids)
    assert "".join(parts) == text and not any("�" in part for part in parts)
    assert "".join(one.decode([token]) for token in ids) != text, "nothing here is cut, so nothing was tested"
    assert "" in parts[:-1] and parts[-1] == ""


def test_text_comes_as_soon_as_it_is_sure(tmp_path):
    one = words.from_folder(folder(tmp_path, KINDS["byte level"]()), "x")
    ids = one.encode("The earth")
    assert [len(part) for part in streamed(one, ids)][:-1] == [len(one.token_bytes(token)) for token in ids]


def test_what_goes_on_from_a_prompt_keeps_its_space():
    """Llama 2's decoder takes the first space of a text away; in the middle of a text it is one."""
    backend = KINDS["llama 2"]()
    one = words.made("x", backend, [], None, None)
    ids = [token for token in one.encode("in the earth")]
    assert "".join(streamed(one, ids)) == "in the earth" and "".join(streamed(one, ids, begun=True)) == " in the earth"


def test_bytes_of_tokens_are_those_of_the_text(found):
    for text in ("The earth", "naïve Žlutý", "🦜"):
        ids = found.encode(text)
        together = b"".join(found.token_bytes(token) for token in ids)
        assert together.decode().strip() == text or found.name == "metaspace"
    special = next(iter(found.special))
    assert found.token_bytes(special).decode() == found.backend.id_to_token(special)
    assert found.token_bytes(found.size + 5) == b""


@pytest.mark.parametrize("decoder", [None, decoders.WordPiece(), decoders.CTC(), decoders.Sequence([decoders.Strip(" ", 0, 1)]),
                                     decoders.Sequence([decoders.Fuse(), decoders.Strip(" ", 0, 1)])], ids=str)
def test_a_way_of_putting_together_that_is_not_run_is_refused(decoder):
    backend = Tokenizer(models.BPE())
    if decoder is not None:
        backend.decoder = decoder
    with pytest.raises(SourceError, match="not run here"):
        pieces.of(backend, "x")


# Stop strings ----------------------------------------------------------------------------------------------------------


def searched(text: str, stops, include: bool) -> tuple[str, str | None]:
    """The first place where a stop is complete, by trying every one; the longest that is complete there."""
    for end in range(1, len(text) + 1):
        hit = max((stop for stop in stops if text[:end].endswith(stop)), key=len, default=None)
        if hit is not None:
            return text[:end if include else end - len(hit)], hit
    return text, None


@settings(max_examples=300)
@given(parts=st.lists(st.text("ab\n🦜", max_size=5), max_size=10), include=st.booleans(),
       stops=st.lists(st.text("ab\n🦜", min_size=1, max_size=5), max_size=4))
def test_stops_are_those_of_a_search_however_the_text_is_cut(parts, stops, include):
    watch, out, hit = StopStrings(stops, include=include), "", None
    whole = "".join(parts)
    for part in parts:
        sure, hit = watch.push(part)
        out += sure
        assert hit is not None or whole.startswith(out)
        if hit is not None:
            break
    out += watch.flush()
    assert (out, hit) == searched(whole, stops, include)


def test_nothing_is_held_back_that_cannot_become_a_stop():
    watch = StopStrings(["END", "\n\n"])
    assert [watch.push(part)[0] for part in ("one E", "N", "x\n", "two")] == ["one ", "", "ENx", "\ntwo"]


@settings(max_examples=80)
@given(data=st.data(), include=st.booleans(), least=st.integers(0, 6))
def test_a_stream_is_a_search_of_the_decoded_text(found, data, include, least):
    ids = data.draw(st.lists(st.integers(0, found.size - 1), min_size=least, max_size=20))
    whole = found.decode(ids)
    places = st.integers(0, max(len(whole) - 1, 0))
    stops = [whole[at:at + data.draw(st.integers(1, 4))] or "?" for at in data.draw(st.lists(places, max_size=3))]
    stream = TextStream(found, stops=stops, include_stop=include, min_tokens=least)
    out = ""
    for token in ids:
        stream.hear(token)
        out += stream.take()
    out += stream.flush()
    before = Detokeniser(found)
    unsearched = "".join(before.push(token) for token in ids[:max(least - 1, 0)])
    said, hit = searched(whole[len(unsearched):], stops, include)
    assert (out, stream.stopped) == (unsearched + said, hit)
    assert stream.push(5) == "" or hit is None


@pytest.mark.parametrize("wrong", [[""], ["a"] * (MOST_STOPS + 1), "abc", [5], ["a" * 5000], None], ids=lambda one: repr(one)[:30])
def test_stops_that_make_no_sense_are_refused(wrong):
    with pytest.raises(InputError) as caught:
        StopStrings(wrong)
    assert caught.value.field == "stop"
