"""Scene (b): hits are those of a closed form, the tree is that of a trie built by hand, splits are seen as they happen."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scenes_driving import whole

from pycore.errors import InputError
from pycore.scenes.conversations import PRESETS, TOKENIZERS, conversation, cut
from pycore.scenes.stage import Setting
from pycore.systems.mini_infer import Query, answer

WIDE = Setting(blocks=200, block_size=4, longest=400, step_tokens=64)
words = st.lists(st.sampled_from(("sun", "sea", "hill")), min_size=1, max_size=14)


def common(left, right) -> int:
    count = 0
    while count < min(len(left), len(right)) and left[count] == right[count]:
        count += 1
    return count


@settings(max_examples=60, deadline=None)
@given(st.lists(words, min_size=1, max_size=6), st.integers(1, 6), st.sampled_from((1, 2, 3, 4, 8)))
def test_hits_are_the_longest_common_prefix_in_whole_blocks(prompts, output, size):
    """Whatever was computed before: all of an earlier text but its last token; never the whole prompt."""
    setting = Setting(blocks=130, block_size=size, longest=130, step_tokens=64)
    found = conversation("\n".join(map(" ".join, prompts)), "words", output, 1, setting)
    computed = []
    for text, reuse in zip(found.film.texts, found.reuse, strict=True):
        longest = max((common(text.prompt, other) for other in computed), default=0)
        assert reuse.hit == min(longest, len(text.prompt) - 1) // size * size
        assert reuse.shared >= longest and reuse.hit + reuse.ragged + reuse.lost == reuse.shared
        computed.append((text.prompt + text.output)[:-1])
    for frame in found.film.frames:
        whole(frame, found.film)


@settings(max_examples=40, deadline=None)
@given(st.lists(words, min_size=1, max_size=6), st.integers(1, 3), st.integers(4, 40), st.sampled_from((1, 2, 4)))
def test_the_tree_holds_every_cached_block_once_and_forks_where_texts_do(prompts, together, blocks, size):
    setting = Setting(blocks=max(blocks, 20 // size + 1), block_size=size, longest=40, step_tokens=64)
    film = conversation("\n".join(map(" ".join, prompts)), "words", 3, together, setting).film
    for frame in film.frames:
        nodes = {node.id: node for node in frame.tree}
        assert sorted(block for node in frame.tree for block in node.blocks) == [
            block.block for block in frame.blocks if block.key]
        seen, paths = set(), set()
        for node in frame.tree:
            assert node.parent is None or node.parent in seen, "a child before its parent"
            seen.add(node.id)
            assert node.children == sum(other.parent == node.id for other in frame.tree) != 1, "a run is cut in two"
            above = node.parent
            path = node.tokens
            while above is not None:
                path, above = nodes[above].tokens + path, nodes[above].parent
            assert path not in paths and len(path) % size == 0
            paths.add(path)
        texts = {(text.prompt + text.output)[:len(path)] for path in paths for text in film.texts}
        assert paths <= texts, "the tree holds what nobody said"


def test_a_longer_run_is_split_where_a_prompt_leaves_it():
    film = conversation("a b c d e f g h i j k l\na b c d e f g h x y z w v", "words", 2, 1, WIDE).film
    split = next(frame for frame in film.frames if any(node.mark == "split" for node in frame.tree))
    upper = next(node for node in split.tree if node.mark == "split")
    assert " ".join(upper.tokens) == "a b c d e f g h" and upper.children == 2 and "hit" in split.tags
    assert {" ".join(node.tokens) for node in split.tree if node.parent == upper.id} == {"i j k l", "x y z w"}


def test_a_prompt_said_again_hits_all_but_its_last_block_and_computes_the_rest():
    first, second = conversation("a b c d e f g h\na b c d e f g h", "words", 1, 1, WIDE).reuse
    assert (first.hit, second.hit, second.ragged, second.lost) == (0, 4, 4, 0)


def test_evicted_prefixes_are_lost_and_said_to_be():
    found = answer(Query(scene="radix", conversation="crowded", blocks=10))
    last = found.conversation.reuse[-1]
    assert last.lost == 12 and last.hit == 0
    assert any(frame.evicted for frame in found.film.frames)


def test_a_second_answer_copies_what_it_writes():
    found = answer(Query(scene="radix", conversation="two-answers"))
    assert any("copy" in frame.tags for frame in found.film.frames) and len(found.conversation.reuse) == 2
    first, second = found.film.texts[:2]
    assert first.prompt == second.prompt and first.output != second.output


def test_a_turn_goes_on_where_the_one_before_it_was_answered():
    film = conversation("a b\n> c d\n> e", "words", 3, 1, WIDE).film
    one, two, three = film.texts
    assert two.prompt == one.prompt + one.output + ("c", "d") and three.prompt == two.prompt + two.output + ("e",)


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("tokenizer", TOKENIZERS)
def test_every_preset_finds_something_again_and_every_law_holds(name, tokenizer):
    found = answer(Query(scene="radix", conversation=name, tokenizer=tokenizer, blocks=200, longest=600, step_tokens=512))
    assert found.conversation.hit > 0 and found.film.first_broken() is None
    assert not [text for text in found.film.texts if text.status != "finished"]


def test_without_the_cache_nothing_is_found():
    found = answer(Query(scene="radix", prefix_cache=False))
    assert found.conversation.hit == 0 and not any(frame.tree for frame in found.film.frames)


@pytest.mark.parametrize(("text", "says"), [
    ("> a", "before it"), ("*", "before it"), ("\n".join("ab" for _ in range(65)), "65 prompts"),
    ("a " * 600, "512"), ("a\n>", ""), (">\n", "before it")])
def test_prompts_that_are_none_are_refused(text, says):
    if not says:
        assert answer(Query(scene="radix", prompts=text)).count
        return
    with pytest.raises(InputError) as fault:
        answer(Query(scene="radix", prompts=text))
    assert fault.value.field == "prompts" and says in str(fault.value)


def test_a_second_answer_needs_the_first_to_be_under_way():
    with pytest.raises(InputError, match="under way"):
        answer(Query(scene="radix", prompts="a b\n*", answer_tokens=1))


def test_hostile_text_is_text():
    found = answer(Query(scene="radix", prompts="<script>alert(1)</script> \u202e\x1b[31m {{ 7*7 }}\n<script>"))
    assert "<" in found.film.texts[0].prompt and found.film.first_broken() is None


def test_how_prompts_are_cut():
    assert cut("It's 9 o'clock.", "words") == ("It", "'", "s", "9", "o", "'", "clock", ".")
    assert cut("é!", "characters") == ("é", "!") and cut("é", "bytes") == ("c3", "a9")
