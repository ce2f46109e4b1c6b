"""A model's tokenizer, run by `tokenizers`: from a GGUF file's own vocabulary, or a tokenizer.json.

Two kinds are in GGUF files. "gpt2" is byte-level BPE: how a text is split before merging is not in the file, only the
name of the way (`tokenizer.ggml.pre`); the ones here are those of llama.cpp of the same name. Others are refused: a wrong
split gives plausible, wrong perplexities. "llama" is SentencePiece's BPE: pieces with scores, "▁" for a space, bytes for
what no piece has; of two neighbours those are merged first whose piece has the highest score.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pycore.errors import SourceError
from runtime.models.gguf import Gguf

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Backend

LETTERS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
TAIL = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
PATTERNS = {"qwen2": LETTERS + r"\p{N}" + TAIL, "llama-bpe": LETTERS + r"\p{N}{1,3}" + TAIL}
DIGIT_BY_DIGIT = ("smollm",)
PLAIN = ("gpt-2", "default")
NORMAL, UNKNOWN, CONTROL, USER_DEFINED = 1, 2, 3, 4
SPACE = "▁"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tokenizer:
    """Text to ids and back. `end` are the ids that end an answer; `chat_template` is Jinja, "" where there is none."""

    name: str
    backend: "Backend"
    end: tuple[int, ...] = ()
    chat_template: str = ""

    def encode(self, text: str) -> list[int]:
        """Ids of a text; special tokens written in it count as such. No token is added."""
        return self.backend.encode(text, add_special_tokens=False).ids

    def decode(self, ids: list[int]) -> str:
        """The text of ids, special tokens included."""
        return self.backend.decode(ids, skip_special_tokens=False)

    @property
    def size(self) -> int:
        """How many ids there are."""
        return self.backend.get_vocab_size()


def from_gguf(file: Gguf) -> Tokenizer:
    """The tokenizer of a GGUF file. Raises SourceError."""
    kind, pre = file.value("tokenizer.ggml.model", str), file.value("tokenizer.ggml.pre", str, "default")
    known = (*PATTERNS, *DIGIT_BY_DIGIT, *PLAIN)
    if kind not in ("gpt2", "llama") or kind == "gpt2" and pre not in known:
        raise SourceError(file.source, f"has a tokenizer of kind {kind!r}, split by {pre!r}; run are llama (SentencePiece's "
                                       f"BPE) and gpt2 (byte-level BPE) split by {', '.join(known)}")
    tokens = file.value("tokenizer.ggml.tokens", list)
    kinds = file.value("tokenizer.ggml.token_type", list, [NORMAL] * len(tokens))
    if not all(isinstance(token, str) for token in tokens) or len(kinds) != len(tokens):
        raise SourceError(file.source, "has a vocabulary that is not one text and one kind a token")
    if kind == "llama":
        backend = pieces(file, tokens, kinds)
    else:
        backend = built(file.source, tokens, file.value("tokenizer.ggml.merges", list), pre)
    from tokenizers import AddedToken

    for which in ((CONTROL, UNKNOWN), (USER_DEFINED,)):  # all are found in a text before it is split; the first are no text
        backend.add_tokens([AddedToken(token, normalized=False, special=CONTROL in which)
                            for token, one in zip(tokens, kinds, strict=True) if one in which and SPACE not in token])
    end = file.metadata.get("tokenizer.ggml.eos_token_id")
    return Tokenizer(name=f"{kind}/{pre}", backend=backend, end=(end,) if isinstance(end, int) else (),
                     chat_template=file.value("tokenizer.chat_template", str, ""))


def built(source: str, tokens: list, merges: list, pre: str) -> "Backend":
    """The `tokenizers` object of a vocabulary and its merges. Raises SourceError."""
    from tokenizers import Regex, decoders, models, pre_tokenizers
    from tokenizers import Tokenizer as Backend

    vocabulary = {token: place for place, token in enumerate(tokens)}
    split = [tuple(merge.split(" ")) if isinstance(merge, str) else () for merge in merges]
    if len(vocabulary) != len(tokens) or any(len(pair) != 2 for pair in split):
        raise SourceError(source, "has a vocabulary with a token twice, or a merge that is not two tokens")
    try:
        backend = Backend(models.BPE(vocab=vocabulary, merges=split, ignore_merges=pre == "llama-bpe"))
    except Exception as error:  # the library raises nothing narrower
        raise SourceError(source, f"has a vocabulary that does not hold together: {error}") from None
    if pre in PATTERNS:
        steps = [pre_tokenizers.Split(Regex(PATTERNS[pre]), "isolated"),
                 pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    else:
        steps = [pre_tokenizers.Digits(individual_digits=True)] if pre in DIGIT_BY_DIGIT else []
        steps.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True))
    backend.pre_tokenizer = pre_tokenizers.Sequence(steps)
    backend.decoder = decoders.ByteLevel()
    return backend


def pieces(file: Gguf, tokens: list[str], kinds: list[int]) -> "Backend":
    """The `tokenizers` object of SentencePiece's pieces and their scores. Raises SourceError."""
    from tokenizers import Tokenizer as Backend
    from tokenizers import decoders, models, normalizers

    scores, place = file.value("tokenizer.ggml.scores", list), {token: index for index, token in enumerate(tokens)}
    if len(place) != len(tokens) or len(scores) != len(tokens) or not all(isinstance(one, float) for one in scores):
        raise SourceError(file.source, "has a vocabulary with a token twice, or not one score a token")
    merges = []
    for index, (token, kind) in enumerate(zip(tokens, kinds, strict=True)):
        if kind in (NORMAL, USER_DEFINED):
            pairs = [(token[:cut], token[cut:]) for cut in range(1, len(token))]
            merges += [(-scores[index], index, left, right) for left, right in pairs if left in place and right in place]
    unknown = next((token for token, kind in zip(tokens, kinds, strict=True) if kind == UNKNOWN), None)
    try:
        made = Backend(models.BPE(vocab=place, merges=[pair[2:] for pair in sorted(merges)], unk_token=unknown,
                                  fuse_unk=True, byte_fallback=True))
    except Exception as error:  # the library raises nothing narrower
        raise SourceError(file.source, f"has a vocabulary that does not hold together: {error}") from None
    prefixed = file.value("tokenizer.ggml.add_space_prefix", bool, True)
    made.normalizer = normalizers.Sequence([*([normalizers.Prepend(SPACE)] * prefixed), normalizers.Replace(" ", SPACE)])
    made.decoder = decoders.Sequence([decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse(),
                                      *([decoders.Strip(" ", 1, 0)] * prefixed)])
    return made


def from_file(path: Path) -> Tokenizer:
    """The tokenizer in a tokenizer.json. Raises SourceError."""
    from tokenizers import Tokenizer as Backend

    try:
        return Tokenizer(name=path.name, backend=Backend.from_file(str(path)))
    except Exception as error:  # the library raises nothing narrower
        raise SourceError(path.name, f"is not a tokenizer: {error}") from None
