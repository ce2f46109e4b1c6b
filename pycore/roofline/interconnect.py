"""Time to add up, exchange or pass on activations between the devices of one machine.

Shares and launch costs are fitted from measured all-reduces (data/catalog/efficiency.csv, operation "allreduce"); a
card without a link talks over PCIe.
"""

import functools
from dataclasses import dataclass

from pycore.errors import NotKnown
from pycore.layout import NODE, together
from pycore.nouns import Accelerator
from pycore.roofline.efficiency import Fit, fits, lineage

MEASURED_COUNTS = (2, 4, 8, 16)


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """How one group of devices exchanges data: `bandwidth` is one way, per device, of `kind`."""

    kind: str
    devices: int
    bandwidth: float
    fit: Fit

    @property
    def one_shot(self) -> float:
        """Seconds a message byte takes when each device sends all of it to every other one."""
        return (self.devices - 1) / (self.bandwidth * self.fit.bandwidth_share)

    @property
    def two_shots(self) -> float:
        """Seconds a message byte takes when each device adds up its slice and hands it out again, as a ring does."""
        return 2 * (self.devices - 1) / self.devices / (self.bandwidth * self.fit.compute_share)


@functools.lru_cache(maxsize=1024)
def link(accelerator: Accelerator, devices: int) -> Link:
    """The link among `devices` cards. Raises NotKnown beyond one machine, and for devices that cannot be joined."""
    most = together(accelerator)
    if devices > most:
        raise NotKnown(f"{devices} x {accelerator.name} span several machines and no source gives their network: at "
                       f"most {most} can be timed as tensor parallel, more of them as pipeline stages", "tp")
    kind, bandwidth = joined_by(accelerator, devices)
    count = next((count for count in MEASURED_COUNTS if count >= devices), MEASURED_COUNTS[-1])
    return Link(kind=kind, devices=devices, bandwidth=bandwidth, fit=fitted(accelerator, kind, count))


def joined_by(accelerator: Accelerator, devices: int) -> tuple[str, float]:
    """(kind, bytes/s one way): the card's own link where it reaches that many devices, else PCIe."""
    kind, own = accelerator.link_kind, accelerator.link_bytes_per_s_one_way
    if own and "bridge" not in kind and "CPU" not in kind:
        if kind.startswith("xGMI"):  # the full rate needs all seven peers
            return kind, own * min(1.0, (devices - 1) / (NODE - 1))
        return kind, own
    if accelerator.pcie_bytes_per_s_one_way:
        return "PCIe", accelerator.pcie_bytes_per_s_one_way
    raise NotKnown(f"no source says how several {accelerator.name} are joined", "count")


def fitted(accelerator: Accelerator, kind: str, count: int) -> Fit:
    """The all-reduce fit for a link: of the card's lineage for NVLink and kin, of the two PCIe cards measured for
    PCIe."""
    if kind == "PCIe":
        chain = ("blackwell",) if (accelerator.pcie_bytes_per_s_one_way or 0) >= 6e10 else ("ada",)
    else:
        chain = tuple(name for name in (*lineage(accelerator), "hopper") if name not in ("ada", "blackwell"))
    for name in chain:
        for size in (count, 8, 4, 2):
            fit = fits().get(("allreduce", name, str(size), "any"))
            if fit and fit.median_error_pct < 15:
                return fit
    raise NotKnown(f"no all-reduce was measured on a {kind} like that of {accelerator.name}", "tp")


def allreduce_seconds(message: float, launch: float, one_shot: float, extra: float, two_shots: float) -> float:
    """launch + min(message × one_shot, extra + message × two_shots)"""
    return launch + min(message * one_shot, extra + message * two_shots)


def pass_on_seconds(message: float, launch: float, bandwidth: float, share: float) -> float:
    """launch + message / (bandwidth × share)"""
    return launch + message / (bandwidth * share)
