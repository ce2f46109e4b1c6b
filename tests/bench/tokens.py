"""Encoding in pure Python beside tiktoken and tokenizers (Rust) and tiktoken's own Python, on the same texts."""

import inspect
import time
from collections.abc import Callable
from itertools import cycle

from pycore.tokens import samples, shelf
from pycore.tokens.catalogue import origins
from pycore.tokens.supply import fetch, fetch_samples
from pycore.tokens.tokenizer import build
from runtime.measure import token_oracles

SIZE, SMALL = 100_000, 6_000
LANGUAGES = {"English": "eng_Latn", "Hindi": "hin_Deva", "Chinese": "zho_Hans", "Burmese": "mya_Mymr"}
BETTER = 20.0
"""How many times faster than tiktoken's `_educational` we mean to be."""


def texts() -> dict[str, str]:
    """About `SIZE` bytes each: whole declarations, again from the start where one is too short; this Python's own code."""
    found = {name: sized(samples.declarations()[code]) for name, code in LANGUAGES.items()}
    return found | {"code": sized(inspect.getsource(inspect))}


def sized(text: str) -> str:
    """A text of `SIZE` bytes. Repeats carry their number, so that a cold cache is not filled by the first round."""
    parts, size = [], 0
    for number in cycle(range(1, 100)):
        parts.append(f"{text}\n{number}\n")
        size += len(parts[-1].encode())
        if size >= SIZE:
            return "".join(parts).encode()[:SIZE].decode("utf-8", "ignore")
    raise AssertionError("cycle ends")


def megabytes_per_s(work: Callable[[str], object], text: str, before: Callable[[], object] = lambda: None) -> float:
    """The best of three rounds, in processor time."""
    best = float("inf")
    for _ in range(3):
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
    """How many times faster than tiktoken's own Python, cold, on the beginning of each text; ids must be equal."""
    theirs = educational(name)
    print(f"\n{name}, first {SMALL:,} bytes: MB/s cold, tiktoken._educational, times faster")
    ratios = []
    for label, text in table.items():
        part = text.encode()[:SMALL].decode("utf-8", "ignore")
        if list(theirs(part)) != ours.ids(part):
            raise SystemExit(f"{name}, {label}: ids differ from tiktoken._educational")
        cold, peer = megabytes_per_s(ours.ids, part, ours.engine.cache.clear), megabytes_per_s(theirs, part)
        ratios.append(cold / peer)
        print(f"{label:9}{cold:8.2f}{peer:10.4f}{cold / peer:9.0f}x")
    print(f"at least {min(ratios):.0f} times faster; {BETTER:.0f} are asked for")
    if min(ratios) < BETTER:
        raise SystemExit(f"{name}: {min(ratios):.1f} times faster than tiktoken._educational, less than {BETTER:.0f}")


def main() -> None:
    """Every tokenizer on every text."""
    fetch([one.name for one in origins()], print)
    fetch_samples(print)
    table = texts()
    print(f"MB/s of UTF-8, {SIZE:,} bytes; in brackets how much faster than ours (warm)")
    print(f"{'':14}{'':9}{'cold':>8}{'warm':>8}  {'tiktoken':>16}  {'tokenizers':>16}")
    for name in (one.name for one in origins()):
        ours, peers = build(shelf.load(name)), token_oracles.references(name)
        for text in table.values():
            ours.count(text[:200])  # patterns compiled
        for label, text in table.items():
            row(name, label, text, ours, peers)
    for name in ("o200k_base", "cl100k_base"):
        beside_education(name, table, build(shelf.load(name)))
