"""mini-infer on a page: a scene's film, one frame of it, and what the scene is about, as a `Page`.

Every frame is drawn here. The page's player asks for another frame as for another question; films are kept by the core,
so that a step costs a picture, not a run.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pycore import catalog
from pycore.scenes.conversations import PRESETS
from pycore.systems import mini_infer
from studios.explain import Group, Ledger, Number, help_field, plain
from studios.mini_infer import charts as drawings
from studios.mini_infer import files
from studios.mini_infer.dials import Dial, dials
from studios.mini_infer.film import Law, Player, laws, player, stepper
from studios.mini_infer.links import Choice, also
from studios.mini_infer.museum import Museum, museum
from studios.mini_infer.pool import Pool, pool
from studios.mini_infer.reuse import Found, found
from studios.mini_infer.tree import Tree, tree
from studios.mini_infer.verdict import Sentence, lead, verdict
from studios.mini_infer.waste import Bars, bars
from studios.mini_infer.waterfall import Cascade, cascade, falls

TITLE = "mini-infer"
SENTENCE = "Every block of the KV cache, seen while the scheduler moves it"
Query = mini_infer.Query
FRONT = ("scene", "frame", "policy", "block_size", "blocks", "longest")
COMMAND = "mini-infer scene"
MODULE = "pycore.systems.mini_infer"
PACKAGES = ()
DATA = ("consumer-silicon-benchmarks", "llm-serving-traces", "catalog")

SCENES = {"blocks": "Block tables", "radix": "Prefix cache", "speculation": "Speculation", "museum": "Bug museum",
          "recorded": "Recorded run"}
ASKS = {"blocks": "Requests arrive, grow, fork and finish", "radix": "Prompts that share prefixes",
        "speculation": "Drafts, accepted and rejected", "museum": "Famous faults, and the law that catches each",
        "recorded": "What an engine wrote with --events"}

completions = catalog.names
charts, downloads = drawings.charts, files.downloads


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The context of `panel.html.j2`; `answer` is for charts, downloads and the Python drawer."""

    answer: Any = help_field("the Answer itself")
    scene: str = help_field("which scene")
    scenes: tuple[Choice, ...] = help_field("the scenes as links")
    verdict: Sentence = help_field("the scene in one line: texts and Numbers")
    lead: str = help_field("what is on show")
    notes: tuple[str, ...] = help_field("what the film remarks")
    player: Player | None = help_field("the frame, and the way to others; None where no film is there yet")
    laws: tuple[Law, ...] = help_field("what must hold, as it stands in the frame")
    pool: Pool | None = help_field("the pool and the block tables")
    bars: Bars | None = help_field("paged against contiguous, or None")
    tree: Tree | None = help_field("the prefix cache, in the scenes that are about it")
    found: tuple[Found, ...] = help_field("what every prompt found")
    presets: tuple[Choice, ...] = help_field("prompts to start from")
    typed: str = help_field("the script or the prompts as they stand, for the field beside the picture")
    dials: tuple[Dial, ...] = help_field("fields of the question that are set beside the picture")
    museum: Museum | None = help_field("the exhibit")
    cascade: Cascade | None = help_field("drafts step by step")
    ledger: tuple[Group, ...] = help_field("every number on the page, explained")


def steps(query: Any) -> Iterator[Any]:
    """Progress where a long recording is played, then the Page. Raises StudioError."""
    for item in mini_infer.steps(query):
        yield page(item) if isinstance(item, mini_infer.Answer) else item


def page(answer: Any) -> Page:
    """An Answer as the page shows it."""
    ledger = Ledger()
    ledger.section("The scene")
    said = verdict(answer, ledger)
    film, frame = answer.film, answer.frame
    ledger.section("Memory in this frame")
    memory = bars(film, frame, answer.waste, answer.query.model, ledger) if answer.waste else None
    ledger.section("Speculation")
    drafts = cascade(answer, ledger) if answer.waterfall else None
    query = answer.query
    return Page(
        answer=answer, scene=query.scene, scenes=scenes(query), verdict=said, lead=lead(answer), typed=typed(query),
        notes=tuple(map(plain, answer.notes)), player=the_player(answer),
        laws=laws(frame) if film else (), pool=pool(film, frame) if film else None, bars=memory,
        tree=tree(frame) if film and query.scene in ("radix", "recorded") else None,
        dials=dials(query),
        found=found(answer.conversation) if answer.conversation else (), presets=presets(query),
        museum=museum(query, answer.exhibit) if answer.exhibit else None, cascade=drafts, ledger=ledger.groups())


def the_player(answer: Any) -> Player | None:
    """The way through the scene's frames, or through the steps of speculation."""
    query = answer.query
    if answer.waterfall:
        return stepper(query, answer.number, [falls(one) for one in answer.waterfall.steps], answer.film)
    return player(query, answer.film) if answer.film else None


def scenes(query: Any) -> tuple[Choice, ...]:
    """The scenes as links; each begins with the frame that shows most."""
    return tuple(Choice(text=text, more=ASKS[name], href=also(query, scene=name, frame=0), chosen=name == query.scene)
                 for name, text in SCENES.items())


def presets(query: Any) -> tuple[Choice, ...]:
    """Prompts to start from, in the scene that asks them."""
    if query.scene != "radix":
        return ()
    return tuple(Choice(text=name.replace("-", " "), more="", href=also(query, conversation=name, prompts="", frame=0),
                        chosen=name == query.conversation and not query.prompts.strip()) for name in PRESETS)


def typed(query: Any) -> str:
    """What the field beside the picture holds: the events of a script, or the prompts in use."""
    if query.scene == "radix":
        return query.prompts if query.prompts.strip() else PRESETS[query.conversation]
    return query.script if query.scene == "blocks" else ""


def headline(page: Page) -> str:
    """The verdict as plain text."""
    return "".join(piece.text if isinstance(piece, Number) else piece for piece in page.verdict)
