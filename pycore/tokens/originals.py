"""Vocabularies as their makers publish them: tiktoken's rank lists, Hugging Face's tokenizer.json, Anthropic's claude.json.

Only the files of `data/tokenizers/vocabularies.csv` are read here, whose hashes are known; a reader's own file is
`upload`'s affair, which doubts everything.
"""

import base64
import json

from pycore.tokens.vocabulary import BYTE_PAIR, SENTENCE_PIECE, Vocabulary


def ranks(name: str, data: bytes, specials: dict[str, int]) -> Vocabulary:
    """tiktoken's text format: a line a piece, base64 and rank. Raises ValueError where ranks are not 0, 1, 2, ..."""
    rows = [line.split() for line in data.splitlines() if line]
    if any(int(rank) != number for number, (_, rank) in enumerate(rows)):
        raise ValueError(f"{name}: the ranks have gaps")
    return Vocabulary(name=name, kind=BYTE_PAIR, specials=specials,
                      tokens=tuple(base64.b64decode(piece) for piece, _ in rows))


def claude(name: str, data: bytes, specials: dict[str, int]) -> Vocabulary:
    """claude.json of @anthropic-ai/tokenizer: one line "! FIRST_ID PIECE PIECE ..." and its specials.

    Its `explicit_n_vocab` (64,739) is not what it holds and is not used.
    """
    table = json.loads(data)
    _, first, *pieces = table["bpe_ranks"].split()
    return Vocabulary(name=name, kind=BYTE_PAIR, first_id=int(first), specials=table["special_tokens"] | specials,
                      tokens=tuple(map(base64.b64decode, pieces)))


def byte_level(name: str, data: bytes, specials: dict[str, int]) -> Vocabulary:
    """A byte-level tokenizer.json. Every added token is a special: none of them is a piece of text."""
    table = json.loads(data)
    added = {row["content"]: row["id"] for row in table["added_tokens"]}
    own = sorted((number, piece) for piece, number in table["model"]["vocab"].items() if piece not in added)
    first = own[0][0]
    if [number for number, _ in own] != list(range(first, first + len(own))):
        raise ValueError(f"{name}: the ids have gaps")
    letters = byte_letters()
    return Vocabulary(name=name, kind=BYTE_PAIR, first_id=first, specials=added | specials,
                      tokens=tuple(bytes(letters[letter] for letter in piece) for _, piece in own))


def sentence_piece(name: str, data: bytes, specials: dict[str, int]) -> Vocabulary:
    """Gemma's tokenizer.json, which is a SentencePiece model written out: control pieces are the added tokens marked
    special, user-defined pieces the other added tokens, <0x00> to <0xFF> the byte fallback.
    """
    table = json.loads(data)
    pieces = sorted(table["model"]["vocab"].items(), key=lambda row: row[1])
    if [number for _, number in pieces] != list(range(len(pieces))):
        raise ValueError(f"{name}: the ids have gaps")
    first_byte = table["model"]["vocab"]["<0x00>"]
    if [piece for piece, _ in pieces[first_byte:first_byte + 256]] != [f"<0x{byte:02X}>" for byte in range(256)]:
        raise ValueError(f"{name}: the byte pieces do not follow each other")
    tokens = [piece.encode() for piece, _ in pieces]
    tokens[first_byte:first_byte + 256] = [bytes([byte]) for byte in range(256)]
    added = table["added_tokens"]
    return Vocabulary(name=name, kind=SENTENCE_PIECE, tokens=tuple(tokens), first_byte_id=first_byte,
                      specials={row["content"]: row["id"] for row in added if row["special"]} | specials,
                      literals={row["content"]: row["id"] for row in added if not row["special"]})


def byte_letters() -> dict[str, int]:
    """The letter that byte-level files write for each byte: itself where it is printable in Latin-1, else the next one
    from U+0100 on (GPT-2's table).
    """
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return {chr(byte): byte for byte in shown} | {chr(0x100 + place): byte for place, byte in enumerate(hidden)}


LAYOUTS = {"ranks": ranks, "claude": claude, "byte level": byte_level, "sentence piece": sentence_piece}
"""What the column `layout` of vocabularies.csv names."""
