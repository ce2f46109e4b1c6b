"""What paged blocks leave empty in a frame, beside the ways of giving every sequence one piece of memory."""

from dataclasses import dataclass

from pycore.scenes.film import Film, Frame
from pycore.scenes.waste import Comparison
from pycore.units import binary_bytes
from studios.explain import Ledger, Number, help_field, plain
from studios.marks import percent

NAMES = {"paged": ("Paged", "blocks as they are needed, a shared one once", 3),
         "exact": ("In one piece, length known", "prompt and all of the output to come", 1),
         "doubling": ("In one piece, doubled", "the next power of two, moved when it is full", 1),
         "longest": ("In one piece, longest allowed", "room for the longest text from the start", 1)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One way to hand out memory."""

    label: str = help_field("its name")
    how: str = help_field("what it reserves")
    stored: str = help_field("width of what is filled, as a percentage")
    taken: str = help_field("width of what is reserved")
    style: int = help_field("1 to 7: colour and pattern of the filled part")
    filled: Number = help_field("slots filled")
    reserved: Number = help_field("slots reserved")
    size: Number = help_field("the same in bytes")
    empty: Number | None = help_field("share of what is reserved that holds nothing, or None where nothing is reserved")
    over: Number | None = help_field("the same over all steps of the film, or None")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """The bars of a frame, on one scale over the whole film."""

    bars: tuple[Bar, ...] = help_field("paged first")
    says: str = help_field("whose memory it is")
    spared: Number | None = help_field("tokens that sharing spares in this frame, or None")
    token: Number = help_field("bytes of a token")
    model: str = help_field("whose keys and values that are")


def bars(film: Film, frame: Frame, found: Comparison, model: str, ledger: Ledger) -> Bars:
    """The bars of a frame; the scale is that of the widest over the film, so that they grow as it goes on."""
    most = max(max(one.waste.longest, one.waste.doubling, one.waste.exact, one.waste.paged) for one in film.frames)
    sequences, tokens = frame.waste.sequences, frame.waste.unshared
    return Bars(
        bars=tuple(bar(one, most, ledger) for one in found.allocations), token=ledger.number(found.bytes_per_token),
        model=plain(model, 80),
        spared=ledger.number(found.spared) if found.spared.value else None,
        says=f"{sequences:,} sequence{'' if sequences == 1 else 's'} with {tokens:,} tokens in memory" if sequences else
        "nobody holds memory in this frame")


def bar(one: object, most: int, ledger: Ledger) -> Bar:
    """One way."""
    label, how, style = NAMES[one.name]
    return Bar(label=label, how=how, style=style, stored=percent(one.filled.value, most),
               taken=percent(one.reserved.value, most), filled=ledger.number(one.filled, slots),
               reserved=ledger.number(one.reserved, slots),
               size=ledger.number(one.size, binary_bytes), empty=ledger.number(one.share, share) if one.share else None,
               over=ledger.number(one.over_film, share) if one.over_film else None)


def slots(value: float) -> str:
    return f"{value:,.0f}"


def share(value: float) -> str:
    """A percentage: '31 %', '0.4 %'; what is not all is not called 100 %."""
    if 99.5 <= value < 100:
        return f"{value:.1f} %" if value < 99.95 else ">99.9 %"
    return f"{value:.0f} %" if value >= 9.5 or value == 0 else f"{value:.1f} %"
