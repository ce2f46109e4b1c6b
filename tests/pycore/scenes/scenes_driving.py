"""Random scripts for scenes, and what every film must satisfy, told independently of the code that shoots it."""

from collections.abc import Sequence

from hypothesis import strategies as st

from pycore.scenes import script
from pycore.scenes.film import Film, Frame
from pycore.scenes.stage import POLICIES, Setting, Stage
from pycore.scenes.toy import MASK, mixed, next_token

NAMES = "ABCDEF"


def continued(prompt: Sequence[int], count: int, seed: int = 0) -> list[int]:
    """`count` tokens after a prompt, computed in one piece with no cache: what every schedule must give."""
    tokens, total, state, made = list(prompt), 0, 0, []
    position = 0
    while len(made) < count:
        while position < len(tokens):
            state = mixed(total, tokens[position], position)
            total = (total + state) & MASK
            position += 1
        made.append(next_token(state, seed))
        tokens.append(made[-1])
    return made


@st.composite
def scripts(draw) -> str:
    """A few requests that share prefixes, forks and aborts of those who are there, steps between them."""
    lines, added = [], {}
    for name in NAMES[:draw(st.integers(1, 5))]:
        prompt, output = draw(st.integers(1, 14)), draw(st.integers(1, 8))
        like = ""
        if added and draw(st.booleans()):
            other = draw(st.sampled_from(sorted(added)))
            like = f" like {other} {draw(st.integers(0, min(prompt, added[other])))}"
        lines.append(f"add {name} {prompt} +{output}{like} priority {draw(st.integers(0, 2))}")
        added[name] = prompt
        lines += [f"step {draw(st.integers(1, 4))}"] if draw(st.booleans()) else []
    return "\n".join(lines)


settings_of_stages = st.builds(
    Setting, blocks=st.integers(3, 14), block_size=st.sampled_from((1, 2, 3, 4, 8)), policy=st.sampled_from(sorted(POLICIES)),
    prefix_caching=st.booleans(), step_tokens=st.integers(2, 20), sequences=st.integers(1, 6), longest=st.just(40),
    preemption=st.just("recompute")) | st.builds(
    Setting, blocks=st.integers(3, 14), block_size=st.sampled_from((2, 4)), policy=st.sampled_from(sorted(POLICIES)),
    step_tokens=st.integers(2, 20), sequences=st.integers(1, 6), longest=st.just(40), preemption=st.just("swap"),
    host_blocks=st.integers(1, 10))


def staged(text: str, setting: Setting, acts=(), stage: Stage | None = None) -> Stage:
    """Run a script; `acts`: numbers that decide whom to fork or abort after each event, where that is possible."""
    stage, acts = stage or Stage(setting), list(acts)
    for event in script.parse(text):
        script.play(stage, event)
        under_way = sorted(stage.scheduler.sequences)
        if acts and under_way:
            act = acts.pop()
            name = under_way[act % len(under_way)]
            new = f"{name}.{len(stage.said)}"
            if act % 3 == 0:
                stage.abort(name)
            elif act % 3 == 1 and stage.scheduler.sequences[name].generated and len(new) <= 16:
                stage.fork(name, new)
    stage.finish()
    return stage


def right_texts(stage: Stage) -> bool:
    """Whether everybody said what the toy says in one piece, whatever the schedule was."""
    return all(said.tokens[said.prompt:] == expected(stage, name, said) for name, said in stage.said.items())


def expected(stage: Stage, name: str, said) -> list[int]:
    """The text of a request, of a fork from where its own tokens begin to differ from its parent's."""
    seed, parent = stage.toy.seeds.get(name, 0), name.rpartition(".")[0]
    output = said.tokens[said.prompt:]
    if not parent:
        return continued(said.tokens[:said.prompt], len(output), seed)
    for at in range(len(output) + 1):  # where it left its parent is not kept: any place will do, but one must
        begun = said.tokens[:said.prompt + at]
        if begun == stage.said[parent].tokens[:len(begun)] and output[at:] == continued(begun, len(output) - at, seed):
            return output
    return []


def whole(frame: Frame, film: Film) -> None:
    """What a frame must be in itself, counted anew from its tables."""
    holders: dict[int, list[str]] = {}
    for table in frame.tables:
        for block in table.blocks:
            holders.setdefault(block, []).append(table.sequence)
    assert [block.block for block in frame.blocks] == list(range(film.blocks))
    for block in frame.blocks:
        names = holders.get(block.block, [])
        assert sorted(block.holders) == sorted(names) and block.references == len(names)
        assert block.state == ("shared" if len(names) > 1 else "held" if names else "cached" if block.key else "blank")
        assert len(block.tokens) == block.filled <= film.block_size
        assert (block.block in frame.free) == (not names)
    assert len(set(frame.free)) == len(frame.free) == film.blocks - len(holders)
    assert frame.used == len(holders) and frame.cached == sum(block.state == "cached" for block in frame.blocks)
    assert frame.holds, [law for law in frame.invariants if not law.holds]


def slots(frame: Frame, size: int) -> set[tuple[int, int]]:
    """Every (block, place) that some running sequence has filled."""
    return {(table.blocks[at // size], at % size) for table in frame.tables for at in range(table.computed) if table.blocks}
