"""Whole models as they were measured, and projections one by one: where the textbook story holds and where not."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pycore.quality import table
from pycore.systems.quantbench_question import options_of
from studios.explain import help_field, plain
from studios.quantbench.bits import Choice
from studios.quantbench.error import step
from studios.quantbench.frontier import same_numbers
from studios.quantbench.names import also, figure, perplexity

PROJECTIONS = ("q", "k", "v", "o", "gate", "up", "down")
STEPS = 7
UNTIMED = "not measured: load average"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRow:
    """One configuration of the whole model."""

    name: str = help_field("its id")
    label: str = help_field("its name")
    asked: bool = help_field("whether it has the format that is shown above")
    bits: float = help_field("bits per weight")
    kl: float | None = help_field("KL divergence, nats; None where it is not measured or 0")
    low: float | None = help_field("lower end of its interval")
    high: float | None = help_field("upper end")
    texts: tuple[str, ...] = help_field("bits, MB, perplexity, KL, top-1, tokens a second, written")
    spans: tuple[str, ...] = help_field("intervals of perplexity and KL, or ''")
    best: bool = help_field("whether no smaller one loses less")
    says: tuple[str, ...] = help_field("what must be known of it: lossless by construction, trained for it, ...")
    trained: bool = help_field("whether weights were trained for the format")


@dataclass(frozen=True, slots=True, kw_only=True)
class Heat:
    """One configuration, projection by projection."""

    configuration: str = help_field("which")
    columns: tuple[str, ...] = help_field("projections")
    rows: tuple[tuple[str, tuple[tuple[str, str, str, str], ...]], ...] = help_field(
        "(layer, cells as (text, style, value, title))")
    totals: tuple[str, ...] = help_field("mean over layers by projection")
    per_weight: tuple[tuple[str, str], ...] = help_field("(projection, KL per million weights), worst first")
    says: str = help_field("whether Q and K are the most sensitive")
    holds: bool = help_field("whether they are")
    legend: tuple[tuple[str, str], ...] = help_field("(style, from which value to which)")


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredView:
    """The measured part of a page."""

    name: str = help_field("the model")
    models: tuple[Choice, ...] = help_field("every measured model, as links")
    how: str = help_field("corpus, device, versions, date, command")
    note: str = help_field("what is particular about the model")
    below: str = help_field("rows whose perplexity is below the reference's, and why that is no miracle, or ''")
    speeds: str = help_field("what must be known of the decode speeds, or ''")
    timed: bool = help_field("whether any speed was measured")
    rows: tuple[MeasuredRow, ...] = help_field("configurations, the largest first")
    heats: tuple[Heat, ...] = help_field("sensitivity, a table a configuration")
    story: str = help_field("the textbook story in one sentence: where it holds, where not")
    promises: tuple[tuple[str, ...], ...] = help_field(
        "plans that were built: (bits, MB, predicted, measured, its interval, elsewhere, best single format, its losses)")
    kept: str = help_field("what these plans say of the allocator, or ''")


def measured(model: Any, query: Any) -> MeasuredView:
    """The part from a measured model."""
    names = {one.configuration: one.label for one in model.configurations}
    heats = tuple(heat(model, one, names) for one in model.verdicts)
    timed = [one for one in model.configurations if one.decode_tokens_per_s is not None]
    return MeasuredView(
        name=plain(model.label, 80), models=models(model, query), note=opened(plain(model.note)),
        how=plain(f"{model.corpus}, {model.corpus_tokens:,} tokens in windows of {model.window}, stride {model.stride}; "
                  f"{model.device}; {model.versions}; {model.date}; {model.command}"),
        below=below(model.configurations), timed=bool(timed), speeds=speeds(len(timed), len(model.configurations)),
        promises=tuple(promise(one) for one in model.promises), kept=kept(model.promises),
        rows=tuple(sorted((row(one, asked(one, query)) for one in model.configurations),
                          key=lambda one: (-one.bits, one.name))),
        heats=heats, story=story(model.verdicts, names))


def models(model: Any, query: Any) -> tuple[Choice, ...]:
    """Every measured model; another one's plan begins free, since it was measured in formats of its own."""
    return tuple(
        Choice(text=plain(one.label, 60), chosen=one.name == model.name,
               href=also(query, model=one.name if number else "", choices="", formats=""))
        for number, one in enumerate(table.models()))


def opened(text: str) -> str:
    """A note as a sentence: a capital at its start, a full stop at its end."""
    return text and text[0].upper() + text[1:] + ("" if text.endswith(".") else ".")


def speeds(timed: int, of: int) -> str:
    """What must be known of the decode speeds."""
    if timed == of:
        return ""
    many = "Decode speed was not measured" if not timed else f"Decode speed was measured in {timed} of {of} rows only"
    return f"{many}: the machine was busy with other work, and a speed taken then is noise."


def below(found: Sequence[Any]) -> str:
    """Rows whose perplexity is below the reference's, by reason."""
    parts = []
    for reason, words in table.BELOW.items():
        names = [one.configuration for one in found if one.below == reason and not one.lossless]
        if names:
            parts.append(f"{', '.join(names)}: {words}")
    return plain(f"Perplexity below the unquantised model's is no miracle. {'; '.join(parts)}.", 600) if parts else ""


def asked(one: Any, query: Any) -> bool:
    """Whether a measured configuration has the format and options of a question."""
    return one.format == query.format and same_numbers(one, dict(options_of(query)[0]))


def promise(one: Any) -> tuple[str, ...]:
    """A plan that was built: what was predicted, what came out, and the best single format that fits."""
    alone = one.uniform_kl.value if one.uniform_kl else None
    return (figure(one.bits_per_weight, 4), figure(one.size_bytes / 1e6, 4), figure(one.predicted_kl, 3),
            figure(one.kl_divergence.value, 3), span(one.kl_divergence, 3),
            figure(one.elsewhere_kl.value if one.elsewhere_kl else None, 3),
            span(one.elsewhere_kl, 3) if one.elsewhere_kl else "", plain(one.uniform or "–", 40), figure(alone, 3),
            figure(one.elsewhere_uniform_kl, 3))


def kept(promises: Sequence[Any]) -> str:
    """How far the sums of single losses were from what whole plans lost, here and on other text, and who beat whom."""
    if not any(one.predicted_kl > 0 for one in promises):
        return ""
    here = times([one.kl_divergence.value / one.predicted_kl for one in promises if one.predicted_kl > 0])
    text = f"Plans that were built lost {here} times what the added losses predicted"
    elsewhere = [one.elsewhere_kl.value / one.predicted_kl for one in promises
                 if one.elsewhere_kl and one.predicted_kl > 0]
    text += f", and {times(elsewhere)} times that on text they were not made for." if elsewhere else "."
    rivals = [(one.kl_divergence.value, one.uniform_kl.value) for one in promises if one.uniform_kl]
    others = [(one.elsewhere_kl.value, one.elsewhere_uniform_kl) for one in promises
              if one.elsewhere_kl and one.elsewhere_uniform_kl is not None]
    if rivals:
        text += f" {won(rivals)} lost less than the best single format that fits"
        text += f"; on the other text {won(others)}." if others else "."
    return text


def times(ratios: Sequence[float]) -> str:
    """'0.9 to 1.06', or the one ratio."""
    return " to ".join(dict.fromkeys((figure(min(ratios), 3), figure(max(ratios), 3))))


def won(pairs: Sequence[tuple[float, float]]) -> str:
    """'3 of 3': how often the first is the smaller."""
    return f"{sum(mine < other for mine, other in pairs)} of {len(pairs)}"


def row(one: Any, here: bool) -> MeasuredRow:
    """One configuration."""
    kl = one.kl_divergence
    return MeasuredRow(
        name=one.configuration, label=plain(one.label, 80), asked=here, trained=one.trained,
        bits=one.bits_per_weight, kl=kl.value if kl and kl.value > 0 and not one.lossless else None,
        low=kl.low if kl else None, high=kl.high if kl else None, best=not one.dominated_by, says=remarks(one),
        texts=(figure(one.bits_per_weight, 4), figure(one.size_bytes / 1e6, 4), perplexity(one.perplexity.value),
               figure(kl.value, 3) if kl else "–",
               "–" if one.top1_agreement is None else figure(100 * one.top1_agreement, 3),
               figure(one.decode_tokens_per_s, 3)),
        spans=(span(one.perplexity, 4, perplexity), span(kl, 3) if kl else ""))


def remarks(one: Any) -> tuple[str, ...]:
    """What must be known of a row: its note (speeds are told once, above the table), and what is no miracle."""
    notes = [part for part in one.note.split("; ") if part and not part.startswith(UNTIMED)]
    if one.lossless and not any("lossless" in part for part in notes):
        notes.append("lossless by construction: the model's weights lie on this grid already")
    if one.trained:
        notes.insert(0, "trained for it")
    if one.below and not one.lossless:
        ratio = one.ratio and span(one.ratio, 6)
        notes.append(f"perplexity below the reference's{f' (ratio {ratio})' if ratio else ''}: {table.BELOW[one.below]}")
    return tuple(plain(part, 200) for part in notes)


def span(interval: Any, digits: int, write: Callable[[float, int], str] = figure) -> str:
    """'29.1 to 31.0', or ''."""
    if interval.low is None or interval.high is None or interval.low == interval.high:
        return ""
    return f"{write(interval.low, digits)} to {write(interval.high, digits)}"


def heat(model: Any, verdict: Any, names: dict[str, str]) -> Heat:
    """One configuration's sensitivity, in thousandths of a nat."""
    found = [one for one in model.sensitivity if one.configuration == verdict.configuration]
    columns = tuple(name for name in PROJECTIONS if any(one.projection == name for one in found))
    values = [one.kl_divergence.value for one in found]
    worst, best = max(values, default=0.0), min(values, default=0.0)
    layers = sorted({one.layer for one in found})
    at = {(one.layer, one.projection): one for one in found}
    rows = tuple((str(layer), tuple(cell(at.get((layer, name)), worst, best) for name in columns)) for layer in layers)
    mean = dict(verdict.total)
    return Heat(
        configuration=plain(names.get(verdict.configuration, verdict.configuration), 80), columns=columns, rows=rows,
        totals=tuple(milli(mean.get(name)) for name in columns),
        per_weight=tuple((name, milli(value)) for name, value in verdict.per_weight), holds=verdict.holds,
        says=sentence(verdict), legend=legend(values, worst, best))


def cell(one: Any, worst: float, best: float) -> tuple[str, str, str, str]:
    """(text, style, value, title) of one projection of one layer."""
    if one is None:
        return "–", "none", "", ""
    value = one.kl_divergence.value
    title = (f"weights {figure(one.weight_sqnr_db, 3)} dB, outputs {figure(one.output_sqnr_db, 3)} dB, "
             f"{one.rows:,} × {one.columns:,}, {one.bytes:,} bytes")
    interval = span(one.kl_divergence, 2)
    return milli(value), shade(value, worst, best), f"{value:.6g}", title + (f"; {interval} nats" if interval else "")


def milli(value: float | None) -> str:
    """Thousandths of a nat."""
    return "–" if value is None else figure(1000 * value, 2)


def shade(value: float | None, worst: float, best: float) -> str:
    """'p1' for the least, 'p7' for the most, in steps of equal ratio where all are positive."""
    if value is None:
        return "none"
    if best > 0 and worst > best:
        return step(-math.log(value), -math.log(worst), -math.log(best)) if value > 0 else "p1"
    return step(-value, -worst, -best)


def legend(values: Sequence[float], worst: float, best: float) -> tuple[tuple[str, str], ...]:
    """For every step that is used: from which value to which its cells are."""
    found: dict[str, list[float]] = {}
    for value in values:
        found.setdefault(shade(value, worst, best), []).append(value)
    return tuple((style, " to ".join(dict.fromkeys((milli(min(group)), milli(max(group))))))
                 for style, group in sorted(found.items()))


def sentence(verdict: Any) -> str:
    """Whether Q and K are the most sensitive, for one configuration."""
    ranked = [name for name, _ in verdict.total]
    first = ", ".join(ranked[:2])
    by_weight = [name for name, _ in verdict.per_weight][:2]
    holds = "Q and K lose the most" if verdict.holds else f"not Q and K but {first} lose the most"
    also = "Q and K" if set(by_weight) == {"q", "k"} else " and ".join(by_weight)
    return (f"Summed over layers {holds}; a million weights cost the most in {also}. In {verdict.layers} of {verdict.of} "
            "layers Q or K is the worst.")


def story(verdicts: Sequence[Any], names: dict[str, str]) -> str:
    """The textbook story against all verdicts."""
    if not verdicts:
        return ""
    held = [names.get(one.configuration, one.configuration) for one in verdicts if one.holds]
    missed = [names.get(one.configuration, one.configuration) for one in verdicts if not one.holds]
    told = "The textbook says that Q and K are the most sensitive. "
    if held and missed:
        return plain(f"{told}Here that holds under {', '.join(held)}, and not under {', '.join(missed)}.")
    where = ", ".join(held or missed)
    return plain(told + (f"Here it holds under {where}." if held else f"In these rows it does not hold, under {where}."))
