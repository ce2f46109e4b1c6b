"""The load model: token conservation, Little's law, queues, and what engines do with prompts."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pycore import catalog
from pycore.nouns import Parallel
from pycore.roofline.load import Requests, burst_seconds, pace, prompt_seconds, queued, waiting, wave
from pycore.roofline.prepare import prepare
from pycore.roofline.step import step_seconds


def ready(model="llama-3.1-8b", gpu="h100", engine="vllm"):
    kept = catalog.kv_format("auto")
    return prepare(catalog.model(model), catalog.weight_format("bf16"), kept, kept, Parallel(),
                   catalog.accelerator(gpu),
                   engine)


LOADS = st.builds(Requests, sequences=st.integers(1, 600), prompt=st.integers(1, 40_000), output=st.integers(1, 4000),
                  budget=st.sampled_from([512, 2048, 8192, 16_384]), style=st.sampled_from(["mixed", "apart",
                                                                                            "static"]))


@settings(max_examples=150, deadline=None)
@given(load=LOADS)
def test_littles_law_closes(load):
    """Requests in flight = rate x time in the system, whatever the engine does with prompts."""
    found = pace(ready(), load)
    answered = load.output - 1 if load.style == "static" else load.output  # its first token ends the prompt
    assert found.requests_per_s * (found.ttft + answered * found.tpot) == pytest.approx(load.sequences, rel=1e-9)
    assert found.alone <= found.ttft * (1 + 1e-9)
    assert found.ttft <= found.ttft_burst * (1 + 1e-9)
    assert found.tpot >= found.decode * (1 - 1e-12)


@settings(max_examples=100, deadline=None)
@given(load=LOADS.filter(lambda load: load.style == "apart"))
def test_a_cycle_holds_every_prompt_and_every_token_once(load):
    """SGLang: while one request goes through, each of the n in flight reads one prompt, and its own tokens are
    decoded."""
    found = pace(ready(), load)
    cycle = found.ttft + load.output * found.tpot
    least = load.sequences * found.alone + load.output * found.decode
    assert cycle == pytest.approx(least, rel=1e-9) or found.ttft > load.sequences * found.alone * 0.99


@settings(max_examples=100, deadline=None)
@given(load=LOADS.filter(lambda load: load.style == "mixed"))
def test_steps_carry_no_more_than_the_budget(load):
    found = pace(ready(), load)
    assert 0 <= found.carrying <= 1
    decoding = found.requests_per_s * load.output * found.tpot
    assert found.requests_per_s * load.prompt * found.tpot + decoding <= load.budget * 1.01 + load.prompt


@given(sequences=st.integers(1, 200), prompt=st.integers(10, 4000), output=st.integers(10, 2000))
def test_requests_in_step_take_as_long_as_their_prompts_and_tokens(sequences, prompt, output):
    """n equal requests at once where prompts are read apart: all done after n prompts and `output` decoding steps."""
    found = wave(ready(), Requests(sequences=sequences, prompt=prompt, output=output, budget=8192, style="apart"))
    assert found.ttft + output * found.tpot == pytest.approx(sequences * found.alone + output * found.decode, rel=1e-9)


def test_one_user_is_not_slowed_by_its_own_prompt():
    for style in ("mixed", "apart"):
        found = pace(ready(), Requests(sequences=1, prompt=4000, output=100, budget=8192, style=style))
        assert found.tpot == found.decode and found.carrying == 0


def test_little_law_closes_when_prompts_queue():
    """More prompt tokens than the budget can carry: those in flight either decode or wait, and the two add up."""
    load = Requests(sequences=256, prompt=8000, output=100, budget=2048)
    found = pace(ready(), load)
    decoding = found.requests_per_s * load.output * found.tpot
    assert decoding < load.sequences
    assert found.requests_per_s * (found.ttft + load.output * found.tpot) == pytest.approx(load.sequences, rel=1e-9)
    fed = found.requests_per_s * load.prompt * found.tpot
    assert fed <= load.budget


@pytest.mark.parametrize("prompt", [2049, 8192, 40_000])
def test_prompts_are_not_answered_faster_than_they_are_read(prompt):
    """Answers of one token to prompts longer than a step: the machine is a prompt reader, each waits for its turn."""
    step = ready()
    load = Requests(sequences=64, prompt=prompt, output=1, budget=2048)
    found = pace(step, load)
    assert found.requests_per_s <= 1.05 / prompt_seconds(step, load)  # full steps re-read the weights less often
    assert found.ttft >= 0.9 * 63 * prompt_seconds(step, load)


def test_one_sequence_alone_waits_for_nobody():
    load = Requests(sequences=1, prompt=1000, output=1000, budget=8192)
    step, found = ready(), pace(ready(), load)
    assert found.decode == step_seconds(step, 1, load.context)
    assert found.alone == step_seconds(step, 0, 0, ((1000, 0, 1),), 1)
    assert found.ttft_burst == pytest.approx(found.ttft)


@given(busy=st.floats(0, 0.99), service=st.floats(1e-6, 10))
def test_waiting_tends_to_pollaczek_khinchine(busy, service):
    """M/D/1: rho / (2 (1 - rho)) x service, for a large population."""
    crowd = 10**9
    assert waiting(busy, service, crowd) == pytest.approx(busy / (2 * (1 - busy)) * service, rel=1e-6, abs=1e-15)
    assert waiting(busy, service, 1) == 0.0


@given(busy=st.floats(0.001, 50), answer=st.floats(0.01, 100), own=st.floats(0.001, 10), service=st.floats(0.001, 10))
def test_a_closed_queue_solves_its_own_equation(busy, answer, own, service):
    first = queued(busy, answer, own, service)
    left = busy * answer / (answer + first)
    assert 0 <= left < 1 + 1e-12
    assert (first - own) * 2 * (1 - left) == pytest.approx(left * service, rel=1e-6, abs=1e-9 * (first + service))
    assert queued(0.001, 100.0, 1.0, 1.0) - 1.0 == pytest.approx(waiting(0.001, 1.0, 1 << 40), rel=0.02)
    assert queued(50.0, 1.0, 0.01, 0.01) == pytest.approx(49.0, rel=1e-3)  # Little's law: 50 times too many


def test_a_burst_waits_for_half_of_the_others():
    """n requests at once, served one after the other: the mean start-to-end is (n + 1) / 2 services."""
    assert burst_seconds(2.0, 2.0, 9) == sum(2.0 * (place + 1) for place in range(9)) / 9


def test_chunking_a_prompt_costs_more_than_reading_it_whole():
    """Each chunk re-reads what is cached and launches every kernel again."""
    step = ready()
    whole, chunked = (prompt_seconds(step, Requests(sequences=1, prompt=16_384, output=1, budget=budget))
                      for budget in (16_384, 1024))
    assert whole < chunked < 3 * whole


@settings(max_examples=100, deadline=None)
@given(style=st.sampled_from(["mixed", "apart"]), sequences=st.integers(1, 300), more=st.integers(1, 100),
       prompt=st.integers(1, 40_000), output=st.integers(1, 2000))
def test_more_users_never_make_each_one_faster(style, sequences, more, prompt, output):
    """Neither a token nor a whole answer, across the load at which prompts begin to queue."""
    step = ready()
    few, many = (pace(step, Requests(sequences=count, prompt=prompt, output=output, budget=8192, style=style))
                 for count in (sequences, sequences + more))
    assert many.tpot >= few.tpot * (1 - 1e-9)
    assert many.ttft + output * many.tpot >= (few.ttft + output * few.tpot) * (1 - 1e-9)


def test_transformers_waits_for_its_host():
    """0.607 ms a layer (Qwen3 speed page): 32 layers take 19.4 ms whatever the card, until the card is slower."""
    load = Requests(sequences=1, prompt=100, output=100, budget=100, style="static")
    for gpu in ("h100", "b200"):
        assert pace(ready(gpu=gpu, engine="transformers"), load).decode == pytest.approx(32 * 607e-6)
    assert pace(ready(gpu="rtx 3060", engine="transformers"), load).decode > 32 * 607e-6
