"""`data/validation/` for tokens: what others counted, to compare the benchmark with.

    python -m runtime.measure.token_atlas_published --facts FOLDER [--check]

Writes petrov_token_totals.csv (Petrov et al.'s totals for our languages), gpt4o_launch.csv (the table of OpenAI's GPT-4o
announcement, its 20 sentences quoted) and token_premiums.csv (another implementation's counts on the same corpus).
"""

import argparse
import csv
import re
import sys
from pathlib import Path

from runtime.measure.tables import csv_text, settle
from runtime.measure.token_atlas_languages import LANGUAGES, petrov_names

PETROV = ("language", "petrov_name", "cl100k_base", "qwen", "utf32", "byt5", "source")
PETROV_SOURCE = ("Petrov et al. 2023 (arXiv 2305.15425), AleksandarPetrov/tokenization-fairness "
                 "@365c3f85bdb302fdcf6d389f5f1651e4ef041741 assets/tokenization_lengths.csv")
LAUNCH = ("language", "cl100k_base", "o200k_base", "times_fewer", "sentence", "known_fault", "source")
LAUNCH_SOURCE = "openai.com/index/hello-gpt-4o (2024-05-13), language tokenization"
LAUNCH_FAULTS = {"Persian": "63 and 32 on the text as stored: a character was likely lost",
                 "Italian": "33 and 27 on the text as stored: a character was likely lost"}
PREMIUMS = ("language", "tokenizer", "figure", "value", "source")
PREMIUMS_SOURCE = "counts by tiktoken 0.14.0, tokenizers 0.23.3 and ctok 1.3.0, gathered before this project counted"
SHOWN = ("o200k_base", "llama3", "claude3-ctok", "qwen2.5", "deepseek-v3", "gemma3")
ENGLISH = {"GPT-4o": "o200k_base", "LLaMA-3": "llama3", "Claude 3": "claude3-ctok", "Claude 4.7": "claude4.7-ctok",
           "Claude 1/2": "claude-legacy", "Qwen2.5": "qwen2.5", "DeepSeek-V3": "deepseek-v3", "Gemma 3": "gemma3",
           "cl100k": "cl100k_base"}
SUMMARY = ENGLISH | {"o200k": "o200k_base", "DeepSeek": "deepseek-v3"}
FIGURES = ("median premium", "mean premium", "worst premium", "languages at 4 times or more")


def petrov_rows(facts: Path) -> list[dict[str, object]]:
    """Published totals for each of our languages."""
    with open(facts / "tokenizers" / "petrov_tokenization_lengths.csv", encoding="utf-8", newline="") as file:
        found = {row["Language"]: row for row in csv.DictReader(file)}
    return [{"language": code, "petrov_name": name, "cl100k_base": found[name]["cl100k_base"], "qwen": found[name]["Qwen"],
             "utf32": found[name]["UTF-32"], "byt5": found[name]["ByT5"], "source": PETROV_SOURCE}
            for code, name in petrov_names().items()]


def launch_rows(facts: Path) -> list[dict[str, object]]:
    """The launch table, as stored."""
    with open(facts / "tokenizers" / "openai_gpt4o_table.tsv", encoding="utf-8", newline="") as file:
        found = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [{"language": name, "cl100k_base": old, "o200k_base": new, "times_fewer": times, "sentence": sentence,
             "known_fault": LAUNCH_FAULTS.get(name, ""), "source": LAUNCH_SOURCE}
            for name, times, old, new, sentence in found]


def premium_rows(facts: Path) -> list[dict[str, object]]:
    """English totals, premiums to two decimals and summaries over the languages, read from the page of facts."""
    page = (facts / "tokenizers.md").read_text(encoding="utf-8")
    codes = {name: code for code, name, *_ in LANGUAGES}
    rows = []
    totals = re.search(r"^English: (GPT-4o .*?) \(42,855 words", page, re.M).group(1)
    for name, count in re.findall(r"(?:^|[;,] )([A-Za-z][^;]*?) (\d\d,\d{3})", totals):
        if name in ENGLISH:
            rows.append(("eng_Latn", ENGLISH[name], "tokens", count.replace(",", "")))
    for line in re.findall(r"^\| [A-Z]\w+ \|.*\| \|.*\|$", page, re.M):
        cells = [cell.strip(" *") for cell in line.strip("|").split("|")]
        for half in (cells[:7], cells[8:]):
            rows += [(codes[half[0]], name, "premium", value) for name, value in zip(SHOWN, half[1:], strict=True)]
    line = re.search(r"^52-language summary .*?: (.*)$", page, re.M).group(1).replace("*", "")
    for part in re.split(r"[;:] ", line.rstrip(".")):
        name, median, mean, worst, language, many = re.fullmatch(
            r"(.*?) ([\d.]+)/([\d.]+)/([\d.]+)(?: (\w+))?/(\d+)", part).groups()
        if name in SUMMARY:
            rows += [(codes.get(language, ""), SUMMARY[name], figure, value)
                     for figure, value in zip(FIGURES, (median, mean, worst, many), strict=True)]
    return [dict(zip(PREMIUMS, (*row, PREMIUMS_SOURCE), strict=True)) for row in rows]


def main() -> int:
    """Write or compare. Exit status."""
    parser = argparse.ArgumentParser(prog="python -m runtime.measure.token_atlas_published", description=__doc__)
    parser.add_argument("--facts", required=True, type=Path, help="the folder of public facts")
    parser.add_argument("--check", action="store_true", help="compare with what is committed, write nothing")
    options = parser.parse_args()
    return settle({
        "data/validation/petrov_token_totals.csv": csv_text(PETROV, petrov_rows(options.facts)),
        "data/validation/gpt4o_launch.csv": csv_text(LAUNCH, launch_rows(options.facts)),
        "data/validation/token_premiums.csv": csv_text(PREMIUMS, premium_rows(options.facts)),
    }, check=options.check)


if __name__ == "__main__":
    sys.exit(main())
