"""A scene in one line, and what is on show."""

from typing import Any

from studios.explain import Ledger, Number, plain
from studios.mini_infer.waste import share

Sentence = tuple[str | Number, ...]
TOY = "A toy model whose every token hangs on every block that it reads makes a wrong block visible as wrong text."


def verdict(answer: Any, ledger: Ledger) -> Sentence:
    """What the scene shows, whatever frame it stands at: texts and Numbers."""
    makers = {"radix": cached, "museum": caught, "speculation": drafted}
    return makers.get(answer.query.scene, paged)(answer, ledger)


def paged(answer: Any, ledger: Ledger) -> Sentence:
    """What paging leaves empty over the film, against the longest text reserved for each sequence."""
    if answer.film is None:
        return ("Drop a file here that an engine wrote, and see every block of its run",)
    ways = {one.name: one.over_film for one in answer.waste.allocations}
    broken = (". A law is broken in it",) if answer.film.first_broken() else ()
    if ways["paged"] is None or ways["longest"] is None:
        return ("Nothing ever ran here: no memory was taken", *broken)
    return ("Paged blocks leave ", ledger.number(ways["paged"], share), " of what they reserve empty; one piece of the "
            "longest text for each sequence would leave ", ledger.number(ways["longest"], share), *broken)


def cached(answer: Any, ledger: Ledger) -> Sentence:
    """How much of the prompts was found."""
    hit, asked = answer.conversation.hit_tokens, answer.conversation.asked_tokens
    if not hit.value:
        return ("None of ", ledger.number(asked), " was found in the prefix cache: every prompt is computed whole")
    return (ledger.number(hit, count), " of ", ledger.number(asked, count), " prompt tokens are found in the prefix "
            "cache and not computed again")


def count(value: float) -> str:
    return f"{value:,.0f}"


def caught(answer: Any, ledger: Ledger) -> Sentence:
    """Which law catches the fault, and whether before anybody reads a wrong token."""
    exhibit = answer.exhibit
    title = exhibit.fault.title
    if not answer.query.broken:
        return (f"{title}: repaired, and all laws hold in all {len(exhibit.right.frames)} frames",)
    if exhibit.law is None:
        return (f"{title}: no law catches it here",)
    said = f"{title}: caught in frame {exhibit.caught} by “{exhibit.law.name}”"
    if exhibit.diverges is None:
        return (f"{said}; no token is wrong, the engine stands still",)
    if exhibit.diverges > exhibit.caught:
        return (f"{said}, before the first wrong token comes out in frame {exhibit.diverges}",)
    return (f"{said}; the first wrong token comes out in frame {exhibit.diverges}",)


def drafted(answer: Any, ledger: Ledger) -> Sentence:
    """What a step of speculation yields, and what it throws away."""
    found = answer.waterfall
    return (ledger.number(found.measured), " a step instead of one: ", ledger.number(found.acceptance, percentage),
            " of the guesses looked at are kept, and ", ledger.number(found.wasted_share, share), " of the keys and "
            "values are computed for nothing")


def percentage(value: float) -> str:
    return share(100 * value)


def many(number: int, noun: str) -> str:
    """'1 request', '12 requests'."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def lead(answer: Any) -> str:
    """What is on show, and how it was made."""
    query, film = answer.query, answer.film
    if query.scene == "speculation":
        return plain(
            f"A toy model, guessed at by a draft that shares {query.similarity} % of its distribution, "
            f"{query.draft_tokens} tokens a step. The sampling is exact: what comes out is distributed as if the target "
            "had written alone.")
    if film is None:
        return ("The engine writes what its scheduler was given and what came out of each step; this page plays it on "
                "the same scheduler and draws it.")
    size = f"{film.blocks:,} blocks of {film.block_size:,} tokens, {len(film.frames):,} frames"
    what = {"blocks": "The scheduler that the engine and the simulator run, driven by the events below",
            "radix": f"{many(len(film.texts), 'prompt')}, tokens are {query.tokenizer}, asked of the same scheduler",
            "museum": "One part of the engine is swapped for a faulty one; scheduler and requests are the same",
            "recorded": f"{many(len(film.texts), 'request')} of the file, played on the same scheduler"}[query.scene]
    return plain(f"{what}; {size}. {TOY if query.scene != 'recorded' else ''}")
