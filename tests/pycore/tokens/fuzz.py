"""Strings that tokenizers stumble over, made from a seed: thousands of them, the same every time."""

import random

WORDS = ("hello", "World", "don't", "I'LL", "we've", "'s", "'ſ", "iPhone", "HTTPServer", "naïve", "Straße", "ﬁne", "™", "①②", "½",
         "café", "cafe\u0301", "नमस्ते", "क़", "க்ஷ", "ကမ္ဘာ", "ប្រ", "ไทย", "ພາສາ", "བོད་", "አማርኛ", "русский", "ёлка", "ελληνικά", "עברית", "العربية",
         "ﺷﻲء", "中文", "日本語ー・テスト", "か゛", "ﾊﾞ", "한국어", "각", "각각", "123", "3.14159", "１２３", "٣٤٥", "१२३", "〇", "Ⅻ", "²",
         "http://a.b/c?d=e", "x86_64", "{}[]();", "->", "//", "\\", "…", "—", "“quoted”", "<h1>", "</td>", "> </", "<b>bold</b>",
         "<table>", "[multimodal]", "<unused7>", "<0x41>", "<mask>", "_", "__init__", "$", "€", "👍🏽", "👩‍👩‍👧‍👦", "🇳🇱", "🫨", "☃️",
         "\u0295", "\u1e9e", "\u212a", "\u2028", "\u2029", "\x85", "\xa0", "\u3000", "\u200b", "\u200d", "\ufeff", "\xad", "\u3040",
         "\u3099", "\u0301\u0323", "\u0345", "\u1161", "\u11a8", "\U00016d67\U00016d67", "\U00011935\U00011930", "\u0897", "\x1c")
SPACES = (" ", "  ", "   ", "\n", "\n\n", "\r\n", "\r\n\r\n", "\t", "\t\t", " \n", "\n ", " \t ", "\r", "\x0b", "\x0c")
PLANES = ((0, 0x7F), (0x80, 0x7FF), (0x800, 0xD7FF), (0xE000, 0xFFFF), (0x10000, 0x1FFFF), (0x20000, 0x3FFFF), (0xE0000, 0x10FFFF))


def cases(count: int, seed: int = 4) -> list[str]:
    """The plain hard ones, then `count` drawn ones."""
    draw = random.Random(seed)
    return fixed() + [drawn(draw) for _ in range(count)]


def fixed() -> list[str]:
    """Runs of every length, all control characters, every plane."""
    found = ["", " ", "\ud800", "a\udfffb", "\ud83d\udc4d", "\udc4d\ud83d", "\x00", "\x00\x01a\x02 b"]
    found += [f"{left}{mark * length}{right}" for mark in (" ", "\n", "\t", "\r\n", "\u3000", "\xa0")
              for length in (*range(1, 35), 62, 63, 64, 69) for left, right in (("", ""), ("a", "b"))]
    found += ["9" * length for length in range(1, 14)] + ["1" * 1000, "x" * 1000, "=" * 200, "ab" * 300, "漢" * 300, "́" * 300]
    found += [chr(first) + chr(first + 1) + "a" + chr(first) for first in range(0, 0x110000, 0x3FD) if not 0xD700 <= first < 0xE000]
    return found + [f"a{chr(code)}b {chr(code)} {chr(code)}{chr(code)}" for code in range(0xA1)]


def drawn(draw: random.Random) -> str:
    """One string: words, spaces, characters of any plane, in any order."""
    parts = []
    for _ in range(draw.randint(1, 14)):
        kind = draw.random()
        if kind < 0.5:
            parts.append(draw.choice(WORDS))
        elif kind < 0.75:
            parts.append(draw.choice(SPACES) * draw.choice((1, 1, 1, 2, 3, 17, 33)))
        elif kind < 0.9:
            parts.append(character(draw))
        else:
            parts.append("".join(draw.choice("abcXYZ019 .,'-é") for _ in range(draw.randint(1, 30))))
    return "".join(parts)


def character(draw: random.Random) -> str:
    """Any code point but a surrogate, from a plane drawn first."""
    first, last = draw.choice(PLANES)
    return chr(draw.randint(first, last))
