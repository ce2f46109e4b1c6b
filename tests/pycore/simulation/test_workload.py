"""One line of text is a workload: it reads back as itself, says what is wrong, and gives the same requests everywhere."""

import math
import os
import re
import statistics
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pycore.errors import InputError, StudioError, UnknownName
from pycore.simulation.generate import generate
from pycore.simulation.lengths import Fixed, Lognormal
from pycore.simulation.presets import PRESETS
from pycore.simulation.traces import read_trace, samples
from pycore.simulation.words import KEYS, Prefix
from pycore.simulation.workload import PROCESSES, parse

PLAIN = read_trace("arrival_s,prompt_tokens,output_tokens\n0,100,10\n1.5,200,20\n3,300,30\n", name="mine")
LINE = "poisson rate=8 prompt=lognormal:1024,p90=2048 output=lognormal:256 requests=500 prefix=0.3:512 seed=1"


def test_the_line_of_the_documentation():
    workload = parse(LINE)
    assert (workload.rate, workload.requests, workload.seed) == (8.0, 500, 1)
    assert workload.prompt == Lognormal(mean=1024.0, p90=2048.0) and workload.output == Lognormal(mean=256.0)
    assert workload.prefix == Prefix(share=0.3, tokens=512)
    assert workload.text == LINE


LINES = [
    LINE, *PRESETS, "poisson", "gamma rate=2.5 cv=4", "deterministic rate=0.001", "onoff rate=4 on=500ms off=1.5s", "batch requests=7",
    "closed users=3 think=0 requests=9", "replay trace=azure-code", "replay trace=azure-code speed=2 requests=20 ttft=300ms",
    "poisson turns=4 think=2s", "chat rate=20 ttft=none prefix=none", "poisson long=16384@9,100@2 urgent=0.25 predict=noise:0.5",
    "POISSON Rate=1e-3 prompt=4k", "poisson ttft=0.000001 tpot=12.34ms", "poisson requests=1,000 seed=9007199254740991"]


@pytest.mark.parametrize("line", LINES)
def test_text_and_back(line):
    workload = parse(line)
    assert parse(workload.text) == workload
    assert parse(workload.text).text == workload.text


@pytest.mark.parametrize("line", [line for line in LINES if "seed=" not in line])
def test_the_text_names_its_seed(line):
    """Who reads it with another seed at hand must get the same requests, 0 included."""
    for seed in (0, 3):
        workload = parse(line, seed=seed)
        assert parse(workload.text, seed=seed + 1) == workload


def test_of_fewer_requests_the_text_is_still_one():
    """A limit takes the first so many; long prompts that stand behind them are no part of it."""
    whole = parse("poisson requests=30 long=16384@9,100@2")
    for count, long in ((8, "long=100@2"), (9, "long=100@2,16384@9"), (1, "")):
        first = replace(whole, requests=count)
        again = parse(first.text)
        assert first.text.partition("long=")[2].split(" ")[0] == long.removeprefix("long=")
        assert generate(again).requests == generate(first).requests == generate(whole).requests[:count]


def test_a_seed_from_elsewhere_counts_where_the_line_names_none():
    assert parse("chat", seed=7) == parse("chat seed=7") and parse("chat seed=3", seed=7) == parse("chat seed=3")
    with pytest.raises(InputError, match="begins with an arrival process"):
        parse("", seed=7)


PARTS = st.one_of(
    st.builds("rate={}".format, st.floats(1e-6, 1e3)), st.builds("think={}s".format, st.decimals(0, 999, places=6)),
    st.builds("ttft={}ms".format, st.decimals(1, 99_999, places=3)), st.builds("seed={}".format, st.integers(0, 1 << 53)),
    st.builds("prefix={}:{}:{}".format, st.decimals(0, 1, places=3), st.integers(1, 9_999), st.integers(1, 99)),
    st.builds("prompt=lognormal:p50={},p90={}".format, st.decimals(1, 99, places=3), st.decimals(100, 999, places=5)),
    st.builds("output=uniform:{}-{}".format, st.integers(1, 9), st.integers(10, 99)), st.builds("turns={}".format, st.integers(1, 200)))


@given(head=st.sampled_from([*PROCESSES, *PRESETS]), parts=st.lists(PARTS, max_size=4, unique_by=lambda part: part.split("=")[0]))
def test_any_line_reads_back_or_is_refused(head, parts):
    try:
        workload = parse(" ".join([head, *parts]))
    except InputError as fault:
        assert "accepted" in str(fault)
    else:
        assert parse(workload.text) == workload


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=60) | st.lists(st.sampled_from(
    ["poisson", "chat", "=", "rate=", "rate=8", "prompt=", "prompt=lognormal:", "long=@", "long=5@", "prefix=::", "on=ms", "é=1", "\0"]), max_size=5).map(" ".join))
def test_no_line_brings_a_traceback(text):
    try:
        parse(text)
    except InputError as fault:
        assert "accepted" in str(fault) and fault.field == "workload"


@pytest.mark.parametrize(("line", "said"), [
    ("", "accepted: poisson, gamma"), ("poissn rate=4", "Did you mean poisson"), ("poisson rat=8", "Did you mean rate"),
    ("poisson rate=0", "rate as a number from 0.000001 to 10,000 requests/s"), ("poisson rate=inf", "rate as a number"),
    ("poisson rate=nan", "rate as a number"), ("poisson rate=-1", "rate as a number"), ("poisson rate=1 rate=2", "each key once"),
    ("gamma cv=0", "cv as a number from 0.01"), ("closed users=0", "users as a whole number from 1"), ("poisson requests=0", "requests from 1"),
    ("poisson requests=1e9", "requests as a whole number"), ("poisson cv=2", "cv belongs to gamma"), ("batch rate=2", "rate belongs to poisson"),
    ("replay", "replay trace=NAME"), ("replay trace=azure-code prefix=1:5", "accepted keys of replay: trace, speed"),
    ("poisson prompt=0", "whole tokens from 1"), ("poisson prompt=lognormal:1024,p90=2700", "a p90 from 1024 to 2328"),
    ("poisson long=16384@201", "one of the 200 requests"), ("poisson long=5@3,6@3", "TOKENS@N"), ("poisson prefix=1.5:9", "SHARE:TOKENS"),
    ("onoff rate=9000 on=1s off=1s", "at most 10,000"), ("poisson think=1s", "think belongs to closed"), ("poisson seed=-1", "seed as"),
    ("poisson ttft=0", "ttft as a time"), ("poisson predict=maybe", "exact, none or noise"), ("poisson " + "x" * 3_000, "at most 2,000 characters")])
def test_faults_say_what_is_accepted(line, said):
    with pytest.raises(InputError) as caught:
        parse(line)
    assert said in str(caught.value) and caught.value.field == "workload"


def test_every_key_and_every_process_is_described():
    import pycore.simulation.workload as module

    assert set(KEYS) | set(PROCESSES) <= set(re.findall(r"[a-z]+", module.__doc__))


def sizes(line: str, **more) -> list[tuple[int, int]]:
    return [(one.prompt_tokens, one.output_tokens) for one in generate(parse(line), **more).requests]


def test_requests_are_as_asked():
    made = generate(parse(LINE)).requests
    shared = [one for one in made if one.prefix_hashes]
    assert len(made) == 500 and [one.id for one in made[:3]] == ["1", "2", "3"]
    assert len(shared) / 500 == pytest.approx(0.3, abs=0.06) and {one.prefix_hashes for one in shared} == {shared[0].prefix_hashes}
    assert len(shared[0].prefix_hashes) == 512 // 16 and all(one.prompt_tokens > 512 for one in shared)
    assert statistics.fmean(one.prompt_tokens for one in made) == pytest.approx(1024 + 0.3 * 512, rel=0.1)
    assert made[-1].arrival_ns / 1e9 == pytest.approx(500 / 8, rel=0.15)
    assert all(one.predicted_output == one.output_tokens for one in made)


def test_shared_texts_are_told_apart():
    made = generate(parse("batch requests=400 prefix=1:64:3")).requests
    assert len({one.prefix_hashes for one in made}) == 3 and all(len(one.prefix_hashes) == 4 for one in made)


def test_the_draws_of_one_kind_leave_the_others_alone():
    base = generate(parse("poisson requests=50")).requests
    other = generate(parse("poisson requests=50 prompt=lognormal:900 prefix=0.5:512 predict=noise:1 urgent=0.5")).requests
    assert [one.arrival_ns for one in base] == [one.arrival_ns for one in other]
    assert [one.output_tokens for one in base] == [one.output_tokens for one in other]


def test_the_long_prompt_stands_where_it_was_put():
    found = sizes("long-prompt-stall")
    assert found[8] == (16_384, 200) and set(found[:8] + found[9:]) == {(128, 200)}


def test_objectives_priorities_and_predictions():
    made = generate(parse("poisson requests=2000 ttft=500ms urgent=0.25 predict=noise:0.4 output=1000")).requests
    assert all(one.deadline_ns == one.arrival_ns + 500_000_000 for one in made)
    assert sum(one.priority == 0 for one in made) / 2_000 == pytest.approx(0.25, abs=0.04)
    assert statistics.stdev(math.log(one.predicted_output / 1_000) for one in made) == pytest.approx(0.4, rel=0.07)
    assert generate(parse("poisson predict=none")).requests[0].predicted_output is None


def test_conversations_grow_and_share_what_lies_before_them():
    generated = generate(parse("poisson rate=2 requests=12 turns=4 prompt=100 output=50 prefix=1:32 think=3s"))
    assert len(generated.chains) == 3 and all(len(chain.requests) == 4 for chain in generated.chains)
    for chain in generated.chains:
        assert [one.prompt_tokens for one in chain.requests] == [132, 282, 432, 582]
        for earlier, later in zip(chain.requests, chain.requests[1:], strict=False):
            assert len(earlier.prefix_hashes) == (earlier.prompt_tokens + 50) // 16, "what is generated can be shared too"
            assert later.prefix_hashes[:len(earlier.prefix_hashes)] == earlier.prefix_hashes
    firsts = {chain.requests[0].prefix_hashes[:2] for chain in generated.chains}
    assert len(firsts) == 1 and len({chain.requests[0].prefix_hashes for chain in generated.chains}) == 3
    assert [chain.requests[0].arrival_ns for chain in generated.chains] == [
        one.arrival_ns for one in generate(parse("poisson rate=2 requests=3")).requests]


def test_users_of_a_closed_loop_take_turns_in_the_numbers():
    generated = generate(parse("closed users=3 requests=8 think=2s turns=2 prompt=10 output=6"))
    assert [[one.id for one in chain.requests] for chain in generated.chains] == [["1", "4", "7"], ["2", "5", "8"], ["3", "6"]]
    assert [one.prompt_tokens for one in generated.chains[0].requests] == [10, 26, 10], "a new conversation after two turns"
    assert generate(parse("closed users=5 requests=3")).chains[-1].requests[0].id == "3"


def test_traffic_starts_afresh_for_every_run():
    generated = generate(parse("closed users=2 requests=4"))
    for _ in range(2):
        traffic = generated.traffic()
        assert [one.id for one in traffic.take(0)] == ["1", "2"]


def test_replays_take_the_trace_as_it_is():
    made = generate(parse("replay trace=mine speed=2 ttft=1s"), traces={"mine": PLAIN}).requests
    assert [(one.arrival_ns, one.prompt_tokens, one.output_tokens) for one in made] == [
        (0, 100, 10), (750_000_000, 200, 20), (1_500_000_000, 300, 30)]
    assert made[1].deadline_ns == 1_750_000_000 and made[0].predicted_output == 10
    assert len(generate(parse("replay trace=mine requests=2"), traces={"mine": PLAIN}).requests) == 2


def test_a_traces_own_fields_win():
    text = "arrival_s,prompt_tokens,output_tokens,priority,deadline_ms,predicted_output\n0,9,9,7,250,4\n1,9,9,,,\n"
    made = generate(parse("replay trace=mine ttft=1s"), traces={"mine": read_trace(text)}).requests
    assert (made[0].priority, made[0].deadline_ns, made[0].predicted_output) == (7, 250_000_000, 4)


def test_lengths_of_a_trace_keep_rows_together():
    found = sizes("batch requests=60 prompt=trace:mine output=trace:mine", traces={"mine": PLAIN})
    assert set(found) == {(100, 10), (200, 20), (300, 30)}
    apart = sizes("batch requests=200 prompt=trace:mine output=trace:azure-code", traces={"mine": PLAIN})
    assert {prompt for prompt, _ in apart} == {100, 200, 300}
    assert {output for _, output in apart} <= set(samples.sample("azure-code").output_tokens)


@pytest.mark.parametrize("line", ["replay trace=nowhere", "poisson prompt=trace:nowhere"])
def test_an_unknown_trace_is_refused_by_name(line):
    with pytest.raises(UnknownName, match="nowhere.*azure-conversation"):
        generate(parse(line))


def test_mooncakes_blocks_fit_the_pool_or_are_refused():
    trace = samples.sample("mooncake-synthetic")
    for size in (16, 32, 512, 1024):
        made = generate(parse("replay trace=mooncake-synthetic"), block_size=size).requests
        assert all(len(one.prefix_hashes or ()) == one.prompt_tokens // size for one in made)
    assert [one.prefix_hashes for one in generate(parse("replay trace=mooncake-synthetic"), block_size=512).requests if one.prefix_hashes] == [
        ids[:prompt // 512] for ids, prompt in zip(trace.hash_ids, trace.prompt_tokens, strict=True) if prompt >= 512]
    with pytest.raises(InputError, match="divisor or a multiple of 512"):
        generate(parse("replay trace=mooncake-synthetic"), block_size=48)
    with pytest.raises(InputError, match="block size"):
        generate(parse("chat"), block_size=0)


def test_presets_carry_the_figures_of_their_sources():
    chat, code = parse("chat"), parse("code")
    assert (chat.prompt, chat.output) == (Lognormal(mean=1155.0, p50=1020.0), Lognormal(mean=211.0, p50=129.0))
    assert (code.prompt, code.output) == (Lognormal(mean=2048.0, p50=1469.0), Lognormal(mean=28.0, p50=13.0))
    assert parse("long-prompt-stall").prompt == Fixed(tokens=128)
    assert any(generate(parse(name)).requests[0].prefix_hashes for name in PRESETS), "a cache has something to hit"


SCRIPT = """
import hashlib
from pycore.simulation.generate import generate
from pycore.simulation.presets import PRESETS
from pycore.simulation.workload import parse
made = [generate(parse(name)) for name in (*PRESETS, "replay trace=mooncake-conversation")]
text = repr([[(r.id, r.arrival_ns, r.prompt_tokens, r.output_tokens, tuple(r.prefix_hashes or ())) for r in g.requests] for g in made])
print(hashlib.sha256(text.encode()).hexdigest())
"""


def test_equal_in_every_process():
    found = {subprocess.run([sys.executable, "-c", SCRIPT], env=os.environ | {"PYTHONHASHSEED": seed}, check=True,
                            capture_output=True, text=True).stdout for seed in ("0", "5")}
    assert len(found) == 1


def test_a_sweep_changes_the_rate_alone():
    assert parse("chat").at_rate(9.5) == parse("chat rate=9.5")
    assert parse("replay trace=azure-code").at_rate(2.0).speed == 2.0
    for line in ("batch", "closed users=4"):
        with pytest.raises(StudioError, match="sweep"):
            parse(line).at_rate(2.0)


@given(st.floats(1e-3, 1e3), st.sampled_from((0.25, 0.75, 1.25)))
def test_a_sweep_may_ask_for_any_rate(rate, factor):
    """1.1 x 0.75 is 0.8250000000000001: what a workload writes, it reads."""
    for line in ("poisson rate=2", "replay trace=azure-code"):
        workload = parse(line).at_rate(min(1e3, max(1e-3, rate * factor)))
        assert parse(workload.text) == workload
