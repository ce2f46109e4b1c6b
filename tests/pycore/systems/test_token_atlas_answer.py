"""token-atlas as page and command ask it: the matrix looked at in every way, a text piece by piece, bad names together."""

import math
from dataclasses import replace

import pytest
import regex

from pycore import cache
from pycore.atlas.encoders import ALSO, encoder, encoders, names
from pycore.atlas.grid import grid
from pycore.atlas.kinds import KINDS, Setting
from pycore.atlas.languages import languages
from pycore.atlas.live import numbered
from pycore.atlas.table import english, reference, row, sizes, tokenizers
from pycore.cache import Needs
from pycore.errors import InputError, InvalidQuery, UnknownName
from pycore.knobs import from_url, knobs, parse, to_url
from pycore.systems.token_atlas import Answer, Query, answer, completions, matrix, steps
from pycore.tokens import samples

FAMILY = "👩‍👩‍👧‍👦"
KHMER = "ក្រុមហ៊ុន"
TEXTS = ("Hello world", "नमस्ते दुनिया, आप कैसे हैं?", "मनुष्यों", f"a {FAMILY}\r\nb", "cafe\u0301 ™", "饕餮", "", " ", "a\x00b\x1b[31m",
         "<b>&amp;</b> {{ 7*7 }}", "مرحبا بالعالم", "\U0001f1f3\U0001f1f5\U0001f1f3\U0001f1f5", KHMER)


@pytest.fixture(scope="module")
def default(vocabularies):
    return answer(Query())


# The matrix -----------------------------------------------------------------------------------------------------------


def test_every_language_and_tokenizer_has_a_cell(default):
    assert len(default.matrix.rows) == default.matrix.of == len(languages()) == 52
    assert [one.name for one in default.matrix.columns] == [one.name for one in tokenizers()]
    for line in default.matrix.rows:
        assert [cell.tokenizer for cell in line.cells] == [one.name for one in tokenizers()]


def test_cells_are_counts_against_english(default):
    for line in default.matrix.rows:
        for cell in line.cells:
            assert cell.value == cell.tokens / english(cell.tokenizer).tokens
            assert cell.low <= cell.value * (1 + 1e-5) and cell.value <= cell.high * (1 + 1e-5)
            assert cell.text == f"{cell.value:.2f}"
    values = [cell for line in default.matrix.rows for cell in line.cells]
    assert max(values, key=lambda one: one.value).shade == 1.0 and min(values, key=lambda one: one.value).shade == 0.0


@pytest.mark.parametrize("kind", KINDS)
def test_every_measure_has_words_and_a_value_or_a_dash(kind):
    found = matrix(Query(measure=kind))
    assert found.says.endswith(".") and found.label
    for line in found.rows:
        for cell in line.cells:
            assert (cell.value is None) == (cell.text == "–")
            assert cell.value is None or math.isfinite(cell.value) and 0 <= cell.shade <= 1
    missing = {cell.language for line in found.rows for cell in line.cells if cell.value is None}
    unspaced = {one.code for one in languages() if not one.spaced}
    assert kind != "fertility" or missing == unspaced
    assert kind in ("fertility", "split", "fallback", "cost") or not missing


def test_measures_agree_with_one_another():
    """Two roads to the same figure: tokens a byte x bytes = tokens; context x tokens = English words x window."""
    per_byte, context = matrix(Query(measure="per-byte")), matrix(Query(measure="context", context=1000))
    absolute = matrix(Query(measure="absolute"))
    words = sizes()["eng_Latn"].words
    for kind in (per_byte, context, absolute):
        for line in kind.rows:
            for cell in line.cells:
                counted = row(cell.language, cell.tokenizer).tokens
                expected = {"per-byte": counted / sizes()[cell.language].bytes, "context": 1000 * words / counted,
                            "absolute": counted / reference().tokens}[kind.measure]
                assert cell.value == pytest.approx(expected, rel=1e-12)


def test_prefill_grows_faster_than_tokens_and_slower_than_their_square():
    found = {(cell.language, cell.tokenizer): cell.value
             for line in matrix(Query(measure="prefill", prompt=10_000)).rows for cell in line.cells}
    for (code, name), value in found.items():
        premium = row(code, name).tokens / english(name).tokens
        assert min(premium, premium**2) * 0.999 <= value <= max(premium, premium**2) * 1.001


def test_a_price_of_ones_own_makes_cost_a_count():
    found = matrix(Query(measure="cost", price=1.0))
    words = sizes()["eng_Latn"].words
    for line in found.rows:
        for cell in line.cells:
            assert cell.value == pytest.approx(cell.tokens / words, rel=1e-12)


def test_rows_come_in_the_order_asked_for():
    worst = matrix(Query(by="gemma3"))
    values = [line.cells[[one.name for one in worst.columns].index("gemma3")].value for line in worst.rows]
    assert values == sorted(values, reverse=True)
    assert [line.language.name for line in matrix(Query(sort="name")).rows] == sorted(one.name for one in languages())
    turned = [line.language.name for line in matrix(Query(sort="name", reverse=True)).rows]
    assert turned == sorted((one.name for one in languages()), reverse=True)
    scripts = [line.language.script_name for line in matrix(Query(sort="script")).rows]
    assert scripts == sorted(scripts)
    medians = [line.median for line in matrix(Query()).rows]
    assert medians == sorted(medians, reverse=True)
    best = [line.median for line in matrix(Query(measure="context")).rows]
    assert best == sorted(best)  # few words in the window is the worst, and the worst stands first


def test_rows_without_a_value_stand_last():
    found = matrix(Query(measure="fertility"))
    known = [line.median is not None for line in found.rows]
    assert known == sorted(known, reverse=True) and not all(known)


def test_filters_keep_what_they_name():
    assert {line.language.script_name for line in matrix(Query(scripts="deva, Tamil")).rows} == {"Devanagari", "Tamil"}
    assert {line.language.family for line in matrix(Query(families="dravidian")).rows} == {"Dravidian"}
    assert [line.language.code for line in matrix(Query(find="tam")).rows] == ["tam_Taml"]
    assert [line.language.code for line in matrix(Query(find="hi")).rows if line.language.name == "Hindi"]
    empty = matrix(Query(find="klingon"))
    assert empty.rows == () and empty.columns[0].worst_text == "–" and empty.of == 52


def test_groups_hold_every_language_once():
    found = matrix(Query())
    for groups in (found.scripts, found.families):
        assert sum(group.languages for group in groups) == 52
        assert all(len(group.medians) == len(found.columns) for group in groups)
    latin = next(group for group in found.scripts if group.name == "Latin")
    own = sorted(line.cells[0].value for line in found.rows if line.language.script_name == "Latin")
    assert latin.medians[0] == (own[(len(own) - 1) // 2] + own[len(own) // 2]) / 2


def test_typing_leaves_matrix_story_and_bill_as_they_are(vocabularies):
    one, other = (answer(Query(text=text, tokenizers="llama3")) for text in ("first", "second"))
    assert one.matrix is other.matrix and one.story is other.story and one.bill is other.bill
    assert one.placed is other.placed and one.live[0].ids != other.live[0].ids


def test_fields_that_do_not_matter_to_the_matrix_do_not_remake_it():
    assert matrix(Query(context=1000, prompt=77, price=3.0)) is matrix(Query())
    assert matrix(Query(measure="context", context=1000)) is not matrix(Query(measure="context"))


# A text ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [text for text in TEXTS if text])
def test_pieces_are_the_text(vocabularies, text):
    for live in answer(Query(text=text, tokenizers="all")).live:
        data = b"".join(bytes.fromhex(piece.hex) for piece in live.pieces)
        assert live.round_trip and data.decode() == (text if live.read is None else live.read)
        assert len(live.ids) == live.tokens.value == len(live.pieces)
        assert "".join(piece.text for piece in live.pieces if piece.text) in data.decode() or not all(
            piece.text for piece in live.pieces)


@pytest.mark.parametrize("text", [text for text in TEXTS if text != KHMER])
def test_characters_are_numbered_as_the_standard_has_them(text):
    """Against the `regex` package's \\X (Unicode 18: it joins Khmer consonants, which Unicode 16 does not)."""
    expected = [number for number, found in enumerate(regex.findall(r"\X", text)) for _ in found]
    assert numbered(text)[1:-1] == expected


def test_a_token_that_ends_inside_a_character_says_so(vocabularies):
    live = answer(Query(text=FAMILY, tokenizers="o200k_base")).live[0]
    assert len(live.pieces) == 11 and {piece.character for piece in live.pieces} == {0}  # 11: facts, section 5, case 9
    assert not any(piece.whole for piece in live.pieces)
    assert all(piece.whole for piece in answer(Query(text="Hello world", tokenizers="o200k_base")).live[0].pieces)


def test_special_tokens_are_text_unless_asked_for(vocabularies):
    plain = answer(Query(text="<|endoftext|>", tokenizers="o200k_base")).live[0]
    assert plain.ids == (27, 91, 419, 1440, 919, 91, 29) and not any(piece.special for piece in plain.pieces)
    special = answer(Query(text="<|endoftext|>", tokenizers="o200k_base", specials=True)).live[0]
    assert special.ids == (199999,) and special.pieces[0].special and special.pieces[0].text == "<|endoftext|>"


def test_what_is_normalised_is_shown_as_it_is_read(vocabularies):
    by_name = {live.name: live for live in answer(Query(text="cafe\u0301 ™", tokenizers="all")).live}
    assert by_name["qwen2.5"].read == "café ™" and by_name["claude-legacy"].read == "café TM"
    assert all(by_name[name].read is None for name in ("o200k_base", "llama3", "deepseek-v3", "gemma3", "cl100k_base"))


def test_the_tree_of_a_word_ends_in_its_bytes_and_begins_with_its_tokens(vocabularies):
    for live in answer(Query(text="The unbelievable नमस्ते", word="unbelievable", tokenizers="all")).live:
        roots = [node.id for node in live.trees]
        at = [index for index in range(len(live.ids)) if list(live.ids[index:index + len(roots)]) == roots]
        assert at and b"".join(map(leaves, live.trees)) == b" unbelievable"


def leaves(node):
    return b"".join(map(leaves, node.parts)) if node.parts else node.piece


def test_the_longest_word_is_drawn_where_none_is_named(default):
    assert default.live[0].word == max(default.text.split(), key=len)
    assert answer(replace(default.query, text="x" * 100_000, tokenizers="llama3")).live[0].trees


def test_a_text_costs_its_tokens_times_the_price(vocabularies):
    live = answer(Query(text="Hello world", tokenizers="o200k_base", price=5.0)).live[0]
    assert live.cost.value == 2 * 5.0 / 1e6 and live.price.basis == "given"
    dated = answer(Query(text="Hello world", tokenizers="o200k_base")).live[0]
    assert dated.price.source and dated.price.basis == "reported"
    assert answer(Query(text="Hello world", tokenizers="claude-legacy")).live[0].cost is None


def test_the_sample_is_article_one_in_the_language(default):
    assert default.sample.code == "hin_Deva" and default.text == samples.article("hin_Deva")
    odia = answer(Query(language="odia"))  # the package has no Odia
    assert odia.sample.code == "eng_Latn" and odia.text.startswith("All human beings")
    assert answer(Query(text="mine")).sample is None


def test_a_very_long_text_shows_its_beginning_and_counts_all(vocabularies):
    live = answer(Query(text="word " * 20_000, tokenizers="llama3")).live[0]
    assert len(live.ids) > 20_000 and len(live.pieces) == 4_000


# What is not here -----------------------------------------------------------------------------------------------------


def test_without_vocabularies_the_matrix_answers_and_says_what_is_missing(monkeypatch, tmp_path):
    monkeypatch.setenv("INFERENCE_STUDIOS_CACHE", str(tmp_path))
    from pycore.atlas.encoders import built
    built.cache_clear()
    found = list(steps(Query()))
    first, needs, last = (item for item in found if isinstance(item, Answer | Needs))
    assert first.matrix.rows and first.live == ()
    assert set(needs.files) == {"vocabularies/o200k_base.bpe", "vocabularies/llama3.bpe", samples.ARTICLE}
    assert last.text == "" and last.live == ()
    last = answer(Query(text="hello"))
    assert [one.name for one in last.missing] == ["o200k_base", "llama3"]
    assert "token-atlas fetch llama3" in last.missing[1].says


def test_every_fault_is_named_at_once():
    with pytest.raises(InvalidQuery) as caught:
        answer(Query(language="hindii", tokenizer="gtp4", tokenizers="o201k,llama3", mix="english 60, tamll 10", model="nope",
                     columns="foo", prices="gpt-4o cheap"))
    assert {error.field for error in caught.value.errors} == {
        "language", "tokenizer", "tokenizers", "mix", "model", "columns", "prices"}
    by_field = {error.field: error for error in caught.value.errors}
    assert "Hindi" in by_field["language"].suggestions and "o200k_base" in by_field["tokenizers"].suggestions


@pytest.mark.parametrize("knob", [one.name for one in knobs(Query) if one.kind == "text"])
@pytest.mark.parametrize("text", ["<script>alert(1)</script>", "{{ 7*7 }}", "\x00\x1b[31m", "'\";--", "，" * 500])
def test_hostile_names_are_refused_or_find_nothing(knob, text, vocabularies):
    try:
        found = answer(parse(Query, {"text": "x", knob: text}))
    except (InvalidQuery, InputError) as error:
        assert error.as_dict()["message"]
    else:
        assert knob in ("find", "word") and found.live


def test_claude_alone_means_nothing():
    with pytest.raises(UnknownName):
        encoder("claude")
    with pytest.raises(InputError, match="only counts are known"):
        encoders("claude3-ctok")


def test_names_people_use():
    assert encoders("all") == names() and encoders("GPT-4o, llama-3.1,o200k") == ("o200k_base", "llama3")
    assert all(encoder(alias) == name for name, aliases in ALSO.items() for alias in aliases)
    assert encoders("") == ()


def test_an_address_gives_the_question_again():
    query = Query(text="a & b = ü\n", tokenizers="all", specials=True, mix="thai 1, lao 2", measure="per-byte", price=0.5)
    assert from_url(Query, to_url(query)) == query


def test_an_upload_from_elsewhere_is_said(vocabularies):
    with pytest.raises(InvalidQuery, match="choose it again"):
        answer(Query(own="upload:0123456789abcdef:mine.json"))
    with pytest.raises(InvalidQuery):
        answer(Query(own="/etc/passwd"))


def test_a_tokenizer_of_ones_own_stands_beside_the_others(vocabularies):
    """Ranks as tiktoken writes them; its own pattern is not known, so what matters is that it is shown and named."""
    import base64

    ranks = b"".join(base64.b64encode(bytes([byte])) + b" %d\n" % byte for byte in range(256))
    kept = cache.keep_upload("mine.tiktoken", ranks)
    live = answer(Query(text="abc", tokenizers="llama3", own=kept)).live
    assert [one.name for one in live][1:] == ["mine.tiktoken"] and live[1].ids == (97, 98, 99)


def test_completions_can_be_typed(vocabularies):
    for name in completions("languages"):
        answer(Query(language=name, text="x"))
    assert answer(Query(tokenizers=",".join(completions("tokenizers")), text="x")).live
    assert matrix(Query(columns=",".join(completions("columns")), scripts=",".join(completions("scripts")),
                        families=",".join(completions("families")))).rows


def test_terms_explain_themselves(default):
    names_of = {term.name for term in default.terms}
    assert {"Premium", "Fertility", "Prefill work against English", "Language tax", "Tokens of the text"} <= names_of
    assert all(term.source or term.formula or term.parts for term in default.terms)


def test_a_setting_that_is_not_used_is_not_asked():
    same = dict(measure="tokens", columns="all", sort="code", by="", reverse=False, scripts="", families="", find="")
    none = Setting(context=0, model="", prompt_words=0)
    assert grid(**same, setting=none) is grid(**same, setting=none)
