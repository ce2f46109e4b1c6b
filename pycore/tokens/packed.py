"""A vocabulary as a small file: most pieces are two other pieces put together, so two ids say them.

Inside gzip: "VOC1", the length of a header (4 bytes, little-endian), the header (JSON), the literal pieces (their
lengths, two bytes each, then all their bytes), then for every other piece the ids of its two parts, counted from the
first piece: low, middle and high bytes of all left ids, then of all right ids. A part is a literal, or comes earlier.
Like bytes side by side are what gzip makes small.
"""

import gzip
import json
import math
import sys
import zlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise

from pycore.errors import SourceError
from pycore.tokens.vocabulary import Vocabulary

MAGIC, GZIP = b"VOC1", b"\x1f\x8b"
FREQUENT = 20  # ids below this are all as good as each other when two splits are compared


def pack(vocabulary: Vocabulary, origin: str = "") -> bytes:
    """The file's bytes; `unpack` gives an equal vocabulary back. `origin`: sha256 of the maker's own file."""
    tokens = vocabulary.tokens
    pairs = splits(tokens)
    literals = [index for index in range(len(tokens)) if index not in pairs]
    header = json.dumps({
        "origin": origin, "name": vocabulary.name, "kind": vocabulary.kind, "tokens": len(tokens),
        "first_id": vocabulary.first_id, "first_byte_id": vocabulary.first_byte_id, "runs": runs(literals),
        "specials": texts(vocabulary, vocabulary.specials), "literals": texts(vocabulary, vocabulary.literals),
    }, ensure_ascii=False, separators=(",", ":")).encode()
    lengths = array("H", (len(tokens[index]) for index in literals))
    data = b"".join([MAGIC, len(header).to_bytes(4, "little"), header, little(lengths),
                     *(tokens[index] for index in literals),
                     *(plane for part in (0, 1) for plane in planes([pair[part] for pair in pairs.values()]))])
    return gzip.compress(data, 9, mtime=0)


def unpack(packed: bytes, name: str = "vocabulary") -> Vocabulary:
    """The vocabulary of a packed file. Raises SourceError where it is damaged or not such a file."""
    try:
        return read(zlib.decompress(packed, wbits=31) if packed[:2] == GZIP else packed)
    except (zlib.error, ValueError, KeyError, IndexError, TypeError) as error:
        raise SourceError(name, f"is not a whole packed vocabulary ({error}); fetch it again") from None


def origin_of(packed: bytes) -> str:
    """The `origin` that a file was packed with. Raises SourceError where it is no such file."""
    try:
        return parts(zlib.decompress(packed, wbits=31) if packed[:2] == GZIP else packed)[0]["origin"]
    except (zlib.error, ValueError, KeyError) as error:
        raise SourceError("vocabulary", f"is not a packed vocabulary ({error})") from None


def parts(data: bytes) -> tuple[dict, int]:
    """(header, where it ends). Raises ValueError."""
    if data[:4] != MAGIC:
        raise ValueError("it starts otherwise")
    end = 8 + int.from_bytes(data[4:8], "little")
    return json.loads(data[8:end]), end


def read(data: bytes) -> Vocabulary:
    """The vocabulary from the unpacked bytes. Raises ValueError and kin."""
    header, start = parts(data)
    tokens: list[bytes] = [b""] * header["tokens"]
    literals = list(expanded(header["runs"]))
    ends = list(accumulate(little_array("H", data[start:start + 2 * len(literals)]),
                           initial=start + 2 * len(literals)))
    for index, (begin, end) in zip(literals, pairwise(ends), strict=True):
        tokens[index] = data[begin:end]
    join(tokens, data[ends[-1]:], set(literals))
    whole = tuple(tokens)
    return Vocabulary(name=header["name"], kind=header["kind"], tokens=whole, first_id=header["first_id"],
                      first_byte_id=header["first_byte_id"], specials=numbers(header["specials"], whole, header["first_id"]),
                      literals=numbers(header["literals"], whole, header["first_id"]))


def join(tokens: list[bytes], planes: bytes, literals: set[int]) -> None:
    """Fill in the pieces that are two others put together."""
    count = len(tokens) - len(literals)
    if len(planes) != 6 * count:
        raise ValueError(f"{len(planes):,} bytes where {6 * count:,} should be")
    lefts, rights = interleaved(planes[:3 * count]), interleaved(planes[3 * count:])
    places = (index for index in range(len(tokens)) if index not in literals)
    for index, left, right in zip(places, lefts, rights, strict=True):
        tokens[index] = tokens[left] + tokens[right]


def splits(tokens: Sequence[bytes]) -> dict[int, tuple[int, int]]:
    """Index -> indices of two pieces that make it up, each a literal or an earlier one; literals are left out.

    Of several splits the one whose parts have the lowest ids is taken: those come again most often.
    """
    index = {piece: number for number, piece in enumerate(tokens)}
    whole = {number for number, piece in enumerate(tokens) if not any(True for _ in halves(piece, index))}
    pairs = {}
    for number, piece in enumerate(tokens):
        usable = [pair for pair in halves(piece, index) if all(part < number or part in whole for part in pair)]
        if usable and index[piece] == number:  # of two equal pieces (a byte and its character) one is literal
            pairs[number] = min(usable, key=cost)
        else:
            whole.add(number)
    return pairs


def halves(piece: bytes, index: dict[bytes, int]) -> Iterator[tuple[int, int]]:
    """Every way of cutting a piece into two others."""
    for cut in range(1, len(piece)):
        left = index.get(piece[:cut])
        if left is not None and (right := index.get(piece[cut:])) is not None:
            yield left, right


def cost(pair: tuple[int, int]) -> float:
    """About how many bits the two ids take."""
    return math.log(pair[0] + FREQUENT) + math.log(pair[1] + FREQUENT)


def planes(numbers: list[int]) -> Iterator[bytes]:
    """Low, middle and high bytes of 24-bit numbers."""
    for shift in (0, 8, 16):
        yield bytes(number >> shift & 255 for number in numbers)


def interleaved(data: bytes) -> array:
    """The numbers whose three planes these are."""
    count = len(data) // 3
    mixed = bytearray(4 * count)
    for place in range(3):
        mixed[place::4] = data[place * count:(place + 1) * count]
    return little_array("I", bytes(mixed))


def little_array(kind: str, data: bytes) -> array:
    """Numbers from little-endian bytes."""
    numbers = array(kind)
    numbers.frombytes(data)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def little(numbers: array) -> bytes:
    """Numbers as little-endian bytes."""
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()


def runs(numbers: Iterable[int]) -> list[int]:
    """Ascending numbers as [gap, length, gap, length, ...]."""
    out, end = [], 0
    for number in numbers:
        if out and number == end:
            out[-1] += 1
        else:
            out += [number - end, 1]
        end = number + 1
    return out


def expanded(gaps: list[int]) -> Iterator[int]:
    """The inverse of `runs`."""
    place = 0
    for gap, length in zip(gaps[::2], gaps[1::2], strict=True):
        place += gap
        yield from range(place, place + length)
        place += length


def texts(vocabulary: Vocabulary, table: dict[str, int]) -> dict:
    """Text -> id in few bytes: where the piece of that id is the text, the id says it all."""
    first, tokens = vocabulary.first_id, vocabulary.tokens
    told = {text: number for text, number in table.items()
            if first <= number < first + len(tokens) and tokens[number - first] == text.encode()}
    return {"ids": runs(sorted(told.values())),
            "texts": {text: number for text, number in table.items() if text not in told}}


def numbers(told: dict, tokens: tuple[bytes, ...], first: int) -> dict[str, int]:
    """The inverse of `texts`, by ascending id."""
    table = {tokens[number - first].decode(): number for number in expanded(told["ids"])} | told["texts"]
    return dict(sorted(table.items(), key=lambda row: row[1]))
