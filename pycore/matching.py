"""Names as people type them, matched to the names of a table: case, punctuation, vendor and ending do not matter.

A name is cut into atoms, runs of letters or of digits: "RTX-4090" -> (rtx, 4090), "qwen2.5 7B" -> (qwen, 2, 5, 7, b).
Atoms that only decorate ("nvidia", "instruct") are dropped. What was typed then matches a name, best first: exactly;
run together ("q4km"); as its beginning; as some of its atoms, in order; for some tables, in any order. Only the best
kind of match counts.
"""

import difflib
import functools
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

_ATOM = re.compile(r"hbm[0-9]?e?|[a-z]+|[0-9]+")  # a kind of memory is one atom: "HBM3"
TEXT_LIMIT = 200


def atoms(text: str, noise: frozenset[str] = frozenset()) -> tuple[str, ...]:
    """Lower-case runs of letters or digits, without those of `noise`; 'GiB' and 'g' after a number read as 'gb'."""
    found = _ATOM.findall(text[:TEXT_LIMIT].lower())
    found = ["gb" if atom in ("g", "gib") and index and found[index - 1].isdigit() else atom
             for index, atom in enumerate(found)]
    return tuple(atom for atom in found if atom not in noise)


def in_order(wanted: tuple[str, ...], name: tuple[str, ...]) -> bool:
    """Whether every wanted atom stands in the name, in that order."""
    rest = iter(name)
    return all(atom in rest for atom in wanted)


def in_any_order(wanted: tuple[str, ...], name: tuple[str, ...]) -> bool:
    """Whether every wanted atom stands in the name, as often as it is wanted."""
    return not Counter(wanted) - Counter(name)


@dataclass(frozen=True)
class Names:
    """The names of one table. `forms` maps an id to every spelling of it; `noise` atoms never matter."""

    forms: Mapping[str, tuple[str, ...]]
    noise: frozenset[str] = frozenset()
    any_order: bool = False

    @functools.cached_property
    def cut(self) -> dict[str, tuple[tuple[str, ...], ...]]:
        """Every spelling as atoms, by id."""
        return {key: tuple(dict.fromkeys(atoms(form, self.noise) for form in forms))
                for key, forms in self.forms.items()}

    def exact(self, text: str) -> tuple[str, ...]:
        """The ids that are spelt so, decoration aside."""
        wanted = atoms(text, self.noise)
        return tuple(key for key, names in self.cut.items() if wanted in names)

    def candidates(self, text: str) -> tuple[str, ...]:
        """The ids that the text can mean: one where it is clear, several where not, none where nothing fits."""
        wanted = atoms(text, self.noise)
        if not wanted:
            return ()
        joined = "".join(wanted)
        tests = (lambda name: name == wanted, lambda name: "".join(name) == joined,
                 lambda name: name[:len(wanted)] == wanted, lambda name: in_order(wanted, name),
                 lambda name: in_any_order(wanted, name))
        for test in tests if self.any_order else tests[:-1]:
            found = tuple(key for key, names in self.cut.items() if any(map(test, names)))
            if found:
                return found
        return ()

    def nearest(self, text: str, limit: int = 3) -> tuple[str, ...]:
        """The ids that look most like the text, best first."""
        wanted = "".join(atoms(text, self.noise)) or text[:TEXT_LIMIT].lower()
        scores = [(max(likeness(wanted, "".join(name)) for name in names), -index, key)
                  for index, (key, names) in enumerate(self.cut.items())]
        return tuple(key for _, _, key in sorted(scores, reverse=True)[:limit])


def likeness(left: str, right: str) -> float:
    """0 (nothing in common) to 1 (equal), by matching blocks (Ratcliff and Obershelp, as in difflib)."""
    return difflib.SequenceMatcher(None, left, right, autojunk=False).ratio()


