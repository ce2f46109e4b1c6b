"""The content security policy: a page talks to its own folder, and to huggingface.co where a reader asks it to."""

import base64
import hashlib
import json
from html import escape

THEME = ("try{const t=localStorage.getItem('theme');if(t)document.documentElement.dataset.theme=t}catch{}"
         "document.documentElement.dataset.script='on'")
"""Runs before the first paint, so that a remembered theme does not flash; the one inline script of a served page."""

HUB = "https://huggingface.co"


def script_hash(text: str) -> str:
    """'sha256-...' of an inline script, as a policy names it."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def policy(inline: tuple[str, ...], *, single_file: bool = False) -> str:
    """The policy of a page with these inline scripts. A single file makes its worker and modules from Blobs.

    Style attributes are allowed (a bar's width is data); style sheets only from the folder, and eval for wasm alone.
    """
    local = "blob:" if single_file else "'self'"
    scripts = " ".join([local, "'wasm-unsafe-eval'", *map(script_hash, inline)])
    sheets = "'unsafe-inline'" if single_file else "'self'"
    return "; ".join([
        "default-src 'none'", f"script-src {scripts}", f"style-src {sheets}", "style-src-attr 'unsafe-inline'",
        f"img-src {'' if single_file else local} data: blob:", f"connect-src {local} {HUB}", f"worker-src {local}",
        "base-uri 'none'", "form-action 'none'" if single_file else "form-action 'self'"])


def policy_tag(text: str) -> str:
    return f'<meta http-equiv="Content-Security-Policy" content="{escape(text)}">'


def data_script(name: str, value: object) -> str:
    """Data for the page's scripts, as an element that is never run. "<" is written so that nothing can close it."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    return f'<script type="application/json" id="{name}">{text}</script>'
