"""What `quantbench quantize` and `quantbench eval` ask for: a model in, plain data out. The command line knows nothing else.

A quantised model is a folder: model.safetensors (`storage`) and tokenizer.json.
"""

import math
from collections.abc import Callable
from pathlib import Path

import torch

from pycore.errors import InputError, SourceError
from pycore.pack.measures import decibels
from runtime.models.load import Loaded
from runtime.models.load import load as load_original
from runtime.models.supply import BIBLE, bible, file_digest
from runtime.models.tokenizer import Tokenizer, from_file
from runtime.quantbench import storage
from runtime.quantbench.convert import Quantised, quantise
from runtime.quantbench.evaluate import Mean, Reference, counted_log_probabilities, mean, windows
from runtime.quantbench.schemes import Rule, parse_plan
from runtime.quantbench.speed import decode_tokens_per_s, noisy
from runtime.quantbench.targets import targets

WEIGHTS, TOKENS = "model.safetensors", "tokenizer.json"
WINDOW, CALIBRATION_WINDOWS = 512, 16
LAST_CHAPTERS = 60  # of the sample text
Report = Callable[[str, float], None]


def quantize(*, model: str, plan: str, out: Path, corpus: Path | None, report: Report) -> dict[str, object]:
    """Quantise a model by a plan's text (`schemes`) and write it into a folder. Raises StudioError."""
    rules = parse_plan(plan)
    report("reading the model", 0.0)
    loaded = opened(model, report)
    if any(target.quantised for target in targets(loaded.model)):
        raise InputError("model", model, "accepted: a model that is not quantised yet")
    report("quantising", 0.2)
    found = quantise(loaded.model, rules, calibration=calibration(rules, loaded.tokenizer, corpus, report),
                     say=lambda text: report(text, 0.5))
    report("writing", 0.9)
    try:
        out.mkdir(parents=True, exist_ok=True)
        loaded.tokenizer.backend.save(str(out / TOKENS))
    except OSError as error:
        raise SourceError(str(out), f"cannot be written: {error.strerror or error}", "out") from None
    size = storage.save(loaded.model, out / WEIGHTS, halve=True)
    return {"model": loaded.name, "source_sha256": loaded.sha256, "plan": plan, "out": str(out), "size_bytes": size,
            "projections": len(found)} | stored(found)


def stored(found: tuple[Quantised, ...]) -> dict[str, float]:
    """Bits and error over all quantised projections."""
    weights = sum(one.weights for one in found)
    bytes_of_all = sum(one.stored_bytes for one in found)
    return {"quantised_weights": weights, "stored_bytes": bytes_of_all, "bits_per_weight": 8 * bytes_of_all / weights,
            "weight_sqnr_db": decibels(math.fsum(one.signal for one in found), math.fsum(one.noise for one in found))}


def evaluate(*, model: str, plan: str | None, against: str | None, corpus: Path | None, tokens: int, window: int,
             stride: int, report: Report) -> dict[str, object]:
    """Perplexity, and with a plan or a model `against` it the divergence from the unquantised one. Raises StudioError."""
    rules = parse_plan(plan) if plan else ()
    report("reading the model", 0.0)
    loaded = opened(model, report)
    text, what = sample(corpus, report)
    held = windows(loaded.tokenizer.encode(text), window, stride, most=tokens)
    unquantised = opened(against, report) if against else loaded if rules else None
    reference = None
    if unquantised is not None:
        report("scoring the unquantised model", 0.2)
        reference = Reference(unquantised.model, held)
    found: dict[str, object] = {"model": loaded.name, "plan": plan, "against": unquantised.name if unquantised else None,
                                "corpus": what, "tokens": held.counted, "window": held.length, "stride": held.stride}
    if rules:
        report("quantising", 0.5)
        found |= stored(quantise(loaded.model, rules, calibration=calibration(rules, loaded.tokenizer, corpus, report)))
    report("scoring", 0.6)
    if reference is None:
        losses = torch.cat([-given.gather(1, wanted[:, None])[:, 0]
                            for given, wanted in counted_log_probabilities(loaded.model, held)])
        found |= perplexity("perplexity", mean(losses))
    else:
        scores = reference.scores_of(loaded.model)
        found |= perplexity("perplexity", mean(scores.losses)) | perplexity("reference_perplexity", mean(reference.losses))
        found |= interval("kl_divergence", mean(scores.divergences))
        found |= interval("top1_agreement", mean(scores.agreements))
    report("writing tokens", 0.9)
    reason = noisy()
    speed = None if reason else decode_tokens_per_s(loaded.model)
    return found | {"size_bytes": size_of(loaded), "decode_tokens_per_s": speed, "speed_note": reason}


def perplexity(name: str, loss: Mean) -> dict[str, object]:
    """exp of a mean loss and of its interval's ends."""
    ends = [None if one is None else math.exp(one) for one in (loss.low, loss.high)]
    return {name: math.exp(loss.value), f"{name}_low": ends[0], f"{name}_high": ends[1]}


def interval(name: str, one: Mean) -> dict[str, object]:
    """A mean with its interval."""
    return {name: one.value, f"{name}_low": one.low, f"{name}_high": one.high}


def opened(name: str, report: Report) -> Loaded:
    """A model that `runtime.models` knows, or a folder that `quantize` wrote. Raises StudioError."""
    folder = Path(name)
    if folder.is_dir() and not (folder / "config.json").is_file() and (folder / WEIGHTS).is_file():
        return Loaded(name=folder.name, model=storage.load(folder / WEIGHTS), tokenizer=from_file(folder / TOKENS),
                      sha256=file_digest(folder / WEIGHTS), source=str(folder))
    return load_original(name, lambda text: report(text, 0.0))


def sample(corpus: Path | None, report: Report) -> tuple[str, str]:
    """(text, what it is): a file, else the last chapters of a book in the public domain. Raises SourceError."""
    if corpus is None:
        chapters = bible(lambda text: report(text, 0.0))
        what = f"King James Bible, the last {LAST_CHAPTERS} chapters ({BIBLE.package})"
        return "\n\n".join(chapters[-LAST_CHAPTERS:]), what
    try:
        return corpus.read_bytes().decode("utf-8"), corpus.name
    except OSError as error:
        raise SourceError(str(corpus), f"cannot be read: {error.strerror or error}", "corpus") from None
    except UnicodeDecodeError as error:
        raise SourceError(str(corpus), f"not UTF-8 text: byte at offset {error.start:,}", "corpus") from None


def calibration(rules: tuple[Rule, ...], tokenizer: Tokenizer, corpus: Path | None, report: Report) -> torch.Tensor | None:
    """Windows of ids for the methods that look at text: the text's last, so that a score of its first tokens is no fit.

    None where no method does. Raises SourceError, InputError.
    """
    if not any(rule.scheme and rule.scheme.calibrated for rule in rules):
        return None
    ids = tokenizer.encode(sample(corpus, report)[0])
    length = min(WINDOW, len(ids))
    count = min(CALIBRATION_WINDOWS, len(ids) // length if length else 0)
    if not count:
        raise InputError("corpus", "no text", "accepted: a text that calibrates")
    return torch.tensor(ids[len(ids) - count * length:]).reshape(count, length)


def size_of(loaded: Loaded) -> int:
    """Bytes of the model's tensors: packed layers as they are stored, the rest as 16-bit, a tied head once."""
    seen = {(tensor.data_ptr(), tensor.shape): tensor for tensor in loaded.model.state_dict().values()}
    return sum(one.numel() * (1 if one.dtype == torch.uint8 else 2) for one in seen.values())
