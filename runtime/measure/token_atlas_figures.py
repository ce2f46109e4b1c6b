"""From counts a sentence to the benchmark's tables: premiums with their intervals, spread over sentences, the ranking.

Intervals: percentile bootstrap. Sentences are drawn with replacement, as many as there are, 2,000 times with one seed; a
draw takes the same sentences of every language and tokenizer, so that a premium's two texts stay paired and tokenizers
can be compared. Ends are order statistics (ranks 50 and 1,951 of 2,000), never interpolated. Sums are whole numbers below
2^53, so the products are exact on any machine.
"""

import random
import statistics
from collections.abc import Mapping, Sequence

from pycore.stats.percentiles import percentile
from runtime.measure.token_atlas_corpus import SPLITS
from runtime.measure.token_atlas_counts import NORMALISATION, Column

SEED, DRAWS = 2007, 2000
TAIL = DRAWS // 40  # 2.5 % on each side
ENGLISH, REFERENCE = "eng_Latn", "o200k_base"
PERCENTS = (5, 25, 50, 75, 95)
MATRIX = ("language", "tokenizer", "tokens", "premium", "premium_low", "premium_high", "absolute", "absolute_low",
          "absolute_high", *(f"sentence_premium_p{percent}" for percent in PERCENTS), "tokens_per_word",
          "tokens_per_character", "tokens_per_byte", "byte_fallback_tokens", "split_character_tokens",
          "round_trip_sentences", "petrov_method_tokens")
BY_SPLIT = ("language", "tokenizer", "split", "tokens", "premium", "byte_fallback_tokens", "split_character_tokens",
            "round_trip_sentences")
RANKING = ("statistic", "tokenizer", "value", "low", "high", "rank", "rank_low", "rank_high", "language")

Columns = Mapping[str, Column]


def digits(value: float) -> str:
    """Six significant digits, as everywhere."""
    return f"{value:.6g}"


def whole(columns: Columns, tokenizer: str, code: str) -> list[int]:
    """Tokens of every sentence, dev and then devtest."""
    return [count for split in SPLITS for count in columns[tokenizer].files[code, split].tokens]


def draws(sentences: int) -> list[list[int]]:
    """How often each draw takes each sentence."""
    generator, found = random.Random(SEED), []
    for _ in range(DRAWS):
        times = [0] * sentences
        for _ in range(sentences):
            times[int(generator.random() * sentences)] += 1
        found.append(times)
    return found


def resampled(columns: Columns, codes: Sequence[str]) -> dict[tuple[str, str], list[int]]:
    """Tokens of every draw by (language, tokenizer)."""
    import numpy

    keys = [(code, name) for code in codes for name in columns]
    counts = numpy.array([whole(columns, name, code) for code, name in keys], dtype=numpy.float64)
    times = numpy.array(draws(counts.shape[1]), dtype=numpy.float64)
    sums = (counts @ times.T).astype(numpy.int64)
    return {key: row.tolist() for key, row in zip(keys, sums, strict=True)}


def ends(values: Sequence[float]) -> tuple[float, float]:
    """The two order statistics that cut 2.5 % of the draws off on each side."""
    ordered = sorted(values)
    return ordered[TAIL - 1], ordered[DRAWS - TAIL]


def ratios(over: Sequence[int], under: Sequence[int]) -> list[float]:
    return [a / b for a, b in zip(over, under, strict=True)]


def total(columns: Columns, name: str, code: str, what: str) -> int | str:
    """A sum over both splits; '' where only counts are known."""
    found = [getattr(columns[name].files[code, split], what) for split in SPLITS]
    return "" if None in found else sum(found)


def matrix_rows(columns: Columns, sums: Mapping[tuple[str, str], list[int]],
                texts: Mapping[str, Mapping[str, int | str]]) -> list[dict[str, object]]:
    """Rows of matrix.csv. `texts`: words, characters and bytes by language."""
    reference = whole(columns, REFERENCE, ENGLISH)
    rows = []
    for code, sizes in texts.items():
        for name in columns:
            tokens, english = whole(columns, name, code), whole(columns, name, ENGLISH)
            low, high = ends(ratios(sums[code, name], sums[ENGLISH, name]))
            absolute_low, absolute_high = ends(ratios(sums[code, name], sums[ENGLISH, REFERENCE]))
            spread = sorted(ratios(tokens, english))
            count = sum(tokens)
            rows.append({
                "language": code, "tokenizer": name, "tokens": count, "premium": digits(count / sum(english)),
                "premium_low": digits(low), "premium_high": digits(high), "absolute": digits(count / sum(reference)),
                "absolute_low": digits(absolute_low), "absolute_high": digits(absolute_high),
                **{f"sentence_premium_p{percent}": digits(percentile(spread, percent)) for percent in PERCENTS},
                "tokens_per_word": digits(count / sizes["words"]) if sizes["words"] else "",
                "tokens_per_character": digits(count / sizes["characters"]),
                "tokens_per_byte": digits(count / sizes["bytes"]),
                "byte_fallback_tokens": total(columns, name, code, "fallback"),
                "split_character_tokens": total(columns, name, code, "split"),
                "round_trip_sentences": total(columns, name, code, "round_trips"),
                "petrov_method_tokens": columns[name].petrov.get(code, "")})
    return rows


def split_rows(columns: Columns, codes: Sequence[str]) -> list[dict[str, object]]:
    """Rows of splits.csv: dev and devtest apart."""
    rows = []
    for code in codes:
        for name, column in columns.items():
            for split in SPLITS:
                found, english = column.files[code, split], column.files[ENGLISH, split]
                rows.append({"language": code, "tokenizer": name, "split": split, "tokens": sum(found.tokens),
                             "premium": digits(sum(found.tokens) / sum(english.tokens)),
                             "byte_fallback_tokens": found.fallback, "split_character_tokens": found.split,
                             "round_trip_sentences": found.round_trips})
    return rows


SUMMARIES = {"mean": statistics.fmean, "median": statistics.median, "worst": max}


def ranking_rows(sums: Mapping[tuple[str, str], list[int]], totals: Mapping[tuple[str, str], int], codes: Sequence[str],
                 names: Sequence[str]) -> list[dict[str, object]]:
    """Rows of ranking.csv: each statistic over all languages but English, fairest tokenizer first."""
    codes = [code for code in codes if code != ENGLISH]
    rows = []
    for measure in ("premium", "absolute"):
        def under(name: str, measure: str = measure) -> tuple[str, str]:
            return (ENGLISH, name) if measure == "premium" else (ENGLISH, REFERENCE)

        drawn = {name: list(zip(*(ratios(sums[code, name], sums[under(name)]) for code in codes), strict=True))
                 for name in names}
        for summary, function in SUMMARIES.items():
            figures = {name: [function(values) for values in drawn[name]] for name in names}
            value = {name: function([totals[code, name] / totals[under(name)] for code in codes]) for name in names}
            places = places_of(figures, names)
            for rank, name in enumerate(sorted(names, key=value.__getitem__), 1):
                low, high = ends(figures[name])
                rank_low, rank_high = ends(places[name])
                worst = max(codes, key=lambda code: totals[code, name]) if summary == "worst" else ""
                rows.append({"statistic": f"{measure} {summary}", "tokenizer": name, "value": digits(value[name]),
                             "low": digits(low), "high": digits(high), "rank": rank, "rank_low": rank_low,
                             "rank_high": rank_high, "language": worst})
    return rows


def places_of(figures: Mapping[str, list[float]], names: Sequence[str]) -> dict[str, list[int]]:
    """Each tokenizer's place in each draw."""
    places: dict[str, list[int]] = {name: [] for name in names}
    for draw in range(DRAWS):
        for place, name in enumerate(sorted(names, key=lambda name: figures[name][draw]), 1):
            places[name].append(place)
    return places


def unfaithful(columns: Columns, sentences: int, codes: Sequence[str]) -> list[str]:
    """Cells whose sentences do not all decode to what was read: a benchmark that lost text must not be written."""
    return [f"{name} gives back {found} of {sentences} sentences of {code}"
            + (f" after {NORMALISATION[name]}" if name in NORMALISATION else "")
            for name in columns for code in codes
            if (found := total(columns, name, code, "round_trips")) not in ("", sentences)]
