"""Arrivals recorded in coarse buckets, spread over each bucket. Mooncake's conversation trace knows time to 3 s only."""

from array import array
from random import Random

MODES = ("auto", "even", "seeded", "off")
FEWEST_ROWS, COARSE_NS = 20, 100_000_000


def bucket_ns(arrivals_ns: array) -> int:
    """Width of the buckets in which sorted times lie: the median gap between distinct times. 0 where there are none.

    Buckets are what we call it when half of the distinct times hold two rows or more and lie 0.1 s apart or more.
    """
    distinct = sorted(set(arrivals_ns))
    if len(arrivals_ns) < FEWEST_ROWS or len(distinct) < 3 or len(arrivals_ns) < 2 * len(distinct):
        return 0
    gaps = sorted(later - earlier for earlier, later in zip(distinct, distinct[1:], strict=False))
    width = gaps[len(gaps) // 2]
    return width if width >= COARSE_NS else 0


def spread(arrivals_ns: array, mode: str, seed: int) -> tuple[array, str]:
    """Sorted times with each bucket's rows spread up to the next bucket, and a sentence that says so ('' where unchanged).

    even: at equal distances. seeded: where a Poisson stream would put that many, uniformly at random, in the file's
    order, so that rates above the bucket's scale stay the file's; below it nothing is known.
    """
    width = bucket_ns(arrivals_ns)
    if mode == "off" or not width:
        return arrivals_ns, ""
    rng, out, first = Random(seed), array("q"), 0
    while first < len(arrivals_ns):
        last = first
        while last < len(arrivals_ns) and arrivals_ns[last] == arrivals_ns[first]:
            last += 1
        room = min(width, arrivals_ns[last] - arrivals_ns[first]) if last < len(arrivals_ns) else width
        count = last - first
        places = ([index / count for index in range(count)] if mode == "even"
                  else sorted(rng.random() for _ in range(count)))
        out.extend(arrivals_ns[first] + int(place * room) for place in places)
        first = last
    how = "at equal distances" if mode == "even" else f"at random, seed {seed}"
    return out, (f"arrivals were recorded in buckets of {width / 1e9:.3g} s ({len(set(arrivals_ns)):,} distinct times for "
                 f"{len(arrivals_ns):,} rows) and are spread within each bucket ({how}): bursts shorter than that are not "
                 "in the file")
