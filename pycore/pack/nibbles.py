"""Two 4-bit codes in a byte, in the orders that kernels read.

    low-first     byte = | w1 w1 w1 w1 w0 w0 w0 w0 |    the even weight in the low nibble (GPTQ, torchao, OCP FP4)
    high-first    byte = | w0 w0 w0 w0 w1 w1 w1 w1 |    the even weight in the high nibble (bitsandbytes)
    awq           32-bit word, nibbles from the lowest: w0 w2 w4 w6 w1 w3 w5 w7 (AutoAWQ's `qweight`)
    halves-N      block of N: byte j = | w[j+N/2] | w[j] |    (GGUF; `pack_halves`)

Both directions work on 16-bit words, a cache-sized chunk at a time, so that no pass strides through memory. One product
moves both nibbles of a word: x 0x0110 (high-first: x 0x1001), then >> 8, leaves the byte. Back, high-first is one product
too; low-first would carry from one nibble into the next, so it is byte | byte << 4, masked.
"""

from typing import TYPE_CHECKING

from pycore.pack.packed import Part, Span
from pycore.pack.values import chosen

if TYPE_CHECKING:
    from numpy import ndarray

ORDERS = ("low-first", "high-first", "awq")
AWQ = (0, 2, 4, 6, 1, 3, 5, 7)  # nibble k of the word holds weight AWQ[k]
CHUNK = 1 << 16
PACK = {"low-first": 0x0110, "high-first": 0x1001}  # two codes in a word, times this, >> 8: the byte


def pack(codes: "ndarray", order: str = "low-first") -> "ndarray":
    """Codes 0 to 15 (uint8, flat, an even number; awq: a multiple of 8) to half as many bytes."""
    import numpy as np

    chosen("nibble_order", order, ORDERS)
    codes = np.ascontiguousarray(codes, dtype=np.uint8).reshape(-1)
    if order == "awq":
        codes = np.ascontiguousarray(codes.reshape(-1, 8)[:, AWQ]).reshape(-1)
    words, out = codes.view("<u2"), np.empty(codes.size // 2, np.uint8)
    scratch, factor = np.empty(min(CHUNK, words.size), np.uint16), np.uint16(PACK.get(order, PACK["low-first"]))
    for start in range(0, words.size, CHUNK):
        word = words[start:start + CHUNK]
        part = scratch[:word.size]
        np.multiply(word, factor, out=part)
        np.right_shift(part, 8, out=part)
        np.copyto(out[start:start + CHUNK], part, casting="unsafe")
    return out


def unpack(data: "ndarray", order: str = "low-first") -> "ndarray":
    """Bytes to twice as many codes 0 to 15 (uint8)."""
    import numpy as np

    chosen("nibble_order", order, ORDERS)
    data = np.frombuffer(data, np.uint8) if isinstance(data, bytes | bytearray | memoryview) else data.reshape(-1)
    out = np.empty(2 * data.size, np.uint8)
    words, scratch = out.view("<u2"), np.empty(min(CHUNK, data.size), np.uint16)
    for start in range(0, data.size, CHUNK):
        word, wide = words[start:start + CHUNK], scratch[:min(CHUNK, data.size - start)]
        np.copyto(wide, data[start:start + CHUNK])
        if order == "high-first":
            np.multiply(wide, np.uint16(0x1001), out=wide)
            np.right_shift(wide, 4, out=word)
        else:
            np.left_shift(wide, 4, out=word)
            np.bitwise_or(word, wide, out=word)
            np.bitwise_and(word, 0x0F0F, out=word)
    if order != "awq":
        return out
    back = np.empty_like(out).reshape(-1, 8)
    back[:, AWQ] = out.reshape(-1, 8)
    return back.reshape(-1)


def pack_halves(codes: "ndarray", block: int = 32) -> "ndarray":
    """Codes (n, block) to bytes (n, block / 2): byte j holds code j low and code j + block / 2 high."""
    halves = codes.reshape(-1, 2, block // 2)
    return halves[:, 0] | halves[:, 1] << 4


def unpack_halves(data: "ndarray", block: int = 32) -> "ndarray":
    """Bytes (n, block / 2) to codes (n, block)."""
    import numpy as np

    data = data.reshape(-1, block // 2)
    out = np.empty((data.shape[0], 2, block // 2), np.uint8)
    np.bitwise_and(data, 15, out=out[:, 0])
    np.right_shift(data, 4, out=out[:, 1])
    return out.reshape(-1, block)


def span(slot: int, order: str) -> Span:
    """Where the code of slot 0 or 1 of a byte (awq: 0 to 7 of a word) lies."""
    if order == "awq":
        nibble = AWQ.index(slot)
        return Span(nibble // 2, 4 * (nibble % 2), 4)
    high = slot if order == "low-first" else 1 - slot
    return Span(0, 4 * high, 4)


def record(order: str) -> tuple[int, int]:
    """(bytes, slots) of the smallest unit that the order packs."""
    return (4, 8) if order == "awq" else (1, 2)


def code_parts(order: str, decode: object = None) -> tuple[tuple[Part, ...], ...]:
    """The code's part for each slot of one unit."""
    return tuple((Part("code", "code", (span(slot, order),), decode),) for slot in range(record(order)[1]))
