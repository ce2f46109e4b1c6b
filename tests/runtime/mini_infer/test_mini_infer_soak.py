"""The soak itself: some of it holds, and each kind of fault that it looks for is found when it is there."""

import json
import logging
import re
import socket
import threading
import time
from collections import OrderedDict
from dataclasses import replace
from random import Random

import pytest
import torch
import transformers
from starlette.responses import JSONResponse

from pycore.cli import errors
from pycore.cli.mini_infer import mini_infer
from pycore.cli.mini_infer import soak as command
from pycore.errors import InputError
from pycore.serving.blocks import BlockPool
from runtime.mini_infer import acceptance, make_model, worker
from runtime.mini_infer.cache import Cache
from runtime.mini_infer.engine import Engine
from runtime.mini_infer.projections import Eight, widest_code
from runtime.mini_infer.sampling import Sampler
from runtime.mini_infer.server.application import Endpoints
from runtime.mini_infer.server.sending import EventStream
from runtime.mini_infer.service import Service
from runtime.mini_infer.soak import MUST, Bounds, soak
from runtime.mini_infer.soaking import asks, oracle, stints, watch
from runtime.mini_infer.soaking.manners import PLAIN
from runtime.mini_infer.soaking.oracle import Known, known
from runtime.mini_infer.soaking.stints import EIGHT, FLOAT, KINDS, Judged, numbers_in, numbers_of, settings
from runtime.mini_infer.soaking.watch import Memory
from runtime.mini_infer.source import open_source
from runtime.mini_infer.speculation import Speculation

QUICK = Bounds(deadline_s=3.0, settle_s=1.0, stints=1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("soak") / "tiny"
    make_model.make(place, make_model.sizes("qwen3", layers=2, width=64, heads=4, kv_heads=2, context=512))
    return place


@pytest.fixture(scope="module")
def source(folder):
    return open_source(str(folder), device="cpu")


@pytest.fixture(scope="module")
def prompts(source):
    return known(source, lambda text: None)


@pytest.fixture(scope="module")
def twin(source):
    return stints.in_eight_bits(source, lambda text: None)


@pytest.fixture(scope="module")
def once(source, twin, prompts):
    """Answers in each kind of numbers, once for all tests."""
    found = {(False, "auto"): prompts}

    def answers(asked, say, kv="auto"):
        eight = isinstance(asked.model.head, Eight)
        if (eight, kv) not in found:
            found[eight, kv] = known(twin if eight else source, say, kv)
        return found[eight, kv]

    return answers


@pytest.fixture
def answered(once, monkeypatch):
    monkeypatch.setattr(stints, "known", once)


@pytest.fixture
def brief(source, answered):
    """A soak of some seconds."""
    return lambda seconds=1.5, bounds=QUICK, **more: soak(source, seconds=seconds, bounds=bounds, **more)


def test_the_known_answers_are_those_of_transformers(folder, prompts):
    """Greedy text of another implementation, for each prompt as far as it is known."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    words = transformers.AutoTokenizer.from_pretrained(folder)
    assert len(prompts) >= 20 and any(one.chat for one in prompts) and any(len(one.prompt) > 80 for one in prompts)
    for one in [one for one in prompts if one.manner == PLAIN][::4]:
        ids = words(one.said, return_tensors="pt").input_ids if not one.chat else words.apply_chat_template(
            [{"role": role, "content": content} for role, content in one.said], add_generation_prompt=True, return_tensors="pt",
            return_dict=True).input_ids
        assert tuple(ids[0].tolist()) == one.prompt and one.manner == PLAIN
        found = model.generate(ids, max_new_tokens=len(one.tokens), do_sample=False, eos_token_id=None, pad_token_id=0)
        assert tuple(found[0, len(one.prompt):].tolist()) == one.tokens


def test_a_soak_of_every_setting_holds(brief, monkeypatch):
    """Each setting has its turn, and everything that is looked for happens."""
    monkeypatch.setattr("runtime.mini_infer.soak.SAYS_EVERY_S", 0.5)
    said = []
    found = brief(16.0, Bounds(), say=said.append, concurrency=12, seed=3)
    assert found.holds, found.as_dict()
    assert found.stints == len(KINDS) and all(found.counts[name] > 0 for name in MUST) and found.counts["greedy texts"] > 50
    assert found.left_out == (() if widest_code() else (EIGHT,))
    in_each = {name: count for name, count in found.counts.items() if name.startswith("greedy texts in")}
    assert len(in_each) == 5 - len(found.left_out) and sum(in_each.values()) == found.counts["greedy texts"]
    assert 0 < found.health["median_s"] <= found.health["p99_s"] <= found.health["largest_s"] < 5.0
    assert found.memory["first_bytes"] > 1 << 20 and found.memory["growth_bytes"] <= found.memory["accepted_bytes"]
    assert any(re.match(r"\d+ of 16 s: \d+ requests", line) for line in said)


def test_a_block_that_is_never_given_back_is_found(brief, monkeypatch):
    real = BlockPool.release
    monkeypatch.setattr(BlockPool, "release", lambda self, table: real(self, tuple(table)[1:]) if Random(len(self.queue)).random() < 0.2
                        else real(self, table))
    found = brief()
    assert not found.holds and "leak" in found.kinds, found.kinds
    assert any("block" in fault.words for fault in found.faults if fault.kind == "leak")


def test_a_text_that_is_remembered_for_ever_is_found(brief, monkeypatch):
    kept, real = [], worker.Worker.enter
    monkeypatch.setattr(worker.Worker, "enter", lambda self, answer: (kept.append(answer), real(self, answer))[1])
    found = brief()
    words = [fault.words for fault in found.faults if fault.kind == "leak"]
    assert any("remembers" in one and "Answer" in one for one in words), found.faults
    kept.clear()


def test_a_thread_and_a_socket_that_are_left_are_found(brief, monkeypatch):
    over, left, real = threading.Event(), [], Service.start

    def start(self):
        threading.Thread(target=over.wait, name="forgotten", daemon=True).start()
        left.append(socket.socket())
        real(self)

    monkeypatch.setattr(Service, "start", start)
    try:
        found = brief(1.0)
    finally:
        over.set()
        for one in left:
            one.close()
    words = " ".join(fault.words for fault in found.faults)
    assert "threads are left" in words and "forgotten" in words and "sockets are left" in words


def test_a_wrong_token_is_found(brief, monkeypatch):
    """One step in forty, wherever it falls."""
    real, count = Engine._chosen, [0]

    def chosen(self, names, logits, guesses):
        count[0] += 1
        if count[0] % 40 == 0:
            logits = logits.flip(-1)
        return real(self, names, logits, guesses)

    monkeypatch.setattr(Engine, "_chosen", chosen)
    found = brief()
    assert set(found.kinds) == {"wrong output"}, [fault for fault in found.faults if fault.kind != "wrong output"] or found.kinds
    assert any("alone it is" in fault.words and fault.settings.startswith("stint") for fault in found.faults)


def test_a_text_that_is_not_the_models_is_found(brief, monkeypatch):
    """A text has a character more than the model said."""
    real = worker.Worker._tell

    def tell(self, output, now):
        stream = self._samples[output.id].stream
        if output.choice is not None and stream.count == 2 and stream.parts:
            stream.parts[0] += "!"
        real(self, output, now)

    monkeypatch.setattr(worker.Worker, "_tell", tell)
    assert "wrong output" in brief(1.0).kinds


def test_an_answer_that_never_ends_is_found(brief, monkeypatch):
    """One text in thirty is forgotten by the engine's thread."""
    real, count = worker.Worker._over, [0]

    def over(self, name, piece, now):
        count[0] += 1
        if count[0] % 30:
            real(self, name, piece, now)

    monkeypatch.setattr(worker.Worker, "_over", over)
    found = brief(1.2)
    assert found.kinds["hang"] > 0 and any("no end within 3.0 s" in fault.words for fault in found.faults)


def test_a_loop_that_stands_still_is_found(brief, monkeypatch):
    real = Endpoints.scrape

    async def scrape(self, request):
        time.sleep(0.4)
        return await real(self, request)

    monkeypatch.setattr(Endpoints, "scrape", scrape)
    found = brief(1.5, replace(QUICK, deadline_s=60.0, settle_s=20.0, health_s=0.3))
    assert "health" in found.kinds and any("an answer took" in fault.words for fault in found.faults) and found.health["largest_s"] > 0.3


def test_a_stream_that_breaks_off_and_a_fault_in_a_log_are_found(brief, monkeypatch):
    real, count = EventStream._events, [0]

    async def events(self):
        async for event in real(self):
            count[0] += 1
            if count[0] % 100 == 0:
                logging.getLogger("mini_infer").error("something is wrong")
                return
            yield event

    monkeypatch.setattr(EventStream, "_events", events)
    found = brief(1.0)
    assert {"wrong answer", "logged"} <= found.kinds.keys()
    assert any("breaks off" in fault.words for fault in found.faults)


# Penalties, ends that may not come yet, few bits, a model that drafts ---------------------------------------------------


@pytest.fixture
def one_kind(brief, monkeypatch):
    """A soak of one server of a kind."""
    def run(kind, seconds=2.0, **more):
        monkeypatch.setattr(stints, "KINDS", (kind,))
        return brief(seconds, **more)

    return run


def test_penalised_answers_are_those_of_transformers(folder, prompts):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    judged = [one for one in prompts if one.manner.repetition_penalty != 1 and one.manner.sampling.presence_penalty == 0 and not one.manner.least]
    assert len(judged) >= 4
    for one in judged:
        found = model.generate(torch.tensor([one.prompt]), max_new_tokens=len(one.tokens), do_sample=False, eos_token_id=None, pad_token_id=0,
                               repetition_penalty=one.manner.repetition_penalty)
        assert tuple(found[0, len(one.prompt):].tolist()) == one.tokens


def test_an_end_that_may_not_come_yet_would_have_come(prompts):
    plain = {one.said: one.tokens for one in prompts if one.manner == PLAIN}
    held = [one for one in prompts if one.manner.least and one.manner.sampling == PLAIN.sampling]
    assert len(held) >= 4
    for one in held:
        (end,), least = one.manner.ends, one.manner.least
        assert end in plain[one.said][:least] and end not in one.tokens[:least]


@pytest.mark.parametrize("name", ["prompt", "said", "banned"])
def test_a_sampler_that_forgets_is_found(name, brief, prompts, monkeypatch):
    """A repetition penalty forgets the prompt, all penalties what was said, a ban its tokens."""
    real = Sampler.adjusted

    def adjusted(self, logits):
        other = self.supposed()
        setattr(other, name, type(getattr(self, name))())
        return real(other, logits)

    monkeypatch.setattr(Sampler, "adjusted", adjusted)
    found = brief(1.5)
    assert set(found.kinds) == {"wrong output"}, [fault for fault in found.faults if fault.kind != "wrong output"] or found.kinds
    said = {"prompt": "repetition_penalty", "said": "penalty", "banned": "min_tokens"}[name]
    assert all(said in fault.words for fault in found.faults), [fault.words for fault in found.faults if said not in fault.words]


def test_the_known_answers_do_not_come_from_the_sampler(source, prompts, monkeypatch):
    """Where an engine alone forgets its penalties, the token that was to come is known all the same."""
    monkeypatch.setattr(Sampler, "adjusted", lambda self, logits: logits)
    monkeypatch.setattr(oracle, "LEAST_TOKENS", 1)
    found = {(one.said, one.manner): one.tokens for one in known(source, lambda text: None)}
    cut = 0
    for one in prompts:
        other = found[one.said, one.manner] if one.manner.label else one.tokens
        assert one.tokens[:len(other)] == other
        cut += len(other) < len(one.tokens)
    assert cut > 10


@pytest.mark.parametrize("kv", stints.KV_FORMATS)
def test_scales_that_are_lost_in_a_swap_are_found(kv, one_kind, monkeypatch):
    """What comes back from the host has no scales (for fp8: not the first codes)."""
    real = Cache.move

    def move(self, plan):
        real(self, plan)
        for swap in plan.swapped_in:
            self.storage[:, :, list(swap.device_blocks), ..., :2] = 0

    monkeypatch.setattr(Cache, "move", move)
    monkeypatch.setattr(stints, "POLICIES", ("chunked",))
    found = one_kind(("swap", "", kv), 3.0, concurrency=24)
    assert set(found.kinds) == {"wrong output"}, (found.kinds, found.counts)
    assert f"numbers {kv}" in found.faults[0].settings


def test_a_guess_that_is_kept_unseen_is_found(one_kind, tmp_path, monkeypatch):
    """One guess of another model in twenty is kept, whatever the model itself says."""
    make_model.make(tmp_path / "other", make_model.sizes("qwen3", layers=1, width=32, heads=2, kv_heads=1, context=512), seed=7)
    other = open_source(str(tmp_path / "other"), device="cpu").model
    monkeypatch.setattr(stints.Stint, "speculation", lambda self, model, say: Speculation(tokens=4, draft=other))
    real, count = acceptance._kept, [0]

    def kept(sampler, guess, sound, best, rows):
        count[0] += bool(guess.tokens)
        if guess.tokens and count[0] % 20 == 0:
            best = [guess.tokens[0], *best[1:]]
        return real(sampler, guess, sound, best, rows)

    monkeypatch.setattr(acceptance, "_kept", kept)
    found = one_kind(("recompute", stints.MODEL, FLOAT))
    assert set(found.kinds) == {"wrong output"} and found.counts["accepted from a model"], (found.kinds, found.counts)


def test_a_neighbour_that_matters_in_8_bits_is_found(one_kind, twin, monkeypatch):
    """A row is divided by the largest number of the whole batch, not of its own."""
    if twin is None:
        assert widest_code() is None
        return
    monkeypatch.setattr(stints, "in_eight_bits", lambda source, say: twin)

    def call(self, x):
        largest = x.abs().max().clamp(min=1e-30)
        found = self._once(x / largest).mul_(largest)
        return found if self.bias is None else found.add_(self.bias)

    monkeypatch.setattr(Eight, "__call__", call)
    found = one_kind(("swap", "", EIGHT), 3.0)
    assert set(found.kinds) == {"wrong output"}, [fault for fault in found.faults if fault.kind != "wrong output"] or found.kinds


def test_a_model_that_says_too_little_clearly_in_few_bits_is_judged_without(source, answered, prompts, monkeypatch):
    said = []

    def answers(asked, say, kv="auto"):
        if kv == "int4":
            raise InputError("model", "x", "accepted: another")
        return prompts

    monkeypatch.setattr(stints, "known", answers)
    found = stints.answered(source, numbers_of(len(KINDS)), said.append)
    assert FLOAT in found and "fp8" in found and "int4" not in found and any(line.startswith("left out: ") for line in said)


def test_memory_that_grows_is_found_and_memory_that_does_not_is_not(monkeypatch):
    sizes = iter([])
    monkeypatch.setattr(watch, "memory_bytes", lambda: next(sizes))
    for rate, noise in ((0, 0), (0, 1 << 20), (1 << 20, 1 << 20)):
        dice, memory = Random(1), Memory()
        sizes = iter([int(rate * second + noise * dice.random()) + (1 << 28) for second in range(100)])
        for second in range(100):
            memory.take(float(second))
        drift = memory.drift()
        assert drift.seconds == 74 and abs(drift.bytes_per_s - rate) < 0.02 * (1 << 20)
        assert abs(drift.growth - 74 * rate) < 2 << 20
    assert Memory().drift() is None


def test_settings_have_room_for_one_longest_text_and_not_for_all(source, prompts):
    """A default run of ten minutes visits each kind, preempted either way."""
    seen, count = set(), Bounds().count(600)
    for number in range(count):
        judged = Judged(numbers=numbers_in(number), source=source, prompts=prompts[:number + 1])
        made, longest = settings(number, Random(number), judged), judged.longest
        assert longest <= made.kv_blocks * made.block_size < longest * 6 and made.checked() == made and made.max_model_length == longest
        seen.add((made.preemption, made.draft, made.numbers))
    assert seen == {(preemption, *kind) for preemption in ("recompute", "swap") for _, *kind in KINDS}
    assert count == 40 and numbers_of(count) == {FLOAT, EIGHT, *stints.KV_FORMATS} and numbers_of(1) == {FLOAT}


def test_the_requests_follow_from_the_seed_and_are_of_every_kind(prompts):
    one, two = ([asks.draw(Random(f"7/{number}"), prompts, 200) for number in range(300)] for _ in range(2))
    assert one == two
    assert {asked.way for asked in one} == {"whole", "stream", "leaves", "hangs up", "is gone", "half a body", "malformed", "look"}
    fields = OrderedDict.fromkeys(name for asked in one if isinstance(asked.body, dict) for name in asked.body)
    assert {"stream", "n", "stop", "logprobs", "top_logprobs", "seed", "temperature", "top_k", "echo", "messages", "prompt",
            "include_stop_str_in_output", "ignore_eos", "stream_options", "repetition_penalty", "min_tokens", "stop_token_ids"} <= fields.keys()


def test_stops_are_looked_for_in_the_whole_text(source):
    words = source.words
    ids = words.encode("one two three")
    one = Known(said="x", prompt=words.encode("x"), tokens=ids, logprobs=(0.0,) * len(ids), slack=0.0, words=words)
    assert one.expected(len(ids)) == one.expected(len(ids), stops=["four"])
    cut = one.expected(len(ids), stops=["three", "e two"])
    assert (cut.text, cut.finish) == ("on", "stop") and one.expected(len(ids), stops=["e two"], include=True).text == "one two"
    assert cut.tokens.start <= len(words.encode("one two")) and cut.tokens.stop == len(ids) + 1
    ended = replace(one, tokens=(*ids[:2], words.end[0], *ids[2:]))
    assert ended.expected(4).finish == "stop" and ended.expected(4).tokens == range(3, 4)
    assert ended.expected(4, ends=False).finish == "length" and ended.expected(4, also=[ids[1]]).tokens == range(2, 3)


# The command -----------------------------------------------------------------------------------------------------------


def call(capsys, *arguments):
    status = errors.run(mini_infer, ["soak", *(str(one) for one in arguments)], "mini-infer")
    return status, *capsys.readouterr()


def test_the_command_says_what_it_saw(folder, capsys):
    status, out, err = call(capsys, folder, "--minutes", 0.03, "--json", "--concurrency", 8)
    document = json.loads(out)
    assert document["kinds"] == {} and document["holds"] == (not document["never"]) and status == (not document["holds"])
    assert document["counts"]["requests"] > 10 and document["stints"] == len(KINDS) and document["concurrency"] == 8
    assert "prompts answered alone" in err


def test_the_command_exits_with_1_and_words_where_something_is_wrong(folder, answered, capsys, monkeypatch):
    async def health(self, request):
        return JSONResponse({"status": "poorly"}, status_code=503)

    monkeypatch.setattr(Endpoints, "health", health)
    status, out, err = call(capsys, folder, "--minutes", 0.02)
    assert status == 1 and "health: 503" in out and "poorly" in out and "It does not hold" in out and "Traceback" not in err
    assert "penalised texts" in out and "greedy texts in float" in out and ("left out" in out) == (widest_code() is None)


@pytest.mark.parametrize(("arguments", "said"), [(("--minutes", 0), "minutes"), (("--minutes", "nan"), "minutes"), (("--concurrency", 1), "concurrency"),
                                                 (("/no/where",), "/no/where"), (("--seed", -1), "seed")])
def test_bad_input_is_named(arguments, said, capsys):
    status, out, err = call(capsys, *arguments)
    assert status == 2 and said in err and not out and "Traceback" not in err


def test_help_says_what_the_list_of_commands_says():
    assert command.command.help.strip() == mini_infer.lines["soak"]
