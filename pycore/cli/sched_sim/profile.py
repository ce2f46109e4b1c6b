"""Kernel tables from a folder in LLMServingSim's layout.

Either one profile (dense.csv, per_sequence.csv, attention.csv, skew.csv; each may be gzipped; in the folder or below
tp<N>), or files of several profiles with the profile's name before the kind (RTX4090_Llama-3.1-8B_dense.csv.gz): then the
one whose name holds the accelerator's and, where several do, the model's.
"""

import gzip
import zlib
from pathlib import Path

from pycore.errors import InputError, SourceError
from pycore.simulation.costs.profile import condense, read_csv
from pycore.simulation.costs.tables import KernelTables
from pycore.systems import sched_sim
from pycore.systems.sched_sim import Query

KINDS = ("dense", "per_sequence", "attention", "skew")
NEEDED = KINDS[:3]
MOST_BYTES = 256 << 20
ACCEPTED = "accepted: a folder with dense.csv, per_sequence.csv and attention.csv (and skew.csv), gzipped or not"


def read_profile(folder: str, query: Query) -> KernelTables:
    """The tables of the question's machine from a folder. Raises InputError, SourceError."""
    deployment = sched_sim.machine(query)
    degree = deployment.parallel.tensor
    try:
        found = profiles(Path(folder), degree)
    except (OSError, ValueError) as error:
        raise SourceError(folder, getattr(error, "strerror", None) or str(error), "profile") from None
    if not found:
        raise InputError("profile", folder, ACCEPTED)
    name = chosen(found, folder, deployment.accelerator.name, deployment.model.name)
    tables = {kind: read_csv(text(path)) for kind, path in found[name].items()}
    return condense(tables, id=name or Path(folder).name, layers=deployment.model.layers,
                    accelerator=deployment.accelerator.id, model=deployment.model.id, source=f"given in {folder}")


def profiles(folder: Path, degree: int) -> dict[str, dict[str, Path]]:
    """Name of a profile -> kind -> file; only profiles that have all that is needed. Raises OSError."""
    below = folder / f"tp{degree}"
    found: dict[str, dict[str, Path]] = {}
    for path in sorted((below if below.is_dir() else folder).iterdir()):
        stem, ending = path.name.removesuffix(".gz"), ".csv"
        kind = next((kind for kind in KINDS if stem == kind + ending or stem.endswith(f"_{kind}{ending}")), None)
        if kind is not None and path.is_file():
            found.setdefault(stem.removesuffix(kind + ending).rstrip("_"), {})[kind] = path
    return {name: files for name, files in found.items() if all(kind in files for kind in NEEDED)}


def chosen(found: dict[str, dict[str, Path]], folder: str, accelerator: str, model: str) -> str:
    """The one profile, or the one named after the machine. Raises InputError listing what there is."""
    if len(found) == 1:
        return next(iter(found))
    names = [name for name in found if named(name, accelerator)]
    if len(names) > 1:
        names = [name for name in names if bare(model) in bare(name)]
    if len(names) != 1:
        raise InputError("profile", folder, f"accepted: a folder with one profile of {model} on {accelerator}; it holds "
                         + ", ".join(found))
    return names[0]


def named(name: str, accelerator: str) -> bool:
    """Whether a part of a file's name is a part of the accelerator's: 'RTX4090' of 'GeForce RTX 4090'."""
    return any(len(part) > 2 and bare(part) in bare(accelerator) for part in name.split("_"))


def bare(text: str) -> str:
    """Letters and digits alone, in lower case."""
    return "".join(letter for letter in text.lower() if letter.isalnum())


def text(path: Path) -> str:
    """A file's text. Raises SourceError."""
    try:
        with (gzip.open if path.suffix == ".gz" else open)(path, "rb") as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise ValueError(f"larger than {MOST_BYTES:,} bytes")
        return content.decode("utf-8-sig")
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise SourceError(str(path), getattr(error, "strerror", None) or str(error), "profile") from None
