"""The benchmark itself: its card, its tables against each other, and the generator's statistics against closed forms."""

import csv
import hashlib
import math
import random
import re
from pathlib import Path

import pytest

from pycore.atlas.languages import DATASET
from runtime.measure import token_atlas_corpus as corpus
from runtime.measure import token_atlas_figures as figures
from runtime.measure.token_atlas import ORDER, tokenizer_rows
from runtime.measure.token_atlas_counts import Column, Counted, encode_file, kind_of
from runtime.measure.token_atlas_languages import CODES, language_rows
from runtime.measure.token_atlas_models import model_rows

FOLDER = Path(__file__).resolve().parents[3] / "data" / DATASET


def rows_of(name: str) -> list[dict[str, str]]:
    with open(FOLDER / f"{name}.csv", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_the_card_names_its_files_and_its_licence():
    head, _, body = (FOLDER / "README.md").read_text(encoding="utf-8").removeprefix("---\n").partition("\n---\n")
    files = [line.split(": ")[1] for line in head.splitlines() if line.strip().startswith("data_files")]
    assert sorted(files) == sorted(path.name for path in FOLDER.glob("*.csv")) and head.count("default: true") == 1
    assert all(re.search(rf"^## .*\b{name}", body, re.M) for name in files)
    keys = {line.split(":")[0] for line in head.splitlines() if line[:1].isalpha()}
    assert {"license", "pretty_name", "language", "size_categories", "tags", "configs", "multilinguality"} <= keys
    codes = set(re.findall(r"^  - ([a-z]{2})$", head, re.M))
    assert codes == {row["iso639_1"] for row in rows_of("languages")} and "FLORES-200" in (FOLDER / "NOTICE").read_text()


def test_tables_that_need_no_corpus_are_what_the_generator_writes():
    for name, expected in (("languages", language_rows()), ("models", model_rows()), ("tokenizers", tokenizer_rows())):
        assert rows_of(name) == [{key: str(value) for key, value in row.items()} for row in expected]


def test_no_sentence_is_in_the_dataset():
    """Cells are names, figures and hashes: the longest run of words is in a note, and none is in another alphabet."""
    for name in ("matrix", "splits", "texts", "ranking"):
        assert (FOLDER / f"{name}.csv").read_text(encoding="ascii")
        assert all(" " not in cell or cell in figures_names() for row in rows_of(name) for cell in row.values())


def figures_names() -> set[str]:
    return {f"{measure} {summary}" for measure in ("premium", "absolute") for summary in figures.SUMMARIES}


def test_splits_add_up_to_the_matrix():
    sums: dict[tuple[str, str], list[int]] = {}
    columns = ("tokens", "byte_fallback_tokens", "split_character_tokens", "round_trip_sentences")
    for row in rows_of("splits"):
        held = sums.setdefault((row["language"], row["tokenizer"]), [0] * 4)
        for place, column in enumerate(columns):
            held[place] += int(row[column] or 0)
    matrix = rows_of("matrix")
    assert [(row["language"], row["tokenizer"]) for row in matrix] == [(code, name) for code in CODES for name in ORDER]
    for row in matrix:
        assert sums[row["language"], row["tokenizer"]] == [int(row[column] or 0) for column in columns]


def test_ratios_are_those_of_the_counts():
    tokens = {(row["language"], row["tokenizer"]): int(row["tokens"]) for row in rows_of("matrix")}
    sizes: dict[str, list[int]] = {}
    for row in rows_of("texts"):
        held = sizes.setdefault(row["language"], [0, 0, 0])
        for place, column in enumerate(("words", "characters", "bytes")):
            held[place] += int(row[column] or 0)
    for row in rows_of("matrix"):
        count, (words, characters, size) = int(row["tokens"]), sizes[row["language"]]
        assert row["premium"] == f"{count / tokens['eng_Latn', row['tokenizer']]:.6g}"
        assert row["absolute"] == f"{count / tokens['eng_Latn', 'o200k_base']:.6g}"
        assert row["tokens_per_word"] == (f"{count / words:.6g}" if words else "")
        assert row["tokens_per_character"] == f"{count / characters:.6g}"
        assert row["tokens_per_byte"] == f"{count / size:.6g}"


def test_hashes_are_those_of_the_files_that_the_maintainers_know():
    """Beginnings of four files' sha256, gathered before anything was counted."""
    found = {(row["language"], row["split"]): row["sha256"] for row in rows_of("texts")}
    assert len(set(found.values())) == 104
    for key, start in ((("eng_Latn", "dev"), "51a25f52"), (("eng_Latn", "devtest"), "612e9fbe"),
                       (("hin_Deva", "dev"), "639d0f65"), (("mya_Mymr", "dev"), "fb8aeaf0")):
        assert found[key].startswith(start)


@pytest.mark.parametrize("piece, expected", [
    (b"a", (0, 0)), ("ह".encode(), (0, 0)), ("ह".encode()[:1], (1, 1)), ("ह".encode()[1:], (0, 1)), ("aह".encode()[:2], (0, 1)),
    (b"\xa4", (1, 1)), ("👩".encode(), (0, 0)), (b"", (0, 0))])
def test_which_pieces_split_a_character(piece, expected):
    assert kind_of(piece) == expected


class Letters:
    """A tokenizer of single bytes, one of which it cannot write again when `lossy`."""

    def __init__(self, lossy: bool):
        self.name, self.lossy = "letters", lossy

    def ids(self, text: str) -> list[int]:
        return list(text.encode())

    def piece(self, number: int) -> bytes:
        return bytes([number])

    def decode(self, ids: list[int]) -> str:
        text = bytes(ids).decode()
        return text.replace("!", "") if self.lossy else text


def test_a_tokenizer_that_loses_text_is_caught():
    data = "नम!\nhello\n".encode()
    whole, lossy = encode_file(Letters(False), {}, data), encode_file(Letters(True), {}, data)
    assert whole.tokens == [7, 5] and whole.fallback == whole.split == 6 and whole.round_trips == 2
    assert lossy.round_trips == 1
    columns = {"letters": Column(files={("xx", "dev"): lossy, ("xx", "devtest"): whole})}
    assert figures.unfaithful(columns, 4, ["xx"]) == ["letters gives back 3 of 4 sentences of xx"]


def synthetic(sentences: int) -> dict[str, Column]:
    generator = random.Random(4)
    english = [generator.randint(10, 40) for _ in range(sentences)]
    other = [round(count * generator.uniform(1.2, 2.8)) for count in english]
    columns = {}
    for name in ("o200k_base", "own"):
        files = {}
        for code, counts in (("eng_Latn", english), ("xx", other)):
            files[code, "dev"] = Counted(tokens=counts[:100])
            files[code, "devtest"] = Counted(tokens=counts[100:])
        columns[name] = Column(files=files)
    return columns


def test_bootstrap_intervals_agree_with_the_ratio_estimators_variance():
    """Cochran 1977, Sampling Techniques, 6.13: var(r) ~ sum (y - r x)^2 / (n (n - 1) mean(x)^2)."""
    columns = synthetic(400)
    sums = figures.resampled(columns, ["eng_Latn", "xx"])
    x, y = (figures.whole(columns, "own", code) for code in ("eng_Latn", "xx"))
    n, ratio = len(x), sum(y) / sum(x)
    error = math.sqrt(sum((b - ratio * a) ** 2 for a, b in zip(x, y, strict=True)) / (n * (n - 1))) / (sum(x) / n)
    low, high = figures.ends(figures.ratios(sums["xx", "own"], sums["eng_Latn", "own"]))
    assert low < ratio < high and (high - low) == pytest.approx(2 * 1.96 * error, rel=0.1)
    assert sums["xx", "own"] == sums["xx", "o200k_base"]  # every column sees the same sentences of a draw
    assert figures.ends(figures.ratios(sums["eng_Latn", "own"], sums["eng_Latn", "own"])) == (1, 1)


def test_committed_intervals_are_as_wide_as_their_spread_says():
    """No interval is degenerate but English's own, and none wider than a tenth of its figure."""
    for row in rows_of("matrix"):
        width = float(row["premium_high"]) - float(row["premium_low"])
        assert (width == 0) == (row["language"] == "eng_Latn") and width < 0.1 * float(row["premium"])


def test_a_corpus_that_is_not_whole_is_refused_by_name(tmp_path):
    with pytest.raises(SystemExit, match="neither a folder nor"):
        corpus.read(tmp_path / "nothing", ("eng_Latn",))
    (tmp_path / "dev").mkdir()
    with pytest.raises(SystemExit, match="no dev/eng_Latn.dev"):
        corpus.read(tmp_path, ("eng_Latn",))
    (tmp_path / "dev" / "eng_Latn.dev").write_text("one\n")
    with pytest.raises(SystemExit, match="has 1 sentences, not 997"):
        corpus.read(tmp_path, ("eng_Latn",))


def test_sizes_of_a_text():
    data = "नमस्ते दुनिया\nok 👩‍👩‍👧‍👦\n".encode()
    row = corpus.text_row("hin_Deva", "dev", data, True)
    assert (row["sentences"], row["words"], row["characters"], row["grapheme_clusters"]) == (2, 4, 23, 11)
    assert row["bytes"] == len(data) - 2 and row["sha256"] == hashlib.sha256(data).hexdigest()
    assert corpus.text_row("tha_Thai", "dev", data, False)["words"] == ""
    assert corpus.joined(b"a\nb\n", b"c\n") == "a b  c "
