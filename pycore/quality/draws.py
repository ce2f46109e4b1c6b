"""Random numbers that come out the same on every machine: a counter hashed to 64 bits, normal by ratio of uniforms.

Uniforms are 53 of the bits of splitmix64 (Steele 2014, "Fast splittable pseudorandom number generators"). A normal deviate
is v / u where the pair is accepted by v^2 <= -4 u^2 ln u (Kinderman and Monahan 1977): the logarithm, whose last bit
differs between machines, decides about acceptance only.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numpy import ndarray

STEP, FIRST, SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
WIDTH = 1.7155277699214135  # 2 x sqrt(2 / e): v lies within half of it


def uniforms(seed: int, stream: int, start: int, count: int) -> "ndarray":
    """`count` float64 in [0, 1) from place `start` of a stream of a seed."""
    import numpy as np

    key = hashed(np.array([(seed << 8) + stream], np.uint64))
    bits = hashed((np.arange(start, start + count, dtype=np.uint64) + np.uint64(1)) * np.uint64(STEP) + key)
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53


def hashed(words: "ndarray") -> "ndarray":
    """The finaliser of splitmix64."""
    import numpy as np

    words = (words ^ words >> np.uint64(30)) * np.uint64(FIRST)
    words = (words ^ words >> np.uint64(27)) * np.uint64(SECOND)
    return words ^ words >> np.uint64(31)


def normals(seed: int, stream: int, count: int) -> "ndarray":
    """`count` float64 of mean 0 and variance 1; a longer draw begins with a shorter one's numbers."""
    import numpy as np

    found, start, have = [], 0, 0
    while have < count:
        tries = 2 * max(64, int((count - have) * 0.72))  # about 73 % are accepted
        pairs = uniforms(seed, stream, start, 2 * (tries // 2)).reshape(-1, 2)
        start += pairs.size
        first = 1.0 - pairs[:, 0]
        ratio = WIDTH * (pairs[:, 1] - 0.5) / first
        accepted = ratio[ratio * ratio <= -4.0 * np.log(first)]
        found.append(accepted)
        have += accepted.size
    return np.concatenate(found)[:count]


def student(seed: int, stream: int, count: int, freedom: int = 4) -> "ndarray":
    """`count` float64 of Student's t with `freedom` degrees: a normal over the root of a mean of squares."""
    import numpy as np

    draws = normals(seed, stream, count * (freedom + 1)).reshape(count, freedom + 1)
    squares = draws[:, 1] * draws[:, 1]
    for column in range(2, freedom + 1):
        squares = squares + draws[:, column] * draws[:, column]
    return draws[:, 0] / np.sqrt(squares / freedom)
