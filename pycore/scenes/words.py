"""How scenes count and list things in sentences."""

from collections.abc import Iterable, Sequence


def listed(names: Sequence[object]) -> str:
    """'A', 'A and B', 'A, B and C'."""
    shown = [str(name) for name in names]
    return "".join(shown) if len(shown) < 2 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def counted(number: int, noun: str, several: str = "") -> str:
    """'1 block', '3 blocks'. `several`: the plural where it is not made with an s."""
    return f"{number:,} {noun if number == 1 else several or noun + 's'}"


def blocks(numbers: Iterable[int]) -> str:
    """'block 3', 'blocks 3, 4 and 7'."""
    shown = list(numbers)
    return f"block{'' if len(shown) == 1 else 's'} {listed(shown)}"
