"""`--explain TERM`: how one number came about, down to the facts it rests on."""

from collections.abc import Iterator, Sequence

from pycore.cli.output import line
from pycore.errors import UnknownName
from pycore.ledger import Term, written

DEEPEST = 12
SHORT = {"tpot": "time per output token", "ttft": "time to first token", "itl": "time per output token",
         "mfu": "model flop utilisation of prefill", "mbu": "memory bandwidth utilisation of decoding",
         "kv": "kv cache", "throughput": "output tokens per second"}


def explain(terms: Sequence[Term], name: str) -> None:
    """Print the terms called `name`, each with its whole chain. Raises UnknownName with the nearest names."""
    for index, found in enumerate(find(terms, name)):
        if index:
            line()
        for depth, text in chain(found):
            line("  " * depth + text)


def find(terms: Sequence[Term], name: str) -> tuple[Term, ...]:
    """Terms by name, case and spaces aside: equal ones, else those that begin with it, else those that contain it."""
    every = {(part.name, part.value, part.unit, part.formula): part for top in terms for part in walk(top)}.values()
    wanted = SHORT.get(folded(name), folded(name))
    tests = (lambda text: text == wanted, lambda text: text.startswith(wanted), lambda text: wanted in text)
    for test in tests:
        found = tuple(one for one in every if test(folded(one.name)))
        if found and wanted:
            return found
    import difflib

    names = list(dict.fromkeys(one.name for one in every))
    near = {folded(one): one for one in names}
    close = difflib.get_close_matches(wanted, near, 5, 0.4)
    raise UnknownName("explain", name, f"accepted: one of {len(names)} terms of this answer, e.g. "
                      + ", ".join(names[:6]), [near[one] for one in close])


def walk(term: Term, depth: int = 0) -> Iterator[Term]:
    """A term, its parts and the terms among its inputs."""
    yield term
    if depth < DEEPEST:
        for below in (*term.parts, *(value for _, value in term.inputs if isinstance(value, Term))):
            yield from walk(below, depth + 1)


def folded(name: str) -> str:
    """For comparison: lower case, single spaces."""
    return " ".join(name.lower().split())


def chain(term: Term, depth: int = 0) -> Iterator[tuple[int, str]]:
    """(depth, text) lines: value, formula, the formula with its values, basis and source, then what it is made of."""
    yield depth, f"{term.name} = {term.text}" + (
        f"  (range {term.range_text})" if term.low != term.high else "")
    if term.formula and not term.parts:
        yield depth + 1, f"formula: {term.formula}"
        if term.substituted != term.formula:
            yield depth + 1, f"with values: {term.substituted}"
    origin = f"{term.basis}" + (f"; source: {term.source}" if term.source else "")
    yield depth + 1, f"basis: {origin}"
    if term.line:
        yield depth + 1, f"code: {term.line}"
    if term.note:
        yield depth + 1, f"note: {term.note}"
    if depth >= DEEPEST:
        return
    if term.parts:
        yield depth + 1, f"sum of {len(term.parts)}:"
    for part in term.parts:
        yield from chain(part, depth + 2)
    for name, value in term.inputs:
        if isinstance(value, Term):
            yield depth + 1, f"where {name} is"
            yield from chain(value, depth + 2)
        else:
            yield depth + 1, f"where {name} = {written(value)}"
