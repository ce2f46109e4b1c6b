"""The question of quantbench: its fields, and what they may be."""

from dataclasses import dataclass

from pycore.errors import InputError
from pycore.knobs import knob
from pycore.pack.formats import FORMATS, format_of
from pycore.quality.inputs import INPUTS
from pycore.quality.weights import PRESETS

WEIGHTS, FORMAT, LOOK, METHODS, GPTQ, PLAN = "Weights", "Format", "Look at", "Methods", "GPTQ step by step", "Plan"
FORMAT_NAMES = tuple(one.id for one in FORMATS)
AUTO = "auto"


def among(*names: str) -> tuple[str, ...]:
    """The choices of an option, as texts, over every format that has it; auto = the format's own default."""
    found = [written(value) for one in FORMATS for name, values in one.options if name in names for value in values]
    return AUTO, *dict.fromkeys(found)


def written(value: object) -> str:
    """An option's value as a choice: yes and no for flags."""
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """The question, every field with its meaning, unit and range."""

    format: str = knob("int4", "Format", choices=FORMAT_NAMES, group=FORMAT, help="How the weights are stored.")
    group: str = knob(AUTO, "Group", choices=among("group", "block"), group=FORMAT,
                      help="Weights that share a scale: INT4 and NF4.")
    granularity: str = knob(AUTO, "Scales", choices=among("granularity"), group=FORMAT,
                            help="One scale for the tensor, a channel (row) or a token (row): INT8 and FP8.")
    symmetric: str = knob(AUTO, "Symmetric", choices=among("symmetric"), group=FORMAT,
                          help="no = with a zero point: INT8 and INT4.")
    levels: str = knob(AUTO, "Levels", choices=among("levels"), group=FORMAT,
                       help="INT4: 15 keeps the grid symmetric, 16 uses every code.")
    double: str = knob(AUTO, "Double quantisation", choices=among("double"), group=FORMAT,
                       help="NF4: whether the scales are quantised too.")
    scale_type: str = knob(AUTO, "Type of scales", choices=among("scale_type"), group=FORMAT, help="INT8 and INT4.")
    nibble_order: str = knob(AUTO, "Order of nibbles", choices=among("nibble_order"), group=FORMAT,
                             help="INT4: which weight of a byte lies low.")
    overflow: str = knob(AUTO, "Overflow", choices=among("overflow"), group=FORMAT,
                         help="FP8 without a scale: what becomes of a number that is too large. saturate: the largest "
                              "(torch in E4M3); nan: NaN in E4M3, infinity in E5M2 (ml_dtypes; torch in E5M2).")
    layout: str = knob(AUTO, "Layout", choices=among("layout"), group=FORMAT,
                       help="MXFP4, NVFP4 and ternary: codes and scales apart, or GGUF's blocks.")
    value_type: str = knob(AUTO, "Type of values", choices=among("value_type"), group=FORMAT, help="2:4: the kept weights.")
    metadata: str = knob(AUTO, "Metadata", choices=among("metadata"), group=FORMAT,
                         help="2:4: in the weights' order, or as NVIDIA's sparse tensor cores load it.")

    values: str = knob("", "Weights", long=True, group=WEIGHTS, zero="the preset below",
                       help="Numbers separated by commas or spaces; a new line (or ;) begins a row. nan and inf are read.")
    preset: str = knob("normal", "Preset", choices=tuple(PRESETS), group=WEIGHTS,
                       help="What the weights are drawn from where none are given.")
    seed: int = knob(1, "Seed", low=0, high=2**31 - 1, group=WEIGHTS, help="Same seed, same weights.")
    rows: int = knob(32, "Rows", low=1, high=1 << 16, group=WEIGHTS,
                     help="Rows (output channels) of the preset, or read from the tensor.")
    columns: int = knob(256, "Columns", low=1, high=1 << 16, group=WEIGHTS, help="Weights in a row of the preset.")
    edits: str = knob("", "Changed weights", group=WEIGHTS, zero="none",
                      help="Weights set by hand: index=value, separated by commas ('17=0.5, 40=-1').")
    file: str = knob("", "File", group=WEIGHTS, zero="none",
                     help="A .safetensors file to read weights from; only the part asked for is read.")
    tensor: str = knob("", "Tensor", group=WEIGHTS, zero="the first matrix of the file", help="Which tensor of the file.")
    first_row: int = knob(0, "First row", low=0, high=2**31 - 1, group=WEIGHTS, help="Of the tensor: where to begin.")

    weight: int = knob(0, "Weight", low=0, high=(1 << 28) - 1, group=LOOK, help="Index of the weight that is looked at.")
    bit: int = knob(-1, "Bit", low=-1, high=2**31 - 1, group=LOOK,
                    help="Position of a bit in the packed bytes (8 x byte + bit): whose is it? -1 = none.")

    rotation: bool = knob(False, "Rotate", group=METHODS,
                          help="Rotate rows by a Hadamard matrix before packing, and back after it.")
    smoothing: bool = knob(False, "SmoothQuant", group=METHODS,
                           help="Move outliers of the inputs into the weights before packing.")
    awq: bool = knob(False, "AWQ", group=METHODS, help="Give the columns with large inputs finer steps.")
    alpha: float = knob(0.5, "SmoothQuant's alpha", low=0.0, high=1.0, group=METHODS,
                        help="How much of the outliers goes into the weights.")
    inputs: str = knob("outlier-channels", "Inputs", choices=tuple(INPUTS), group=METHODS,
                       help="What the layer's inputs look like: they decide which errors matter.")
    samples: int = knob(512, "Samples", low=1, high=4096, group=METHODS, help="Input vectors that calibrate.")
    bits: int = knob(4, "Bits of the grid", low=2, high=8, group=GPTQ, help="GPTQ and its rivals: bits of a uniform grid.")
    grid_group: int = knob(0, "Group of the grid", low=0, high=1 << 16, group=GPTQ, zero="a row",
                           help="Weights that share a scale; it divides the layer's columns.")
    act_order: bool = knob(False, "Act-order", group=GPTQ, help="Columns with the largest inputs first.")
    bug: bool = knob(False, "The common bug", group=GPTQ,
                     help="Spread errors by rows of the plain inverse Hessian instead of its Cholesky factor.")
    step: int = knob(24, "Step", low=0, high=1 << 16, group=GPTQ, help="Columns quantised so far.")
    damping: float = knob(0.01, "Damping", low=0.0, high=1.0, group=GPTQ,
                          help="Share of the mean diagonal that is added to the Hessian's.")

    model: str = knob("", "Measured model", suggestions="models", group=PLAN, zero="the first of the dataset",
                      help="Whose measured rows are shown and planned with.")
    budget: float = knob(4.5, "Budget", unit="bits per weight", low=0.0, high=32.0, group=PLAN, zero="no budget",
                         help="What the planned weights may take on average; the plan meets it at the least predicted loss.")
    budget_mb: float = knob(0.0, "Budget in bytes", unit="MB", low=0.0, high=1e9, group=PLAN, zero="by bits per weight",
                            help="The same as the size of the planned weights, instead.")
    choices: str = knob("", "Own choices", group=PLAN, zero="none: the plan is free",
                        help="Formats fixed by hand: 'down=q6_k, 3.v=q8_0' (every layer's, or one layer's); the plan "
                             "chooses the rest.")
    formats: str = knob("", "Allowed formats", group=PLAN, zero="every measured one",
                        help="Measured configurations that the plan may use, separated by commas.")


OPTION_FIELDS = ("group", "granularity", "symmetric", "levels", "double", "scale_type", "nibble_order", "overflow", "layout",
                 "value_type", "metadata")
FIELD_OF = {"block": "group"}  # NF4 calls its group a block


def options_of(query: Query) -> tuple[tuple[tuple[str, object], ...], tuple[str, ...]]:
    """(options that the question gives its format, fields of options that the format does not have).

    Raises InputError for a value that the format does not take.
    """
    one, given = format_of(query.format), []
    for name, values in one.options:
        field = FIELD_OF.get(name, name)
        text = getattr(query, field)
        if text == AUTO:
            continue
        by_text = {written(value): value for value in values}
        if text not in by_text:
            raise InputError(field, text, f"accepted with {one.id}: {AUTO}, " + ", ".join(by_text))
        given.append((name, by_text[text]))
    known = {FIELD_OF.get(name, name) for name, _ in one.options}
    unused = tuple(field for field in OPTION_FIELDS if field not in known and getattr(query, field) != AUTO)
    return tuple(given), unused
