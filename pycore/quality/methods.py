"""What rotation, SmoothQuant, AWQ and GPTQ buy on one layer: the error of its outputs, in the chosen format."""

import functools
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pycore.errors import InputError
from pycore.kept import kept_in_steps
from pycore.pack import formats, gptq, linear, measures, smoothing
from pycore.pack.formats import format_of
from pycore.pack.grid import Grid
from pycore.quality.prepared import SEARCH_COLUMNS, SEARCH_ROWS, Methods, Options, inputs_of, prepared
from pycore.quality.weights import Weights

if TYPE_CHECKING:
    from numpy import ndarray

NONE = float("nan")
HELD_OUT, HELD_SAMPLES = 1 << 31, 256  # added to the seed: methods are judged on inputs that they were not calibrated with


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """One way to quantise the layer (the first rows and columns of the weights: SEARCH_ROWS x SEARCH_COLUMNS at most).

    name: plain, rotation, smoothquant, awq, gptq, or chosen (what the question's switches say together).

    weight_sqnr_db   of the weights, in their own space
    output_sqnr_db   of the layer's outputs over inputs that no method was calibrated with: what counts
    gain_db          output_sqnr_db less the plain format's
    note             what was chosen on the way (AWQ's alpha, say), or why there are no figures (they are NaN then)
    """

    name: str
    label: str
    weight_sqnr_db: float
    output_sqnr_db: float
    gain_db: float
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """GPTQ's settings beside the format's grid."""

    act_order: bool = False
    bug: bool = False
    damping: float = 0.01

    @property
    def factor(self) -> str:
        """The row by which errors are spread, as `pycore.pack.gptq` calls it."""
        return gptq.FACTORS[self.bug]


def compared(weights: Weights, format_id: str, options: Options, methods: Methods,
             calibration: Calibration) -> tuple[Method, ...]:
    """Every method on the layer; equal questions give the same object. Raises InputError where the format refuses it."""
    return comparing.whole(weights, format_id, options, methods, calibration)


@kept_in_steps(4)
def comparing(weights: Weights, format_id: str, options: Options, methods: Methods,
              calibration: Calibration) -> Generator[str, None, tuple[Method, ...]]:
    """The same, yielding the name of each method before it is tried: a newer question need not wait for them all."""
    layer = weights.values[:SEARCH_ROWS, :SEARCH_COLUMNS]
    matrix = held_out(methods, layer.shape[1])
    off = replace(methods, rotation=False, smoothing=False, awq=False)
    back = formats.dequantise(formats.quantise(format_id, layer, **dict(options)))
    plain = judged("plain", "The format alone", layer, back, matrix, None, ())
    found = [plain]
    for name, label, switch in (("rotation", "Hadamard rotation", "rotation"), ("smoothquant", "SmoothQuant", "smoothing"),
                                ("awq", "AWQ", "awq")):
        yield label
        found.append(attempt(name, label, layer, replace(off, **{switch: True}), format_id, options, matrix, plain))
    yield "GPTQ"
    found.append(with_gptq(layer, format_id, options, methods, matrix, plain, calibration))
    if methods.any:
        yield methods.words
        found.append(attempt("chosen", methods.words, layer, methods, format_id, options, matrix, plain))
    return tuple(found)


def held_out(methods: Methods, columns: int) -> "ndarray":
    """X^T X of the inputs that methods are judged on."""
    return gram_of(methods.inputs, methods.seed + HELD_OUT, HELD_SAMPLES, columns)


@functools.lru_cache(maxsize=4)
def gram_of(kind: str, seed: int, samples: int, columns: int) -> "ndarray":
    """X^T X of inputs: no weight is in it, so that a moved one finds it made."""
    return linear.gram(inputs_of(kind, seed, samples, columns))


@functools.lru_cache(maxsize=4)
def hessian_of(kind: str, seed: int, samples: int, columns: int, damping: float) -> "ndarray":
    """GPTQ's Hessian of the calibration inputs: likewise. Raises InputError."""
    return gptq.hessian(inputs_of(kind, seed, samples, columns), damping)


def attempt(name: str, label: str, layer: "ndarray", methods: Methods, format_id: str, options: Options,
            matrix: "ndarray", plain: Method) -> Method:
    """One method's figures; where it refuses the layer, why."""
    try:
        ready = prepared(layer, methods, format_id, options)
        back = ready.undo(formats.dequantise(formats.quantise(format_id, ready.values, **dict(options))))
    except InputError as fault:
        return absent(name, label, str(fault))
    return judged(name, label, layer, back, matrix, plain, ready.notes)


def judged(name: str, label: str, layer: "ndarray", back: "ndarray", matrix: "ndarray", plain: Method | None,
           notes: tuple[str, ...]) -> Method:
    """A method's figures from what came back."""
    import numpy as np

    signal = smoothing.output_error(layer, np.zeros_like(layer), matrix)
    output = measures.decibels(signal, smoothing.output_error(layer, back, matrix))
    return Method(name=name, label=label, weight_sqnr_db=measures.error(layer, back).sqnr_db, output_sqnr_db=output,
                  gain_db=0.0 if plain is None else output - plain.output_sqnr_db, note="; ".join(notes))


def absent(name: str, label: str, note: str) -> Method:
    """A method without figures, and why."""
    return Method(name=name, label=label, weight_sqnr_db=NONE, output_sqnr_db=NONE, gain_db=NONE, note=note)


def with_gptq(layer: "ndarray", format_id: str, options: Options, methods: Methods, matrix: "ndarray", plain: Method,
              calibration: Calibration) -> Method:
    """GPTQ on the format's own grid, where it has a uniform one."""
    label = "GPTQ" + (", act-order" if calibration.act_order else "") + (", with the bug" if calibration.bug else "")
    found = grid_of(format_id, options, layer.shape[1])
    if isinstance(found, str):
        return absent("gptq", label, found)
    grid, group = found
    try:
        hessian = hessian_of(methods.inputs, methods.seed, methods.samples, layer.shape[1], calibration.damping)
        made = gptq.quantise(layer, hessian, grid=grid, group=group, act_order=calibration.act_order,
                             factor=calibration.factor)
    except InputError as fault:
        return absent("gptq", label, str(fault))
    return judged("gptq", label, layer, made.restored, matrix, plain, ())


def grid_of(format_id: str, options: Options, columns: int) -> tuple[Grid, int] | str:
    """(grid, group) of a format for GPTQ, or why it has none."""
    one, given = format_of(format_id), dict(options)
    if one.id == "int4":
        group = given.get("group", one.group)
        if columns % group:
            return f"needs a multiple of {group} columns; the layer has {columns}"
        return Grid(bits=4, symmetric=given.get("symmetric", True), full=given.get("levels", 15) == 16,
                    scale_type=given.get("scale_type", "float16")), group
    if one.id == "int8" and given.get("granularity", "channel") != "tensor":
        return Grid(bits=8, symmetric=given.get("symmetric", True), scale_type=given.get("scale_type", "float32")), 0
    return "shown for uniform grids with a scale a row or a group: int4, int8"
