"""Train the tiny Qwen2, and from it a ternary one: minutes on two cores.

    python -m runtime.quantbench.train_tiny                      # tiny-qwen2 into the cache folder
    python -m runtime.quantbench.train_tiny --ternary            # goes on from it: tiny-qwen2-ternary
    python -m runtime.quantbench.train_tiny --further            # goes on as it is, as long: tiny-qwen2-further
    python -m runtime.quantbench.train_tiny --text FILE --out FOLDER --steps 500 --seed 1

The text is the King James Bible, fetched by package name (chapters are told apart so that some can be held out); of a
--text FILE, its paragraphs.
"""

import argparse
import sys
import time
from pathlib import Path

import torch

from pycore.cache import place
from pycore.errors import StudioError
from runtime.models import load
from runtime.models.load import TINY
from runtime.models.supply import BIBLE, bible
from runtime.models.tokenizer import Tokenizer
from runtime.models.transformer import Transformer
from runtime.quantbench.evaluate import Reference, windows
from runtime.quantbench.tiny import SIZES, Training, fresh, learnt_tokenizer, save, split, train


def arguments() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(prog="python -m runtime.quantbench.train_tiny", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=Path, help="a UTF-8 text to learn instead of the King James Bible")
    parser.add_argument("--out", type=Path, help="the folder to write; default: the cache folder, under its name")
    parser.add_argument("--steps", type=int, help="default 2000; 1000 when going on")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1, help="of torch; more than one is slow on a busy machine")
    further = parser.add_mutually_exclusive_group()
    further.add_argument("--ternary", action="store_true", help="go on from tiny-qwen2 with ternary projections")
    further.add_argument("--further", action="store_true", help="go on from tiny-qwen2 as it is, as long")
    return parser.parse_args()


def chapters(path: Path | None) -> tuple[str, ...]:
    """The pieces of the text. Raises SourceError, SystemExit."""
    if path is None:
        return bible(lambda text: print(text, file=sys.stderr))
    try:
        return tuple(part for part in path.read_text(encoding="utf-8").split("\n\n") if part.strip())
    except (OSError, UnicodeDecodeError) as error:
        raise SystemExit(f"--text: {path} cannot be read: {error}") from None


def begun(options: argparse.Namespace, learnt: str) -> tuple[Transformer, Tokenizer, Training]:
    """The model to start from, its tokenizer and the training. Raises StudioError where there is none to go on from."""
    if options.ternary or options.further:
        found = load.load(TINY)
        return found.model, found.tokenizer, Training(steps=options.steps or 1000, rate=1.5e-3, seed=options.seed,
                                                      ternary=options.ternary)
    return fresh(SIZES, options.seed), learnt_tokenizer([learnt]), Training(steps=options.steps or 2000, seed=options.seed)


def main() -> int:
    """Train and write. Exit status."""
    options = arguments()
    torch.set_num_threads(options.threads)
    try:
        learnt, held = split(chapters(options.text))
        model, tokenizer, training = begun(options, learnt)
    except StudioError as error:
        print(error, file=sys.stderr)
        return 2
    started = time.process_time()
    ids = tokenizer.encode(learnt)
    train(model, ids, training, lambda step, loss: print(f"step {step}: {loss:.3f} nats", file=sys.stderr, flush=True))
    text = windows(tokenizer.encode(held), training.length, most=8192)
    facts = {"text": str(options.text or f"{BIBLE.package} (King James Bible)"), "seed": training.seed,
             "steps": training.steps, "batch": training.batch, "length": training.length, "rate": training.rate,
             "ternary": training.ternary, "tokens_seen": training.steps * training.batch * training.length,
             "text_tokens": len(ids), "threads": options.threads, "torch": torch.__version__,
             "processor_s": round(time.process_time() - started), "held_out_tokens": text.counted,
             "held_out_perplexity": round(Reference(model, text).scores.perplexity, 4)}
    name = TINY + ("-ternary" if options.ternary else "-further" if options.further else "")
    folder = options.out or place(f"models/{name}")
    save(model, tokenizer, folder, facts)
    (folder / "held-out.txt").write_text(held, encoding="utf-8")  # what to measure it on
    print(f"{folder}: perplexity {facts['held_out_perplexity']} on {text.counted:,} held-out tokens"
          + (" (its weights as learnt; quantise them with bitnet-2bit)" if options.ternary else ""))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
