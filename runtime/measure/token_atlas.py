"""data/token-atlas-benchmark/: what 52 languages cost under every tokenizer, counted on FLORES-200. No text is written.

    python -m runtime.measure.token_atlas --facts FOLDER [--check]
    python -m runtime.measure.token_atlas --corpus FOLDER|flores200.tar.gz [--check]
"""

import argparse
import sys
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from pycore.facts import table
from runtime.measure import token_atlas_corpus as corpora
from runtime.measure import token_atlas_figures as figures
from runtime.measure.tables import csv_text, settle
from runtime.measure.token_atlas_counts import CTOK, CTOK_VERSION, NORMALISATION, Column, counted
from runtime.measure.token_atlas_languages import CODES, UNSPACED, language_rows
from runtime.measure.token_atlas_languages import COLUMNS as LANGUAGES
from runtime.measure.token_atlas_models import COLUMNS as MODELS
from runtime.measure.token_atlas_models import model_rows

FOLDER = "data/token-atlas-benchmark"
TOKENIZERS = ("tokenizer", "label", "maker", "kind", "normalisation", "exact", "vocabulary", "package", "package_version",
              "sha256", "note")
BYTES, CHARACTERS, TILING = "byte-level BPE", "SentencePiece BPE with byte fallback", "minimum-cost tiling"
MADE = (  # name, maker, kind, ids of pieces (specials left out), note
    ("o200k_base", "OpenAI", BYTES, 199_998, ""),
    ("llama3", "Meta", BYTES, 128_000, "Llama 3 to 3.3"),
    ("qwen2.5", "Alibaba Cloud", BYTES, 151_643, "Qwen2.5 and Qwen3; the first Qwen's too"),
    ("deepseek-v3", "DeepSeek", BYTES, 127_997, ""),
    ("gemma3", "Google", CHARACTERS, 262_144, "special and unused ids counted in"),
    ("claude-legacy", "Anthropic", BYTES, 64_995, "the last one that Anthropic published; not that of Claude 3 or later"),
    ("cl100k_base", "OpenAI", BYTES, 100_256, "GPT-4 and GPT-3.5; here because Petrov et al. published its counts"),
)
CTOK_SHA256 = "84442682eeb2013ecb86861f9477b4ad3e19cc174099df98e9b5016450013217"
CTOK_NOTE = ("counts alone, without the frame of a message; by its author exact on 962,053 of 962,054 stored API counts "
             "(3 to 4.6), never checked here against Anthropic")
REBUILT = (  # name, label
    ("claude3-ctok", "Claude 3 to 4.6, unofficial reconstruction (ctok)"),
    ("claude4.7-ctok", "Claude 4.7 and later, unofficial reconstruction (ctok)"),
)
ORDER = (*(row[0] for row in MADE), *(row[0] for row in REBUILT))


def tokenizer_rows() -> list[dict[str, object]]:
    """Rows of tokenizers.csv: packages and hashes are those of data/tokenizers/vocabularies.csv."""
    shelf = {row["name"]: row for row in table("vocabularies", "tokenizers")}
    rows = []
    for name, maker, kind, size, note in MADE:
        package, _, version = shelf[name]["package"].replace("==", "@").rpartition("@")
        rows.append({"tokenizer": name, "label": shelf[name]["label"], "maker": maker, "kind": kind,
                     "normalisation": NORMALISATION.get(name, "none"), "exact": "1", "vocabulary": size,
                     "package": f"{shelf[name]['manager']} {package}", "package_version": version,
                     "sha256": shelf[name]["sha256"], "note": note})
    for name, label in REBUILT:
        rows.append({"tokenizer": name, "label": label, "maker": "Anthropic; reconstructed by Sander Land", "kind": TILING,
                     "normalisation": NORMALISATION[name], "exact": "", "vocabulary": "", "package": f"pip {CTOK}",
                     "package_version": CTOK_VERSION, "sha256": CTOK_SHA256, "note": CTOK_NOTE})
    return rows


def text_rows(files: Mapping[tuple[str, str], bytes]) -> list[dict[str, object]]:
    """Rows of texts.csv."""
    with ProcessPoolExecutor() as pool:
        waiting = [pool.submit(corpora.text_row, code, split, data, code not in UNSPACED)
                   for (code, split), data in files.items()]
        return [one.result() for one in waiting]


def summed(rows: list[dict[str, object]]) -> dict[str, dict[str, int]]:
    """Words, characters and bytes by language; 0 words where they were not counted."""
    found = {code: {"words": 0, "characters": 0, "bytes": 0} for code in CODES}
    for row in rows:
        for name in found[row["language"]]:
            found[row["language"]][name] += row[name] or 0
    return found


def tables(files: Mapping[tuple[str, str], bytes], columns: Mapping[str, Column]) -> dict[str, str]:
    """Every file of the dataset that is generated. Raises SystemExit where a tokenizer lost text."""
    texts = text_rows(files)
    sums = figures.resampled(columns, CODES)
    totals = {(code, name): sum(figures.whole(columns, name, code)) for code in CODES for name in columns}
    lost = figures.unfaithful(columns, sum(corpora.SPLITS.values()), CODES)
    if lost:
        raise SystemExit("not written: " + "; ".join(lost))
    return {f"{FOLDER}/{name}.csv": csv_text(header, rows) for name, header, rows in (
        ("languages", LANGUAGES, language_rows()),
        ("tokenizers", TOKENIZERS, tokenizer_rows()),
        ("models", MODELS, model_rows()),
        ("texts", corpora.COLUMNS, texts),
        ("matrix", figures.MATRIX, figures.matrix_rows(columns, sums, summed(texts))),
        ("splits", figures.BY_SPLIT, figures.split_rows(columns, CODES)),
        ("ranking", figures.RANKING, figures.ranking_rows(sums, totals, CODES, ORDER)),
    )}


def main() -> int:
    """Write or compare. Exit status."""
    parser = argparse.ArgumentParser(prog="python -m runtime.measure.token_atlas", description=__doc__)
    parser.add_argument("--facts", type=Path, help="the folder of public facts; the corpus lies in corpora/ beside it")
    parser.add_argument("--corpus", type=Path, help="FLORES-200: a folder with dev/ and devtest/, or a .tar.gz of it")
    parser.add_argument("--check", action="store_true", help="compare with what is committed, write nothing")
    options = parser.parse_args()
    if not (options.corpus or options.facts):
        parser.error("say where FLORES-200 is: --corpus PATH, or --facts FOLDER")
    files = corpora.read(options.corpus or corpora.found(options.facts), CODES)
    columns = counted(files, lambda text: print(text, file=sys.stderr))
    return settle(tables(files, {name: columns[name] for name in ORDER}), check=options.check)


if __name__ == "__main__":
    raise SystemExit(main())
