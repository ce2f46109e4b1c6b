"""An infersize answer as text: sections in the order people ask for them. Formatting only, no arithmetic of its own."""

from collections.abc import Iterable, Sequence
from typing import Any

from pycore.cli import output
from pycore.cli.infersize.asking import joined
from pycore.cli.infersize.document import remedy_command
from pycore.cli.output import gb, gib, heading, line, table, with_range
from pycore.ledger import Term
from pycore.systems.infersize import Answer
from pycore.units import both_bytes, dollars, significant


def plan(answer: Answer) -> None:
    """The whole report."""
    verdict(answer)
    memory(answer)
    log(answer)
    capacity(answer)
    speed(answer)
    money(answer)
    if answer.speculation is not None:
        speculation(answer)
    remedies(answer)
    launch(answer)
    line()
    line("Explain any number with --explain NAME; predicted numbers are predictions, not measurements.")


def verdict(answer: Answer) -> None:
    """One sentence, then what was asked."""
    line(headline(answer), style="bold green" if answer.fits else "bold red")
    line(asked(answer))


def machine(answer: Answer) -> str:
    """'2 × NVIDIA L40S'"""
    return f"{answer.deployment.parallel.devices} × {answer.deployment.accelerator.name}"


def headline(answer: Answer) -> str:
    """The verdict as one line."""
    need, usable = answer.memory.total, answer.memory.usable
    if not answer.fits:
        return f"Does not fit on {machine(answer)}: needs {need.text} per GPU, {usable.text} usable"
    facts = []
    if answer.speed is not None:
        facts.append(f"{significant(answer.speed.tokens_per_s_user.value)} tokens/s per user")
    if answer.cost is not None and answer.cost.usd_per_million_blended is not None:
        facts.append(f"{dollars(answer.cost.usd_per_million_blended.value)} per 1M tokens")
    return f"Fits on {machine(answer)}" + (": " + ", ".join(facts) if facts else f": {need.text} of {usable.text}")


def asked(answer: Answer) -> str:
    """The question in a line."""
    deployment, parallel = answer.deployment, answer.deployment.parallel
    split = ", ".join(f"{name} {degree}" for name, degree in (
        ("tensor", parallel.tensor), ("pipeline", parallel.pipeline), ("data", parallel.data)) if degree > 1)
    cache = deployment.keys.name if deployment.keys is deployment.values else (
        f"keys {deployment.keys.name}, values {deployment.values.name}")
    return joined((deployment.model.name, f"{deployment.weights.name} weights", cache,
                   f"{deployment.sequences:,} × {deployment.context:,} tokens", deployment.engine,
                   f"parallel: {split}" if split else ""))


def memory(answer: Answer) -> None:
    """The byte ledger of the fullest GPU, to three decimals so that it adds up to the eye."""
    heading("Memory per GPU")
    rows = [row for term in answer.memory.rows for row in ledger_rows(term)]
    found = answer.memory
    rows += [total_row("Total", found.total), total_row("Usable (driver's figure)", found.usable),
             total_row("Engine's budget", found.budget), total_row("Free within the budget", found.free)]
    table(("", "GiB", "GB", "range, GiB"), rows, right=(1, 2, 3))
    line(f"  KV cache: {found.kv_bytes_per_token.text}; architectural minimum {both_bytes(found.kv_minimum.value)}, "
         f"the engine reserves {both_bytes(found.kv.value)}.")


def ledger_rows(term: Term, depth: int = 0) -> Iterable[tuple[str, str, str, str]]:
    """A term and, indented, what it is the sum of (zero parts left out)."""
    yield total_row("  " * depth + term.name, term)
    if depth < 1:
        for part in term.parts:
            if part.value:
                yield from ledger_rows(part, depth + 1)


def total_row(name: str, term: Term) -> tuple[str, str, str, str]:
    """Name, GiB, GB and the range in GiB."""
    ranged = "" if term.low is None else f"{gib(term.low)} to {gib(term.high)}"
    return name, gib(term.value), gb(term.value), ranged


def log(answer: Answer) -> None:
    """Predicted against what the engine logged."""
    if not answer.log_rows:
        return
    heading("Predicted against the engine's log")
    table(("", "predicted", "actual", "difference"), [
        (row.name, row.predicted.text, output.show(row.actual, row.predicted.unit),
         "-" if row.difference_percent is None else f"{row.difference_percent:+.2f} %")
        for row in map(LogView, answer.log_rows)], right=(1, 2, 3))


class LogView:
    """A log row whose actual value is in bytes or in tokens."""

    __slots__ = ("name", "predicted", "actual", "difference_percent")

    def __init__(self, row: Any):
        self.name, self.predicted, self.difference_percent = row.name, row.predicted, row.difference_percent
        self.actual = next(value for name in ("actual", "actual_bytes", "actual_tokens")
                           if (value := getattr(row, name, None)) is not None)


def named(terms: Iterable[tuple[str, Term | None]]) -> list[tuple[str, str]]:
    """Rows of name and value with its range."""
    return [(name, with_range(term)) for name, term in terms]


def capacity(answer: Answer) -> None:
    """What the engine would say it can hold."""
    heading("Capacity")
    found = answer.capacity
    if found is None:
        line("  none: the weights leave no room for a KV cache")
        return
    table(("", ""), named((("KV tokens", found.kv_tokens), ("Blocks", found.blocks),
                           ("Longest context, 1 sequence", found.max_context),
                           (f"Most sequences of {answer.deployment.context:,} tokens", found.max_sequences))))
    for text in found.log_lines:
        line(f"  log: {text}")


def speed(answer: Answer) -> None:
    """Predicted times and rates."""
    found = answer.speed
    heading("Speed (predicted)")
    if found is None:
        line("  not known: see the messages below")
        return
    table(("", ""), named((
        ("Time to first token", found.ttft_s), ("Time per output token", found.tpot_s),
        ("Tokens/s per user", found.tokens_per_s_user), ("Tokens/s in all", found.tokens_per_s_total),
        ("Tokens/s per GPU", found.tokens_per_s_per_gpu), ("Requests/s", found.requests_per_s),
        ("MFU in prefill", found.mfu_prefill), ("MBU in decode", found.mbu_decode),
        ("Decode turns compute-bound at", found.compute_bound_batch))))
    line(f"  Prefill is bound by {found.bound_prefill}, decode by {found.bound_decode}. {found.calibration}")


def money(answer: Answer) -> None:
    """The short version of `infersize cost`."""
    found = answer.cost
    heading("Cost")
    if found is None:
        line("  not known: it follows from the speed, which is not known")
        return
    if found.usd_per_gpu_hour is not None:
        price = found.usd_per_gpu_hour
        line(f"  {price.text} and GPU: {price.source}" + (f" ({price.note})" if price.note else ""))
        table(("", ""), named((
            (f"Blended, {answer.deployment.prompt:,} in : {answer.deployment.output:,} out",
             found.usd_per_million_blended), ("Input", found.usd_per_million_input),
            ("Cached input", found.usd_per_million_cached_input), ("Output", found.usd_per_million_output),
            ("Energy, at most", found.energy_upper_bound))))
        line(f"  At {significant(answer.query.utilisation * 100)} % utilisation. {found.break_even}")
    unknown(found.not_known)


def unknown(texts: Sequence[str]) -> None:
    """What the catalogue lacks."""
    for text in texts:
        line(f"  not known: {text}")


def speculation(answer: Answer) -> None:
    """The short version of `infersize spec`."""
    found = answer.speculation
    heading(f"Speculative decoding with {answer.query.draft_model}")
    line(f"  {found.verdict}")
    table(("", ""), named((
        ("Tokens a step", found.expected_tokens), ("Speed-up", found.speedup),
        ("Time per output token with it", found.tpot_s), ("Best draft length", found.best_length),
        ("Break-even acceptance", found.break_even_acceptance), ("Slower from a batch of", found.slowdown_batch),
        ("Draft weights per GPU", found.draft_weights), ("Draft KV per GPU", found.draft_kv))))


def remedies(answer: Answer) -> None:
    """The smallest changes that make it fit, as commands."""
    if answer.fits or not answer.remedies:
        return
    heading("What would make it fit")
    for remedy in answer.remedies:
        line(f"  {remedy.text}: {both_bytes(remedy.total_bytes)} per GPU. {remedy.cost}")
        line(f"    {remedy_command(answer.query, remedy.changes)}")


def launch(answer: Answer) -> None:
    """The command that starts the engine this way, each flag with its reason."""
    if answer.launch is None:
        return
    heading(f"Launch with {answer.deployment.engine}")
    line(f"  {answer.launch.command}")
    table(("", ""), [(f"{one.flag} {'' if one.value is None else one.value}".strip(), one.why)
                     for one in answer.launch.flags])
