"""Bits as text: a window of weights, the registers that hold them, the fields of one weight."""

from itertools import groupby

from pycore.cli import output
from pycore.pack.fields import Field
from pycore.quality.inspection import Inspection
from pycore.quality.registers import Register, View
from pycore.quality.weights import Weights
from pycore.units import significant


def weights(given: Weights, found: Inspection, view: View, chosen: int) -> None:
    """The window: each weight, its code, what came back, the error."""
    values, restored = given.values.reshape(-1), found.restored.reshape(-1)
    rows = []
    for index, parts in zip(range(view.first, view.last), view.fields, strict=True):
        code = next((part for part in parts if part.role == "code"), None)
        value, back = float(values[index]), float(restored[index])
        rows.append((("> " if index == chosen else "  ") + str(index), number(value), binary(code) if code else "dropped",
                     number(code.value) if code else "-", number(back), number(back - value)))
    output.table(("", "weight", "code", "stands for", "restored", "error"), rows, right=(0, 1, 2, 3, 4, 5))


def number(value: float) -> str:
    """Six significant digits, whatever the size."""
    return f"{value:.6g}" if value == value and abs(value) != float("inf") else significant(value)


def binary(field: Field) -> str:
    """A field's bits, most significant first."""
    return f"{field.raw:0{field.width}b}"


def registers(view: View) -> None:
    """The registers, cut where another weight's bits begin."""
    output.table(("byte", "word", "", "bits, from the most significant; whose"),
                 [(f"{one.byte:,}", one.hexadecimal, one.section, pieces(one)) for one in view.registers], right=(0, 1))


def pieces(register: Register) -> str:
    """'1010 w7 | 0111 w6 | ...'"""
    found = []
    for key, run in groupby(reversed(register.bits), key=lambda bit: (bit.role, bit.weights)):
        text = "".join(str(bit.value) for bit in run)
        found.append(text + whose(key[0], key[1]))
    return " | ".join(found)


def whose(role: str, owners: tuple[int, ...]) -> str:
    """' w7', ' scale', '' for bits of no weight shown."""
    if not role:
        return " ·"
    if role == "code":
        return " w" + named(owners).replace("weights ", "").replace("weight ", "")
    return f" {role}"


def named(owners: tuple[int, ...]) -> str:
    """'weight 7', 'weights 0 to 31', 'no weight'."""
    if not owners:
        return "no weight"
    if len(owners) == 1:
        return f"weight {owners[0]}"
    run = owners[-1] - owners[0] + 1 == len(owners)
    return f"weights {owners[0]} to {owners[-1]}" if run else "weights " + ", ".join(map(str, owners[:8]))


def fields(view: View, index: int) -> None:
    """The fields of one weight and where they lie."""
    found = view.fields[index - view.first]
    output.table(("field", "bits", "value", "where"),
                 [(one.name, binary(one), number(one.value), place(one)) for one in found], right=(1, 2))
    if not any(one.role == "code" for one in found):
        output.line("  Dropped: it is restored as 0.")


def place(field: Field) -> str:
    """'byte 3, bits 0 to 3'"""
    return "; ".join(f"byte {span.byte:,}, bit {span.low}" if span.width == 1 else
                     f"byte {span.byte:,}, bits {span.low} to {span.low + span.width - 1}" for span in field.spans)


