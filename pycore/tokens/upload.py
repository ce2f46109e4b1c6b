"""A reader's own tokenizer: a tokenizer.json of the BPE kinds, or a .tiktoken file. Others are refused by name.

Two kinds of tokenizer.json are read: byte-level (GPT-2 and after), and BPE over characters with byte fallback
(SentencePiece written out, as Llama 2, Mistral and Gemma have it). Merges are taken from the file, pair by pair.
"""

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any

from pycore.errors import InputError
from pycore.nesting import deeper
from pycore.tokens import patterns
from pycore.tokens.byte_pair import BytePair
from pycore.tokens.originals import byte_letters
from pycore.tokens.pairs import Pairs
from pycore.tokens.pipeline import read_cuts, read_steps
from pycore.tokens.stream import BYTE_PAIRS
from pycore.tokens.tokenizer import Tokenizer
from pycore.tokens.uploaded import Pieces, Uploaded, UploadedTokenizer
from pycore.tokens.vocabulary import BYTE_PAIR, SENTENCE_PIECE, Vocabulary

FIELD = "tokenizers"
LARGEST_ID = 1 << 21
DEEPEST = 900  # levels of JSON; a tokenizer.json has less than ten, but nested normalisers are read one by one
"""Ids beyond are a damaged file: the largest vocabularies have some 260,000 pieces."""
KINDS = "a tokenizer.json of the kind BPE, byte-level or with byte fallback, is understood"


def from_tiktoken(data: bytes, name: str, pattern: str = "o200k_base") -> Tokenizer:
    """The tokenizer of a .tiktoken file: lines of base64 and rank. The file does not say how a text is cut: `pattern` is
    the name of a known tokenizer that cuts so. Raises InputError naming the line that is wrong, or what is missing.
    """
    if pattern not in patterns.PATTERNS:
        raise InputError(FIELD, pattern, f"a .tiktoken file needs a pattern: one of {', '.join(patterns.PATTERNS)}")
    ranks: dict[bytes, int] = {}
    for number, line in enumerate(data.splitlines(), 1):
        if not line.strip():
            continue
        try:
            piece, rank = line.split()
            ranks[base64.b64decode(piece, validate=True)] = int(rank)
        except (ValueError, binascii.Error):
            raise InputError(FIELD, name, f"line {number} is not base64 and a rank: {line[:40]!r}") from None
    missing = [byte for byte in range(256) if bytes([byte]) not in ranks]
    if missing:
        raise InputError(FIELD, name, f"{len(missing)} of the 256 single bytes are missing, the first 0x{missing[0]:02X}")
    pieces = sorted(ranks.items(), key=lambda row: row[1])
    first = pieces[0][1]
    if [rank for _, rank in pieces] != list(range(first, first + len(pieces))):
        raise InputError(FIELD, name, "its ranks have gaps or repeat")
    vocabulary = Vocabulary(name=name, kind=BYTE_PAIR, tokens=tuple(piece for piece, _ in pieces), first_id=first)
    return Tokenizer(name=name, label=f"{name} (yours, cut as {pattern})",
                     engine=BytePair(vocabulary, patterns.PATTERNS[pattern]), joints=BYTE_PAIRS)


def from_tokenizer_json(data: bytes, name: str) -> Tokenizer:
    """The tokenizer of a tokenizer.json. Raises InputError naming what is missing or not understood."""
    table = parsed(data, name)
    model = part(table, "model", dict, name)
    refuse_other_models(model, name)
    vocab, merges = part(model, "vocab", dict, name), part(model, "merges", list, name)
    added = added_tokens(table, name)
    cuts, byte_level, prefix = read_cuts(table.get("pre_tokenizer"), name)
    if not byte_level and not model.get("byte_fallback"):
        raise InputError(FIELD, name, "it is BPE over characters without byte_fallback, which loses characters that have no "
                                      f"piece; {KINDS}")
    pieces = byte_level_pieces(vocab, added, name) if byte_level else fallback_pieces(vocab, name)
    literals = {row["content"]: row["id"] for row in added if not row.get("special")}
    specials = {row["content"]: row["id"] for row in added if row.get("special")}
    vocabulary = listed(name, byte_level, pieces, specials, literals)
    engine = Uploaded(vocabulary, pieces=pieces, pairs=read_merges(merges, pieces, name), cuts=cuts,
                      whole=bool(model.get("ignore_merges")))
    greedy = [row["content"] for row in added if row.get("lstrip") or row.get("rstrip") or row.get("single_word")]
    return UploadedTokenizer(name=name, label=f"{name} (yours)", engine=engine, prefix=prefix,
                             steps=read_steps(table.get("normalizer"), name), greedy=tuple(greedy))


def parsed(data: bytes, name: str) -> dict:
    """The file as JSON. Raises InputError saying where it breaks."""
    if deeper(data, DEEPEST):
        raise InputError(FIELD, name, "it is nested too deeply to be a tokenizer.json")
    try:
        table = json.loads(data)
    except UnicodeDecodeError as error:
        raise InputError(FIELD, name, f"it is not UTF-8: byte {error.start} is 0x{data[error.start]:02X}") from None
    except json.JSONDecodeError as error:
        raise InputError(FIELD, name, f"it is not JSON: {error.msg} at line {error.lineno}, column {error.colno}") from None
    except ValueError as error:  # a number of thousands of digits
        raise InputError(FIELD, name, f"it holds what no tokenizer.json does: {error}") from None
    if not isinstance(table, dict):
        raise InputError(FIELD, name, f"it is JSON but not an object; {KINDS}")
    if b"\\ud" in data.lower():  # pairs of these are characters, one alone is none
        try:
            json.dumps(table, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            raise InputError(FIELD, name, f"it holds {error.object[error.start]!a}, half a character") from None
    return table


def part(table: Mapping, key: str, kind: type, name: str) -> Any:
    """A part that must be there. Raises InputError."""
    if key not in table or not isinstance(table[key], kind):
        said = "is missing" if key not in table else f"is not {'an object' if kind is dict else 'a list'}"
        raise InputError(FIELD, name, f"its {key!r} {said}; {KINDS}")
    return table[key]


def refuse_other_models(model: Mapping, name: str) -> None:
    """Raises InputError for another kind of model, and for options of BPE that change its result."""
    kind = model.get("type", "BPE" if "merges" in model else "no type")
    if kind != "BPE":
        raise InputError(FIELD, name, f"its model is {kind}; {KINDS}")
    for option in ("dropout", "continuing_subword_prefix", "end_of_word_suffix"):
        if model.get(option):
            raise InputError(FIELD, name, f"its model has {option} {model[option]!r}, which is not understood; {KINDS}")


def added_tokens(table: Mapping, name: str) -> list[dict]:
    """The added tokens, each with content and id. Raises InputError."""
    found = table.get("added_tokens") or []
    if not isinstance(found, list):
        raise InputError(FIELD, name, "its 'added_tokens' is not a list")
    for number, row in enumerate(found, 1):
        if not isinstance(row, dict) or not isinstance(row.get("content"), str) or not isinstance(row.get("id"), int):
            raise InputError(FIELD, name, f"added token {number} lacks a content or an id")
        if not row["content"] or not 0 <= row["id"] < LARGEST_ID:
            raise InputError(FIELD, name, f"added token {number} is empty or has the id {row['id']}")
    return found


def checked(vocab: Mapping, name: str) -> Mapping[str, int]:
    """The vocabulary, if every piece has an id of its own. Raises InputError."""
    if not vocab:
        raise InputError(FIELD, name, "its vocabulary is empty")
    for piece, number in vocab.items():
        if not isinstance(number, int) or not 0 <= number < LARGEST_ID:
            raise InputError(FIELD, name, f"piece {piece!r} has the id {number!r}")
    if len(set(vocab.values())) < len(vocab):
        raise InputError(FIELD, name, "two pieces of its vocabulary have the same id")
    return vocab


def byte_level_pieces(vocab: Mapping, added: list[dict], name: str) -> Pieces:
    """Pieces of a byte-level file by their bytes. Raises InputError where a byte has no piece."""
    letters, apart = byte_letters(), {row["content"] for row in added}
    known = checked(vocab, name)
    missing = [byte for letter, byte in letters.items() if letter not in known]
    if missing:
        raise InputError(FIELD, name, f"{len(missing)} of the 256 single bytes have no piece, the first 0x{missing[0]:02X}")
    found, odd = {}, []
    for piece, number in known.items():
        try:
            found[piece] = (number, bytes(map(letters.__getitem__, piece)))
        except KeyError:  # an added token may stand in the vocabulary as it is written
            odd += [piece] if piece not in apart else []
    if odd:
        raise InputError(FIELD, name, f"{len(odd)} pieces are not written in byte letters, the first {odd[0]!r}")
    starts = [known[letter] for letter, _ in sorted(letters.items(), key=lambda row: row[1])]
    return Pieces(known=found, byte_ids=tuple(starts), characters={})


def fallback_pieces(vocab: Mapping, name: str) -> Pieces:
    """Pieces of a file with byte fallback. Raises InputError where one of <0x00> to <0xFF> is missing."""
    known = checked(vocab, name)
    names = [f"<0x{byte:02X}>" for byte in range(256)]
    missing = [one for one in names if one not in known]
    if missing:
        raise InputError(FIELD, name, f"{len(missing)} of its byte pieces are missing, the first {missing[0]}")
    found = {piece: (number, piece.encode("utf-8", "replace").replace("\u2581".encode(), b" "))
             for piece, number in known.items()}
    found |= {one: (known[one], bytes([byte])) for byte, one in enumerate(names)}
    return Pieces(known=found, byte_ids=tuple(known[one] for one in names),
                  characters={piece: number for piece, (number, _) in found.items() if len(piece) == 1})


def read_merges(merges: list, pieces: Pieces, name: str) -> Pairs:
    """Merges by pair of ids. Raises InputError naming the first that is no pair of pieces, or makes none."""
    found: dict[tuple[int, int], tuple[int, int]] = {}
    for rank, merge in enumerate(merges):
        halves = merge.split(" ") if isinstance(merge, str) else merge
        if not isinstance(halves, list) or len(halves) != 2 or not all(isinstance(half, str) for half in halves):
            raise InputError(FIELD, name, f"merge {rank + 1} is not a pair of pieces: {str(merge)[:60]!r}")
        ids = [pieces.known.get(piece, (None,))[0] for piece in (*halves, "".join(halves))]
        if None in ids:
            lacking = (*halves, "".join(halves))[ids.index(None)]
            raise InputError(FIELD, name, f"merge {rank + 1} names {lacking!r}, which its vocabulary does not have")
        found[ids[0], ids[1]] = (rank, ids[2])
    return found


def listed(name: str, byte_level: bool, pieces: Pieces, specials: dict[str, int], literals: dict[str, int]) -> Vocabulary:
    """The vocabulary by id; an id without a piece has no bytes."""
    by_id = {number: data for number, data in pieces.known.values()}
    tokens = tuple(by_id.get(number, b"") for number in range(max(by_id) + 1))
    return Vocabulary(name=name, kind=BYTE_PAIR if byte_level else SENTENCE_PIECE, tokens=tokens, specials=specials,
                      literals=literals, first_byte_id=None if byte_level else pieces.byte_ids[0])
