"""The load model: token conservation, Little's law, queues, and what engines do with prompts."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pycore import catalog
from pycore.nouns import Parallel
from pycore.roofline.load import Requests, burst_seconds, pace, prompt_seconds, ride, waiting
from pycore.roofline.prepare import prepare
from pycore.roofline.step import step_seconds


def ready(model="llama-3.1-8b", gpu="h100", engine="vllm"):
    kept = catalog.kv_format("auto")
    return prepare(catalog.model(model), catalog.weight_format("bf16"), kept, kept, Parallel(), catalog.accelerator(gpu),
                   engine)


LOADS = st.builds(Requests, sequences=st.integers(1, 600), prompt=st.integers(1, 40_000), output=st.integers(1, 4000),
                  budget=st.sampled_from([512, 2048, 8192, 16_384]), style=st.sampled_from(["mixed", "apart", "static"]))


@settings(max_examples=150, deadline=None)
@given(load=LOADS)
def test_prompt_tokens_that_steps_carry_are_those_that_requests_bring(load):
    """Chunked prefill in steady state: decoding x prompt / output prompt tokens a step, while the budget allows."""
    decoding, _, _, carrying = ride(ready(), load)
    due = decoding * load.prompt / load.output
    chunk = -(-load.prompt // load.chunks)
    assert 0 < carrying <= 1
    if load.chunks == 1 and decoding == load.together:
        assert carrying * chunk * max(1.0, due / load.prompt) == pytest.approx(due, rel=1e-9)
    assert decoding <= load.together


@settings(max_examples=100, deadline=None)
@given(load=LOADS)
def test_littles_law_bounds_the_rate(load):
    """Requests in flight = rate x time in the system, so the rate is at most sequences / (output x pace)."""
    found = pace(ready(), load)
    assert found.requests_per_s * load.output * found.tpot <= load.sequences * (1 + 1e-9) or load.style == "static"
    assert found.tpot >= found.decode * (1 - 1e-12) or load.style == "mixed"
    assert found.alone <= found.ttft * (1 + 1e-9)
    assert found.ttft <= found.ttft_burst * (1 + 1e-9)


def test_little_law_closes_when_prompts_queue():
    """More prompt tokens than the budget can carry: those in flight either decode or wait, and the two add up."""
    load = Requests(sequences=256, prompt=8000, output=100, budget=2048)
    found = pace(ready(), load)
    decoding = found.requests_per_s * load.output * found.tpot
    assert decoding < load.sequences
    assert found.requests_per_s * (found.ttft + load.output * found.tpot) == pytest.approx(load.sequences, rel=1e-9)
    fed = found.requests_per_s * load.prompt * found.tpot
    assert fed <= load.budget


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
       prompt=st.integers(1, 4000), output=st.integers(50, 2000))
def test_more_users_never_make_each_one_faster(style, sequences, more, prompt, output):
    step = ready()
    few, many = (pace(step, Requests(sequences=count, prompt=prompt, output=output, budget=8192, style=style))
                 for count in (sequences, sequences + more))
    assert many.tpot >= few.tpot * (1 - 1e-9)


def test_transformers_waits_for_its_host():
    """0.607 ms a layer (Qwen3 speed page): 32 layers take 19.4 ms whatever the card, until the card is slower."""
    load = Requests(sequences=1, prompt=100, output=100, budget=100, style="static")
    for gpu in ("h100", "b200"):
        assert pace(ready(gpu=gpu, engine="transformers"), load).decode == pytest.approx(32 * 607e-6)
    assert pace(ready(gpu="rtx 3060", engine="transformers"), load).decode > 32 * 607e-6
