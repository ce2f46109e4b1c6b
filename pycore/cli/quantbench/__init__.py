"""The `quantbench` command: one short file a subcommand, loaded when it is asked for."""

import sys
from collections.abc import Sequence

import click

import pycore
from pycore.cli import errors
from pycore.cli.commands import Commands

# Shown by --help without loading the commands; a test holds each line equal to its command's own.
COMMANDS = {
    "pack-inspect": "Weights in a format: codes, scales, bytes, the bits of one weight, and the error.",
    "pareto": "Every format on the same weights, error against true bits; and whole models as measured.",
    "sensitivity": "Projections quantised one by one, as measured: which hurt, and whether the textbook story holds.",
    "plan": "A format for every projection that meets a size at the least predicted loss.",
    "ask": "All that the page shows for one question.",
    "quantize": "Convert a model to a format, weights in place (needs torch).",
    "eval": "Perplexity, KL divergence, agreement, size and speed of a model (needs torch).",
    "info": "The formats with their options, presets, methods and measured models there are.",
}

HELP = """See the bits, measure the error, choose the format.

\b
Examples:
  quantbench pack-inspect --format int4 --values 0.1,-0.2,0.3,0.4
  quantbench pack-inspect --format nvfp4 --tensor model.safetensors:model.layers.0.mlp.up_proj.weight
  quantbench pareto --preset heavy-tailed
  quantbench sensitivity
  quantbench plan --budget 4.5
  quantbench quantize smollm2-135m --format int4 --out smollm2-int4
  quantbench eval smollm2-135m --format int4

\b
Measured rows, plan and info need nothing else; weights in a format (pack-inspect, pareto, ask) need numpy: pip install
numpy; quantize and eval need torch: pip install 'inference-studios[runtime]'.

\b
Exit status: 0 answered; 1 answered, and it does not fit (plan); 2 the question cannot be answered (the message says
why); 3 a fault of this program; 130 interrupted. Colour only on a terminal; NO_COLOR turns it off.
"""


@click.group(cls=Commands, package=__name__, lines=COMMANDS, help=HELP,
             context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(pycore.__version__, prog_name="quantbench")
def quantbench() -> None:
    """See HELP."""


def main(arguments: Sequence[str] | None = None) -> None:
    """The entry point of the `quantbench` script."""
    sys.exit(errors.run(quantbench, arguments, "quantbench"))
