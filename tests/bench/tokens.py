"""Encoding in pure Python beside tiktoken and tokenizers (Rust) and tiktoken's own Python, on the same texts."""

import inspect
import time
from collections.abc import Callable

from pycore.tokens import samples, shelf
from pycore.tokens.catalogue import origins
from pycore.tokens.supply import fetch, fetch_samples
from pycore.tokens.tokenizer import build
from runtime.measure import token_oracles

LANGUAGES = {"English": "eng_Latn", "Hindi": "hin_Deva", "Chinese": "zho_Hans", "Burmese": "mya_Mymr"}
CODE = 100_000
BETTER = 20.0
"""How many times faster than tiktoken's `_educational` we mean to be, words once seen being remembered."""


def texts() -> dict[str, str]:
    """The Universal Declaration once (10,000 to 50,000 bytes), this Python's own code. Nothing is repeated to fill a size."""
    found = {name: samples.declarations()[code] for name, code in LANGUAGES.items()}
    return found | {"code": inspect.getsource(inspect)[:CODE]}


def megabytes_per_s(work: Callable[[str], object], text: str, before: Callable[[], object] = lambda: None) -> float:
    """The best of five rounds, in processor time."""
    best = float("inf")
    for _ in range(5):
        before()
        start = time.process_time()
        work(text)
        best = min(best, time.process_time() - start)
    return len(text.encode()) / best / 1e6


def educational(name: str) -> Callable[[str], object]:
    """tiktoken's pure-Python encoder for a vocabulary."""
    from tiktoken._educational import SimpleBytePairEncoding
    from tiktoken_ext import openai_public

    vocabulary = shelf.load(name)
    ranks = {token: vocabulary.first_id + index for index, token in enumerate(vocabulary.tokens)}
    pattern = token_oracles.published_pattern(openai_public, name)
    encoder = SimpleBytePairEncoding(pat_str=pattern, mergeable_ranks=ranks)
    return lambda text: encoder.encode(text, visualise=None)


def row(name: str, label: str, text: str, ours, peers: dict[str, Callable[[str], object]]) -> None:
    """One line of the table."""
    cold = megabytes_per_s(ours.ids, text, ours.engine.cache.clear)
    warm = megabytes_per_s(ours.ids, text)
    cells = []
    for package in ("tiktoken", "tokenizers"):
        speed = megabytes_per_s(peers[package], text) if package in peers else None
        cells.append(f"{speed:8.1f} ({speed / warm:4.1f}x)" if speed else f"{'-':>16}")
    print(f"{name:14}{label:9}{cold:8.2f}{warm:8.2f}  {'  '.join(cells)}")


def beside_education(name: str, table: dict[str, str], ours) -> None:
    """How many times faster than tiktoken's own Python, which remembers nothing; ids must be equal."""
    theirs = educational(name)
    print(f"\n{name} beside tiktoken._educational: its MB/s, how many times faster we are cold and warm")
    cold, warm = [], []
    for label, text in table.items():
        if list(theirs(text)) != ours.ids(text):
            raise SystemExit(f"{name}, {label}: ids differ from tiktoken._educational")
        peer = megabytes_per_s(theirs, text)
        cold.append(megabytes_per_s(ours.ids, text, ours.engine.cache.clear) / peer)
        warm.append(megabytes_per_s(ours.ids, text) / peer)
        print(f"{label:9}{peer:8.3f}{cold[-1]:9.0f}x{warm[-1]:9.0f}x")
    print(f"at least {min(cold):.1f} times faster on text never seen before, {min(warm):.1f} times on words seen before "
          f"(target: {BETTER:.0f})")


def main() -> None:
    """Every tokenizer on every text."""
    fetch([one.name for one in origins()], print)
    fetch_samples(print)
    table = texts()
    sizes = ", ".join(f"{label} {len(text.encode()):,}" for label, text in table.items())
    print(f"MB/s of UTF-8 ({sizes} bytes), cold: first sight; in brackets how many times as fast as ours (warm)")
    print(f"{'':14}{'':9}{'cold':>8}{'warm':>8}  {'tiktoken':>16}  {'tokenizers':>16}")
    for name in (one.name for one in origins()):
        ours, peers = build(shelf.load(name)), token_oracles.references(name)
        for text in table.values():
            ours.count(text[:200])  # patterns compiled
        for label, text in table.items():
            row(name, label, text, ours, peers)
    for name in ("o200k_base", "cl100k_base"):
        beside_education(name, table, build(shelf.load(name)))
