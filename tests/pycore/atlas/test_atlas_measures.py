"""Measures as Terms: identities between them, conservation, what is refused, and prefill against the roofline's count."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pycore import catalog
from pycore.atlas import measures, prefill, table
from pycore.atlas.kinds import KINDS, Setting
from pycore.atlas.languages import by_code, families, language, languages, scripts
from pycore.atlas.story import story
from pycore.errors import NotKnown, UnknownName
from pycore.roofline import account

ROWS = table.rows()
NAMES = [one.name for one in table.tokenizers()]
CELLS = st.sampled_from(ROWS)


def test_every_language_has_a_row_under_every_tokenizer():
    assert len(ROWS) == 52 * len(NAMES) == len({(row.language.code, row.tokenizer) for row in ROWS})
    assert len(languages()) == 52 and len(scripts()) == 26 and len(families()) >= 15
    assert set(table.sizes()) == set(by_code())


@pytest.mark.parametrize("typed, code", [
    ("hi", "hin_Deva"), ("hin", "hin_Deva"), ("Hindi", "hin_Deva"), ("hin_Deva", "hin_Deva"), ("hin-Deva", "hin_Deva"),
    (" HINDI ", "hin_Deva"), ("zh", "zho_Hans"), ("mandarin", "zho_Hans"), ("zh-CN", "zho_Hans"), ("farsi", "pes_Arab"),
    ("ar", "arb_Arab"), ("oriya", "ory_Orya"), ("my", "mya_Mymr"), ("bo", "bod_Tibt"), ("fil", "tgl_Latn"), ("or", "ory_Orya")])
def test_a_language_answers_to_its_names(typed, code):
    assert language(typed).code == code


@pytest.mark.parametrize("typed, near", [("portugese", "Portuguese"), ("hindu", "Hindi"), ("tamill", "Tamil")])
def test_a_misspelt_language_is_refused_with_the_nearest(typed, near):
    with pytest.raises(UnknownName) as caught:
        language(typed)
    assert near in caught.value.suggestions and caught.value.field == "language"


@given(st.text(max_size=300))
def test_any_text_is_a_language_or_refused(text):
    try:
        assert language(text).code in by_code()
    except UnknownName as fault:
        assert set(fault.suggestions) <= {one.name for one in languages()}


def test_codes_and_aliases_mean_one_language_each():
    spelt = {(name.lower(), one.code) for one in languages() for name in (one.name, *one.codes, *one.aliases)}
    assert len({name for name, _ in spelt}) == len(spelt)
    assert all(language(name) == one for one in languages() for name in (one.name, *one.codes, *one.aliases))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.language.code}-{row.tokenizer}")
def test_measures_agree_with_each_other(row):
    """absolute = premium x (own English against GPT-4o's); tokens per byte x bytes = tokens; premium of English is 1."""
    english = table.english(row.tokenizer)
    assert measures.absolute(row).value == pytest.approx(measures.premium(row).value * measures.absolute(english).value)
    sizes = table.sizes()[row.language.code]
    assert measures.per_byte(row).value * sizes.bytes == pytest.approx(row.tokens)
    assert measures.per_character(row).value * sizes.characters == pytest.approx(row.tokens)
    assert measures.decode_time(row).value == measures.premium(row).value
    assert measures.premium(english).value == 1
    assert sizes.graphemes <= sizes.characters <= sizes.bytes
    if table.tokenizer(row.tokenizer).exact and table.tokenizer(row.tokenizer).normalisation == "none":
        assert row.tokens <= sizes.bytes  # at most a token a byte (NFKC makes two letters of an Armenian ligature)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.language.code}-{row.tokenizer}")
def test_intervals_hold_their_value_and_spread_is_ordered(row):
    for term, ends in ((measures.premium(row), row.premium), (measures.absolute(row), row.absolute)):
        assert term.low <= term.value <= term.high
        assert ends.low <= term.value * (1 + 1e-5) and term.value * (1 - 1e-5) <= ends.high
    assert list(row.spread) == sorted(row.spread)
    assert row.spread[1] <= measures.premium(row).value * 1.1 and row.spread[3] >= measures.premium(row).value * 0.9


@given(CELLS, st.integers(1, 10**7))
def test_context_is_the_inverse_of_fertility(row, context):
    found = measures.effective_context(row, context)
    if row.language.spaced:
        assert found.unit == "words" and found.value * measures.fertility(row).value == pytest.approx(context)
    else:
        assert found.unit == "characters" and found.value * measures.per_character(row).value == pytest.approx(context)
        with pytest.raises(NotKnown, match="separate words"):
            measures.fertility(row)
    content = measures.effective_content(row, context)
    assert measures.tokens_for(row, content.value).value == pytest.approx(context)


def test_a_window_of_128k_tokens_in_words_of_tamil():
    """ANCHORS's example, from the counts: 131,072 x 32,909 words / 103,649 tokens under GPT-4o's."""
    found = measures.effective_context(table.row("tam_Taml", "o200k_base"), 131072)
    assert found.value == pytest.approx(131072 * 32909 / 103649) and found.substituted == "131,072 × 32,909 ÷ 103,649"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.language.code}-{row.tokenizer}")
def test_shares_are_shares_and_counts_alone_have_none(row):
    if table.tokenizer(row.tokenizer).exact:
        assert 0 <= measures.fallback_share(row).value <= measures.split_share(row).value <= 100
        assert row.round_trips == 2009
        return
    for share in (measures.split_share, measures.fallback_share):
        with pytest.raises(NotKnown, match="only counts"):
            share(row)
    assert measures.tokens(row).basis == "reported" and "unofficial" in measures.tokens(row).note


@given(CELLS, st.floats(0, 1e6), st.floats(0, 1e3))
def test_money_is_linear_in_words_and_price(row, words, price):
    one = measures.cost(row, 1.0, 1.0).value
    assert measures.cost(row, words, price).value == pytest.approx(one * words * price)


def test_every_term_says_formula_source_and_line():
    row = table.row("hin_Deva", "llama3")
    for term in (measures.premium(row), measures.absolute(row), measures.fertility(row), measures.per_byte(row),
                 measures.split_share(row), measures.effective_context(row, 8192), measures.cost(row, 1000, 2.5)):
        assert term.formula and term.line.startswith("pycore/atlas/measures.py:") and term.basis == "derived"
        assert any("FLORES-200" in each.source for each in term.walk())


@pytest.mark.parametrize("name", ["llama-3.1-8b", "gemma-3-27b-it", "deepseek-v3", "qwen2.5-7b", "gpt-oss-20b", "qwen3.5-27b"])
@pytest.mark.parametrize("tokens", [1, 1000, 40_000])
def test_work_of_a_prompt_is_the_rooflines(name, tokens):
    """Terms of the formula and the roofline's own accounting of the same step, windows and latents and states included."""
    model = catalog.model(name)
    assert prefill.prefill_flop(model, tokens).value == pytest.approx(account.prompt_flop(prefill.shape_of(model), tokens))


def test_prefill_tends_to_the_premium_and_to_its_square():
    """Short prompts: products alone, so the premium. Very long ones: attention alone, so its square."""
    row, model = table.row("tam_Taml", "llama3"), catalog.model("llama-3.1-8b")
    premium = measures.premium(row).value
    short, long = (prefill.prefill_work(row, model, tokens).value for tokens in (100, 10**8))
    assert premium < short < premium * 1.05 and long == pytest.approx(premium**2, rel=0.01)
    assert prefill.prefill_work(table.english("llama3"), model, 777).value == 1


def test_hand_count_of_llama_3_1_8b():
    """Parameters behind each token, without embedding and head: 8,030,261,248 - 2 x 128,256 x 4,096 - norms = 6,979,321,856."""
    parts = prefill.prefill_flop(catalog.model("llama-3.1-8b"), 1000).parts
    assert parts[0].value == 1000 * 2 * 6_979_321_856 + 2 * 128_256 * 4096
    assert parts[1].value == 32 * 4 * 4096 * (1000 * 1001 / 2)
    assert math.fsum(part.value for part in parts) == prefill.prefill_flop(catalog.model("llama-3.1-8b"), 1000).value


@pytest.mark.parametrize("typed", ["o200k", "llama", "claude", "gpt-4"])
def test_an_unknown_tokenizer_is_refused_with_the_nearest(typed):
    with pytest.raises(UnknownName) as caught:
        table.tokenizer(typed)
    assert set(caught.value.suggestions) <= set(NAMES) and caught.value.suggestions


def test_no_column_is_called_just_claude():
    assert all("unofficial" in one.label or "retired" in one.label for one in table.tokenizers() if "Claude" in one.label)


def test_a_cell_of_the_matrix_is_its_storys_figure():
    """Prefill's work depends on how the prompt is rounded to tokens: cell and story must round alike."""
    model = catalog.model("llama-3.1-8b")
    for row in ROWS[::5]:
        setting = Setting(context=0, model=model.id, prompt_words=1000)
        told = story(row.language.code, row.tokenizer, context=1, model=model, prompt_words=1000)
        assert KINDS["prefill"].value(row, setting) == told.prefill.value
        assert KINDS["premium"].value(row, setting) == told.premium.value == KINDS["decode"].value(row, setting)
        assert KINDS["fertility"].value(row, setting) == (told.fertility and told.fertility.value)
