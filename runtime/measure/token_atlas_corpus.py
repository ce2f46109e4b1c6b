"""FLORES-200 as it was read: the sentences of each language and split, and what is known of the text without a tokenizer.

The corpus is a folder or a .tar.gz with `dev/<code>.dev` and `devtest/<code>.devtest`. Its maintainers ask that it not be
put anywhere as plain text: nothing here writes a sentence.
"""

import hashlib
import tarfile
from pathlib import Path

from pycore.tokens.graphemes import clusters

SPLITS = {"dev": 997, "devtest": 1012}
COLUMNS = ("language", "split", "sentences", "words", "characters", "grapheme_clusters", "bytes", "sha256")
ARCHIVE = "flores200-52.tar.gz"


def found(facts: Path) -> Path:
    """The corpus beside the folder of facts."""
    return facts.parent / "corpora" / ARCHIVE


def read(corpus: Path, codes: tuple[str, ...]) -> dict[tuple[str, str], bytes]:
    """Every file's bytes by (language, split). Raises SystemExit naming the first that is missing or is not whole."""
    held: dict[str, bytes] = {}
    if corpus.is_dir():
        held = {f"{split}/{code}.{split}": path.read_bytes() for split in SPLITS for code in codes
                if (path := corpus / split / f"{code}.{split}").exists()}
    elif corpus.exists():
        with tarfile.open(corpus) as archive:
            for member in archive:
                if member.isfile():
                    held["/".join(member.name.split("/")[-2:])] = archive.extractfile(member).read()
    else:
        raise SystemExit(f"{corpus} is neither a folder nor a .tar.gz with FLORES-200; say where it is with --corpus")
    files = {}
    for code in codes:
        for split, expected in SPLITS.items():
            name = f"{split}/{code}.{split}"
            if name not in held:
                raise SystemExit(f"{corpus} has no {name}")
            files[code, split] = held[name]
            if len(lines(held[name])) != expected:
                raise SystemExit(f"{name} has {len(lines(held[name]))} sentences, not {expected}")
    return files


def lines(data: bytes) -> list[str]:
    """The sentences of a file."""
    return data.decode("utf-8").removesuffix("\n").split("\n")


def joined(dev: bytes, devtest: bytes) -> str:
    """Both files as Petrov et al. joined them: every line, the empty one behind each last newline too, by spaces."""
    return " ".join(dev.decode("utf-8").split("\n") + devtest.decode("utf-8").split("\n"))


def text_row(code: str, split: str, data: bytes, spaced: bool) -> dict[str, object]:
    """A row of texts.csv: sizes without line ends, and the file's hash."""
    sentences = lines(data)
    return {"language": code, "split": split, "sentences": len(sentences),
            "words": sum(len(sentence.split()) for sentence in sentences) if spaced else "",
            "characters": sum(map(len, sentences)),
            "grapheme_clusters": sum(len(clusters(sentence)) for sentence in sentences),
            "bytes": sum(len(sentence.encode()) for sentence in sentences), "sha256": hashlib.sha256(data).hexdigest()}
