"""Weights of three values in 2 bits, or five of them in a byte.

    2bit      byte = | w3 w3 | w2 w2 | w1 w1 | w0 w0 |        code 0, 1, 2 for -1, 0, 1; 3 is not used
    5in8      byte = w0 + 3 w1 + 9 w2 + 27 w3 + 81 w4          243 of 256 values used: 1.6 bits a weight

GGUF lays them out for vector loads instead, in blocks of 256 with a float16 scale:

    TQ2_0     run of 128: byte j (0..31) = | w[j+96] | w[j+64] | w[j+32] | w[j] |
    TQ1_0     byte j (0..31) = w[j] w[j+32] ... w[j+128]; then 16 bytes of 5 strided by 16; then 4 bytes of 4 strided by 4.
              The first weight is the highest base-3 digit, and the number n is stored as ceil(256 n / 243), so that the
              digits come out from the top by multiplying by 3: no division
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numpy import ndarray

CHUNK = 1 << 14
POWERS = (1, 3, 9, 27, 81)
BLOCK, RUNS = 256, ((0, 32, 5), (160, 16, 5), (240, 4, 4))  # TQ1_0: (first weight, stride and bytes, digits)


def pack_2bit(codes: "ndarray") -> "ndarray":
    """Codes 0 to 3 (uint8, flat, a multiple of 4) to a quarter as many bytes.

    The four bytes of a word times 2^24 + 2^18 + 2^12 + 2^6 meet, two bits each, in the top byte, with no carries.
    """
    import numpy as np

    words, out = np.ascontiguousarray(codes, dtype=np.uint8).reshape(-1).view("<u4"), np.empty(codes.size // 4, np.uint8)
    factor = np.uint32(1 << 24 | 1 << 18 | 1 << 12 | 1 << 6)
    for start in range(0, words.size, CHUNK):
        top = words[start:start + CHUNK] * factor
        np.right_shift(top, 24, out=top)
        np.copyto(out[start:start + CHUNK], top, casting="unsafe")
    return out


def unpack_2bit(data: "ndarray") -> "ndarray":
    """Bytes to four times as many codes 0 to 3 (uint8)."""
    import numpy as np

    out = np.empty(4 * data.size, np.uint8)
    words = out.view("<u4")
    for start in range(0, data.size, CHUNK):
        word = words[start:start + CHUNK]
        np.copyto(word, data[start:start + CHUNK])
        for shift, mask in ((12, 0x000F000F), (6, 0x03030303)):
            word |= word << shift
            word &= np.uint32(mask)
    return out


def pack_base3(codes: "ndarray") -> "ndarray":
    """Codes 0 to 2 (uint8, flat, a multiple of 5) to a fifth as many bytes."""
    import numpy as np

    fives = codes.reshape(-1, 5)
    out = fives[:, 4] * np.uint8(3)
    for digit in (3, 2, 1):
        out += fives[:, digit]
        out *= np.uint8(3)
    out += fives[:, 0]
    return out


def unpack_base3(data: "ndarray") -> "ndarray":
    """Bytes to five times as many codes 0 to 2 (uint8); bytes above 242, which no weights give, read as 242."""
    import numpy as np

    rest, out = np.minimum(data, 242), np.empty((data.size, 5), np.uint8)
    for digit in range(4):
        # x // 3 for a byte: 171 / 512 is a little more than a third, and close enough below 256.
        quotient = (rest.astype(np.uint16) * np.uint16(171) >> 9).astype(np.uint8)
        np.subtract(rest, quotient * np.uint8(3), out=out[:, digit])
        rest = quotient
    out[:, 4] = rest
    return out.reshape(-1)


def pack_tq2(codes: "ndarray") -> "ndarray":
    """Codes 0 to 2 (n, 256) to bytes (n, 64)."""
    quarters = codes.reshape(-1, 2, 4, 32)
    return (quarters[:, :, 0] | quarters[:, :, 1] << 2 | quarters[:, :, 2] << 4 | quarters[:, :, 3] << 6).reshape(-1, 64)


def unpack_tq2(data: "ndarray") -> "ndarray":
    """Bytes (n, 64) to codes 0 to 3 (n, 256)."""
    import numpy as np

    shifts = np.array([0, 2, 4, 6], np.uint8).reshape(1, 1, 4, 1)
    return (data.reshape(-1, 2, 1, 32) >> shifts & 3).reshape(-1, BLOCK)


def pack_tq1(codes: "ndarray") -> "ndarray":
    """Codes 0 to 2 (n, 256) to bytes (n, 52)."""
    import numpy as np

    out = []
    for first, stride, digits in RUNS:
        group = codes[:, first:first + stride * digits].reshape(-1, digits, stride)
        number = np.zeros((group.shape[0], stride), np.uint16)
        for digit in range(5):
            number *= 3
            if digit < digits:
                number += group[:, digit]
        out.append((number * 256 + 242) // 243)
    return np.concatenate(out, axis=1).astype(np.uint8)


def unpack_tq1(data: "ndarray") -> "ndarray":
    """Bytes (n, 52) to codes 0 to 2 (n, 256)."""
    import numpy as np

    out, start = np.empty((data.shape[0], BLOCK), np.uint8), 0
    for first, stride, digits in RUNS:
        group = out[:, first:first + stride * digits].reshape(-1, digits, stride)
        part = np.ascontiguousarray(data[:, start:start + stride])
        for digit in range(digits):
            shifted = part * np.uint8(3**digit % 256)
            group[:, digit] = shifted.astype(np.uint16) * 3 >> 8
        out[:, first:first + stride * digits] = group.reshape(-1, digits * stride)
        start += stride
    return out


def tq1_place(slot: int) -> tuple[int, int]:
    """(byte of the block, digit from the top) of a weight in TQ1_0."""
    start = 0
    for first, stride, digits in RUNS:
        if slot < first + stride * digits:
            digit, within = divmod(slot - first, stride)
            return start + within, digit
        start += stride
    raise ValueError(slot)
