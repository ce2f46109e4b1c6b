"""Every sentence under every tokenizer: the counts that the benchmark's tables are made of.

The encoders are this project's own (`pycore.tokens`, exact against the reference libraries); the counts-only columns come
from the PyPI package ctok, fetched by name into the cache, since its metadata asks for a newer Python than it needs.
"""

import importlib
import os
import subprocess
import sys
import unicodedata
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

from pycore.cache import place
from pycore.tokens import shelf, supply
from pycore.tokens.tokenizer import Tokenizer, build
from runtime.measure.token_atlas_corpus import SPLITS, joined, lines

EXACT = ("gemma3", "o200k_base", "claude-legacy", "qwen2.5", "deepseek-v3", "llama3", "cl100k_base")
CTOK, CTOK_VERSION = "ctok", "1.3.0"
RECONSTRUCTED = {"claude3-ctok": "3.0", "claude4.7-ctok": "4.7"}
PETROV = {"cl100k_base": "cl100k_base", "qwen2.5": "Qwen"}  # our name -> theirs
NORMALISATION = {"qwen2.5": "NFC", "claude-legacy": "NFKC", "claude3-ctok": "NFC", "claude4.7-ctok": "NFC"}

Files = Mapping[tuple[str, str], bytes]


@dataclass(slots=True, kw_only=True)
class Counted:
    """One file under one tokenizer. `tokens`: a count a sentence; the rest None where only counts are known."""

    tokens: list[int] = field(default_factory=list)
    fallback: int | None = None
    split: int | None = None
    round_trips: int | None = None


@dataclass(slots=True, kw_only=True)
class Column:
    """One tokenizer over the whole corpus: files by (language, split), and joined texts as Petrov et al. count them."""

    files: dict[tuple[str, str], Counted] = field(default_factory=dict)
    petrov: dict[str, int] = field(default_factory=dict)


def kind_of(piece: bytes) -> tuple[int, int]:
    """(1 where the piece is one byte of a longer character, 1 where it holds no whole number of characters)."""
    try:
        piece.decode("utf-8")
    except UnicodeDecodeError:
        return int(len(piece) == 1), 1
    return 0, 0


def encode_file(tokenizer: Tokenizer, kinds: dict[int, tuple[int, int]], data: bytes) -> Counted:
    """Every sentence alone, special tokens as text; each is decoded again and compared with what the tokenizer reads."""
    counted = Counted(fallback=0, split=0, round_trips=0)
    form = NORMALISATION.get(tokenizer.name)
    for sentence in lines(data):
        ids = tokenizer.ids(sentence)
        counted.tokens.append(len(ids))
        for number in ids:
            if number not in kinds:
                kinds[number] = kind_of(tokenizer.piece(number))
            counted.fallback += kinds[number][0]
            counted.split += kinds[number][1]
        decoded = tokenizer.decode(ids)
        counted.round_trips += decoded == (unicodedata.normalize(form, sentence) if form else sentence)
    return counted


def encoded(name: str, files: Files) -> Column:
    """An exact tokenizer over every file."""
    tokenizer, kinds, column = build(shelf.load(name)), {}, Column()
    for key, data in files.items():
        column.files[key] = encode_file(tokenizer, kinds, data)
    if name in PETROV:
        dev, devtest = SPLITS
        column.petrov = {code: tokenizer.count(joined(files[code, dev], files[code, devtest]))
                         for code in dict.fromkeys(code for code, _ in files)}
    return column


def ctok_counter(version: str) -> Callable[[str], int]:
    """ctok's count of a text without the frame that a message puts around it (what it counts for no text at all)."""
    folder = place(f"{CTOK}-{CTOK_VERSION}")
    if not (folder / CTOK).is_dir():
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps",
                        "--ignore-requires-python", "--target", str(folder), f"{CTOK}=={CTOK_VERSION}"], check=True)
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    ctok = importlib.import_module(CTOK)
    frame = {"3.0": 7, "4.7": 11}[version]
    return lambda text: ctok.token_count(text, version) - frame


def reconstructed(name: str, files: Files) -> Column:
    """A column of counts alone."""
    count, column = ctok_counter(RECONSTRUCTED[name]), Column()
    for key, data in files.items():
        column.files[key] = Counted(tokens=[count(sentence) for sentence in lines(data)])
    return column


def one(name: str, files: Files) -> Column:
    """Any tokenizer over every file."""
    return encoded(name, files) if name in EXACT else reconstructed(name, files)


def counted(files: Files, say: Callable[[str], None]) -> dict[str, Column]:
    """Every tokenizer over every file, as many at a time as there are processors."""
    names = (*RECONSTRUCTED, *EXACT)
    supply.fetch(EXACT, say)
    ctok_counter("3.0")
    with ProcessPoolExecutor(max_workers=min(os.cpu_count() or 1, len(names))) as pool:
        running = {name: pool.submit(one, name, files) for name in names}
        columns = {}
        for name, future in running.items():
            columns[name] = future.result()
            say(f"{name}: counted")
    return columns
