"""Uploaded tokenizers: small ones trained here by `tokenizers`, with many of its options, read by us and by it; broken ones."""

import base64
import copy
import inspect
import json

import pytest
import tokenizers as peer
from fuzz import cases
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from pycore.atlas.live import live
from pycore.errors import InputError
from pycore.tokens import normalise, samples
from pycore.tokens.originals import byte_letters
from pycore.tokens.patterns import PATTERNS
from pycore.tokens.upload import from_tiktoken, from_tokenizer_json

STRINGS = [normalise.repaired(text) for text in cases(1200, seed=21)]
SPECIALS = ["<s>", "<|im_end|>"]


@pytest.fixture(scope="session")
def corpus(vocabularies) -> list[str]:
    declarations = samples.declarations()
    return [*(declarations[code] for code in ("eng_Latn", "hin_Deva", "zho_Hans", "rus_Cyrl", "mya_Mymr")), inspect.getsource(inspect)]


def byte_level(corpus, pre, normaliser=None, **options) -> dict:
    """A byte-level BPE tokenizer.json of 3,000 pieces."""
    made = peer.Tokenizer(models.BPE(**options))
    made.pre_tokenizer, made.decoder = pre, decoders.ByteLevel()
    if normaliser:
        made.normalizer = normaliser
    made.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=3000, special_tokens=SPECIALS, show_progress=False,
                                                         initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return json.loads(made.to_str())


def with_fallback(corpus, normaliser, pre) -> dict:
    """A BPE over characters with byte fallback, as SentencePiece's are written out."""
    made = peer.Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    if normaliser:
        made.normalizer = normaliser
    made.pre_tokenizer = pre
    names = ["<unk>", *SPECIALS, *(f"<0x{byte:02X}>" for byte in range(256))]
    made.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=3000, special_tokens=names, limit_alphabet=300, show_progress=False))
    table = json.loads(made.to_str())
    table["added_tokens"] = [row for row in table["added_tokens"] if not row["content"].startswith("<0x")]
    return table


def split(name, behaviour="isolated", invert=False):
    return pre_tokenizers.Split(peer.Regex(PATTERNS[name]), behaviour, invert)


LEVEL = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
LLAMA = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
KINDS = {
    "GPT-2": lambda corpus: byte_level(corpus, pre_tokenizers.ByteLevel(add_prefix_space=False)),
    "RoBERTa's prefix space": lambda corpus: byte_level(corpus, pre_tokenizers.ByteLevel(add_prefix_space=True)),
    "LLaMA-3": lambda corpus: byte_level(corpus, pre_tokenizers.Sequence([split("llama3"), LEVEL]), ignore_merges=True),
    "NFKC": lambda corpus: byte_level(corpus, pre_tokenizers.Sequence([split("o200k_base"), LEVEL]), normalizers.NFKC()),
    "NFD": lambda corpus: byte_level(corpus, pre_tokenizers.Sequence([split("qwen2.5"), LEVEL]), normalizers.Sequence([normalizers.NFD()])),
    "digits": lambda corpus: byte_level(corpus, pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])),
    "runs of digits": lambda corpus: byte_level(corpus, pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=False), LEVEL])),
    "merged with next": lambda corpus: byte_level(corpus, pre_tokenizers.Sequence([pre_tokenizers.Split(" ", "merged_with_next"), LEVEL])),
    "merged with previous": lambda corpus: byte_level(corpus, pre_tokenizers.Sequence([pre_tokenizers.Split(peer.Regex(r"[\s,]"), "merged_with_previous"), LEVEL])),
    "contiguous": lambda corpus: byte_level(corpus, pre_tokenizers.Sequence([pre_tokenizers.Split(peer.Regex(r"[\s\p{P}]"), "contiguous"), LEVEL])),
    "inverted": lambda corpus: byte_level(corpus, pre_tokenizers.Sequence([pre_tokenizers.Split(peer.Regex(r"\p{L}+"), "isolated", True), LEVEL])),
    "Llama 2": lambda corpus: with_fallback(corpus, LLAMA, pre_tokenizers.Split("▁", "merged_with_next")),
    "Metaspace always": lambda corpus: with_fallback(corpus, None, pre_tokenizers.Metaspace(prepend_scheme="always")),
    "Metaspace first": lambda corpus: with_fallback(corpus, None, pre_tokenizers.Metaspace(prepend_scheme="first")),
    "Metaspace never": lambda corpus: with_fallback(corpus, normalizers.NFC(), pre_tokenizers.Metaspace(prepend_scheme="never")),
}
MADE: dict[str, dict] = {}


def made(kind: str, corpus) -> dict:
    if kind not in MADE:
        MADE[kind] = KINDS[kind](corpus)
    return copy.deepcopy(MADE[kind])


@pytest.mark.parametrize("kind", KINDS)
def test_read_as_tokenizers_reads_it(kind, corpus):
    table = made(kind, corpus)
    table["added_tokens"].append(dict(id=1 + max(table["model"]["vocab"].values()), content="<tool>", single_word=False, lstrip=False, rstrip=False, normalized=False, special=False))
    data = json.dumps(table).encode()
    ours, theirs = from_tokenizer_json(data, "mine"), peer.Tokenizer.from_str(data.decode())
    for specials in (False, True):
        theirs.encode_special_tokens = not specials
        for text in [*STRINGS, *(text[:3000] for text in corpus), "a <tool>b<|im_end|> c<s>", "<s>", " <s> x"]:
            encoding, right = ours.encode(text, specials=specials), theirs.encode(text, add_special_tokens=False)
            assert list(encoding.ids) == right.ids, (text[:60], specials)
            assert ours.count(text, specials=specials) == len(right.ids)
            assert len(encoding.pieces) == len(encoding.offsets) == len(encoding.ids)
            assert all(0 <= start <= end <= len(text) for start, end in encoding.offsets)
    assert [node.id for node in ours.tree("Donaudampfschiff")] == ours.ids("Donaudampfschiff")


def test_a_piece_of_text_has_its_place(corpus):
    ours = from_tokenizer_json(json.dumps(made("Llama 2", corpus)).encode(), "mine")
    encoding = ours.encode("Everyone has the right")
    assert b"".join(encoding.pieces) == b" Everyone has the right"
    assert encoding.offsets[0][0] == 0 and encoding.offsets[-1][1] == 22
    assert ours.label == "mine (yours)"


@pytest.mark.parametrize("scheme", ["first", "always", "never"])
def test_what_was_read_decodes_back_around_special_tokens(scheme, corpus):
    """A prefix that only the first part gets is not looked for in the others."""
    table = made("Llama 2", corpus)
    table |= {"normalizer": None, "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": False}}
    ours = from_tokenizer_json(json.dumps(table).encode(), "mine")
    for text in ("hello<s>world", "<s>a", "a <s> b<|im_end|>", "hello world"):
        assert all(live(ours, text, specials=specials).round_trip for specials in (False, True)), text


def test_tiktoken_files(tokenizer, vocabularies):
    known = tokenizer("cl100k_base")
    lines = [base64.b64encode(token) + b" %d" % rank for token, rank in known.engine.ranks.items()]
    ours = from_tiktoken(b"\n".join(lines) + b"\n", "mine.tiktoken", "cl100k_base")
    assert all(ours.ids(text) == known.ids(text) for text in STRINGS[:300])
    for data, said in ((b"\n".join([*lines[:5], b"?? 5"]), "line 6 is not base64"), (b"\n".join(lines[1:]), "1 of the 256 single bytes"),
                       (b"\n".join(lines[:500] + lines[501:]), "gaps"), (b"", "256 of the 256"), (b"\xff\xfe", "line 1")):
        with pytest.raises(InputError, match=said):
            from_tiktoken(data, "mine.tiktoken", "cl100k_base")
    with pytest.raises(InputError, match="needs a pattern"):
        from_tiktoken(b"\n".join(lines), "mine.tiktoken", "gemma3")


def without(path: str):
    def change(table: dict) -> None:
        *way, last = path.split(".")
        for key in way:
            table = table[key]
        del table[last]
    return change


def having(path: str, value):
    def change(table: dict) -> None:
        *way, last = path.split(".")
        for key in way:
            table = table[key]
        table[last] = value
    return change


BROKEN = [
    (without("model"), "'model' is missing"), (without("model.vocab"), "'vocab' is missing"), (without("model.merges"), "'merges' is missing"),
    (having("model.vocab", []), "'vocab' is not an object"), (having("model.type", "WordPiece"), "its model is WordPiece"),
    (having("model.type", "Unigram"), "its model is Unigram"), (having("model.dropout", 0.1), "dropout 0.1"),
    (having("model.end_of_word_suffix", "</w>"), "end_of_word_suffix '</w>'"), (having("pre_tokenizer", None), "without byte_fallback"),
    (having("pre_tokenizer", {"type": "Whitespace"}), "pre_tokenizer Whitespace"), (having("normalizer", {"type": "Lowercase"}), "normalizer Lowercase"),
    (having("normalizer", {"type": "Replace", "pattern": {"Regex": "a+"}, "content": "b"}), "normalizer Replace"),
    (having("model.merges", [["a", "nowhere"]]), "merge 1 names 'nowhere'"), (having("model.merges", ["abc"]), "merge 1 is not a pair"),
    (without("model.vocab.a"), "1 of the 256 single bytes"), (having("model.vocab.a", "x"), "piece 'a' has the id 'x'"),
    (having("model.vocab.a", 10**12), "has the id"), (having("model.vocab.a", 5), "the same id"), (having("model.vocab", {}), "empty"),
    (having("added_tokens", [{"id": 1}]), "added token 1"), (having("model.byte_fallback", True), None),
    (having("pre_tokenizer", {"type": "Split", "pattern": {"Regex": "^a"}, "behavior": "Isolated"}), "pattern"),
    (having("pre_tokenizer", {"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"String": "a"}, "behavior": "Removed"}]}), "Removed"),
]


@pytest.mark.parametrize(("change", "said"), BROKEN)
def test_what_is_wrong_is_said(change, said, corpus):
    table = made("GPT-2", corpus)
    change(table)
    if said is None:
        from_tokenizer_json(json.dumps(table).encode(), "mine")
        return
    with pytest.raises(InputError, match=said):
        from_tokenizer_json(json.dumps(table).encode(), "mine")


JUNK = (None, True, 5, 1e400, "", "x", "\ud800", [], {}, [1], {"type": "Sequence"}, {"String": 5}, {"String": ""}, {"Regex": 5}, {"Regex": "("}, {"Regex": ")"},
        {"Regex": "*"}, {"Regex": "a**"}, {"Regex": "a{5,2}"}, {"Regex": "(?<=a+)b"}, {"Regex": "x{99999999999}"}, {"Regex": "\\x{110000}"}, {"Regex": "[z-a]"},
        {"Regex": "(" * 500 + ")" * 500})
FULL = {"normalizer": {"type": "Sequence", "normalizers": [
            {"type": "NFC"}, {"type": "Replace", "pattern": {"String": "x"}, "content": "y"}, {"type": "Prepend", "prepend": "_"}]},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": "\\p{L}+"}, "behavior": "Isolated", "invert": False}, {"type": "Digits", "individual_digits": True},
            {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}]}}


def places(part, way=()):
    """Every way into a file's tables, a few of each table's members."""
    yield from [way] if way else []
    inside = list(part.items())[:9] if isinstance(part, dict) else list(enumerate(part[:3])) if isinstance(part, list) else []
    for key, value in inside:
        yield from places(value, (*way, key))


def test_nothing_in_a_file_ends_in_a_fault():
    """Whatever stands anywhere in a tokenizer.json: it is read, or refused in words."""
    model = {"type": "BPE", "byte_fallback": False, "ignore_merges": True, "merges": ["h e", "l l"],
             "vocab": {letter: number for number, letter in enumerate([*byte_letters(), "he", "ll"])}}
    whole, refused = json.dumps(FULL | {"model": model, "added_tokens": [{"id": 300, "content": "<s>", "special": True}]}), 0
    for way in places(json.loads(whole)):
        for junk in JUNK:
            table = json.loads(whole)
            inner = table
            for key in way[:-1]:
                inner = inner[key]
            inner[way[-1]] = junk
            try:
                ours = from_tokenizer_json(json.dumps(table).encode(), "mine")
            except InputError as error:
                refused += 1
                assert str(error)
            else:
                assert ours.count("Hello <s> world\u0301 12") == len(ours.encode("Hello <s> world\u0301 12").ids)
    assert refused > 300


@pytest.mark.parametrize(("data", "said"), [
    (b'{"a": ' + b"1" * 5000 + b"}", "no tokenizer.json does"), (b'{"model": "\\uD800"}', "half a character"), (b'{"model": "\\ud83d\\ude00"}', "not an object"),
    (b'{"model": {"vocab": {}, "merges": []}, "normalizer": ' + b'{"type": "Sequence", "normalizers": [' * 400 + b"]}" * 400 + b"}", "byte_fallback"),
    (b"", "not JSON"), (b"{", "not JSON.*line 1, column 2"), (b"[]", "not an object"), (b"\xff{}", "byte 0 is 0xFF"), (b"{}", "'model' is missing"),
    (b"[" * 100_000, "nested too deeply"), (b'{"model": 3}', "'model' is not an object")])
def test_what_is_no_tokenizer_is_said(data, said):
    with pytest.raises(InputError, match=said):
        from_tokenizer_json(data, "mine")


def test_a_special_token_that_takes_spaces_along_is_refused_only_where_it_is_read(corpus):
    table = made("GPT-2", corpus)
    table["added_tokens"][1]["rstrip"] = True
    ours = from_tokenizer_json(json.dumps(table).encode(), "mine")
    assert ours.count("a<|im_end|> b") > 3
    with pytest.raises(InputError, match="takes the spaces around it along"):
        ours.count("a<|im_end|> b", specials=True)
