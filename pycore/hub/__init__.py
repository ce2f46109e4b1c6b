"""A model on the Hugging Face Hub: its config.json, and the exact bytes of its stored weights without fetching them.

Honours HF_ENDPOINT (a mirror), HF_TOKEN (private and gated repositories) and HF_HUB_OFFLINE (the local cache only).
Every failure is a SourceError that says what to do about it.
"""

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import quote

from pycore.errors import InputError, SourceError
from pycore.hub.cache import Snapshot, offline, snapshot
from pycore.hub.download import Download, Missing
from pycore.hub.safetensors import DTYPE_BITS, Tensor, read_header, totals

DEFAULT_ENDPOINT = "https://huggingface.co"
CONFIG_LIMIT = 1 << 20
INDEX_LIMIT = 32 << 20
FACTS_LIMIT = 16 << 20
MOST_HEADERS = 32
_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]{0,95}(/[A-Za-z0-9_][\w.-]{0,95})?", re.ASCII)
_REVISION = re.compile(r"[\w][\w./-]{0,199}", re.ASCII)
_FILE = re.compile(r"[\w][\w.-]{0,199}\.safetensors", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredWeights:
    """What a repository's safetensors files hold. `by_dtype`: (dtype, elements, bytes); `by_component`: (component,
    elements, bytes), () where only totals are known; `elements` counts packed words as they are stored."""

    bytes: int
    elements: int | None
    by_dtype: tuple[tuple[str, int, int], ...]
    by_component: tuple[tuple[str, int, int], ...]
    files: int
    basis: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HubModel:
    """A repository as far as sizing needs it. `weights` is None where it stores no safetensors."""

    repository: str
    revision: str
    origin: str
    config: str
    weights: StoredWeights | None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Repository:
    """One revision of one repository, read through a Download or from the cache."""

    name: str
    revision: str
    source: Download | Snapshot

    def path(self, file: str) -> str:
        """Where the source keeps a file."""
        if isinstance(self.source, Snapshot):
            return file
        return f"{self.name}/resolve/{quote(self.revision, safe='')}/{file}"

    def read(self, file: str, limit: int) -> bytes:
        return self.source.read(self.path(file), limit)

    def starter(self, file: str) -> Callable[[int], bytes]:
        """Reads the first n bytes of a file."""
        return lambda length: self.source.start(self.path(file), length)

    def facts(self) -> dict:
        """What the Hub's API says of the revision; {} offline. Raises SourceError."""
        if isinstance(self.source, Snapshot):
            return {}
        path = f"api/models/{self.name}/revision/{quote(self.revision, safe='')}"
        return as_object(self.source.read(path, FACTS_LIMIT), self.source.host, "the API's answer")


def looks_like_repository(text: str) -> bool:
    """Whether `text` is an 'owner/name' that may exist on the Hub."""
    return "/" in text and _REPOSITORY.fullmatch(text) is not None and ".." not in text and "--" not in text


def lookup(repository: str, *, revision: str = "main", headers: int = MOST_HEADERS,
           environment: Mapping[str, str] = os.environ, deadline_s: float | None = None) -> HubModel:
    """Read a model's config and stored weights.

    At most `headers` files are asked for their header; a repository of more files is sized from the API's totals by
    dtype. Raises InputError for a name that cannot be one, SourceError for everything that goes wrong outside.
    """
    repository = repository.strip().removeprefix(DEFAULT_ENDPOINT + "/").strip("/")
    validate(repository, revision)
    where = Repository(repository, revision, source(repository, revision, environment, deadline_s))
    config = where.read("config.json", CONFIG_LIMIT)
    as_object(config, where.source.host, "config.json")
    notes: list[str] = []
    return HubModel(repository=repository, revision=revision, origin=where.source.host, config=config.decode("utf-8"),
                    weights=stored_weights(where, headers, notes), notes=tuple(notes))


def validate(repository: str, revision: str) -> None:
    """Raises InputError for what the Hub could not have as a name."""
    if not _REPOSITORY.fullmatch(repository) or ".." in repository or "--" in repository:
        raise InputError("repo_id", repository, "accepted: a Hub repository such as Qwen/Qwen2.5-7B-Instruct")
    if not _REVISION.fullmatch(revision) or ".." in revision:
        raise InputError("revision", revision, "accepted: a branch, a tag or a commit")


def source(repository: str, revision: str, environment: Mapping[str, str],
           deadline_s: float | None) -> Download | Snapshot:
    """The cache when HF_HUB_OFFLINE is set, else the endpoint."""
    if offline(environment):
        return snapshot(repository, revision, environment)
    endpoint = environment.get("HF_ENDPOINT") or DEFAULT_ENDPOINT
    settings = {} if deadline_s is None else {"deadline_s": deadline_s}
    return Download(endpoint, environment.get("HF_TOKEN", "").strip(), **settings)


def stored_weights(where: Repository, headers: int, notes: list[str]) -> StoredWeights | None:
    """The bytes of the stored weights: from the files' headers, else from the API's totals, else from the index."""
    try:
        index = as_object(where.read("model.safetensors.index.json", INDEX_LIMIT), where.source.host,
                          "model.safetensors.index.json")
        files = shard_names(index, where)
    except Missing:
        index, files = {}, ("model.safetensors",)
    if len(files) > headers:
        notes.append(f"{len(files)} files: sizes from totals instead of from each file's header (more than {headers})")
        return from_totals(where, index, len(files), notes)
    try:
        tensors = tuple(one for file in files for one in read_header(where.starter(file), file))
    except Missing:
        notes.append("no safetensors file: what is stored is not known, sizes are computed from config.json alone")
        return None
    check_index(index, tensors, notes)
    return from_headers(tensors, len(files))


def from_headers(tensors: tuple[Tensor, ...], files: int) -> StoredWeights:
    """Exact, tensor by tensor."""
    return StoredWeights(
        bytes=sum(one.bytes for one in tensors), elements=sum(one.elements for one in tensors),
        by_dtype=totals(tensors, lambda one: one.dtype), by_component=totals(tensors, lambda one: one.component),
        files=files, basis=f"safetensors headers of {files} file{'' if files == 1 else 's'}")


def shard_names(index: dict, where: Repository) -> tuple[str, ...]:
    """The files an index names, each once. Raises SourceError where they are no plain file names."""
    names = index.get("weight_map")
    files = tuple(sorted(set(map(str, names.values())))) if isinstance(names, dict) else ()
    if not files or not all(_FILE.fullmatch(file) for file in files):
        raise SourceError(where.source.host, "model.safetensors.index.json names no safetensors files")
    return files


def check_index(index: dict, tensors: tuple[Tensor, ...], notes: list[str]) -> None:
    """Note where the index's total differs from the headers' (some exporters count shared tensors twice)."""
    metadata = index.get("metadata")
    declared = metadata.get("total_size") if isinstance(metadata, dict) else None
    stored = sum(one.bytes for one in tensors)
    if isinstance(declared, int) and declared != stored:
        notes.append(f"the index declares {declared:,} bytes, the headers add up to {stored:,}; the headers are used")


def from_totals(where: Repository, index: dict, files: int, notes: list[str]) -> StoredWeights | None:
    """The API's totals by dtype; where it gives none, the index's total."""
    try:
        counts = where.facts().get("safetensors", {}).get("parameters", {})
        rows = tuple((dtype, int(count), int(count) * DTYPE_BITS[dtype] // 8) for dtype, count in counts.items())
    except (SourceError, AttributeError, KeyError, TypeError, ValueError) as error:
        notes.append(f"the Hub's totals could not be used: {error}")
        rows = ()
    if rows:
        return StoredWeights(bytes=sum(row[2] for row in rows), elements=sum(row[1] for row in rows), by_component=(),
                             by_dtype=tuple(sorted(rows, key=lambda row: -row[2])), files=files,
                             basis="the Hub API's totals by dtype")
    size = (index.get("metadata") or {}).get("total_size") if isinstance(index.get("metadata"), dict) else None
    if not isinstance(size, int) or size <= 0:
        return None
    return StoredWeights(bytes=size, elements=None, by_dtype=(), by_component=(), files=files,
                         basis="total_size of model.safetensors.index.json")


def as_object(content: bytes, host: str, name: str) -> dict:
    """Bytes as a JSON object. Raises SourceError that shows how the content begins."""
    try:
        value = json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise SourceError(host, f"{name} is not a JSON object; it begins {content[:40].decode('utf-8', 'replace')!r}")
    return value
