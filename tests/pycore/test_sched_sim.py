"""sched-sim as a whole: every policy on the same requests, laws held, the same answer in another process."""

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pycore.errors import InputError, InvalidQuery, StudioError
from pycore.simulation.draws import factors
from pycore.simulation.records import token_times
from pycore.systems.sched_sim import SCHEDULERS, Query, answer, pools

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def everybody():
    return answer(Query(scheduler="chunked", against=",".join(SCHEDULERS), workload="chat", hardware="h100", limit=80))


def test_every_policy_serves_everybody_and_keeps_the_laws(everybody):
    assert [run.policy for run in everybody.runs][0] == "chunked" and {run.policy for run in everybody.runs} == set(SCHEDULERS)
    for run in everybody.runs:
        assert run.metrics.completed.value == 80 and all(check.holds for check in run.checks), run.policy
        tokens = {request.id: request.generated_tokens for request in run.result.requests}
        assert tokens == {request.id: request.generated_tokens for request in everybody.runs[0].result.requests}


def test_apart_is_another_machine(everybody):
    """Two pools: twice the devices, and KV on the link; a label alone would change nothing."""
    runs = {run.policy: run.result for run in everybody.runs}
    assert len(runs["disaggregated"].servers) == 2 and runs["disaggregated"].transfers
    assert not runs["chunked"].transfers and len(runs["chunked"].servers) == 1


def test_the_classic_first_paint():
    """A long prompt stalls everybody under FCFS; chunks of 512 tokens take the stall away."""
    longest = {}
    for run in answer(Query()).runs:
        times = [token_times(run.result, request) for request in run.result.requests]
        longest[run.policy] = max(later - sooner for row in times for sooner, later in zip(row, row[1:], strict=False))
    assert longest["fcfs"] > 10 * longest["chunked"]


def test_the_same_in_another_process():
    code = ("from pycore.systems.sched_sim import Query, answer\n"
            "a = answer(Query(workload='rag', limit=30, hardware='h100', against='cache-aware'))\n"
            "print([(r.result.makespan_ns, [q.finished_ns for q in r.result.requests]) for r in a.runs])")
    outs = {subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True,
                           env=os.environ | {"PYTHONHASHSEED": seed}).stdout for seed in ("1", "2")}
    assert len(outs) == 1


def test_a_rate_sweep_bends_and_draws_spread():
    found = answer(Query(sweep="rate", draws=4, workload="chat", limit=60, hardware="l40s"))
    assert len(found.sweep) == 18 and {policy for policy, _ in found.bends} == {"chunked", "fcfs"}
    assert len(found.draws) == 8 and len({draw.factor for draw in found.draws}) == 4


def test_factors_have_the_quantiles_asked_for():
    drawn = sorted(factors(4001, 0.8, 1.5, seed=3))
    assert math.isclose(drawn[400], 0.8, rel_tol=0.03) and math.isclose(drawn[3600], 1.5, rel_tol=0.03)
    with pytest.raises(InputError):
        factors(1, 0.0, 1.0, 1)


@pytest.mark.parametrize(("changes", "field"), [
    ({"against": "fcsf"}, "against"), ({"hardware": "l4os"}, "hardware"), ({"model": "lama"}, "model"),
    ({"workload": "poison rate=3"}, "workload"), ({"workload": "poisson rate=inf"}, "workload"),
    ({"prefill_share": "0:1", "scheduler": "disaggregated"}, "prefill_share"),
    ({"sweep": "chunk", "scheduler": "fcfs", "against": ""}, "sweep"), ({"cost": "custom", "custom_cost": "{"}, None),
    ({"cost": "tables", "hardware": "h100"}, "cost"), ({"model": "llama-3.1-70b"}, "hardware"),
    ({"trace": "a,b\n1,2\n"}, None), ({"preemption": "swap", "hardware": "m4 max"}, None)])
def test_bad_questions_name_the_field(changes, field):
    with pytest.raises(StudioError) as caught:
        answer(Query(**changes))
    error = caught.value.errors[0] if isinstance(caught.value, InvalidQuery) else caught.value
    assert str(error) and (field is None or error.field == field)


def test_pools():
    assert pools("1:2") == (1, 2)
    for text in ("", "1", "a:b", "1:65", "-1:1", "1:2:3", "٣:1"):
        with pytest.raises(InputError):
            pools(text)


def test_any_request_can_be_asked_about():
    from studios.sched_sim import view

    *_, page = view.steps(Query(request="17"))
    assert page.waits[0].id == "17" and len({wait.id for wait in page.waits}) == len(page.waits)
    with pytest.raises(StudioError) as caught:
        answer(Query(request="nobody"))
    assert caught.value.field == "request"


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_steps_that_fill_the_card_are_named_not_the_card(engine):
    """1,048,576 tokens a step compute with more than an H100 has; a model that is too large stays the card's fault."""
    with pytest.raises(InputError) as fault:
        answer(Query(hardware="h100", engine=engine, max_batched_tokens=1 << 20))
    assert fault.value.field == "max_batched_tokens" and "8,192" in fault.value.accepted
    with pytest.raises(InputError) as fault:
        answer(Query(hardware="rtx 4090", engine=engine, model="llama-3.1-70b", max_batched_tokens=4096))
    assert fault.value.field == "hardware"


def test_a_sweep_outlives_rates_that_the_workload_does_not_go_to():
    found = answer(Query(workload="poisson rate=8000 prompt=64 output=2 requests=20", against="", sweep="rate"))
    assert [one.at for one in found.sweep] == [2000, 4000, 6000, 8000, 10000]
    assert any("12,000, 16,000, 24,000, 32,000 requests/s" in note for note in found.notes)
    assert not any("Not swept" in note for note in answer(Query(workload="poisson rate=8 prompt=64 output=2 requests=20",
                                                                against="", sweep="rate")).notes)
