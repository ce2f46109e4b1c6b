"""Whatever the schedule: texts are those of `transformers`, token by token, and no block is lost."""

from itertools import count

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mini_infer_driving import POLICIES, drive, judge, text

from pycore.serving.limits import Limits
from pycore.serving.plan import Scheduled
from runtime.mini_infer import files
from runtime.mini_infer.cache import Cache
from runtime.mini_infer.engine import Engine, Generation
from runtime.mini_infer.step import batch, forward
from runtime.models import weights
from runtime.models.gguf import open_gguf
from runtime.models.load import load
from runtime.models.supply import SMOLLM2, fetch

MOST_PROMPT, MOST_OUTPUT = 70, 20


@st.composite
def arrivals(draw):
    """Up to 16 requests at once, or one by one; prompts are prefixes of three texts, often cut at a block's border."""
    lengths = st.one_of(st.integers(1, MOST_PROMPT), st.sampled_from([8, 15, 16, 17, 32, 33, 64]))
    found = []
    for name in range(draw(st.integers(1, 16))):
        found.append((draw(st.integers(0, 14)), Generation(
            id=str(name), prompt=text(draw(lengths), draw(st.integers(0, 2))), max_tokens=draw(st.integers(1, MOST_OUTPUT)),
            end=tuple(draw(st.sampled_from([(), (3,), tuple(range(0, 64, 4))]))), priority=draw(st.integers(0, 2)),
            deadline_ns=draw(st.none() | st.integers(0, 60)), predicted_output=draw(st.none() | st.integers(1, 14)))))
    return found


@st.composite
def engines(draw, model, policy):
    size, swap = draw(st.sampled_from([8, 16, 32])), draw(st.booleans())
    least = -(-(MOST_PROMPT + MOST_OUTPUT) // size)
    limits = Limits(max_sequences=draw(st.integers(1, 16)), max_batched_tokens=draw(st.integers(1, 90)),
                    chunk_budget=draw(st.none() | st.integers(1, 40)), max_model_length=128, reserve_known=draw(st.booleans()))
    clock = count()
    return Engine.of(model, blocks=least + draw(st.integers(0, 2 * least)), block_size=size, policy=policy, limits=limits,
                     prefix_caching=draw(st.booleans()), preemption="swap" if swap else "recompute",
                     host_blocks=draw(st.integers(1, 20)) if swap else 0, clock=lambda: next(clock))


def actions():
    return st.lists(st.tuples(st.integers(0, 40), st.sampled_from(["abort", "fork"]), st.integers(0, 15).map(str)), max_size=6)


@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=16, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_texts_are_those_of_transformers_under_any_schedule(policy, data, pairs):
    ours, theirs = pairs[data.draw(st.sampled_from(sorted(pairs)))]
    run = drive(data.draw(engines(ours, POLICIES[policy])), data.draw(arrivals()), data.draw(actions()))
    judge(run, theirs)
    for name, end in run.ends.items():
        asked_end = end.finish
        assert asked_end in ("stop", "length", "aborted", "refused")
        assert asked_end != "refused" or policy == "slo_aware shed"
        assert asked_end in ("aborted", "refused") or run.output(name)


def test_a_fixed_schedule_meets_every_kind_of_step(pairs):
    """What the random schedules are for does happen: hits, chunks, mixed steps, copies, swaps, recomputation."""
    seen = set()
    for preemption, host in (("recompute", 0), ("swap", 30)):
        ours, theirs = pairs["Qwen2"]
        engine = Engine.of(ours, blocks=14, block_size=8, preemption=preemption, host_blocks=host,
                           limits=Limits(max_sequences=8, max_batched_tokens=24, max_model_length=128, reserve_known=False))
        asked = [(at, Generation(id=str(at), prompt=text(18 + 5 * at, at % 2), max_tokens=20)) for at in range(6)]
        run = drive(engine, asked, [(4, "fork", "0"), (6, "fork", "1")])
        assert judge(run, theirs) >= 6 * 20
        for plan in run.plans:
            seen |= {name for name in ("copies", "swapped_out", "swapped_in", "preempted", "evicted") if getattr(plan, name)}
            seen |= {"mixed"} if plan.decode_count and plan.prefill_tokens else set()
            seen |= {"chunk"} if any(not part.emits for part in plan.parts) else set()
        seen |= {"hit"} if engine.scheduler.hit_tokens else set()
    assert seen == {"copies", "swapped_out", "swapped_in", "preempted", "evicted", "mixed", "chunk", "hit"}


@pytest.mark.parametrize("kind", ["Llama", "Qwen2", "Qwen3"])
def test_greedy_text_is_what_generate_of_transformers_says(kind, pairs):
    ours, theirs = pairs[kind]
    for length in (1, 7, 40):
        prompt = text(length, 1)
        given = torch.tensor([prompt])  # with its mask: otherwise tokens that equal the padding are hidden
        said = theirs.generate(given, attention_mask=torch.ones_like(given), do_sample=False, max_new_tokens=24,
                               eos_token_id=None, pad_token_id=0)
        run = drive(Engine.of(ours, blocks=12), [(0, Generation(id="a", prompt=prompt, max_tokens=24))])
        assert run.texts["a"] == said[0].tolist()
        assert run.ends["a"].finish == "length"


@pytest.mark.parametrize("cuts", [(40,), (1,) * 40, (16, 24), (39, 1), (13, 13, 14)], ids=str)
def test_logits_do_not_depend_on_how_a_prompt_is_cut(cuts, pairs):
    ours, theirs = pairs["Llama"]
    cache, start, prompt = Cache(ours.configuration, 6, 8), 0, text(40)
    table = (5, 0, 3, 1, 4)
    for size in cuts:
        item = Scheduled(sequence_id="a", start=start, count=size, decode=False, emits=True,
                         block_table=table[:-(-(start + size) // 8)])
        with torch.inference_mode():
            found = forward(ours, cache, batch([item], {"a": prompt}, 8))
        start += size
    with torch.no_grad():
        torch.testing.assert_close(found[0], theirs(torch.tensor([prompt])).logits[0, -1], atol=2e-5, rtol=1e-5)


def test_decodes_of_different_lengths_read_no_block_but_their_own(pairs):
    """Tables in one group are filled up to one length; what lies in other blocks, even NaN, reaches nobody."""
    ours = pairs["Llama"][0]
    cache, texts = Cache(ours.configuration, 8, 8), {"short": text(14, 1), "long": text(24, 2)}
    tables = {"short": (5, 2), "long": (4, 1, 6)}

    def logits(*names: str, start: dict) -> torch.Tensor:
        items = [Scheduled(sequence_id=name, start=start[name], count=len(texts[name]) - start[name], decode=False, emits=True,
                           block_table=tables[name]) for name in names]
        with torch.inference_mode():
            return forward(ours, cache, batch(items, texts, 8))

    logits("short", "long", start={"short": 0, "long": 0})
    last = {"short": 13, "long": 23}
    alone = torch.cat([logits(name, start=last) for name in ("short", "long")])
    for block in (0, 3, 7):
        cache.storage[:, :, block] = torch.nan
    torch.testing.assert_close(logits("short", "long", start=last), alone, atol=1e-5, rtol=1e-5)


def test_the_real_model_says_what_transformers_says():
    """SmolLM2's own weights in the classes of `transformers`: logits, and greedy text by chunks beside another request."""
    import transformers

    path = fetch(SMOLLM2, print)
    ours, one, tokenizer = files.load(path), load("smollm2-135m").model.configuration, load("smollm2-135m").tokenizer
    config = transformers.LlamaConfig(
        vocab_size=one.vocabulary, hidden_size=one.width, intermediate_size=one.feed_forward, num_hidden_layers=one.layers,
        num_attention_heads=one.heads, num_key_value_heads=one.kv_heads, max_position_embeddings=one.context,
        rms_norm_eps=one.epsilon, rope_parameters={"rope_theta": one.rope_base, "rope_type": "default"}, tie_word_embeddings=True)
    with torch.device("meta"):
        theirs = transformers.LlamaForCausalLM(config)
    theirs = theirs.to_empty(device="cpu").eval()
    theirs.model.rotary_emb = type(theirs.model.rotary_emb)(config)
    theirs.tie_weights()
    left = theirs.load_state_dict(dict(weights.gguf_tensors(open_gguf(path), one)), strict=False)
    assert left.missing_keys in ([], ["lm_head.weight"]) and not left.unexpected_keys
    prompt = tuple(tokenizer.encode("<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"))
    engine = Engine.of(ours, blocks=12, limits=Limits(chunk_budget=7, max_model_length=256))
    asked = [(0, Generation(id="a", prompt=prompt, max_tokens=20, end=tokenizer.end)),
             (1, Generation(id="b", prompt=tuple(tokenizer.encode("Once upon a time")), max_tokens=6))]
    run = drive(engine, asked)
    assert judge(run, theirs) >= 10
    assert tokenizer.decode(run.output("a")) == "The capital of France is Paris.<|im_end|>"
    assert run.ends["a"].finish == "stop" and run.ends["b"].finish == "length"
