"""How deep JSON is nested, found before it is parsed: a parser that recurses can take the whole of WebAssembly's stack,
which no exception gives back, so text from a reader's own file is looked at first."""

import re

STRING, MARK = r'"[^"\\]*(?:\\.[^"\\]*)*"', r"[\[\]{}]"
OF_TEXT = re.compile(STRING, re.DOTALL), re.compile(MARK)
OF_BYTES = re.compile(STRING.encode(), re.DOTALL), re.compile(MARK.encode())


def deeper(text: str | bytes, most: int) -> bool:
    """Whether brackets nest deeper than `most`, those in strings left out. O(length), and quick where there are few."""
    opening = ("[", "{") if isinstance(text, str) else (b"[", b"{")
    if sum(map(text.count, opening)) <= most:
        return False
    strings, marks = OF_TEXT if isinstance(text, str) else OF_BYTES
    depth = 0
    for mark in marks.findall(strings.sub(text[:0], text)):
        depth += 1 if mark in opening else -1
        if depth > most:
            return True
    return False
