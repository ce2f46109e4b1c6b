"""The simulator against real engine runs: two cards, one model of the engine, nothing fitted to the runs.

Oracle: vLLM 0.19.0's own log of 300 requests on each card (casys-kaist/LLMServingSim, MIT), in data/serving-profiles/.
"""

import functools
import subprocess
import sys
from pathlib import Path

import pytest

from pycore import facts
from pycore.simulation.costs.profile import DATASET
from pycore.simulation.costs.work import StepWork
from pycore.simulation.golden import block_key, golden_runs, golden_setup, golden_traffic, predicted_pool, shared_prefixes
from pycore.simulation.run import run
from pycore.simulation.selfcheck import selfcheck
from pycore.simulation.validation import TARGET_PERCENT, error_percent, state_at, state_differences, validate, whole_figures

ROOT = Path(__file__).resolve().parents[3]
RUNS = {one.accelerator: one for one in golden_runs()}
GEFORCE, PRO = "nvidia-rtx-4090", "nvidia-rtx-pro-6000-blackwell"


@functools.cache
def simulated(card, shared=True, **changes):
    return run(golden_setup(RUNS[card], **changes), golden_traffic(RUNS[card], shared=shared))


@functools.cache
def errors(card, shared=True, **changes):
    return {figure.name: figure.error.value for figure in validate(RUNS[card], simulated(card, shared, **changes)).figures}


def test_both_runs_are_reproduced_within_five_percent(capsys):
    lines = [f"{'':34}{'engine':>10}{'simulated':>12}{'error':>9}"]
    for card in RUNS:
        validation = validate(RUNS[card], simulated(card))
        for figure in validation.figures:
            lines.append(f"{card.removeprefix('nvidia-'):24}{figure.name:10}{figure.reported.value:10.4g}"
                         f"{figure.simulated.value:12.4g}{figure.error.value:+8.2f} %")
        assert len(validation.figures) == 4 and validation.passes, lines
    with capsys.disabled():
        print("\n" + "\n".join(lines))


def test_the_reported_figures_are_the_published_ones():
    """NOTES of the runs: makespan, mean TTFT, mean TPOT."""
    for card, expected in ((GEFORCE, (183.57, 65.4566, 0.03245)), (PRO, (65.93, 7.097, 0.03246))):
        makespan, ttft, _, tpot = (term.value for term in whole_figures(RUNS[card].requests))
        assert (makespan, ttft, tpot) == pytest.approx(expected, rel=5e-4)


def test_each_request_ends_when_it_did(capsys):
    for card in RUNS:
        found = sorted(abs(error_percent.plain(ours, real)) for _, real, ours in validate(RUNS[card], simulated(card)).end_to_end)
        with capsys.disabled():
            print(f"{card}: end to end of a request, absolute error: median {found[150]:.1f} %, p90 {found[270]:.1f} %")
        assert found[150] < 3 and found[270] < 6


def test_the_run_has_the_shape_of_the_real_one_second_by_second(capsys):
    for card, real in RUNS.items():
        apart = state_differences(real, simulated(card))
        with capsys.disabled():
            print(f"{card}: apart by {apart.running:.1f} of {apart.most_running} running, {apart.waiting:.1f} of "
                  f"{apart.most_waiting} waiting, KV {apart.kv_points if apart.kv_points is None else round(apart.kv_points, 1)} points")
        assert apart.running < 0.05 * apart.most_running and apart.waiting < 0.02 * apart.most_waiting
        assert apart.kv_points is None or apart.kv_points < 3
    assert RUNS[PRO].seconds[0].kv_percent is None  # never logged: zeros are no measurement
    assert state_at(simulated(GEFORCE), 10_000.0).running == 0


def test_b25_a_pool_sized_naively_ends_an_eighth_too_early():
    """b25 (LLMServingSim#59): 24 GiB x 0.9 - weights = 54,400 tokens; the engine has 41,408."""
    naive, own = errors(GEFORCE, blocks=54_400 // 16 + 1), errors(GEFORCE)
    assert -15 < naive["Makespan"] < -11 and naive["Mean TTFT"] < -15
    assert abs(own["Makespan"]) < 1
    assert RUNS[GEFORCE].kv_blocks * 16 == 41_408


def test_the_pool_that_infersize_predicts_holds_the_engines_own():
    term = predicted_pool(RUNS[GEFORCE])
    assert term.low <= RUNS[GEFORCE].kv_blocks <= term.high
    assert abs(error_percent.plain(term.value, RUNS[GEFORCE].kv_blocks)) < 8
    # the pool alone decides much here: what its error does to the run is known, not hidden
    assert -6 < errors(GEFORCE, blocks=int(term.value))["Makespan"] < -2


def test_without_uneven_contexts_the_second_card_is_missed():
    """The crude simulator's fault: attention timed as if all contexts were alike."""
    assert errors(PRO, unevenness=0.0)["Mean TTFT"] < -TARGET_PERCENT
    assert max(map(abs, errors(GEFORCE, unevenness=0.0).values())) < TARGET_PERCENT  # few sequences: hardly seen there


def test_one_share_for_both_cards_would_do_too():
    """So the two passes do not hang on a number per card."""
    shares = [0.0224, 0.0543]
    assert max(abs(value) for card in RUNS for value in errors(card, unevenness=sum(shares) / 2).values()) < TARGET_PERCENT


def test_what_asynchronous_scheduling_changes():
    for card in RUNS:
        assert max(map(abs, errors(card, steps_in_flight=1).values())) < TARGET_PERCENT


def test_shared_prompts_are_inferred_and_what_they_are_worth(capsys):
    """Without them one card stays within the target and the other misses it by a hair: stated, not hidden."""
    for card in RUNS:
        found = errors(card, shared=False)
        with capsys.disabled():
            print(f"{card}, no shared prompts: " + ", ".join(f"{name} {value:+.1f} %" for name, value in found.items()))
        assert max(map(abs, found.values())) < TARGET_PERCENT + 1


def test_the_assignment_adds_up_to_the_logged_hits_second_by_second():
    lengths = [one.prompt_tokens for one in sorted(RUNS[PRO].requests, key=lambda one: int(one.id))]
    sums = [sum(lengths[:count]) for count in range(len(lengths) + 1)]
    rows = [(int(row["hit_tokens"]), int(row["prompt_tokens"])) for row in facts.table("prefix_hits", DATASET)]
    for (hits_before, asked_before), (hits, asked) in zip(rows, rows[1:], strict=False):
        first, last = sums.index(asked_before), sums.index(asked)  # the log's sums are the prompts' running sums
        given = sum(16 * blocks for child, (_, blocks) in shared_prefixes().items() if first <= int(child) < last)
        assert given == hits - hits_before
    assert all(int(parent) < int(child) for child, (parent, _) in shared_prefixes().items())
    assert rows[-1][1] == sum(lengths)


def test_the_scheduler_finds_what_prompts_share():
    """On the card whose pool never fills, hits are those of the log."""
    hits = sum(one.cached_tokens for one in simulated(PRO).requests)
    assert hits == int(facts.table("prefix_hits", DATASET)[-1]["hit_tokens"]) == 19_520


def test_only_shared_blocks_have_shared_keys():
    child, (parent, blocks) = next(iter(shared_prefixes().items()))
    assert block_key(child, blocks - 1, shared_prefixes()) == block_key(parent, blocks - 1, shared_prefixes())
    assert block_key(child, blocks, shared_prefixes()) != block_key(parent, blocks, shared_prefixes())


def test_no_step_leaves_the_measured_shapes_far_behind():
    for card in RUNS:
        cost = golden_setup(RUNS[card]).engines[0].cost
        longest = max(one.prompt_tokens + one.output_tokens for one in RUNS[card].requests)
        assert cost.limits_passed(longest, max(step.running for step in simulated(card).servers[0].steps), 2048) == ()
        assert cost.step_ns(StepWork(1, 100, 100)) > 5_000_000


def test_every_replay_checks_itself():
    for card in RUNS:
        assert all(check.holds for check in selfcheck(simulated(card)))


def test_the_same_run_in_any_process():
    code = ("import hashlib; from pycore.simulation.golden import *; from pycore.simulation.run import run; one = golden_runs()[0]; "
            "print(hashlib.sha256(repr(run(golden_setup(one), golden_traffic(one))).encode()).hexdigest())")
    digests = {subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True,
                              env={"PYTHONHASHSEED": seed}).stdout for seed in ("1", "77")}
    assert len(digests) == 1 and len(next(iter(digests))) == 65
