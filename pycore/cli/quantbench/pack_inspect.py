"""`quantbench pack-inspect`: weights in a format, down to the bits of one of them."""

from typing import Any

import click

from pycore.cli import output
from pycore.cli.errors import flag
from pycore.cli.options import QuestionCommand
from pycore.cli.quantbench import asking, bits
from pycore.errors import InputError
from pycore.pack.fields import Owner
from pycore.quality import inspection
from pycore.quality.inspection import Inspection
from pycore.quality.prepared import finite
from pycore.quality.registers import View
from pycore.quality.weights import Weights
from pycore.systems import quantbench
from pycore.systems.quantbench_question import Query, options_of
from pycore.units import binary_bytes, significant

EPILOG = """\b
Examples:
  quantbench pack-inspect --format int4 --values 0.1,-0.2,0.3,0.4
  quantbench pack-inspect --format q4_k --preset heavy-tailed --weight 40
  quantbench pack-inspect --format nvfp4 --tensor model.safetensors:model.layers.0.mlp.up_proj.weight --rows 16
  echo "0.1 nan 500" | quantbench pack-inspect --format fp8-e4m3 --granularity none --overflow nan --values -
  quantbench pack-inspect --format int4 --values 0.1,-0.2,0.3 --json

\b
--json: codes, scales, zeros, packed_hex, dequantised, bits_per_weight, sqnr_db and more; lists are flat, row after row,
padding left out; sqnr_db is null where nothing was lost (lossless is then true) or where it cannot be measured. Numbers that
JSON does not have (NaN, infinity) are null: packed_hex tells them apart.
"""


@click.command(cls=QuestionCommand, epilog=EPILOG)
@asking.explained
@asking.options(*asking.INSPECTED, weights=True)
def command(explain: str | None, **options: Any) -> None:
    """Weights in a format: codes, scales, bytes, the bits of one weight, and the error."""
    as_json = flag(options, "as_json")
    query = asking.read(options)
    asking.need_numpy()
    weights, found = inspected(query)
    view = quantbench.view_of(found, checked(query.weight, weights))
    owner = quantbench.owner_of(found, query.bit) if query.bit >= 0 else None
    if query.bit >= 0 and owner is None:
        raise InputError("bit", query.bit, f"accepted: 0 to {8 * len(found.packed.data) - 1:,}, the bits that are stored")
    if explain is not None:
        asking.explain(terms(found), explain)
    elif as_json:
        output.write_json(document(query, weights, found, view, owner, query.weight))
    else:
        show(query, weights, found, view, owner, query.weight)


def inspected(query: Query) -> tuple[Weights, Inspection]:
    """The weights and what the format makes of them. Raises InputError, also for options that the format does not have."""
    options, unused = options_of(query)
    if unused:
        raise InputError(unused[0], getattr(query, unused[0]), f"{query.format} has no such option; leave it out")
    weights = quantbench.chosen_weights(query)
    methods = quantbench.prepare(query)
    if methods.any and not finite(weights):
        raise InputError("values", "NaN or infinity", f"accepted with {methods.words}: finite numbers")
    return weights, inspection.inspect(weights, query.format, options, methods)


def checked(index: int, weights: Weights) -> int:
    """An index within the weights. Raises InputError."""
    if index >= weights.count:
        raise InputError("weight", index, f"accepted: 0 to {weights.count - 1:,}")
    return index


def terms(found: Inspection) -> tuple:
    """The terms of an inspection, and those that they are made of."""
    from pycore.ledger import terms_in
    return tuple(each for one in terms_in(found) for each in one.walk())


def document(query: Query, weights: Weights, found: Inspection, view: View, owner: Owner | None,
             index: int) -> dict[str, Any]:
    """The object that --json prints: `codes`, `scales`, `packed_hex`, `dequantised`, `bits_per_weight`, `sqnr_db` stay."""
    packed = found.packed
    roles = {share.role for share in found.shares}
    return asking.setting(query) | {
        "format": found.format, "label": found.label, "formula": found.formula, "options": dict(found.options),
        "source": weights.label, "shape": list(weights.values.shape), "remarks": list(weights.remarks + found.notes),
        "values": flat(weights.values),
        "codes": flat(packed.codes[:, :packed.columns]),
        "scales": flat(packed.scales) if "scale" in roles else [],
        "zeros": flat(packed.zeros) if packed.zeros is not None else [],
        "packed_hex": packed.data.hex(), "packed_bytes": len(packed.data),
        "dequantised": flat(found.restored),
        "bits_per_weight": packed.bits_per_weight,
        "bits": {share.role: share.bits_per_weight for share in found.shares},
        "compression": found.compression.value,
        "sqnr_db": found.sqnr.value if found.sqnr else None, "lossless": found.lossless,
        "uniform_sqnr_db": found.uniform_sqnr.value if found.uniform_sqnr else None,
        "cosine": found.error.cosine if found.error else None, "max_error": found.error.max_error if found.error else None,
        "mean_squared_error": found.error.mean_squared_error if found.error else None,
        "saturated": found.saturated, "non_finite": found.non_finite, "block": found.block_columns,
        "blocks": [one.as_dict() for one in found.blocks],
        "weight": {"index": index, "fields": [one.as_dict() for one in view.fields[index - view.first]]},
        "bit": None if owner is None else {"bit": query.bit, "role": owner.role, "name": owner.name,
                                           "section": owner.section, "weights": list(owner.weights)},
    }


def flat(values: Any) -> list:
    """An array as a flat list of plain numbers."""
    return values.reshape(-1).tolist()


def show(query: Query, weights: Weights, found: Inspection, view: View, owner: Owner | None, index: int) -> None:
    """As text."""
    output.line(f"{found.label}: {significant(found.packed.bits_per_weight, 5)} bits per weight, "
                + (f"SQNR {found.sqnr.text}" if found.sqnr else "no SQNR (nothing to measure against)")
                + (", nothing lost" if found.lossless else ""), style="bold")
    output.table(("", ""), facts(weights, found))
    output.heading(f"Weights {view.first:,} to {view.last - 1:,} of {weights.count:,}: weight = {found.formula}")
    bits.weights(weights, found, view, index)
    output.heading("Registers: bytes as a little-endian processor loads them, bit 31 first")
    bits.registers(view)
    output.heading(f"Weight {index:,}")
    bits.fields(view, index)
    if owner is not None:
        asking.sentence(f"Bit {query.bit:,} is {owner.name or owner.role} ({owner.section}) of " + bits.named(owner.weights))
    for remark in weights.remarks + found.notes:
        asking.sentence(remark)


def facts(weights: Weights, found: Inspection) -> list[tuple[str, str]]:
    """The summary's rows."""
    packed, error = found.packed, found.error
    rows = [("weights", f"{weights.label}: {weights.rows:,} x {weights.columns:,}"),
            ("options", ", ".join(f"{name} {value}" for name, value in found.options) or "none"),
            ("stored", f"{binary_bytes(len(packed.data))}: "
                       + ", ".join(f"{share.role} {significant(share.bits_per_weight, 4)}" for share in found.shares)
                       + f" bits a weight; {smaller(found.compression.value)}")]
    if error is not None:
        rows.append(("error", f"largest {significant(error.max_error, 4)}, mean square "
                              f"{error.mean_squared_error:.4g}, cosine {significant(error.cosine, 6)}"))
    if found.uniform_sqnr is not None:
        rows.append(("beside it", f"one uniform quantiser over all weights {found.uniform_sqnr.text}; over uniform values "
                                  f"{found.textbook_sqnr.text}"))
    if found.saturated or found.non_finite:
        rows.append(("cut off", f"{found.saturated:,} weights beyond the outermost level"
                                + (f", {found.non_finite:,} not finite" if found.non_finite else "")))
    return rows


def smaller(compression: float) -> str:
    """'3.76 times smaller than at 16 bits', or larger."""
    word, factor = ("smaller", compression) if compression >= 1 else ("larger", 1 / compression)
    return f"{significant(factor, 4)} times {word} than at 16 bits"
