"""The link over which KV moves between a prefill pool and a decode pool."""

from dataclasses import dataclass

from pycore.errors import InputError
from pycore.ledger import term
from pycore.simulation.costs.work import NANOSECONDS

FASTEST, LONGEST_NS = 1e15, 10**12


@term("Moving KV", "s", source="definition")
def transfer_seconds(size_bytes, bytes_per_s):
    "size_bytes / bytes_per_s"
    return size_bytes / bytes_per_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One sequence at a time leaves a server and one at a time enters one; the others queue (see
    `serving.policies.disaggregated`). Each takes `latency_ns` and its bytes over `bytes_per_s`."""

    bytes_per_s: float
    latency_ns: int = 0

    def __post_init__(self):
        if not 0 < self.bytes_per_s <= FASTEST:
            raise InputError("link_gb_s", self.bytes_per_s / 1e9, "accepted: a bandwidth above 0")
        if not 0 <= self.latency_ns <= LONGEST_NS:
            raise InputError("latency_ns", self.latency_ns, "accepted: 0 to 1000 s")

    def length_ns(self, size_bytes: int) -> int:
        """Nanoseconds of one transfer, at least 1."""
        return max(1, self.latency_ns + round(transfer_seconds.plain(size_bytes, self.bytes_per_s) * NANOSECONDS))
