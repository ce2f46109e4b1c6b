"""A model's words: its tokenizer and its chat template, out of a folder as `transformers` writes it or a GGUF file."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pycore.errors import InputError, SourceError
from runtime.mini_infer import pieces
from runtime.mini_infer.chat_template import ChatTemplate
from runtime.mini_infer.files import read_json
from runtime.mini_infer.pieces import Pieces
from runtime.models import tokenizer
from runtime.models.gguf import Gguf

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Backend

Message = Mapping[str, object]
NAMED = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
MOST_TEMPLATE_BYTES = 4 << 20
PROBE = "0123456789"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Words:
    """Text to ids and back. `end`: every id that ends a text or a turn. `template`: None where the model has none.

    `before`: the ids put before a raw text; None: what the tokenizer's own description says. `special`: the ids that are
    no text. Nothing here changes once made, so that several threads may use it at once.
    """

    name: str
    backend: "Backend"
    pieces: Pieces
    end: tuple[int, ...] = ()
    template: ChatTemplate | None = None
    before: tuple[int, ...] | None = None
    special: frozenset[int] = frozenset()

    @property
    def size(self) -> int:
        """One more than the largest id."""
        return max(self.backend.get_vocab().values(), default=-1) + 1

    def encode(self, text: str, *, specials: bool = False) -> tuple[int, ...]:
        """Ids of a text; special tokens written in it count as such. `specials`: with what the tokenizer puts before a text
        (its beginning-of-text token, where it has one), as a raw prompt wants it and a rendered chat does not.

        Raises InputError for text that no UTF-8 can be made of."""
        own = specials and self.before is None
        try:
            # As a batch of one: only then does the library let other threads run, seconds long for a large text.
            ids = tuple(self.backend.encode_batch_fast([text], add_special_tokens=own)[0].ids)
        except (UnicodeEncodeError, TypeError):  # the second is what the library says of half a surrogate pair
            raise InputError("prompt", ascii(text), "accepted: text that UTF-8 can be made of") from None
        return (self.before or ()) + ids if specials else ids

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, without special tokens."""
        return self.backend.decode(list(ids))

    def render(self, messages: Sequence[Message], /, *, add_generation_prompt: bool = True, **more: object) -> str:
        """A conversation as the model's own template writes it. Raises InputError."""
        if self.template is None:
            raise InputError("messages", "a conversation", f"accepted: a raw prompt; {self.name} has no chat template")
        return self.template.render(messages, add_generation_prompt=add_generation_prompt, **more)

    def chat(self, messages: Sequence[Message], /, *, add_generation_prompt: bool = True, **more: object) -> tuple[int, ...]:
        """Ids of a conversation; `more` are variables of the template. Raises InputError for messages that the template
        refuses, and where the model has no template."""
        return self.encode(self.render(messages, add_generation_prompt=add_generation_prompt, **more))

    def piece(self, token: int, *, specials: bool = False) -> str | None:
        """A token as the vocabulary has it; None where it is no text: special (unless `specials`), or not there."""
        return None if token in self.special and not specials else self.backend.id_to_token(token)

    def token_bytes(self, token: int) -> bytes:
        """What one token stands for, special ones too; half a character, perhaps. Empty for an id that is not there."""
        piece = self.piece(token, specials=True)
        if piece is None:
            return b""
        return piece.encode() if token in self.special else self.pieces.piece_bytes(piece)


def from_folder(folder: Path, name: str) -> Words:
    """The words of a folder: tokenizer.json, and what lies beside it. Raises SourceError."""
    if not (folder / "tokenizer.json").is_file():
        other = " (a tokenizer.model is there; saving the tokenizer with transformers writes it)"
        raise SourceError(name, "holds no tokenizer.json" + (other if (folder / "tokenizer.model").is_file() else ""))
    backend = tokenizer.from_file(folder / "tokenizer.json").backend
    backend.no_truncation()
    backend.no_padding()
    said = {one: read_json(folder / one) if (folder / one).is_file() else {} for one in (
        "tokenizer_config.json", "special_tokens_map.json", "generation_config.json", "config.json")}
    special = named(said["special_tokens_map.json"]) | named(said["tokenizer_config.json"])
    template = folder_template(folder, said["tokenizer_config.json"], special)
    ends = [said[one].get("eos_token_id") for one in ("generation_config.json", "config.json")]
    ends.append(backend.token_to_id(special["eos_token"]) if "eos_token" in special else None)
    before, adds = None, said["tokenizer_config.json"].get("add_bos_token")
    if adds is False or adds is True and "bos_token" in special:
        before = ids_of([backend.token_to_id(special["bos_token"])]) if adds else ()
    return made(name, backend, ends, template, before)


def folder_template(folder: Path, config: Mapping[str, object], special: Mapping[str, str]) -> ChatTemplate | None:
    """The chat template of a folder: a file of its own, or the one in tokenizer_config.json. Raises SourceError."""
    path = folder / "chat_template.jinja"
    found = config.get("chat_template")
    if path.is_file():
        if path.stat().st_size > MOST_TEMPLATE_BYTES:
            raise SourceError(path.name, f"has {path.stat().st_size:,} bytes; at most {MOST_TEMPLATE_BYTES:,} are read")
        try:
            found = path.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise SourceError(path.name, f"cannot be read as text: {error}") from None
    if isinstance(found, list):  # several by name
        by_name = {one.get("name"): one.get("template") for one in found if isinstance(one, dict)}
        found = by_name.get("default")
    return ChatTemplate(found, special, folder.name) if isinstance(found, str) and found else None


def named(data: Mapping[str, object]) -> dict[str, str]:
    """Special tokens by name, as tokenizer_config.json and special_tokens_map.json write them."""
    found = {}
    for name in NAMED:
        one = data.get(name)
        text = one.get("content") if isinstance(one, Mapping) else one
        if isinstance(text, str) and text:
            found[name] = text
    return found


def from_gguf(file: Gguf, name: str) -> Words:
    """The words of a GGUF file. Raises SourceError."""
    found = tokenizer.from_gguf(file)
    keys = {"bos_token": "bos", "eos_token": "eos", "unk_token": "unknown", "pad_token": "padding"}
    ids = {which: file.metadata.get(f"tokenizer.ggml.{key}_token_id") for which, key in keys.items()}
    special = {which: found.backend.id_to_token(one) for which, one in ids.items() if type(one) is int}
    special = {which: text for which, text in special.items() if text is not None}
    template = ChatTemplate(found.chat_template, special, file.source) if found.chat_template else None
    ends = [file.metadata.get(f"tokenizer.ggml.{kind}_token_id") for kind in ("eos", "eot", "eom")]
    # llama.cpp's own default: a beginning is put before a text for SentencePiece and for Llama 3's split, and else not
    usual = file.metadata["tokenizer.ggml.model"] == "llama" or file.metadata.get("tokenizer.ggml.pre") == "llama-bpe"
    adds = file.value("tokenizer.ggml.add_bos_token", bool, usual)
    return made(name, found.backend, ends, template, ids_of([ids["bos_token"]]) if adds else ())


def made(name: str, backend: "Backend", ends: Iterable[object], template: ChatTemplate | None,
         before: tuple[int, ...] | None) -> Words:
    """Words with what follows from their parts. Raises SourceError."""
    added = backend.get_added_tokens_decoder()
    special = frozenset(token for token, one in added.items() if one.special)
    end = ids_of([*ends, *turn_end(backend, template, added.keys())])
    return Words(name=name, backend=backend, pieces=pieces.of(backend, name), template=template, before=before,
                 special=special, end=end)


def ids_of(given: Iterable[object]) -> tuple[int, ...]:
    """The ids in numbers and lists of numbers, each once, in order."""
    flat = [one for each in given for one in (each if isinstance(each, list) else [each])]
    return tuple(dict.fromkeys(one for one in flat if type(one) is int and one >= 0))


def turn_end(backend: "Backend", template: ChatTemplate | None, added: Iterable[int]) -> tuple[int, ...]:
    """The token that the template puts right after what the assistant said: a turn's end, whatever the other files say."""
    if template is None:
        return ()
    try:
        text = template.render([{"role": "user", "content": "?"}, {"role": "assistant", "content": PROBE}],
                               add_generation_prompt=False)
    except InputError:
        return ()
    after = text.rpartition(PROBE)[2].lstrip()
    ids = backend.encode(after, add_special_tokens=False).ids if PROBE in text else []
    return tuple(ids[:1]) if ids and ids[0] in set(added) else ()
