"""infersize on a page: its answer as a `Page`, whose fields are the context of `panel.html.j2`.

Texts, widths and links are made here and in the modules beside this one; the template only places them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pycore import catalog
from pycore.systems import infersize
from pycore.units import binary_bytes, dollars, seconds, significant
from pycore.vram.engine_log import mismatch
from pycore.vram.engines import engine
from studios.explain import Group, Ledger, Number, help_field, plain
from studios.infersize import charts as drawings
from studios.infersize import files
from studios.infersize.evidence import ErrorTable, LogView, error_tables, log_view
from studios.infersize.frontier import bare
from studios.infersize.links import Links
from studios.infersize.matrix import Matrix, matrix
from studios.infersize.memory import Memory, memory
from studios.infersize.money import CostView, SpeculationView, cost_tile, cost_view, speculation_view
from studios.infersize.speed import Figure, Phase, Sentence, Tile, capacity_tile, figures, phases, speed_tile

TITLE = "infersize"
SENTENCE = "Will it fit, how fast will it be, what will it cost"
Query = infersize.Query
FRONT = ("model", "quant", "gpu", "count", "context", "sequences")
COMMAND = "infersize plan"
MODULE = "pycore.systems.infersize"
PACKAGES = ()
DATA = ("catalog", "validation")
ENGINES = {"vllm": "vLLM", "vllm-0.20": "vLLM up to 0.20", "sglang": "SGLang", "llama.cpp": "llama.cpp",
           "transformers": "transformers"}

completions = catalog.names
charts, downloads = drawings.charts, files.downloads


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """One small change that makes it fit."""

    text: str = help_field("the change in words")
    href: str = help_field("the changed question")
    needs: str = help_field("memory per device after it")
    cost: str = help_field("what it costs in quality, speed or money")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One latency target of the question."""

    name: str = help_field("which time")
    limit: str = help_field("what was asked")
    number: Number = help_field("what is predicted")
    state: str = help_field("'met', 'missed', or 'open' where the range holds both")
    words: str = help_field("the state in words")


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """One flag of the launch command."""

    flag: str = help_field("the flag")
    value: str = help_field("its value, or '' for a switch")
    why: str = help_field("where the value comes from")


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The context of `panel.html.j2`; `answer` is for downloads and the Python drawer."""

    answer: Any = help_field("the Answer itself")
    fits: bool = help_field("whether the load fits")
    verdict: Sentence = help_field("the answer in one line: texts and Numbers; the template puts fits or not before it")
    lead: Sentence = help_field("what was asked, and what is left over or missing")
    remarks: tuple[str, ...] = help_field("how unclear names were taken, and what the plan warns of")
    notes: tuple[str, ...] = help_field("what the catalogue notes about model and accelerator")
    remedies: tuple[Remedy, ...] = help_field("ways out where it does not fit")
    memory: Memory = help_field("the bytes")
    tiles: tuple[Tile, ...] = help_field("speed, capacity, cost")
    targets: tuple[Target, ...] = help_field("the question's latency targets against the prediction")
    engine: str = help_field("the engine's name")
    phases: tuple[Phase, ...] = help_field("where the time of a step goes")
    speed_figures: tuple[Figure, ...] = help_field("the rest of the speed section")
    calibrated: bool = help_field("whether the efficiencies are fitted to measurements of this card and format")
    calibration: str = help_field("on what the efficiencies rest")
    assumptions: tuple[str, ...] = help_field("what the load is taken to be, and what of the speed is not known")
    matrix: Matrix | None = help_field("every accelerator, count and format; None while it is being computed")
    speculation: SpeculationView | None = help_field("speculative decoding, or None")
    cost: CostView = help_field("money and energy")
    log_lines: tuple[str, ...] = help_field("what the engine should log")
    launch: str = help_field("the command that starts the engine")
    flags: tuple[Flag, ...] = help_field("its flags and where they come from")
    log: LogView | None = help_field("predicted against the pasted log, or None")
    evidence: tuple[ErrorTable, ...] = help_field("how far predictions were from real logs and measurements")
    ledger: tuple[Group, ...] = help_field("every number on the page, explained")


STEPS = None
def steps(query: infersize.Query) -> Iterator[Any]:
    """The Page without the matrix at once, progress while that is computed, then the whole Page. Raises StudioError."""
    for item in infersize.steps(query):
        yield page(item) if isinstance(item, infersize.Answer) else item


def page(answer: Any) -> Page:
    """An Answer as the page shows it."""
    ledger, links = Ledger(), Links(answer.query)
    engine = ENGINES.get(answer.deployment.engine, answer.deployment.engine)
    bytes_view = memory(answer, ledger, engine)
    ledger.section("Capacity")
    middle = capacity_tile(answer, ledger)
    ledger.section("Speed")
    speed = answer.speed
    parts = dict(phases=phases(speed, ledger), speed_figures=figures(speed, ledger))
    first = speed_tile(speed, ledger)
    wanted = targets(answer.query, speed, ledger)
    ledger.section("Cost")
    money, last = cost_view(answer, ledger), cost_tile(answer.cost, answer.query.utilisation, ledger)
    ledger.section("Speculative decoding")
    speculation = speculation_view(answer, ledger)
    verdict, lead = sentences(answer, ledger, engine)
    log = log_view(answer, ledger)
    return Page(
        answer=answer, fits=answer.fits, verdict=verdict, lead=lead, remarks=remarks(answer),
        notes=notes(answer.deployment),
        remedies=tuple(remedy(one, links) for one in answer.remedies), memory=bytes_view, engine=engine,
        tiles=(first, middle, last), targets=wanted, calibrated=speed.calibrated,
        calibration=sentence_case(speed.calibration),
        assumptions=tuple(map(sentence_case, (*speed.assumptions, *speed.unknown))), **parts,
        matrix=matrix(answer, links), speculation=speculation, cost=money,
        log_lines=answer.capacity.log_lines, launch=answer.launch.command,
        flags=tuple(Flag(flag=one.flag, value=str(one.value), why=one.why) for one in answer.launch.flags),
        log=log, evidence=error_tables(), ledger=ledger.groups())


def sentences(answer: Any, ledger: Ledger, engine: str) -> tuple[Sentence, Sentence]:
    """The verdict and the lead."""
    deployment, plan, cost = answer.deployment, answer.memory, answer.cost
    machine = f"{deployment.parallel.devices} × {bare(deployment.accelerator.name)}"
    each = "on each" if deployment.parallel.devices > 1 else "of memory"
    if answer.fits:
        verdict = (f"on {machine}: {counted(deployment.sequences, 'user')} at ",
                   ledger.number(answer.speed.tokens_per_s_user, per_second),
                   " each" if deployment.sequences > 1 else "")
        usd = cost.usd_per_million_blended
        verdict += () if usd is None else (", ", ledger.number(usd, dollars), " per 1M tokens")
        rest = (ledger.number(plan.free), " of the engine's budget stay free.")
    else:
        verdict = (f"on {machine}: it needs ", ledger.number(plan.total, size), f" {each}, and {engine} may take ",
                   ledger.number(plan.budget, size))
        rest = (f"That is {size(-plan.free.value)} too much; below, what would make it fit.",)
    return verdict, (setting(deployment, engine) + " ",) + rest


def setting(deployment: Any, engine: str) -> str:
    """What was asked, in a sentence."""
    keys, values = (one.name.removeprefix("KV cache ") for one in (deployment.keys, deployment.values))
    cache = keys if keys == values else f"{keys} keys and {values} values"
    split = ", ".join(f"{size} {word}" for size, word in (
        (deployment.parallel.tensor, "tensor-parallel"), (deployment.parallel.pipeline, "pipeline stages"),
        (deployment.parallel.data, "replicas")) if size > 1)
    return (f"{plain(deployment.model.name, 80)}, weights in {deployment.weights.name}, KV cache in {cache}, under "
            f"{engine}{f' ({split})' if split else ''}: {counted(deployment.sequences, 'sequence')} of "
            f"{deployment.context:,} tokens.")


def per_second(rate: float) -> str:
    return f"{significant(rate, 3)} tokens/s"


def size(count: float) -> str:
    return binary_bytes(count, 3)


def sentence_case(text: str) -> str:
    return text[:1].upper() + text[1:]


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def targets(query: infersize.Query, speed: Any, ledger: Ledger) -> tuple[Target, ...]:
    """The latency targets that the question sets (0 sets none)."""
    asked = (("First token", query.target_ttft_ms, speed.ttft_s), ("Output token", query.target_tpot_ms, speed.tpot_s))
    return tuple(target(name, limit / 1000, term, ledger) for name, limit, term in asked if limit and term is not None)


def target(name: str, limit: float, term: Any, ledger: Ledger) -> Target:
    """One target in seconds against a predicted time and its range."""
    low, high = (term.value, term.value) if term.low is None else (term.low, term.high)
    state = "met" if high <= limit else "missed" if low > limit else "open"
    words = {"met": "met", "missed": "missed", "open": "within the range: may be missed"}[state]
    return Target(name=name, limit=seconds(limit), number=ledger.number(term), state=state, words=words)


def remarks(answer: Any) -> tuple[str, ...]:
    """Names that could have meant something else, and what the plan warns of."""
    query = answer.query
    found = (catalog.meaning("accelerators", query.gpu), catalog.meaning("formats", query.quant),
             "" if query.config else catalog.name_says(query.model, answer.deployment.weights),
             mismatch(query.engine_log, engine(query.engine)))
    return tuple(plain(text) for text in found if text) + answer.memory.notes


def notes(deployment: Any) -> tuple[str, ...]:
    """What the catalogue notes about model and accelerator."""
    return tuple(f"{plain(noun.name, 80)}: {plain(noun.note)}" for noun in (deployment.model, deployment.accelerator)
                 if noun.note)


def remedy(found: Any, links: Links) -> Remedy:
    return Remedy(text=found.text, href=links.to(found.changes), cost=found.cost, needs=size(found.total_bytes))


def headline(page: Page) -> str:
    """The verdict as plain text."""
    words = "".join(piece.text if isinstance(piece, Number) else str(piece) for piece in page.verdict)
    return f"{'Fits' if page.fits else 'Does not fit'} {words}"
