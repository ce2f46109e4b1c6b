"""Ids that several implementations agree on, and what users of other tokenizer tools complained about, case by case."""

import random
import time

import pytest

from pycore.errors import InputError
from pycore.tokens.cache import ENTRIES, LONGEST, Cache

AGREED = {  # several implementations each: facts on tokenizers, section 1. ids of the first, numbers of tokens of the others
    "o200k_base": ([13225, 2375], 10, 9, 9, 12, 28), "llama3": ([9906, 1917], 16, 11, 11, 37, 28),
    "qwen2.5": ([9707, 1879], 27, 10, 8, 27, 28), "deepseek-v3": ([19923, 2058], 15, 11, 8, 17, 28),
    "gemma3": ([9259, 1902], 7, 9, 8, 10, 34), "claude-legacy": ([10002, 2253], 28, 22, 17, 23, 30)}
STRINGS = ("नमस्ते दुनिया, आप कैसे हैं?", "مرحبا بالعالم، كيف حالك؟", "你好，世界！今天天气怎么样？", "မင်္ဂလာပါ ကမ္ဘာလောက",
           "def fib(n):\n    if n < 2:\n        return n\n    return fib(n-1) + fib(n-2)\n")
FAMILY = "👩‍👩‍👧‍👦"


@pytest.mark.parametrize("name", AGREED)
def test_ids_that_all_implementations_agree_on(name, tokenizer):
    ours = tokenizer(name)
    hello, *counts = AGREED[name]
    assert ours.ids("Hello world") == hello
    assert [ours.count(text) for text in STRINGS] == counts


def test_chinese_ids(tokenizer):
    assert tokenizer("o200k_base").ids(STRINGS[2]) == [177519, 979, 28428, 3393, 10941, 1487, 25896, 34633, 4802]
    assert tokenizer("gemma3").ids(STRINGS[2]) == [144626, 236900, 12811, 237354, 22601, 122362, 114172, 237536]


CASES = [  # thread, tokenizer, text, ids or how many
    ("latitudegames/GPT-3-Encoder#1", "o200k_base", "hello 👋 world 🌍", [24912, 61138, 233, 2375, 130321, 235]),
    ("latitudegames/GPT-3-Encoder#1", "llama3", "hello 👋 world 🌍", 7), ("latitudegames/GPT-3-Encoder#1", "qwen2.5", "hello 👋 world 🌍", 7),
    ("latitudegames/GPT-3-Encoder#1", "deepseek-v3", "hello 👋 world 🌍", 6), ("latitudegames/GPT-3-Encoder#1", "gemma3", "hello 👋 world 🌍", 5),
    ("Aider-AI/aider#1240", "o200k_base", "<|endoftext|>", [27, 91, 419, 1440, 919, 91, 29]),
    ("ggml-org/llama.cpp#7193", "llama3", " Việt", [101798]), ("ggml-org/llama.cpp#7193", "o200k_base", " Việt", [53904]),
    ("zspacelabs/wordchipper#387", "qwen2.5", "cafe\u0301", [924, 58858]), ("zspacelabs/wordchipper#387", "o200k_base", "cafe\u0301", [66, 6903, 13430]),
    ("zspacelabs/wordchipper#387", "gemma3", "cafe\u0301", 2),
    ("marcelroed/gigatoken#37", "deepseek-v3", "a 🫨", [67, 7351, 107, 104]),
    ("openai/tiktoken#294", "o200k_base", "饕餮", [31031, 243, 26127, 106]),
    ("openai/tiktoken#294", "o200k_base", FAMILY, 11), ("openai/tiktoken#294", "llama3", FAMILY, 15), ("openai/tiktoken#294", "qwen2.5", FAMILY, 10),
    ("openai/tiktoken#294", "gemma3", FAMILY, 7),
    ("niieani/gpt-tokenizer#20", "cl100k_base", "Welcome to gpt-tokenizer. Replace this with your text to see how tokenization works.", 19),
    ("niieani/gpt-tokenizer#20", "o200k_base", "Welcome to gpt-tokenizer. Replace this with your text to see how tokenization works.", 19),
    ("niieani/gpt-tokenizer#20", "deepseek-v3", "Welcome to gpt-tokenizer. Replace this with your text to see how tokenization works.", 20),
    ("openai/tiktoken#195", "cl100k_base", "a" * 100_000, 12_500), ("openai/tiktoken#195", "o200k_base", "a" * 100_000, 12_500),
]


@pytest.mark.parametrize(("thread", "name", "text", "right"), CASES)
def test_what_users_complained_about(thread, name, text, right, tokenizer):
    ours = tokenizer(name)
    ids = ours.ids(text)
    assert ids == right if isinstance(right, list) else len(ids) == right
    assert ours.decode(ids) == ours.plain(ours.normalised(text))  # nothing was dropped on the way


def test_trade_mark_under_claude(tokenizer):
    """anthropics/anthropic-tokenizer-typescript#2: NFKC was left out, and ™ counted as itself."""
    ours = tokenizer("claude-legacy")
    assert ours.normalised("™") == "TM" and ours.ids("a™") == ours.ids("aTM")
    assert ours.encode("a™ b").offsets[-1] == (2, 4)


@pytest.mark.parametrize(("name", "text", "number"), [
    ("o200k_base", "<|endoftext|>", 199999), ("o200k_base", "<|endofprompt|>", 200018), ("llama3", "<|eot_id|>", 128009),
    ("qwen2.5", "<|im_start|>", 151644), ("deepseek-v3", "<｜end▁of▁sentence｜>", 1), ("gemma3", "<bos>", 2), ("claude-legacy", "<EOT>", 0)])
def test_special_tokens_are_text_unless_asked_for(name, text, number, tokenizer):
    ours = tokenizer(name)
    plain, special = ours.encode(f"a {text}b"), ours.encode(f"a {text}b", specials=True)
    assert number not in plain.ids and len(plain.ids) > len(special.ids)
    assert special.ids[-2] == number and special.pieces[-2] == text.encode() and special.offsets[-2] == (2, 2 + len(text))
    assert number in ours.special_ids
    assert ours.decode(plain.ids) == ours.plain(f"a {text}b")
    assert ours.count(f"a {text}b", specials=True) == len(special.ids)


def test_gemma_takes_what_its_makers_defined_as_a_whole(tokenizer, references):
    ours = tokenizer("gemma3")
    assert [len(ours.ids(text)) for text in ("\n" * 31, "\n" * 32, " " * 31, "\t" * 31, "<h1>", "<table>")] == [1, 2, 1, 1, 1, 1]
    assert ours.ids("a▁b") == ours.ids("a b") == references("gemma3")["sentencepiece"]("a▁b")
    assert ours.ids("<0x41>") == references("gemma3")["sentencepiece"]("<0x41>")
    assert ours.encode("\u0378").pieces == (b"\xcd", b"\xb8")  # no piece: bytes


def test_an_unknown_id_is_refused(tokenizer):
    for name, number in (("o200k_base", 199_998), ("deepseek-v3", 200_000), ("gemma3", -1), ("claude-legacy", 65_000)):
        with pytest.raises(InputError, match="has ids from"):
            tokenizer(name).decode([number])
    assert tokenizer("o200k_base").decode([199_999]) == "<|endoftext|>"


def test_merge_tree(tokenizer):
    ours = tokenizer("o200k_base")
    (root,) = ours.tree("hello")
    assert (root.piece, root.id, root.order) == (b"hello", 24912, 4)
    assert root.parts[0].piece + root.parts[1].piece == b"hello"

    def check(node):
        assert not node.parts or b"".join(part.piece for part in node.parts) == node.piece
        assert node.id is not None and ours.piece(node.id) == node.piece
        assert all(0 <= part.order < node.order for part in node.parts)
        for part in node.parts:
            check(part)

    for name in AGREED:
        ours = tokenizer(name)
        for word in ("Donaudampfschifffahrt", "नमस्ते", "饕餮", "\u0378", "  x", "<h1>"):
            roots = ours.tree(word)
            assert [node.id for node in roots] == ours.ids(word) or "\u0378" in word
            for node in roots:
                if "\u0378" not in word:
                    check(node)
    with pytest.raises(InputError, match="merge tree"):
        ours.tree("a" * 2001)


def letters(length: int) -> str:
    draw = random.Random(1)
    return "".join(draw.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(length))


GROWN = {"identical letters": lambda n: "a" * n, "random letters": letters, "digits": lambda n: "7" * n, "spaces": lambda n: " " * n,
         "line ends": lambda n: "\r\n" * (n // 2), "punctuation": lambda n: "=" * n, "marks": lambda n: "\u0301" * n,
         "Chinese without end": lambda n: "漢字仮名" * (n // 4), "emoji": lambda n: FAMILY * (n // 7),
         "accents to compose": lambda n: "e\u0301" * (n // 2), "controls": lambda n: "\x00\x01" * (n // 2),
         "tags": lambda n: "<h1" * (n // 3), "words": lambda n: "the quick brown fox " * (n // 20)}


def seconds(ours, text: str) -> float:
    ours.engine.cache.clear()
    before = time.process_time()
    ours.count(text)
    return time.process_time() - before


@pytest.mark.parametrize("name", ["o200k_base", "qwen2.5", "deepseek-v3", "gemma3", "claude-legacy"])
@pytest.mark.parametrize("kind", GROWN)
def test_time_grows_almost_linearly(kind, name, tokenizer):
    """Eight times the text takes at most twice eight times as long (n log n is 1.25 times), where it can be measured."""
    ours = tokenizer(name)
    make = GROWN[kind]
    seconds(ours, make(2000))
    few = min(seconds(ours, make(12_500)) for _ in range(3))
    many = min(seconds(ours, make(100_000)) for _ in range(2))
    assert many <= 16 * few or many < 0.1, (few, many)


def test_the_cache_is_bounded():
    """latitudegames/GPT-3-Encoder#35, huggingface/transformers.js#962: it grew for ever, or kept whole texts."""
    cache = Cache(lambda piece: (len(piece),))
    for number in range(ENTRIES + 100):
        assert cache[str(number)] == (len(str(number)),)
        assert len(cache) <= ENTRIES
    cache["x" * (LONGEST + 1)]
    assert "x" * (LONGEST + 1) not in cache and len(cache) >= 100
