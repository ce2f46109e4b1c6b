"""What `quantbench quantize` and `quantbench eval` ask for: a model in, plain data out. The command line knows nothing else.

A quantised model is a folder: model.safetensors (`storage`) and tokenizer.json.
"""

import copy
import math
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from pycore.errors import InputError, SourceError
from pycore.pack.measures import decibels
from runtime.models.load import Loaded
from runtime.models.load import load as load_original
from runtime.models.supply import BIBLE, bible, file_digest
from runtime.models.tokenizer import Tokenizer, from_file
from runtime.quantbench import storage
from runtime.quantbench.convert import Quantised, quantise
from runtime.quantbench.evaluate import Mean, Windows, counted_log_probabilities, mean, side_by_side, windows
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
    loaded = plain(model, report)
    report("quantising", 0.2)
    found = quantise(loaded.model, rules, calibration=calibration(rules, loaded.tokenizer, corpus, report),
                     say=lambda text: report(text, 0.5))
    report("writing", 0.9)
    try:
        out.mkdir(parents=True, exist_ok=True)
        (out / TOKENS).write_text(loaded.tokenizer.backend.to_str(), encoding="utf-8")
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
    loaded = plain(model, report) if rules else opened(model, report)
    text, what = sample(corpus, report)
    unquantised = opened(against, report) if against else loaded if rules else None
    held = windows(ids_of(loaded, unquantised, text, window), window, stride, most=tokens)
    found: dict[str, object] = {"model": loaded.name, "plan": plan, "against": unquantised.name if unquantised else None,
                                "corpus": what, "tokens": held.counted, "window": held.length, "stride": held.stride}
    reference = None if unquantised is None else unquantised.model
    if rules:
        report("quantising", 0.2)
        reference = copy.deepcopy(loaded.model)
        found |= stored(quantise(loaded.model, rules, calibration=calibration(rules, loaded.tokenizer, corpus, report)))
    report("scoring", 0.4)
    found |= alone(loaded.model, held) if reference is None else beside(reference, loaded.model, held)
    report("writing tokens", 0.9)
    reason = noisy()
    speed = None if reason else decode_tokens_per_s(loaded.model)
    return found | {"size_bytes": size_of(loaded), "decode_tokens_per_s": speed, "speed_note": reason}


def alone(model: nn.Module, held: Windows) -> dict[str, object]:
    """The perplexity of a model by itself."""
    losses = torch.cat([-given.gather(1, wanted[:, None])[:, 0] for given, wanted in counted_log_probabilities(model, held)])
    return perplexity("perplexity", mean(losses))


def beside(reference: nn.Module, model: nn.Module, held: Windows) -> dict[str, object]:
    """A model's scores and how far they are from the reference's."""
    own, scores = side_by_side(reference, model, held)
    return (perplexity("perplexity", mean(scores.losses)) | perplexity("reference_perplexity", mean(own.losses))
            | interval("kl_divergence", mean(scores.divergences), most=math.inf)
            | interval("top1_agreement", mean(scores.agreements), most=1))


def ids_of(loaded: Loaded, unquantised: Loaded | None, text: str, window: int) -> list[int]:
    """The ids of a text that is to be scored. Raises InputError where a score of them would mean nothing."""
    sizes = loaded.model.configuration
    if window > sizes.context:
        raise InputError("window", window, f"accepted: 2 to the model's context, {sizes.context:,}")
    if unquantised and unquantised.model.configuration.vocabulary != sizes.vocabulary:
        raise InputError("against", unquantised.name, f"accepted: a model with the same vocabulary of {sizes.vocabulary:,}")
    ids = loaded.tokenizer.encode(text)
    if len(ids) < 2:
        raise InputError("corpus", f"{len(ids)} tokens", "accepted: a text of at least two tokens")
    if max(ids) >= sizes.vocabulary:
        raise SourceError(loaded.name, f"has a tokenizer with token {max(ids):,}, but a vocabulary of {sizes.vocabulary:,}")
    return ids


def perplexity(name: str, loss: Mean) -> dict[str, object]:
    """exp of a mean loss and of its interval's ends."""
    ends = [None if one is None else math.exp(one) for one in (loss.low, loss.high)]
    return {name: math.exp(loss.value), f"{name}_low": ends[0], f"{name}_high": ends[1]}


def interval(name: str, one: Mean, most: float) -> dict[str, object]:
    """A mean with its interval, which is cut where no value can be: below 0 and above `most`."""
    low, high = (None if end is None else min(max(end, 0.0), most) for end in (one.low, one.high))
    return {name: one.value, f"{name}_low": low, f"{name}_high": high}


def opened(name: str, report: Report) -> Loaded:
    """A model that `runtime.models` knows, or a folder that `quantize` wrote. Raises StudioError."""
    folder = Path(name)
    if folder.is_dir() and not (folder / "config.json").is_file() and (folder / WEIGHTS).is_file():
        return Loaded(name=folder.name, model=storage.load(folder / WEIGHTS), tokenizer=from_file(folder / TOKENS),
                      sha256=file_digest(folder / WEIGHTS), source=str(folder))
    return load_original(name, lambda text: report(text, 0.0))


def plain(name: str, report: Report) -> Loaded:
    """The same, when it is not quantised yet. Raises StudioError."""
    loaded = opened(name, report)
    if any(target.quantised for target in targets(loaded.model)):
        raise InputError("model", name, "accepted: a model that is not quantised yet")
    return loaded


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
