"""Step times: against whole steps profiled by others, against the roofline itself, against numpy, and by their laws."""

import csv
import json
import random
from itertools import accumulate
from pathlib import Path

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pycore import catalog
from pycore.errors import InputError, NotKnown
from pycore.nouns import Parallel
from pycore.roofline.prepare import prepare
from pycore.roofline.step import prompt_pairs, step_seconds
from pycore.simulation.costs.custom import read_cost
from pycore.simulation.costs.interpolate import grid, line, thinned
from pycore.simulation.costs.overhead import Overhead
from pycore.simulation.costs.profile import condense, packaged, read_csv, unevenness
from pycore.simulation.costs.roofline import RooflineCost
from pycore.simulation.costs.tables import TableCost, captured, largest_captured, tables_for
from pycore.simulation.costs.work import StepWork, decode_ends
from pycore.simulation.draws import Scaled

ROOT = Path(__file__).resolve().parents[3]
LLAMA = "meta-llama--llama-3.1-8b"
CARDS = ("nvidia-rtx-4090", "nvidia-rtx-pro-6000-blackwell")

works = st.builds(
    lambda contexts, chunks: StepWork(len(contexts), sum(contexts), max(contexts, default=0), tuple(chunks), len(chunks)),
    st.lists(st.integers(1, 8000), max_size=64), st.lists(st.tuples(st.integers(1, 2048), st.integers(0, 8000)), max_size=4),
).filter(lambda work: work.decoding or work.chunks)


def step_of(card="l40s", model="llama-3.1-8b", tensor=1):
    cache = catalog.kv_format("fp16")
    return prepare(catalog.model(model), catalog.weight_format("bf16"), cache, cache, Parallel(tensor=tensor),
                   catalog.accelerator(card), "vllm")


def tables_of(card):
    return tables_for(packaged(), card, LLAMA)


# ------------------------------------------------------------------------------------------------ roofline


@given(works)
def test_the_simulator_times_a_step_as_infersize_does(work):
    step = step_of()
    chunks = tuple((tokens, before, 1) for tokens, before in work.chunks)
    expected = step_seconds(step, work.decoding, work.cached, chunks, work.ended)
    assert RooflineCost(step).step_ns(work) == max(1, round(expected * 1e9))


def test_prefill_is_not_linear_in_length():
    """sched-sim 0.2.1 has no attention FLOPs: four times the prompt takes four times as long there."""
    cost = RooflineCost(step_of())
    times = [cost.step_ns(StepWork(0, 0, 0, ((tokens, 0),), 1)) for tokens in (8192, 16384, 32768)]
    assert times[2] - 2 * times[1] > 1.5 * (times[1] - 2 * times[0]) > 0
    assert prompt_pairs(32768, 0, None) == 32768 * 32769 // 2


@pytest.mark.parametrize("cost", [RooflineCost(step_of()), *(TableCost(tables_of(card)) for card in CARDS)])
def test_a_later_chunk_reads_the_cache_of_the_earlier_ones_again(cost):
    """sched-sim 0.2.1's chunked prefill never re-reads KV: there chunks cost the same wherever they lie."""
    times = [cost.step_ns(StepWork(0, 0, 0, ((512, before),), 1)) for before in (0, 2048, 8192)]
    assert times[0] < times[1] < times[2]
    whole = cost.step_ns(StepWork(0, 0, 0, ((2048, 0),), 1))
    assert sum(cost.step_ns(StepWork(0, 0, 0, ((512, before),), 1)) for before in range(0, 2048, 512)) > whole


@pytest.mark.parametrize("cost", [RooflineCost(step_of()), *(TableCost(tables_of(card)) for card in CARDS)])
def test_a_small_prefill_has_a_floor(cost):
    """b28: fixed time per step was missing elsewhere. One token costs no less than reading the weights once."""
    floor = 16.06e9 / 1.8e12  # bf16 weights over the largest bandwidth of these cards
    assert cost.step_ns(StepWork(0, 0, 0, ((1, 0),), 1)) > floor * 1e9


def test_tensor_parallel_is_faster_but_not_for_nothing():
    work = StepWork(64, 64 * 2000, 2000)
    one, four = (RooflineCost(step_of("h100", "llama-3.1-70b", tensor)).step_ns(work) for tensor in (2, 8))
    assert 1 < one / four < 4


def test_a_card_without_a_dense_rate_is_refused():
    with pytest.raises(NotKnown, match="dense rate"):
        RooflineCost(step_of("m2 ultra")._replace(timed_prompts=False))


# ---------------------------------------------------------------------------------------------- kernel tables


def profiled_steps():
    with open(ROOT / "data/validation/step_profile.csv", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("card", CARDS)
def test_whole_steps_are_those_that_the_full_profile_gives(card):
    """data/validation/step_profile.csv adds up the unthinned profile at measured places."""
    cost, count = TableCost(tables_of(card), captured_up_to=0), 0
    for row in profiled_steps():
        if row["accelerator"] == card:
            decoding, context, chunk = (int(row[name]) for name in ("decoding", "context", "chunk"))
            work = StepWork(decoding, decoding * context, context, ((chunk, 0),) if chunk else (), bool(chunk))
            assert cost.step_ns(work) == pytest.approx(float(row["seconds"]) * 1e9, rel=0.005)
            count += 1
    assert count >= 10


def test_captured_sizes_are_those_of_the_engine():
    sizes = [1, 2, 4, *range(8, 257, 8), *range(272, 513, 16)]
    for up_to in (256, 512):
        usable = [size for size in sizes if size <= up_to]
        for tokens in range(1, 1025):
            assert captured(tokens, up_to) == min((size for size in usable if size >= tokens), default=tokens)
    assert (largest_captured(256), largest_captured(128), largest_captured(1024)) == (512, 256, 512)
    assert captured(3, 0) == 3


@given(works)
def test_a_table_never_gets_cheaper_with_contexts(work):
    cost = TableCost(tables_of(CARDS[0]))
    longer = work._replace(cached=work.cached + 500 * work.decoding, longest=work.longest + 500)
    assert cost.step_ns(longer) >= 0.97 * cost.step_ns(work)  # measured lines are not quite monotonic


def test_uneven_contexts_cost_more_than_even_ones_by_the_measured_share():
    for card, share in zip(CARDS, (0.0224, 0.0543), strict=True):
        tables = tables_of(card)
        cost = TableCost(tables)
        even, longest = StepWork(64, 64 * 1024, 1024), StepWork(64, 64 * 1024, 4096)
        line = cost.decode_line(64)
        added = tables.layers * share * (line(4096) - line(1024)) * 1e3
        assert cost.step_ns(longest) - cost.step_ns(even) == pytest.approx(added, rel=0.005)


def test_the_share_of_unevenness_is_least_squares():
    rows = random.Random(3)
    shots = [(mean, mean + rows.uniform(1, 50), mean + rows.uniform(0, 9)) for mean in (rows.uniform(10, 90) for _ in range(40))]
    table = [{"t_mean_us": str(mean), "t_max_us": str(longest), "t_skew_us": str(mixed)} for mean, longest, mixed in shots]
    ours = unevenness(table)
    x = numpy.array([[longest - mean] for mean, longest, _ in shots])
    y = numpy.array([mixed - mean for mean, _, mixed in shots])
    assert ours == pytest.approx(numpy.linalg.lstsq(x, y, rcond=None)[0][0], rel=1e-12)
    assert unevenness([]) == 0.0


@given(st.lists(st.tuples(st.integers(0, 10**4), st.floats(0, 1e6)), min_size=2, unique_by=lambda point: point[0]), st.floats(0, 1))
def test_a_line_is_numpys_inside_its_points(points, share):
    ours = line(points)
    place = ours.at[0] + share * (ours.at[-1] - ours.at[0])
    assert ours(place) == pytest.approx(numpy.interp(place, ours.at, ours.value), rel=1e-9, abs=1e-6)


@given(st.floats(0, 3000), st.floats(0, 9000), st.floats(1, 300), st.floats(1, 9000))
def test_a_grid_gives_a_function_linear_on_each_axis_back(prompt, before, decoding, context):
    def exact(a, b, c, d):
        return 3 + 2 * a + 0.5 * b + c * d / 100

    rows = [(a, b, c, d, exact(a, b, c, d)) for a in (0, 100, 2000) for b in ((0, 4000) if a else (0,))
            for c in (1, 20, 256) for d in (1, 500, 8000)]
    if 0 < prompt < 100:
        prompt = 100.0  # between no prompt and the smallest, `before` has no meaning at one end
    found = grid(rows)(prompt, before if prompt else 0, decoding, context)
    assert found == pytest.approx(exact(prompt, before if prompt else 0, decoding, context), rel=1e-6)


def test_thinning_keeps_within_its_tolerance():
    points = [(x, 100 + x ** 1.5) for x in range(1, 500)]
    kept = thinned(points, 0.01)
    assert len(kept) < 30 and kept[0] == points[0] and kept[-1] == points[-1]
    assert all(abs(line(kept)(x) - y) <= 0.0101 * y for x, y in points)


def test_what_lies_outside_the_tables_is_said():
    cost = TableCost(tables_of(CARDS[0]))
    assert cost.limits_passed(4000, 256, 2048) == ()
    said = cost.limits_passed(100_000, 2000, 50_000)
    assert len(said) == 3 and all("beyond the largest measured" in sentence for sentence in said)
    assert Overhead(cost=cost).limits_passed(100_000, 2000, 50_000) == said


def test_measured_kernels_of_another_card_are_not_made_up():
    with pytest.raises(InputError, match="measured are: meta-llama--llama-3.1-8b on nvidia-rtx-4090"):
        tables_for(packaged(), "nvidia-l40s", LLAMA)


# ------------------------------------------------------------------------------------------ profiles and JSON

PROFILE = {
    "dense": "layer,tokens,time_us\n" + "".join(
        f"{name},{tokens},{tokens * 0.5 + 1}\n" for name in (
            "layernorm", "qkv_proj", "rotary_emb", "o_proj", "gate_up_proj", "act_fn", "down_proj", "embedding",
            "final_layernorm") for tokens in (1, 100)),
    "per_sequence": "layer,sequences,time_us\nlm_head,1,10\nsampler,1,1\nlm_head,9,18\nsampler,9,9\n",
    "attention": "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us\n0,0,1,16,2\n0,0,1,1016,12\n64,0,0,0,5\n",
}


def test_a_profile_of_ones_own_adds_up():
    tables = condense({name: read_csv(text) for name, text in PROFILE.items()}, id="mine", layers=2)
    # one token of context 516: layers x (8 operations of 1.5 + attention 7) + 2 x 1.5 + head 10 + 1
    assert TableCost(tables).step_ns(StepWork(1, 516, 516)) == round((2 * (8 * 1.5 + 7) + 3 + 11) * 1000)
    assert tables.unevenness == 0.0


@pytest.mark.parametrize("table, change, said", [
    ("dense", ("qkv_proj,", "other,"), "dense without qkv_proj"),
    ("dense", (",51.0", ",fast"), "time_us = fast"),
    ("per_sequence", ("lm_head,1,10", "lm_head,1,-3"), "time_us = -3"),
    ("attention", ("0,0,1,16,2", "0,0,1,16,nan"), "time_us = nan"),
    ("attention", ("64,0,0,0,5", "0,0,1,16,5"), "no two at the same place"),
    ("attention", ("kv_decode", "kv"), "kv_decode = None"),
])
def test_a_broken_profile_is_refused_with_its_place(table, change, said):
    broken = {name: read_csv(text.replace(*change) if name == table else text) for name, text in PROFILE.items()}
    with pytest.raises(InputError, match=said):
        condense(broken, id="mine", layers=2)
    with pytest.raises(InputError, match="no attention"):
        condense({"dense": read_csv(PROFILE["dense"]), "per_sequence": read_csv(PROFILE["per_sequence"])}, id="x", layers=1)


def test_coefficients_are_charged_as_they_say():
    cost = read_cost(json.dumps({"kind": "coefficients", "source": "test", "microseconds": {
        "step": 100, "sequence": 10, "token": 2, "cached_token": 0.5, "prompt_pair": 0.25, "prompt_step": 7}}))
    work = StepWork(3, 60, 30, ((4, 8), (2, 0)), 1)
    pairs = (4 * 8 + 4 * 5 / 2) + 3
    assert cost.step_ns(work) == (100 + 10 * 5 + 2 * 9 + 0.5 * (60 + 8) + 0.25 * pairs + 7) * 1000
    assert cost.step_ns(StepWork(1, 10, 10)) == (100 + 10 + 2 + 5) * 1000


def test_a_table_of_steps_is_read_and_not_stretched_to_steps_unlike_its_rows():
    rows = [[0, 0, 1, 100, 10], [0, 0, 1, 1100, 20], [0, 0, 8, 100, 17], [0, 0, 8, 1100, 90], [100, 0, 0, 0, 50], [500, 0, 0, 0, 250]]
    cost = read_cost(json.dumps({"kind": "steps", "source": "test", "microseconds": rows}))
    assert cost.step_ns(StepWork(1, 600, 600)) == 15_000
    assert cost.step_ns(StepWork(0, 0, 0, ((300, 0),), 1)) == 150_000
    assert cost.step_ns(StepWork(0, 0, 0, ((10, 0),), 1)) == 50_000  # the smallest measured prompt holds below it
    with pytest.raises(NotKnown, match="reads a prompt beside decoding"):
        cost.step_ns(StepWork(1, 600, 600, ((300, 0),), 1))
    assert len(cost.limits_passed(2000, 9, 600)) == 3 and cost.limits_passed(1100, 8, 500) == ()


@pytest.mark.parametrize("text, said", [
    ("{", "JSON"), ("[]", "kind"), ('{"kind": "magic"}', "kind"), ('{"kind": "steps", "microseconds": [[0,0,1,1,1]]}', "source"),
    ('{"kind": "steps", "source": "x", "microseconds": []}', "rows"),
    ('{"kind": "steps", "source": "x", "microseconds": [[0,0,1,1]]}', "row 1"),
    ('{"kind": "steps", "source": "x", "microseconds": [[0,0,1,1,NaN]]}', "row 1"),
    ('{"kind": "steps", "source": "x", "microseconds": [[0,0,1,1,-1]]}', "row 1"),
    ('{"kind": "steps", "source": "x", "microseconds": [[5,0,1,1,1]]}', "decoding"),
    ('{"kind": "coefficients", "source": "x", "microseconds": {"stepp": 1}}', "stepp"),
    ('{"kind": "coefficients", "source": "x", "microseconds": {"step": true}}', "step"),
    ('{"kind": "coefficients", "source": "x", "microseconds": {"step": Infinity}}', "step"),
    ("[" * 100_000, "JSON"),
])
def test_a_wrong_table_is_refused_in_words(text, said):
    with pytest.raises(InputError, match=said):
        read_cost(text)


# ------------------------------------------------------------------------------------------------- the contract


def test_the_hosts_share_is_added_and_nothing_else():
    base = RooflineCost(step_of())
    cost = Overhead(cost=base, per_step_ns=1000, per_sequence_ns=10, per_prompt_step_ns=7)
    assert cost.step_ns(StepWork(5, 500, 100)) - base.step_ns(StepWork(5, 500, 100)) == 1050
    mixed = StepWork(5, 500, 100, ((64, 0),), 1)
    assert cost.step_ns(mixed) - base.step_ns(mixed) == 1067
    with pytest.raises(InputError, match="per step ns"):
        Overhead(cost=base, per_step_ns=-1)


@given(works)
def test_a_cost_keeps_no_memory_of_earlier_steps(work):
    fresh, used = TableCost(tables_of(CARDS[1])), TableCost(tables_of(CARDS[1]))
    for other in (StepWork(7, 900, 400), StepWork(3, 30, 10, ((100, 7),), 1)):
        used.step_ns(other)
    assert fresh.step_ns(work) == used.step_ns(work) >= 1


RUNS = {
    "roofline": lambda: RooflineCost(step_of()),
    "roofline, windows": lambda: RooflineCost(step_of(model="gemma-3-27b")),
    "roofline, latent": lambda: RooflineCost(step_of("h200 sxm", "deepseek-v3", 8)),
    "roofline, the host's floor": lambda: RooflineCost(step_of(model="qwen2.5-0.5b")._replace(floor=0.02)),
    "kernel tables": lambda: TableCost(tables_of(CARDS[0])),
    "kernel tables, no graphs": lambda: TableCost(tables_of(CARDS[1]), captured_up_to=0),
    "host overhead": lambda: Overhead(cost=TableCost(tables_of(CARDS[0])), per_step_ns=1000, per_sequence_ns=10),
    "a draw": lambda: Scaled(RooflineCost(step_of()), 1.07),
}


@pytest.mark.parametrize("name", RUNS)
@given(st.integers(1, 300), st.integers(1, 60_000), st.integers(1, 40), st.integers(0, 10**9), st.integers(1, 10**9))
@settings(max_examples=40)
def test_a_run_of_decode_steps_is_its_steps_one_by_one(name, decoding, context, limit, start, length):
    cost = RUNS[name]()
    until = start + length
    found = decode_ends(cost, StepWork(decoding, decoding * context, context), limit, start, until)
    alone = [cost.step_ns(StepWork(decoding, decoding * (context + after), context + after)) for after in range(limit)]
    ends = list(accumulate(alone, initial=start))[1:]
    assert found == ends[:len(found)]
    assert found and (len(found) == limit or found[-1] >= until) and all(end < until for end in found[:-1])
