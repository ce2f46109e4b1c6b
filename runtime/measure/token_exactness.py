"""Compare the tokenizers with their references on the whole corpus: FLORES-200, dev and devtest, 52 languages.

    python -m runtime.measure.token_exactness --facts FOLDER [--corpus PATH] [--tokenizers NAME,NAME]

Every sentence alone, then each file as one text, through tiktoken, tokenizers and (Gemma) sentencepiece. Writes nothing;
prints how many texts differ, and the exit status is 1 unless none does. --check changes nothing.
"""

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

from pycore.tokens import shelf
from pycore.tokens.catalogue import origins
from pycore.tokens.tokenizer import build
from runtime.measure import token_atlas_corpus as corpora
from runtime.measure.token_atlas_languages import CODES
from runtime.measure.token_oracles import Ids, references


def differing(ours: Ids, theirs: Ids, texts: Iterable[str]) -> list[str]:
    """The texts that two tokenizers read differently."""
    return [text for text in texts if ours(text) != theirs(text)]


def compared(name: str, texts: list[str], places: list[str]) -> int:
    """How many texts differ from any reference; says so, and where the first ones are (no text of the corpus)."""
    tokenizer, faults = build(shelf.load(name)), 0
    ids = [tokenizer.ids(text) for text in texts]
    counts = [tokenizer.count(text) for text in texts]
    wrong = sum(count != len(found) for count, found in zip(counts, ids, strict=True))
    for reference, theirs in references(name).items():
        unequal = [place for text, place, found in zip(texts, places, ids, strict=True) if theirs(text) != found]
        print(f"{name} and {reference}: {len(unequal)} of {len(texts)} texts differ"
              + (f" ({', '.join(unequal[:5])})" if unequal else ""), flush=True)
        faults += len(unequal)
    return faults + wrong


def main() -> int:
    """Compare; exit status 1 where anything differs."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--facts", type=Path, help="the facts folder; the corpus lies in corpora/ beside it")
    parser.add_argument("--corpus", type=Path, help="FLORES-200: a folder with dev/ and devtest/, or a .tar.gz of it")
    parser.add_argument("--tokenizers", default=",".join(row.name for row in origins()), help="names, by commas")
    parser.add_argument("--check", action="store_true", help="nothing is ever written")
    options = parser.parse_args()
    if not (options.corpus or options.facts):
        parser.error("say where FLORES-200 is: --corpus PATH, or --facts FOLDER")
    files = corpora.read(options.corpus or corpora.found(options.facts), CODES)
    texts, places = [], []
    for (code, split), data in files.items():
        own = corpora.lines(data)
        texts += [*own, "\n".join(own)]
        places += [*(f"{code}.{split} line {number}" for number in range(1, len(own) + 1)), f"{code}.{split} whole"]
    print(f"{len(texts):,} texts")
    return int(any([compared(name, texts, places) for name in options.tokenizers.split(",")]))


if __name__ == "__main__":
    sys.exit(main())
