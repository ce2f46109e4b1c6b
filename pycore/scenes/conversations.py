"""Scene (b): prompts that share prefixes, asked of the real scheduler; what of them is found again, and what is not.

Prompts are lines; a line that begins with > goes on where the one before it was answered, a line * asks for a second answer
to it. Tokens are words by default, so that a reader sees what is shared. Blocks are shared whole: what two prompts share
beyond the last full block, and the last token of a prompt (it must be computed: its logits give the next one), is computed
again.
"""

import functools
import re
from dataclasses import dataclass

from pycore.errors import InputError
from pycore.ledger import Term, fact, source_line
from pycore.scenes.film import Film, Frame
from pycore.scenes.script import stuck
from pycore.scenes.stage import Setting, Stage

TOKENIZERS = ("words", "characters", "bytes")
WORD = re.compile(r"\w+|[^\w\s]")
ON, AGAIN = ">", "*"
MOST_PROMPTS, MOST_TOKENS = 64, 512

PRESETS = {
    "system-prompt": """You are a careful cook . Answer in one short line . How long do I boil an egg ?
You are a careful cook . Answer in one short line . How long do I boil rice ?
You are a careful cook . Answer in one short line . What goes with an egg ?
You are a careful baker . Answer in one short line . What goes with bread ?""",
    "multi-turn": """I plan a walk by the sea for two . Where do we begin ?
> And where do we eat ?
> What if it rains ?
I plan a walk by the sea for four . Where do we begin ?""",
    "two-answers": """Tell me a story of the sea and the hill
*
Tell me a story of the sea and the road""",
    "few-shot": """good : happy . bad : sad . big : large . small :
good : happy . bad : sad . big : large . old :
good : happy . bad : sad . big : large . new :
good : happy . bad : sad . hot : warm . new :""",
    "crowded": """The quick red fox jumps over the tall old wall near the mill and runs home
The quick red fox jumps over the tall old wall near the sea and swims home
Another story begins here with quite different words that fill many blocks of the small pool
A third one pushes the first out as nothing is left that has not been used since
The quick red fox jumps over the tall old wall near the mill and runs home""",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reuse:
    """What one prompt found. Tokens.

    shared   of its prompt, the longest run from the start that an earlier text holds too
    hit      of those, found in the cache;  ragged: shared, but not to the end of a block, or the last token
    lost     shared in whole blocks, but evicted meanwhile (or not computed yet)
    """

    sequence: str
    prompt: int
    shared: int
    hit: int
    ragged: int
    lost: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """The film of the prompts, what each of them found, and all of them together."""

    film: Film
    reuse: tuple[Reuse, ...]
    asked_tokens: Term
    hit_tokens: Term

    @property
    def asked(self) -> int:
        return int(self.asked_tokens.value)

    @property
    def hit(self) -> int:
        return int(self.hit_tokens.value)


def cut(text: str, tokenizer: str) -> tuple[str, ...]:
    """A prompt as tokens: words and marks, characters, or bytes as two hexadecimal digits."""
    if tokenizer == "words":
        return tuple(WORD.findall(text))
    if tokenizer == "characters":
        return tuple(text.strip())
    return tuple(f"{byte:02x}" for byte in text.strip().encode("utf-8", "surrogatepass"))


def lines_of(text: str) -> tuple[str, ...]:
    """The prompts of a text. Raises InputError for none, too many, or a first one that goes on."""
    lines = tuple(line.strip() for line in text.splitlines() if line.strip())
    if not lines or len(lines) > MOST_PROMPTS:
        raise InputError("prompts", f"{len(lines):,} prompts", f"accepted: from 1 to {MOST_PROMPTS}, one a line")
    if lines[0].startswith((ON, AGAIN)):
        raise InputError("prompts", lines[0], "accepted: a line that begins with > or * has one before it")
    return lines


@functools.lru_cache(maxsize=8)
def conversation(text: str, tokenizer: str, answer: int, together: int, setting: Setting) -> Conversation:
    """Ask the prompts, `together` at a time, each group when the one before is done. Raises InputError."""
    stage, lines = Stage(setting, field="prompts"), lines_of(text)
    group = 0
    for number, line in enumerate(lines, 1):
        if line == AGAIN:
            again(stage, number)
            continue
        if group == together or line.startswith(ON):
            stage.finish()
            group = 0
        stage.add(f"P{number}", asked(stage, line, tokenizer, f"P{number - 1}"), answer)
        group += 1
    stage.finish()
    names = [name for name, line in zip(stage.said, lines, strict=True) if line != AGAIN]
    reuse = tuple(found(stage, name, names[:place]) for place, name in enumerate(names))
    return Conversation(film=stage.film(opens=opening(stage.frames), notes=stuck(stage)), reuse=reuse,
                        asked_tokens=counted("Prompt tokens asked", sum(one.prompt for one in reuse)),
                        hit_tokens=counted("Prompt tokens found in the cache", sum(one.hit for one in reuse)))


def counted(name: str, tokens: int) -> Term:
    """A count over the prompts of a scene."""
    return fact(name, tokens, "tokens", basis="derived", source="counted over the prompts of this scene",
                line=source_line(found))


def again(stage: Stage, number: int) -> None:
    """A second answer to the prompt before: a fork, once that has its first token. Raises InputError."""
    parent = f"P{number - 1}"
    sequence = stage.said[parent].sequence
    while not sequence.over and not sequence.generated and stage.step():
        pass
    if sequence.over:
        raise InputError("prompts", AGAIN, f"accepted where the answer before it is still under way; {parent} is over: "
                         "longer answers keep it there")
    stage.fork(parent, f"P{number}")


def asked(stage: Stage, line: str, tokenizer: str, before: str) -> tuple[str, ...]:
    """The tokens of a line, those of the conversation before it first. Raises InputError."""
    words = cut(line.removeprefix(ON), tokenizer)
    if line.startswith(ON):
        words = stage.vocabulary.text(stage.said[before].tokens) + words
    if not words or len(words) > MOST_TOKENS:
        raise InputError("prompts", line, f"accepted: from 1 to {MOST_TOKENS:,} tokens a prompt, not {len(words):,}")
    return words


def found(stage: Stage, name: str, earlier: list[str]) -> Reuse:
    """What a prompt shares with the texts before it, and how much of that the cache gave back."""
    said, size = stage.said[name], stage.setting.block_size
    prompt = said.tokens[:said.prompt]
    shared = max((common(prompt, stage.said[other].tokens) for other in earlier), default=0)
    whole = min(shared, said.prompt - 1) // size * size
    hit = said.sequence.cached_tokens
    return Reuse(sequence=name, prompt=said.prompt, shared=shared, hit=hit, ragged=shared - max(whole, hit),
                 lost=max(0, whole - hit))


def common(left: list[int], right: list[int]) -> int:
    """Length of the common beginning."""
    return next((at for at, (one, other) in enumerate(zip(left, right, strict=False)) if one != other),
                min(len(left), len(right)))


def opening(frames: list[Frame]) -> int:
    """The last frame that found something; the last of all where none did."""
    return next((frame.number for frame in reversed(frames) if "hit" in frame.tags), len(frames))
