"""An infersize answer as text: sections in the order people ask for them. Formatting only, no arithmetic of its own."""

from collections.abc import Sequence

from pycore.cli.infersize.asking import joined
from pycore.cli.infersize.remarks import notes, remedy_command, targets
from pycore.cli.output import gb, gib, heading, line, ranged, table, with_range
from pycore.ledger import Term
from pycore.systems.infersize import Answer
from pycore.units import both_bytes, dollars, show, significant


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
    for text in notes(answer):
        line(f"Note: {text}" + ("" if text.endswith(".") else "."))


def machine(answer: Answer) -> str:
    """'2 × NVIDIA L40S'"""
    return f"{answer.deployment.parallel.devices} × {answer.deployment.accelerator.name}"


def headline(answer: Answer) -> str:
    """The verdict as one line."""
    if not answer.fits:
        return f"Does not fit on {machine(answer)}: {shortfall(answer)}"
    facts = [f"{significant(answer.speed.tokens_per_s_user.value)} tokens/s per user"]
    if answer.cost.usd_per_million_blended is not None:
        facts.append(f"{dollars(answer.cost.usd_per_million_blended.value)} per 1M tokens")
    return f"Fits on {machine(answer)}: " + ", ".join(facts)


def shortfall(answer: Answer) -> str:
    """What is needed against what the engine may take; where it would have room and still not start, the plan says why.
    """
    found, engine = answer.memory, answer.deployment.engine
    if found.total.value <= found.budget.value:
        return f"{engine} does not start with that memory fraction"
    return f"needs {found.total.text} per GPU, {engine} may take {found.budget.text} of {found.usable.text}"


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
    found = answer.memory
    rows = [byte_row(term.name, term) for term in found.rows]
    table(("", "GiB", "GB", "range, GiB"), [
        *rows, None, byte_row("Total", found.total), byte_row("Engine's budget", found.budget),
        byte_row("Free within the budget", found.free), byte_row("Usable memory of the card", found.usable)],
        right=(1, 2, 3))
    line(f"  KV cache: {found.kv_bytes_per_token.text}; architectural minimum {both_bytes(found.kv_minimum.value)}, "
         f"the engine reserves {both_bytes(found.kv.value)}.")


def byte_row(name: str, term: Term) -> tuple[str, str, str, str]:
    """Name, GiB, GB and the range in GiB."""
    return name, gib(term.value), gb(term.value), "" if term.low is None else f"{gib(term.low)} to {gib(term.high)}"


def log(answer: Answer) -> None:
    """Predicted against what the engine logged."""
    if not answer.log_rows:
        return
    heading("Predicted against the engine's log")
    table(("", "predicted", "logged", "difference", "in the range shown"), [
        (row.name, with_range(row.predicted), show(row.actual, row.predicted.unit), f"{row.difference_percent:+.2f} %",
         "yes" if row.inside else "no") for row in answer.log_rows], right=(1, 2, 3))


def listed(*terms: tuple[str, Term | None]) -> None:
    """A list of name, value and range."""
    table(("", "", ""), [(name, "not known" if term is None else term.text, ranged(term))
                         for name, term in terms])


def capacity(answer: Answer) -> None:
    """What the engine would say it can hold."""
    heading("Capacity")
    found = answer.capacity
    listed(("KV tokens", found.kv_tokens), ("Blocks", found.blocks), ("Longest context, 1 sequence", found.max_context),
           (f"Most sequences of {answer.deployment.context:,} tokens", found.max_sequences))
    for text in found.log_lines:
        line(f"  the engine would log: {text}")


def speed(answer: Answer) -> None:
    """Predicted times and rates."""
    found = answer.speed
    heading("Speed (predicted)" if answer.fits else "Speed (predicted, if it fitted)")
    listed(
        ("Time to first token", found.ttft_s), ("Time per output token", found.tpot_s),
        ("Tokens/s per user", found.tokens_per_s_user), ("Tokens/s in all", found.tokens_per_s_total),
        ("Tokens/s per GPU", found.tokens_per_s_per_gpu), ("Requests/s", found.requests_per_s),
        ("MFU in prefill", found.mfu_prefill), ("MBU in decode", found.mbu_decode),
        ("Decode turns compute-bound at", found.compute_bound_batch))
    line("  " + "; ".join(text for text in (
        f"prefill is bound by {found.bound_prefill}" if found.bound_prefill else "",
        f"decode is bound by {found.bound_decode}") if text) + ".")
    for text in (found.calibration, *found.assumptions):
        line(f"  {text}.")
    for target in targets(answer):
        line(f"  {target.text}", style="green" if target.met else "red")
    unknown(found.unknown)


def money(answer: Answer) -> None:
    """The short version of `infersize cost`."""
    found = answer.cost
    heading("Cost" if answer.fits else "Cost (if it fitted)")
    if found.usd_per_gpu_hour is not None:
        price = found.usd_per_gpu_hour
        line(f"  {dollars(price.value)} per GPU and hour: {price.source}" + (f" ({price.note})" if price.note else ""))
        listed(
            (f"Blended, {answer.deployment.prompt:,} in : {answer.deployment.output:,} out",
             found.usd_per_million_blended), ("Input", found.usd_per_million_input),
            ("Cached input", found.usd_per_million_cached_input), ("Output", found.usd_per_million_output),
            ("Energy, at most", found.energy_upper_bound))
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
    listed(
        ("Tokens a step", found.expected_tokens), ("Speed-up", found.speedup),
        ("Time per output token with it", found.tpot_s), ("Best draft length", found.best_length),
        ("Break-even acceptance", found.break_even_acceptance), ("Slower from a batch of", found.slowdown_batch),
        ("Draft weights per GPU", found.draft_weights), ("Draft KV per GPU", found.draft_kv))


def remedies(answer: Answer) -> None:
    """The smallest changes that make it fit, as commands."""
    if answer.fits or not answer.remedies:
        return
    heading("What would make it fit")
    for remedy in answer.remedies:
        line(f"  {remedy.text}: {both_bytes(remedy.total_bytes)} per GPU ({remedy.cost})")
        line(f"    {remedy_command(answer.query, remedy.changes)}")


def launch(answer: Answer) -> None:
    """The command that starts the engine this way, each flag with its reason."""
    heading(f"Launch with {answer.deployment.engine}")
    for text in answer.launch.command.splitlines():
        line(f"  {text}")
    table(("", ""), [(f"{one.flag} {one.value if len(one.value) <= 40 else '...'}".strip(), one.why)
                     for one in answer.launch.flags])
    if answer.launch.note:
        line(f"  {answer.launch.note}")
