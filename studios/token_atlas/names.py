"""What tokenizers are called where there is little room, and links that keep the rest of the question."""

from dataclasses import fields
from typing import Any
from urllib.parse import quote

from pycore.atlas.table import TokenizerFacts, tokenizer
from pycore.knobs import as_text, changed

SHORT = {"o200k_base": "GPT-4o", "llama3": "LLaMA-3", "qwen2.5": "Qwen2.5", "deepseek-v3": "DeepSeek-V3",
         "gemma3": "Gemma 3", "claude-legacy": "Claude 1/2", "cl100k_base": "GPT-4", "claude3-ctok": "Claude 3–4.6",
         "claude4.7-ctok": "Claude 4.7+"}
RETIRED = ("claude-legacy", "cl100k_base")
"""Official, but no longer what their makers serve: shown, not held up as the dearest of today."""
TYPED = ("text", "own", "word", "specials", "tokenizers")
"""Fields that are about the typed text; links do not repeat a text, they leave it where it is (`data-also`)."""
_ESCAPED = str.maketrans({letter: quote(letter, safe="") for letter in '%&#+"\'<>=?;\\^`{|}' + "".join(map(chr, range(33)))})


def short(name: str) -> str:
    """A tokenizer in a word or two; its full label where we have none."""
    return SHORT.get(name) or tokenizer(name).label


def possessive(name: str) -> str:
    """'GPT-4o's'."""
    return f"{short(name)}'s"


def standing(facts: TokenizerFacts) -> str:
    """How a column's counts are known, in a word where that matters."""
    if not facts.exact:
        return "unofficial, counts only"
    return "official, retired" if facts.name == "claude-legacy" else ""


def rest_of(query: Any, *replaced: str) -> str:
    """The changed fields of a question but for those about the text and those `replaced`: 'language=mya_Mymr&', or ''."""
    return "".join(f"{name}={written(as_text(value))}&" for name, value in changed(query).items()
                   if name not in TYPED and name not in replaced)


def also(query: Any, **changes: Any) -> str:
    """A link that changes fields. It says them all even where they are defaults: the others stay as they are."""
    known = {field.name for field in fields(query)}
    assert changes.keys() <= known, changes.keys() - known
    said = "&".join(f"{name}={written(as_text(value))}" for name, value in changes.items())
    return f"?{rest_of(query, *changes)}{said}"


def written(text: str) -> str:
    """A text as it may stand in a link; letters of all scripts stay, browsers encode them."""
    return text.translate(_ESCAPED)
