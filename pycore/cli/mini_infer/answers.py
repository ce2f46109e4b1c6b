"""How texts and their figures are shown: live on standard output, one after another; or as JSON."""

from collections.abc import Iterable, Mapping
from typing import Any

import click

from pycore.cli import output
from pycore.cli.mini_infer.model import Opened
from pycore.units import significant

JOINERS = ("\u200c", "\u200d")  # letters and emoji are joined by them; nothing else is
MILLISECONDS = 1000


def shown(text: str) -> str:
    """A model's text as a terminal may have it: what would act on it is written out."""
    return "".join(part if part in JOINERS else output.plain(part) for part in text)


class Printer:
    """Writes texts in order: the first that is not over as it comes, those after it once it is. `live` False: nothing."""

    def __init__(self, texts: Iterable[Any], *, live: bool):
        self.texts, self.live = list(texts), live
        self.place, self.written = 0, 0

    def heard(self, text: Any, part: str) -> None:
        """Told that a text has grown or is over."""
        while self.live and self.place < len(self.texts):
            current = self.texts[self.place]
            if not self.written and (current.text or current.finish):
                self._title(current)
            click.echo(shown(current.text[self.written:]), nl=False)
            self.written = max(self.written, len(current.text))
            if current.finish is None:
                return
            click.echo()
            self.place, self.written = self.place + 1, 0

    def _title(self, text: Any) -> None:
        if len(self.texts) > 1:
            sample = f", text {text.sample + 1}" if text.asked.samples > 1 else ""
            output.line(f"{'' if not self.place else chr(10)}[prompt {text.index + 1}{sample}]", style="bold")


def document(found: Opened, batch: Any, figures: Mapping[str, object]) -> dict[str, Any]:
    """What --json prints."""
    model = found.source.model
    return {"model": found.source.name, "architecture": model.configuration.architecture,
            "dtype": str(model.dtype).removeprefix("torch."), "device": str(model.device),
            "texts": [text_document(one, found.source.words) for one in batch.texts.values()], "figures": dict(figures)}


def text_document(one: Any, words: Any) -> dict[str, Any]:
    """One text."""
    usage = one.usage
    return {
        "prompt": one.index, "sample": one.sample, "text": one.text, "finish_reason": one.finish, "stop": one.stop,
        "reason": one.reason or None, "prompt_tokens": usage.prompt_tokens if usage else None,
        "cached_tokens": usage.cached_tokens if usage else None, "output_tokens": len(one.tokens),
        "first_token_s": one.first_token_s, "mean_token_s": one.token_s, "token_ids": list(one.tokens),
        "logprobs": None if one.asked.sampling.logprobs is None else [logprob(choice, words) for choice in one.choices],
    }


def logprob(choice: Any, words: Any) -> dict[str, Any]:
    """One token's log-probability, and those of the most likely ones."""
    return token(choice.token, words) | {"logprob": choice.logprob, "top": [
        token(other, words) | {"logprob": value} for other, value in choice.top]}


def token(one: int, words: Any) -> dict[str, Any]:
    """A token by id, text and bytes."""
    raw = words.token_bytes(one)
    return {"token_id": one, "text": raw.decode("utf-8", "replace"), "bytes": list(raw)}


def figures_line(found: Mapping[str, Any]) -> str:
    """The figures of a run in words."""
    def milliseconds(value: float | None) -> str:
        return "-" if value is None else f"{significant(MILLISECONDS * value, 3)} ms"

    several = found["texts"] > 1
    parts = [f"{found['prompt_tokens']:,} prompt tokens ({found['cached_tokens']:,} cached)",
             f"{found['output_tokens']:,} tokens out" + (f" in {found['texts']} texts" if several else ""),
             f"first token {'after ' if not several else 'on average after '}{milliseconds(found['mean_first_token_s'])}",
             f"then {milliseconds(found['mean_token_s'])} each"]
    if found["output_tokens_per_s"]:
        parts.append(f"{significant(found['output_tokens_per_s'], 3)} tokens/s overall")
    if found["preemptions"]:
        parts.append(f"{found['preemptions']} preemptions")
    if found["drafted_tokens"]:
        parts.append(f"{found['accepted_tokens']:,} of {found['drafted_tokens']:,} drafted tokens accepted")
    return "; ".join(parts)
