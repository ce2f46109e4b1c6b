"""The sequences that decode, advanced together: one step costs the same however many there are.

Every member computes one token a step, so a tick counter moves them all: a member's position is `offset + tick`. What
happens at a known tick is kept in two calendars: which members cross a block border (a ring of `block_size` buckets) and
which produce their last token. Joining and leaving cost O(1); a step costs O(members that cross a border or finish).
"""

from array import array
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pycore.serving.sequence import Sequence


class Slot:
    """A member's place from `first_tick` until it leaves. It computes position `offset + tick` at each tick.

    `table` is its block table at the time: it grows in place, and a slot with a changed entry is a new slot, so that a
    plan made earlier still reads what it was made with.
    """

    __slots__ = ("sequence", "id", "serial", "offset", "first_tick", "last_tick", "table")

    def __init__(self, sequence: "Sequence", offset: int, first_tick: int, last_tick: int, table: list[int]):
        self.sequence, self.id, self.serial, self.offset = sequence, sequence.request.id, sequence.serial, offset
        self.first_tick, self.last_tick, self.table = first_tick, last_tick, table


class DecodeSet:
    """Members by serial number, in the order in which they joined.

    tick          the next decode step to be scheduled;  done_tick: how many have completed
    tick_ends_ns  when each decode step ended, by tick: the times of all tokens of all members
    offsets       sum of the members' offsets, so that total context is a sum kept, not a sum made
    """

    __slots__ = ("tick", "done_tick", "tick_ends_ns", "members", "offsets", "_ring", "_last", "_snapshot", "_longest")

    def __init__(self, block_size: int):
        self.tick = self.done_tick = 0
        self.tick_ends_ns = array("q")
        self.members: dict[int, Slot] = {}
        self.offsets = 0
        self._ring: list[dict[int, Slot]] = [{} for _ in range(block_size)]
        self._last: dict[int, dict[int, Slot]] = {}
        self._snapshot: tuple[Slot, ...] | None = ()
        self._longest: int | None = None

    def __len__(self) -> int:
        return len(self.members)

    @property
    def context(self) -> int:
        """Tokens that the next step's decodes attend to, their own included, summed over all members."""
        return self.offsets + len(self.members) * (self.tick + 1)

    @property
    def longest(self) -> int:
        """The longest of those contexts; 0 without members."""
        if not self.members:
            return 0
        if self._longest is None:
            self._longest = max(slot.offset for slot in self.members.values())
        return self._longest + self.tick + 1

    def snapshot(self) -> tuple[Slot, ...]:
        """The members as a tuple, the same object while nobody joins or leaves."""
        if self._snapshot is None:
            self._snapshot = tuple(self.members.values())
        return self._snapshot

    def join(self, sequence: "Sequence") -> None:
        """Let a sequence decode from the next tick on; its counts are read from the slot until it leaves."""
        tick = self.tick
        last = tick + sequence.target - sequence.issued_tokens - 1
        self._enter(Slot(sequence, sequence.computed_tokens - tick, tick, last, sequence.block_table))

    def _enter(self, slot: Slot) -> None:
        serial = slot.sequence.serial
        slot.sequence.slot = self.members[serial] = slot
        self._ring[-slot.offset % len(self._ring)][serial] = slot
        self._last.setdefault(slot.last_tick, {})[serial] = slot
        self.offsets += slot.offset
        self._snapshot = None
        if self._longest is not None and slot.offset > self._longest:
            self._longest = slot.offset

    def leave(self, slot: Slot) -> None:
        """Write the counts back to the sequence and take it out."""
        sequence = slot.sequence
        sequence.computed_tokens, sequence.issued_tokens = sequence.computed, sequence.issued
        sequence.generated_tokens = sequence.generated
        if self.tick > slot.first_tick:
            sequence.emissions.append((slot.first_tick, self.tick))
        sequence.slot = None
        del self.members[sequence.serial]
        self._ring[-slot.offset % len(self._ring)].pop(sequence.serial, None)
        finishing = self._last.get(slot.last_tick)
        if finishing is not None and finishing.pop(sequence.serial, None) and not finishing:
            del self._last[slot.last_tick]
        self.offsets -= slot.offset
        self._snapshot = None
        if self._longest == slot.offset:
            self._longest = None

    def replace_table(self, slot: Slot, table: list[int]) -> Slot:
        """Give a member another table from the next tick on; plans made before keep the old one."""
        new = Slot(slot.sequence, slot.offset, slot.first_tick, slot.last_tick, table)
        serial = slot.sequence.serial
        slot.sequence.slot = self.members[serial] = self._last[slot.last_tick][serial] = new
        self._ring[-slot.offset % len(self._ring)][serial] = new
        self._snapshot = None
        return new

    def at_border(self) -> dict[int, Slot]:
        """Members that write into a new block at the next tick."""
        return self._ring[self.tick % len(self._ring)]

    def bordering(self, ticks_ahead: int) -> int:
        """How many members will write into a new block so many ticks ahead."""
        return len(self._ring[(self.tick + ticks_ahead) % len(self._ring)])

    def borders(self, ticks: int) -> "list[int]":
        """Which of the next `ticks` ticks, counted from the present one, make some member write into a new block."""
        ring, tick, size = self._ring, self.tick, len(self._ring)
        filled = [place for place in range(size) if ring[(tick + place) % size]]
        return [start + place for start in range(0, ticks, size) for place in filled if start + place < ticks]

    def next_last_tick(self) -> int | None:
        """The tick at which the next member produces its last token; None without members."""
        return min(self._last) if self._last else None

    def advance(self) -> tuple[Slot, ...]:
        """One token for every member; those for whom it was the last one (they have still to leave)."""
        finishing = self._last.pop(self.tick, None)
        self.tick += 1
        return tuple(finishing.values()) if finishing else ()
