"""The languages of the benchmark and their names: 'hi', 'hin', 'hindi' and 'hin_Deva' all mean Hindi."""

import functools
from dataclasses import dataclass

from pycore.errors import UnknownName
from pycore.facts import table
from pycore.matching import TEXT_LIMIT, Names

DATASET = "token-atlas-benchmark"
ENGLISH = "eng_Latn"


@dataclass(frozen=True, slots=True, kw_only=True)
class Language:
    """One language as the corpus has it.

    code: of FLORES-200, ISO 639-3 and ISO 15924. `spaced`: words are separated by spaces, so that they can be counted.
    `direction`: "ltr" or "rtl". `family`: of Indo-European languages the branch.
    """

    code: str
    name: str
    iso639_1: str
    script: str
    script_name: str
    family: str
    spaced: bool
    direction: str
    aliases: tuple[str, ...] = ()

    @property
    def codes(self) -> frozenset[str]:
        """Its codes in lower case: 'hi', 'hin', 'hin_deva', 'hin-deva'."""
        code = self.code.lower()
        return frozenset({self.iso639_1, code[:3], code, code.replace("_", "-")})


@functools.cache
def languages() -> tuple[Language, ...]:
    """Every language, English first, then by script as in the table."""
    rows = (dict(row) for row in table("languages", DATASET))
    return tuple(Language(code=row.pop("language"), spaced=row.pop("spaced") == "1",
                          aliases=tuple(filter(None, row.pop("aliases").split(";"))), **row) for row in rows)


@functools.cache
def by_code() -> dict[str, Language]:
    """Every language by its FLORES code."""
    return {one.code: one for one in languages()}


@functools.cache
def spellings() -> Names:
    """What can be typed for each language."""
    return Names({one.code: (one.name, *one.aliases) for one in languages()})


def names() -> tuple[str, ...]:
    """What a form completes with: a name each."""
    return tuple(one.name for one in languages())


def scripts() -> tuple[str, ...]:
    """Names of the scripts, in the table's order."""
    return tuple(dict.fromkeys(one.script_name for one in languages()))


def families() -> tuple[str, ...]:
    """Names of the families, in the table's order."""
    return tuple(dict.fromkeys(one.family for one in languages()))


@functools.lru_cache(maxsize=512)
def language(text: str, field: str = "language") -> Language:
    """The language that a name or code means: 'hi', 'hin', 'Hindi', 'hin_Deva', 'hin-Deva'.

    Raises UnknownName with the nearest names, or with those that the text could mean.
    """
    known = by_code()
    if text in known:
        return known[text]
    folded = text.strip()[:TEXT_LIMIT].casefold()
    for one in languages():
        if folded in one.codes:
            return one
    found = spellings().candidates(folded) if len(folded) > 3 else spellings().exact(folded)  # 'hi' begins no name
    if len(found) == 1:
        return known[found[0]]
    if found:
        raise UnknownName(field, text, f"it fits {len(found)} languages", tuple(known[code].name for code in found[:6]))
    nearest = tuple(known[code].name for code in spellings().nearest(folded))
    raise UnknownName(field, text, f"accepted: one of {len(known)} languages, by name or code", nearest)
