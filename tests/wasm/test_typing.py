"""A key pressed in token-atlas is answered while the finger is still down: whole panels, in Pyodide."""

import json
from pathlib import Path
from urllib.parse import quote

from builder import node

from pycore.tokens import samples

CHARACTERS, KEYS = 2_000, 12
ONE_MS, SIX_MS = 50, 300
SIX = "o200k_base,llama3,qwen2.5,deepseek-v3,gemma3,claude-legacy"
LANGUAGES = ("eng_Latn", "hin_Deva", "zho_Hans", "mya_Mymr", "arb_Arab")


def typed(language: str, tokenizers: str) -> list[dict]:
    """A text of some 2,000 characters that grows by a letter at each question."""
    text = f"{samples.article(language)} " * CHARACTERS
    texts = [text[: CHARACTERS - KEYS + key] for key in range(KEYS)]
    return [
        {
            "type": "ask",
            "id": key,
            "studio": "token_atlas",
            "form": f"text={quote(text)}&tokenizers={tokenizers}",
            "source": "",
        }
        for key, text in enumerate(texts)
    ]


def test_a_key_is_answered_in_time(wasm, tmp_path, capsys):
    asked = [typed(language, names) for names in ("o200k_base", SIX) for language in LANGUAGES]
    (tmp_path / "questions.json").write_text(json.dumps(asked))
    script = Path(__file__).with_name("typing.mjs")
    times = json.loads(node.run(script, *map(str, (wasm.runtime, wasm.app, wasm.later, tmp_path / "questions.json"))))
    medians = [sorted(one)[len(one) // 2] for one in times]
    one, six = medians[: len(LANGUAGES)], medians[len(LANGUAGES) :]
    with capsys.disabled():
        print(
            f"\n{CHARACTERS:,} characters, a key: {max(one) / ONE_MS:.2f} of what one tokenizer may take, "
            f"{max(six) / SIX_MS:.2f} of what six may (worst of {', '.join(LANGUAGES)}; median of {KEYS - 2} keys)"
        )
    assert max(one) < ONE_MS, dict(zip(LANGUAGES, one, strict=True))
    assert max(six) < SIX_MS, dict(zip(LANGUAGES, six, strict=True))
