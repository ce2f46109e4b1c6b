"""A model from the Hugging Face Hub: only the files that are run, kept where `huggingface_hub` keeps them.

    owner/name    owner/name@revision    owner/name/file.gguf    owner/name/file.gguf@revision
"""

import importlib.util
import re
import sys
from collections.abc import Callable
from pathlib import Path

from pycore.errors import SourceError

WORD = r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}"
REPOSITORY = re.compile(rf"(?P<repository>{WORD}/{WORD})(?P<file>(?:/{WORD})+\.gguf)?"
                        r"(?:@(?P<revision>[A-Za-z0-9][\w./-]{0,199}))?")
WANTED = ("*.safetensors", "*.json", "*.jinja")
# Weights in another layout that some repositories carry a second time, and whatever lies in folders
UNWANTED = ("*/*", "consolidated*")


def fetch(name: str, say: Callable[[str], None]) -> Path:
    """The folder (or .gguf file) of a repository, downloaded where it is not here. Raises SourceError in one line."""
    if importlib.util.find_spec("huggingface_hub") is None:
        raise SourceError(name, "is not a path here, and huggingface_hub is not installed to ask the Hub; this installs it: "
                                "pip install 'inference-studios[runtime]'")
    import huggingface_hub
    from huggingface_hub.utils import disable_progress_bars

    match = REPOSITORY.fullmatch(name)
    repository, revision, file = match["repository"], match["revision"], match["file"]
    say(f"asking the Hugging Face Hub for {name}")
    if not sys.stderr.isatty():
        disable_progress_bars()
    try:
        if file:
            return Path(huggingface_hub.hf_hub_download(repository, file[1:], revision=revision))
        return Path(huggingface_hub.snapshot_download(repository, revision=revision, allow_patterns=list(WANTED),
                                                      ignore_patterns=list(UNWANTED)))
    except Exception as error:  # its own, those of its HTTP library, of the disk: all are said in one line
        raise SourceError(name, reason(error)) from None


def reason(error: BaseException) -> str:
    """Why the Hub gave nothing, in words."""
    from huggingface_hub import errors

    chain: list[BaseException] = []
    while error is not None and error not in chain:
        chain.append(error)
        error = error.__cause__ or error.__context__
    told = {
        errors.GatedRepoError: "is gated: accept its terms on the Hub, then log in with `hf auth login` or set HF_TOKEN",
        errors.RevisionNotFoundError: "has no such revision on the Hub",
        errors.RepositoryNotFoundError: "is neither a path here nor a repository on the Hub that can be seen (a private one "
                                        "needs HF_TOKEN)",
        errors.RemoteEntryNotFoundError: "has no such file on the Hub",
        errors.OfflineModeIsEnabled: "is not in the cache, and HF_HUB_OFFLINE keeps the Hub from being asked",
        errors.HFValidationError: "is neither a path here nor a name that the Hub allows",
    }
    for kind, text in told.items():
        if any(isinstance(one, kind) for one in chain):
            return text
    answered = next((one for one in chain if isinstance(one, errors.HfHubHTTPError) and one.response is not None), None)
    if answered is not None:
        return f"could not be had from the Hub: it answered with status {answered.response.status_code}"
    if any(isinstance(one, errors.LocalEntryNotFoundError) for one in chain):
        return "is neither a path here nor in the cache, and the Hub cannot be reached"
    last = " ".join(str(chain[-1]).split())[:200]
    return f"could not be had from the Hub: {type(chain[-1]).__name__}: {last}"
