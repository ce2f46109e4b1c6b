"""What the same requests take from memory paged, and in one contiguous piece each: reserved, filled, wasted.

Kwon et al. 2023, "Efficient Memory Management for Large Language Model Serving with PagedAttention", arXiv 2309.06180,
section 3.1 and figure 2, compare the same three ways to size the piece: the longest text allowed (Orca max), the next
power of two (Orca pow2), the true length known beforehand (Orca oracle).
"""

from dataclasses import dataclass

from pycore import catalog
from pycore.ledger import Term, fact, source_line, term
from pycore.scenes.camera import Camera
from pycore.scenes.film import Film, Frame, Waste
from pycore.vram.kv import per_token

PAPER = "Kwon et al. 2023, arXiv 2309.06180"


@term("Slots reserved: paged", "tokens", source=PAPER)
def paged_slots(blocks_held, block_size):
    """blocks_held × block_size"""
    return blocks_held * block_size


@term("Slots reserved: contiguous, longest text", "tokens", source=PAPER)
def longest_slots(running_sequences, longest_text):
    """running_sequences × longest_text"""
    return running_sequences * longest_text


@term("Wasted", "tokens")
def wasted(reserved, filled):
    """reserved - filled"""
    return reserved - filled


@term("Wasted share", "%")
def share(wasted, reserved):
    """100 × wasted ÷ reserved"""
    return 100 * wasted / reserved


@term("Bytes reserved", "B")
def size(reserved, bytes_per_token):
    """reserved × bytes_per_token"""
    return reserved * bytes_per_token


@term("Tokens that sharing spares", "tokens")
def spared(kept_if_nothing_were_shared, kept):
    """kept_if_nothing_were_shared - kept"""
    return kept_if_nothing_were_shared - kept


@term("Most sequences of the longest text in this pool", "sequences")
def most_contiguous(blocks, block_size, longest_text):
    """⌊blocks × block_size ÷ longest_text⌋"""
    return blocks * block_size // longest_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """One way to give the running sequences their memory. `share` is None where nothing is reserved.

    `over_film`: the wasted share summed over all steps of the film (token-steps), None where nothing ever ran.
    """

    name: str
    reserved: Term
    filled: Term
    wasted: Term
    share: Term | None
    size: Term
    over_film: Term | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The four ways at one frame: paged first, then contiguous from the leanest to the longest."""

    allocations: tuple[Allocation, ...]
    spared: Term
    most_contiguous: Term
    most_running: int
    bytes_per_token: Term


def bytes_per_token(model: str) -> Term:
    """KV bytes of a token of a catalogued model, 16-bit cache. Raises UnknownName."""
    keys = catalog.kv_format("auto")
    return per_token(catalog.model(model), keys, keys)


def compared(film: Film, frame: Frame, model: str) -> Comparison:
    """Paging and its rivals at a frame. Raises UnknownName for the model."""
    waste, one_token = frame.waste, bytes_per_token(model)
    steps = [one.waste for one in film.frames if one.kind == "step"]
    kept = given("Tokens kept, a shared block's once", waste.stored)
    whole = given("Tokens kept, nothing shared", waste.unshared)
    reserved = {
        "paged": paged_slots(given("Blocks held", frame.used, "blocks"), film.block_size),
        "exact": given("Slots reserved: contiguous, true length known", waste.exact),
        "doubling": given("Slots reserved: contiguous, next power of two", waste.doubling),
        "longest": longest_slots(given("Sequences that run", waste.sequences, "sequences"), film.longest)}
    return Comparison(
        allocations=tuple(allocation(name, slots, kept if name == "paged" else whole, one_token, steps)
                          for name, slots in reserved.items()),
        spared=spared(whole, kept), most_contiguous=most_contiguous(film.blocks, film.block_size, film.longest),
        most_running=max((one.sequences for one in steps), default=0), bytes_per_token=one_token)


def given(name: str, value: int, unit: str = "tokens") -> Term:
    """A count read off the frame."""
    return fact(name, value, unit, basis="derived", source="counted on this frame's tables", line=source_line(Camera.waste))


NAMES = {"paged": "paged", "exact": "contiguous, true length known", "doubling": "contiguous, next power of two",
         "longest": "contiguous, longest text"}


def allocation(name: str, reserved: Term, filled: Term, one_token: Term, steps: list[Waste]) -> Allocation:
    """One way, with its waste at the frame and over the film."""
    label = NAMES[name]
    lost = wasted(reserved, filled).renamed(f"Wasted: {label}")
    total = given(f"Reserved, summed over steps: {label}", sum(getattr(one, name) for one in steps))
    kept = given(f"Filled, summed over steps: {label}",
                 sum(one.stored if name == "paged" else one.unshared for one in steps))
    over = share(wasted(total, kept).renamed(f"Wasted, summed over steps: {label}"), total) if total.value else None
    return Allocation(name=name, reserved=reserved, filled=filled, wasted=lost,
                      size=size(reserved, one_token).renamed(f"Bytes reserved: {label}"),
                      share=share(lost, reserved).renamed(f"Wasted share: {label}") if reserved.value else None,
                      over_film=over and over.renamed(f"Wasted share over the film: {label}"))
