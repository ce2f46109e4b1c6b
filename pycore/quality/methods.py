"""What rotation, SmoothQuant, AWQ and GPTQ buy on one layer: the error of its outputs, in the chosen format."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """One way to quantise the layer. `name`: plain, rotation, smoothquant, awq, gptq, chosen (what the question's switches
    say together).

    weight_sqnr_db   of the weights, in their own space
    output_sqnr_db   of the layer's outputs over the inputs: what counts
    gain_db          output_sqnr_db less the plain format's
    note             what was chosen on the way (AWQ's alpha, say), or why there is no figure ('' where all is plain)
    """

    name: str
    label: str
    weight_sqnr_db: float
    output_sqnr_db: float
    gain_db: float
    note: str = ""
