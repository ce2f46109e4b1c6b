"""A model of pure integers, so small that a page can run it, and as strict about its cache as a real one.

A cell is what a token leaves in the cache: the token, its position, and a state that hangs on the token, the position and
the states of all cells before it (as keys and values of a deep layer do). The next token follows from the last state. So
one wrong cell read through a block table changes every token after it, and equal text means that every cell was right.
"""

from collections.abc import Mapping, Sequence

from pycore.serving.plan import Scheduled, StepPlan, Swap

MASK = (1 << 64) - 1
FIRST, SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
WORDS = tuple("the a one no all some it he she we they you that this and or but if so then when where what who how why "
              "is was has had does can will may sees says goes finds gives makes keeps takes asks reads to of in on at by "
              "for with from old new small long good bright sun sea hill road river".split())[:64]
Cell = tuple[int, int, int]  # token, position, state


def mixed(total: int, token: int, position: int) -> int:
    """64 bits that hang on all three: the finaliser of splitmix64 (Steele 2014) over their sum and products."""
    word = (total + token * FIRST + (position + 1) * SECOND) & MASK
    word = (word ^ word >> 30) * FIRST & MASK
    word = (word ^ word >> 27) * SECOND & MASK
    return word ^ word >> 31


def next_token(state: int, seed: int = 0) -> int:
    """The token that a state leads to: an index into WORDS. Seeds stand for sampling: two of them, two continuations."""
    return mixed(state, seed, 0) % len(WORDS)


class Toy:
    """The cells of a pool's blocks, and what a plan does to them. `wrote` lists (sequence, block) of the last step.

    `seeds`: by sequence, 0 where none stands; a fork has one of its own, else it would say what its parent says.
    """

    def __init__(self, blocks: int, block_size: int, host_blocks: int = 0):
        self.block_size = block_size
        self.cells: list[list[Cell | None]] = [[None] * block_size for _ in range(blocks)]
        self.host: list[list[Cell | None]] = [[None] * block_size for _ in range(host_blocks)]
        self.wrote: list[tuple[str, int]] = []
        self.seeds: dict[str, int] = {}

    def run(self, plan: StepPlan, texts: Mapping[str, Sequence[int]]) -> dict[str, int]:
        """Execute a plan in the order in which engines do: blocks to the host, copies, blocks from the host, tokens.

        `texts`: prompt and output of each sequence, by id. Returns the token of every sequence that emits one.
        """
        self.wrote = []
        self.move(plan)
        return {item.sequence_id: token for item in plan.items
                if (token := self.compute(item, texts[item.sequence_id])) is not None}

    def move(self, plan: StepPlan) -> None:
        """What is copied before the step."""
        for device, host in pairs(plan.swapped_out):
            self.host[host] = list(self.cells[device])
        for source, target in plan.copies:
            self.cells[target] = list(self.cells[source])
        for device, host in pairs(plan.swapped_in):
            self.cells[device] = list(self.host[host])

    def compute(self, item: Scheduled, text: Sequence[int]) -> int | None:
        """Tokens [start, start + count) of a sequence; the next one where the part emits."""
        total, state = self.total(item), 0
        for at in range(item.start, item.start + item.count):
            state = mixed(total, text[at], at)
            self.write(item, at, (text[at], at, state))
            total = (total + state) & MASK
        return next_token(state, self.seeds.get(item.sequence_id, 0)) if item.emits else None

    def total(self, item: Scheduled) -> int:
        """The states of all cells before the part, read through its block table and added."""
        return sum([cell[2] for at in range(item.start) if (cell := self.read(item.block_table, at))]) & MASK

    def read(self, table: Sequence[int], at: int) -> Cell | None:
        """The cell of position `at` through a block table; None where nothing was ever written."""
        return self.cells[table[at // self.block_size]][at % self.block_size]

    def write(self, item: Scheduled, at: int, cell: Cell) -> None:
        block = item.block_table[at // self.block_size]
        self.cells[block][at % self.block_size] = cell
        if (item.sequence_id, block) not in self.wrote[-1:]:
            self.wrote.append((item.sequence_id, block))


def pairs(swaps: Sequence[Swap]) -> list[tuple[int, int]]:
    """(device block, host block) of all swaps."""
    return [pair for swap in swaps for pair in zip(swap.device_blocks, swap.host_blocks, strict=True)]
