"""`infersize fit`: which models fit in the free memory of the GPU in this machine."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import click

from pycore import catalog
from pycore.cli import devices, output
from pycore.cli.devices import Device
from pycore.cli.errors import flag
from pycore.cli.infersize import asking
from pycore.cli.infersize.document import data
from pycore.cli.infersize.document import question as question_data
from pycore.cli.options import QuestionCommand, ask, question
from pycore.errors import InputError, NotKnown, StudioError
from pycore.knobs import to_command
from pycore.nouns import Accelerator, Model
from pycore.systems import infersize
from pycore.units import GIB, MIB, both_bytes
from pycore.vram.parameters import parameters

EPILOG = """\b
Examples:
  infersize fit
  infersize fit --quant q4_k_m --context 16k --sequences 1
  infersize fit --count 4 --quant fp8          (four of this card)
  infersize fit --json

\b
Exit status: 0 at least one catalogue model fits; 1 none fits; 2 there is no GPU that can be read, or the catalogue does
not hold this card (size for a card by name with `infersize plan --gpu NAME`).
"""
MEMORY_TOLERANCE = 0.12  # ECC and firmware take up to 7 %; a laptop's card of the same name differs by a third or more


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One catalogue model on this device. `reason` is '' where it fits."""

    model: str
    parameters: int
    fits: bool
    reason: str
    total_bytes: int | None
    free_bytes: int
    command: str


@click.command(cls=QuestionCommand, epilog=EPILOG)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--all", "everything", is_flag=True, help="List what does not fit too, with the reason.")
@click.option("--device", type=click.IntRange(0), default=None, metavar="N",
              help="Which GPU, by its index. [default: the one with the most free memory]")
@question(infersize.Query, leave_out=("model", "config", "used_gib", "draft_model", "engine_log", "matrix_quants"))
def command(device: int | None, **options: Any) -> None:
    """Which models fit in the free memory of this machine's GPU."""
    as_json, everything = flag(options, "as_json"), flag(options, "everything")
    found = pick(devices.local_devices(), device)
    card = catalog.accelerator(options["gpu"]) if options.get("gpu") else matched(found)
    query = ask(infersize.Query, options | {"gpu": card.id, "used_gib": str(used_gib(found, card))})
    rows = tuple(row(query, model, found.free_bytes) for model in catalog.models())
    if as_json:
        output.write_json({"device": data(found), "accelerator": card.name, "query": question_data(query),
                           "models": data(rows)})
    else:
        show(found, card, rows, everything)
    asking.exit_unless(any(one.fits for one in rows))


def pick(found: Sequence[Device], index: int | None) -> Device:
    """The device asked for, else the one with the most free memory. Raises InputError."""
    if index is None:
        return max(found, key=lambda one: (one.free_bytes, -one.index))
    chosen = [one for one in found if one.index == index]
    if not chosen:
        raise InputError("device", index, "accepted: " + ", ".join(str(one.index) for one in found))
    return chosen[0]


def matched(found: Device) -> Accelerator:
    """The catalogue's entry for a driver's device name, trailing words dropped until it is one. Raises NotKnown.

    A name alone is not enough (a laptop's card shares it with the desktop's), so the memory must agree as well.
    """
    words = found.name.split()
    while words:
        try:
            card = catalog.accelerator(" ".join(words))
        except InputError:
            words.pop()
            continue
        if abs(usable_bytes(card) - found.total_bytes) <= MEMORY_TOLERANCE * found.total_bytes:
            return card
        break
    raise NotKnown(f"the catalogue does not hold {found.name!r} with {both_bytes(found.total_bytes)}; "
                   "say with --gpu which entry to take its rates from", "gpu")


def usable_bytes(card: Accelerator) -> float:
    """What the driver reports for the card where a source gives it, else the box figure."""
    return card.memory_box_gib * GIB if card.memory_usable_mib is None else card.memory_usable_mib * MIB


def used_gib(found: Device, card: Accelerator) -> float:
    """What is not free of the catalogue's usable memory, so that a plan starts from what is free here."""
    return max(0.0, (usable_bytes(card) - found.free_bytes) / GIB)


def row(query: infersize.Query, model: Model, free_bytes: int) -> Row:
    """Whether one model fits, or why it cannot be asked."""
    asked = replace(query, model=model.id)
    command_text = to_command(asked, "infersize plan")
    try:
        memory = asking.memory(asked)
    except StudioError as error:
        return Row(model=model.name, parameters=parameters(model).total, fits=False, reason=str(error),
                   total_bytes=None, free_bytes=free_bytes, command=command_text)
    return Row(model=model.name, parameters=parameters(model).total, fits=memory.fits,
               reason="" if memory.fits else "too large", total_bytes=memory.total.value, free_bytes=free_bytes,
               command=command_text)


def show(found: Device, card: Accelerator, rows: Sequence[Row], everything: bool) -> None:
    """The device, then the models that fit, largest first."""
    output.line(f"{found.name} (GPU {found.index}, {found.source}): {both_bytes(found.free_bytes)} free of "
                f"{both_bytes(found.total_bytes)}; rates of {card.name}", style="bold")
    fitting = sum(one.fits for one in rows)
    listed = sorted((one for one in rows if one.fits or everything),
                    key=lambda one: (not one.fits, -one.parameters, one.model))
    output.table(("model", "parameters", "per GPU", ""), [
        (one.model, f"{one.parameters / 1e9:.2f} B", "-" if one.total_bytes is None else both_bytes(one.total_bytes),
         one.reason) for one in listed], right=(1, 2), indent=0)
    output.line(f"{fitting} of {len(rows)} catalogue models fit. Details: infersize plan --model NAME --gpu {card.id}")
