"""`mini-infer bench`: how fast a model reads and writes here, and what smaller numbers do to its logits."""

from pathlib import Path
from typing import Any

import click

from pycore.cli import output
from pycore.cli.errors import flag
from pycore.cli.mini_infer import engine
from pycore.cli.mini_infer.model import chosen_by, opened
from pycore.cli.mini_infer.say import say
from pycore.cli.mini_infer.setup_options import setup_options
from pycore.cli.options import QuestionCommand
from pycore.errors import InputError
from pycore.units import binary_bytes, seconds, si, significant

EPILOG = """\b
Examples:
  mini-infer bench
  mini-infer bench --linear int8 --concurrency 1,4,8
  mini-infer bench --kv-format int4 --text book.txt --json

\b
Requests of random tokens arrive together and each writes --output tokens; every figure is the median of --rounds, the best
beside it in --json. Speeds on a busy machine are noise: the load average is printed with them. --text compares the logits
of a text, up to 2,048 tokens, with those of float32 weights, keys and values.
"""


@click.command(cls=QuestionCommand, epilog=EPILOG)
@click.argument("word", metavar="[MODEL]", required=False)
@click.option("--concurrency", default="1,4,8", show_default=True, metavar="NUMBERS", help="Requests at once.")
@click.option("--prompt", type=click.IntRange(1, 1 << 20), default=64, show_default=True, help="Tokens of each prompt.")
@click.option("--output", "written", type=click.IntRange(2, 1 << 20), default=32, show_default=True,
              help="Tokens that each request writes.")
@click.option("--rounds", type=click.IntRange(1, 100), default=3, show_default=True, help="Measured rounds.")
@click.option("--text", type=click.Path(path_type=Path), metavar="FILE", help="Compare the logits of this text, too.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@setup_options("seed")
def command(word: str | None, concurrency: str, prompt: int, written: int, rounds: int, text: Path | None,
            **options: Any) -> None:
    """How fast a model reads and writes here, at several numbers of requests at once (needs torch)."""
    as_json, asked = flag(options, "as_json"), levels(concurrency)
    options["max_sequences"] = options.get("max_sequences") or max(16, *asked)
    chosen = chosen_by(options, word)
    found, benching = opened(chosen), engine.part("benching")
    # Read before the rounds, which may take minutes.
    tokens = None if text is None else benching.text_tokens(found.engine, found.source.words, text)
    result = benching.bench(found.engine, asked, prompt, written, rounds, say)
    if tokens is not None:
        plain = engine.part("source").open_source(chosen.model, device=chosen.device, say=say)
        result["logits"] = benching.text_error(plain.model, found.engine, tokens)
    if as_json:
        output.write_json({"model": found.source.name, "linear": chosen.linear} | result)
    else:
        show(result)


def levels(text: str) -> list[int]:
    """Numbers of requests at once. Raises InputError."""
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError:
        found = []
    if not found or not all(1 <= one <= 1 << 16 for one in found):
        raise InputError("concurrency", text, "accepted: whole numbers from 1, separated by commas")
    return found


def show(result: dict[str, Any]) -> None:
    """The table, and what it was measured on."""
    rows = [(row["concurrency"], significant(row["prefill_tokens_per_s"]), significant(row["decode_tokens_per_s"]),
             seconds(row["ttft_s"]), "-" if row["bandwidth_share"] is None else f"{row['bandwidth_share']:.0%}")
            for row in result["rows"]]
    names = ("at once", "prefill tokens/s", "decode tokens/s", "first token", "of memory bandwidth")
    output.table(names, rows, right=range(len(names)))
    output.line(f"{result['processor']}, {result['threads']} threads, torch {result['torch']}"
                + ("" if result["load_average"] is None else f", load average {result['load_average']:.1f}")
                + ("" if result["memory_bytes_per_s"] is None else f", memory {si(result['memory_bytes_per_s'], 'B/s')}"))
    saved = result["kv_saved_against_16_bits"]
    output.line(f"keys and values in {result['kv_format']}: {binary_bytes(result['kv_pool_bytes'])}, "
                f"{abs(saved):.1%} {'less' if saved >= 0 else 'more'} than in 16 bits")
    if "logits" in result:
        error = result["logits"]
        output.line(f"logits of {error['tokens']} tokens: error {significant(error['logit_error'])} of their spread, KL "
                    f"{significant(error['kl_divergence'])} nats, same first token {error['agreement']:.1%}, perplexity "
                    f"{significant(error['perplexity'], 5)} against {significant(error['reference_perplexity'], 5)}")
