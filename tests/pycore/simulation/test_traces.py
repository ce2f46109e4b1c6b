"""Request logs: every layout read right, every fault told with its place, nothing that brings a traceback."""

import csv
import gzip
import io
import json
import statistics
import zlib
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pycore.errors import InputError
from pycore.simulation.traces import Trace, TraceError, read_trace, samples
from pycore.simulation.traces.cells import clock, moment_ns
from pycore.simulation.traces.layouts import LAYOUTS
from pycore.simulation.traces.spread import bucket_ns
from pycore.systems.sched_sim import Query, answer

AZURE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:17:03.9799600,4808,10
2023-11-16 18:17:04.0319600,3180,8
2023-11-17 00:00:00.0000001,110,27
"""
MOONCAKE = """{"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [0, 1]}
{"timestamp": 27482, "input_length": 512, "output_length": 52, "hash_ids": [7]}
"""
BURSTGPT = """Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type
5,ChatGPT,472,18,490,Conversation log
45.5,GPT-4,1087,0,1087,Conversation log
118,ChatGPT,417,276,693,API log
"""
BURSTGPT_SESSIONS = """Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type
5,1,2.1,ChatGPT,472,18,490,Conversation log
"""
VLLM = """request_id,arrival_s,queued_s,scheduled_s,first_token_s,last_token_s,input_tokens,output_tokens,ttft_ms,tpot_ms,e2e_ms
bench-0,0.0,0.0,2.1e-05,0.689435,17.570318,2358,531,689.435,31.8507,17570.318
bench-1,0.265091,0.386902,0.386912,0.689435,25.619194,1034,769,302.532,32.4606,25232.291
"""
BENCH = json.dumps({"backend": "vllm", "num_prompts": 3, "input_lens": [10, 20, 30], "output_lens": [5, 0, 7], "ttfts": [0.1, 0, 0.2],
                    "itls": [[0.1], [], [0.2]], "start_times": [1000.5, 1000.75, 1002.0], "errors": ["", "timeout", ""]})
LLMSERVINGSIM = '{"input_toks": 3, "output_toks": 4, "arrival_time_ns": 15, "input_tok_ids": [5, 6, 7]}\n{"input_toks": 1, "output_toks": 2, "arrival_time_ns": 1015, "input_tok_ids": [9]}\n'
VIDUR = "arrived_at,num_prefill_tokens,num_decode_tokens\n0.5,374,44\n4.25,396,109\n"
PLAIN = "id,arrival_ms,prompt_tokens,output_tokens,priority,prefix_hashes\na,0,32,2,0,11 12\nb,250.5,48,3,,11 13 14\n"
SHAREGPT = json.dumps([{"id": "x", "conversations": [{"from": "human", "value": "how are you"}, {"from": "gpt", "value": "well thank you very much"}]},
                       {"id": "y", "conversations": [{"from": "human", "value": "alone"}]}])

READ = {  # file -> (layout, arrivals in ns from the first, prompts, outputs)
    AZURE: ("azure", [0, 52_000_000, 20_576_020_040_100], [4808, 3180, 110], [10, 8, 27]),
    MOONCAKE: ("mooncake", [0, 27_482_000_000], [600, 512], [5, 52]),
    BURSTGPT: ("burstgpt", [0, 113_000_000_000], [472, 417], [18, 276]),
    BURSTGPT_SESSIONS: ("burstgpt", [0], [472], [18]),
    VLLM: ("vllm-requests", [0, 265_091_000], [2358, 1034], [531, 769]),
    BENCH: ("vllm-bench", [0, 1_500_000_000], [10, 30], [5, 7]),
    LLMSERVINGSIM: ("llmservingsim", [0, 1_000], [3, 1], [4, 2]),
    VIDUR: ("vidur", [0, 3_750_000_000], [374, 396], [44, 109]),
    PLAIN: ("plain", [0, 250_500_000], [32, 48], [2, 3]),
}


@pytest.mark.parametrize("text", READ, ids=[row[0] for row in READ.values()])
def test_layouts_are_detected_by_content(text):
    trace = read_trace(text)
    assert (trace.layout, list(trace.arrivals_ns), list(trace.prompt_tokens), list(trace.output_tokens)) == READ[text]
    assert trace.layout_name in trace.notes[0]


@pytest.mark.parametrize("text", READ, ids=[row[0] for row in READ.values()])
def test_containers_do_not_matter(text, tmp_path):
    """Text, bytes, gzip (in members, with a byte order mark, with Windows line ends), an open file, a path: one trace."""
    data, path = text.encode(), tmp_path / "trace"
    path.write_bytes(gzip.compress(data))
    with open(path, "rb") as file:
        found = [read_trace(source) for source in (data, b"\xef\xbb\xbf" + data, data.replace(b"\n", b"\r\n"), file, path, io.BytesIO(data),
                                                   gzip.compress(data[:40]) + gzip.compress(data[40:]), gzip.compress(data) + b"\0\0\0")]
    for trace in found:
        assert (trace.layout, list(trace.arrivals_ns), list(trace.prompt_tokens), list(trace.output_tokens)) == READ[text]


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_other_delimiters_cases_and_quotes(delimiter):
    text = 'Arrival_S,Prompt Tokens,output-tokens,note\n0,10,2.0,"a, b"\n1,"12",3,\n'
    lines = text.replace('"a, b"', "x").replace(",", delimiter)
    for one in (text, lines):
        trace = read_trace(one)
        assert (trace.layout, list(trace.prompt_tokens), list(trace.output_tokens)) == ("plain", [10, 12], [2, 3])


def test_json_lists_and_documents_over_many_lines():
    rows = [json.loads(line) for line in MOONCAKE.splitlines()]
    for text in (json.dumps(rows), json.dumps(rows, indent=2)):
        assert read_trace(text).hash_ids == ((0, 1), (7,))
    assert read_trace(json.dumps(json.loads(BENCH), indent=1)).layout == "vllm-bench"


def test_details_of_layouts():
    burst, plain, vllm = read_trace(BURSTGPT), read_trace(PLAIN), read_trace(VLLM)
    assert burst.skipped == 1 and any("1 rows without output" in note for note in burst.notes)
    assert plain.ids == ("a", "b") and plain.hash_ids == ((11, 12), (11, 13, 14))
    first, second = plain.requests()
    assert (first.priority, second.priority, tuple(second.prefix_hashes)) == (0, 0, (11, 13, 14))
    assert vllm.requests()[1].id == "bench-1" and list(vllm.lines) == [2, 3]
    assert read_trace(LLMSERVINGSIM).requests()[0].token_ids == (5, 6, 7)
    assert read_trace(AZURE).requests(speed=2.0)[1].arrival_ns == 26_000_000


def test_conversations_need_a_tokenizer():
    with pytest.raises(TraceError, match="ShareGPT conversations, text without token counts"):
        read_trace(SHAREGPT)
    trace = read_trace(SHAREGPT, count_tokens=lambda text: len(text.split()))
    assert (list(trace.prompt_tokens), list(trace.output_tokens), list(trace.arrivals_ns)) == ([3], [5], [])
    with pytest.raises(InputError, match="no arrival times"):
        trace.requests()


def test_lengths_alone():
    text = "num_prefill_tokens,num_decode_tokens\n374,44\n"
    assert read_trace(text, times=False).pairs == [(374, 44)] and "lengths only" in read_trace(text, times=False).notes[-1]
    with pytest.raises(TraceError, match="looks like Vidur processed trace but lacks arrived_at"):
        read_trace(text)
    old = json.dumps({"input_lens": [1], "output_lens": [2]})
    with pytest.raises(TraceError, match="no start_times"):
        read_trace(old)
    assert read_trace(old, times=False).pairs == [(1, 2)]


# --- faults: (file, what the message must hold) ---------------------------------------------------------------------------

HEAD = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.1,5,5\n"
FAULTS = {
    "missing column": ("TIMESTAMP,ContextTokens\n2023-11-16 18:17:03,5\n", ("line 1", "looks like Azure LLM inference trace but lacks GeneratedTokens")),
    "foreign columns": ("a,b,c\n1,2,3\n", ("'a, b, c'", "accepted columns", "arrival_s or arrival_ms or arrival_ns, prompt_tokens, output_tokens")),
    "no header": ("0.1,100,20\n0.2,100,20\n", ("line 1", "no header")),
    "column twice": ("arrival_s,prompt_tokens,Prompt Tokens,output_tokens\n0,1,1,1\n", ("line 1", "twice")),
    "nan tokens": (HEAD + "2023-11-16 18:17:04,nan,3\n", ("line 3", "column 2 (ContextTokens)", "'nan'", "whole number from 1")),
    "nan time": ("arrival_s,prompt_tokens,output_tokens\nNaN,1,1\n", ("line 2", "column 1 (arrival_s)", "'NaN'", "seconds, not negative")),
    "infinite time": ("arrival_s,prompt_tokens,output_tokens\ninf,1,1\n", ("line 2", "column 1", "'inf'")),
    "negative time": ("arrival_s,prompt_tokens,output_tokens\n0,1,1\n-3.5,1,1\n", ("line 3", "column 1", "'-3.5'", "not negative")),
    "empty cell": (HEAD + "2023-11-16 18:17:04,,3\n", ("line 3", "column 2", "''")),
    "zero prompt": (HEAD + "2023-11-16 18:17:04,0,3\n", ("line 3", "column 2 (ContextTokens)", "'0'", "tokens from 1")),
    "zero output": (HEAD + "2023-11-16 18:17:04,3,0\n", ("line 3", "column 3 (GeneratedTokens)", "'0'", "tokens from 1")),
    "negative tokens": (HEAD + "2023-11-16 18:17:04,-3,1\n", ("line 3", "column 2", "'-3'")),
    "half a token": (HEAD + "2023-11-16 18:17:04,3.5,1\n", ("line 3", "column 2", "'3.5'")),
    "a number of many digits": (HEAD + f"2023-11-16 18:17:04,{'9' * 5_000},1\n", ("line 3", "column 2", "...")),
    "no such day": (HEAD + "2023-02-30 18:17:04,3,1\n", ("line 3", "column 1 (TIMESTAMP)", "a date that exists")),
    "no date": (HEAD + "yesterday,3,1\n", ("line 3", "column 1", "as 2023-11-16 18:17:03.9799600")),
    "short row": (HEAD + "2023-11-16 18:17:04,3\n", ("line 3", "column 3", "2 cells", "the header has 3")),
    "long row": (HEAD + "2023-11-16 18:17:04,3,1,9\n", ("line 3", "4 cells", "the header has 3")),
    "open quote": (HEAD + '2023-11-16 18:17:04,"3,1\n', ("line 3",)),
    "carriage return": (HEAD + "2023-11-16\r18:17:04,3,1\n", ("line 3", "no CSV")),
    "late column": ('{"arrival_s":0,"prompt_tokens":1,"output_tokens":1}\n{"arrival_s":0,"prompt_tokens":1,"output_tokens":1,"x":1}\n'
                    '{"arrival_s":1,"prompt_tokens":1,"output_tokens":1,"Priority":3}\n', ("'Priority'", "line 3", "first row")),
    "late column in a list": ('[{"timestamp":0,"input_length":1,"output_length":1},{"timestamp":0,"input_length":1,"output_length":1,"hash_ids":[1]}]',
                              ("'hash_ids'", "item 2", "first row")),
    "half a character": ('{"id":"\\ud800","arrival_s":0,"prompt_tokens":1,"output_tokens":1}\n', ("line 1", "column id", "surrogate")),
    "header's own words": ("arrival_s,Prompt Tokens,prompt_tokens,output_tokens\n0,1,1,1\n", ("line 1", "'prompt_tokens'", "twice")),
    "name twice": ("id,arrival_s,prompt_tokens,output_tokens\nx,0,1,1\nx,1,1,1\n", ("line 3", "column 1 (id)", "no other row")),
    "wrong hashes": ("arrival_s,prompt_tokens,output_tokens,prefix_hashes\n0,1,1,1 x\n", ("line 2", "column 4 (prefix_hashes)")),
    "wrong token ids": ("arrival_s,prompt_tokens,output_tokens,token_ids\n0,3,1,1 2\n", ("line 2", "column 4 (token_ids)", "2 ids", "3")),
    "header alone": ("arrival_s,prompt_tokens,output_tokens\n", ("a header but no request",)),
    "only failures": ("Timestamp,Request tokens,Response tokens\n1,5,0\n", ("no request",)),
    "nothing": ("", ("the file is empty",)),
    "blank": (" \n\n  \n", ("the file is empty",)),
    "broken json line": (MOONCAKE + '{"timestamp": 3,\n', ("line 3", "JSON is cut off here")),
    "json of another kind": (MOONCAKE + "[1]\n", ("line 3", "one JSON object a line")),
    "json nan": (MOONCAKE + '{"timestamp": NaN, "input_length": 1, "output_length": 1}\n', ("line 3", "NaN")),
    "json comma too many": (MOONCAKE + '{"timestamp": 3, "input_length": 1,}\n', ("line 3", "column 35", "',}' is not accepted", "no JSON from here")),
    "json cut off": ('[{"timestamp": 3,\n "input_length": 1', ("line 2", "cut off here")),
    "json field missing": (MOONCAKE + '{"timestamp": 3, "input_length": 1}\n', ("line 3", "column output_length", "'nothing'")),
    "json truth": (MOONCAKE + '{"timestamp": 3, "input_length": true, "output_length": 1}\n', ("line 3", "column input_length", "'True'")),
    "json infinity": (MOONCAKE + '{"timestamp": 1e999, "input_length": 1, "output_length": 1}\n', ("line 3", "column timestamp")),
    "json hashes": (MOONCAKE + '{"timestamp": 3, "input_length": 1, "output_length": 1, "hash_ids": [1.5]}\n', ("line 3", "column hash_ids")),
    "json nested deep": ("[" * 100_000, ("nested too deep",)),
    "json huge integer": ('{"timestamp": ' + "9" * 5_000 + ', "input_length": 1, "output_length": 1}\n' + MOONCAKE, ("line 1", "thousands of digits")),
    "json object of no kind": ('{"a": 1, "b": [2]}', ("a JSON object with a, b",)),
    "json list of numbers": ("[1, 2]", ("a list that holds no objects",)),
    "json empty list": ("[]", ("an empty list",)),
    "json of other objects": ('[{"a": 1, "b": 2}]', ("'a, b'", "accepted columns")),
    "json item missing": ('[{"timestamp": 0, "input_length": 1, "output_length": 1}, 7]', ("item 2 of the list",)),
    "json item field": ('[{"timestamp": 0, "input_length": 1, "output_length": 1}, {"timestamp": 0, "input_length": 0, "output_length": 1}]', ("item 2 of the list", "column input_length", "'0'")),
    "bench of unequal lists": (json.dumps({"input_lens": [1], "output_lens": [1, 2]}), ("one entry a request each",)),
    "bench without lists": (json.dumps({"input_lens": 5, "output_lens": [1]}), ("column input_lens", "a list of token counts")),
    "bench entry": (json.dumps({"input_lens": [1, "x"], "output_lens": [1, 2], "start_times": [0, 1]}), ("item 2 of the list", "column input_lens", "'x'")),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_have_a_place_and_say_what_is_accepted(name):
    text, said = FAULTS[name]
    with pytest.raises(TraceError) as caught:
        read_trace(text, name="requests.csv")
    message = str(caught.value)
    assert message.startswith("requests.csv") and all(part in message for part in said), message
    assert caught.value.as_dict()["field"] == "trace" and len(message) < 1_200


CONTAINERS = {
    "not UTF-8": (AZURE.encode() + "2023-11-16 18:17:04,3,\u00e9\n".encode("latin-1"), ("line 5", "byte 0xe9", "UTF-8")),
    "UTF-16": (AZURE.encode("utf-16"), ("UTF-16",)), "zip": (b"PK\x03\x04" + b"x" * 50, ("ZIP",)),
    "Parquet": (b"PAR1" + b"\0" * 50, ("Parquet",)), "zstd": (b"\x28\xb5\x2f\xfd" + b"\0" * 50, ("zstd",)),
    "binary": (b"a,b\0c\n", ("byte 0x00", "byte 3", "not text")), "LFS": (b"version https://git-lfs.github.com/spec/v1\noid", ("Git LFS",)),
    "gzip cut off": (gzip.compress(AZURE.encode())[:-12], ("cut off",)), "gzip of two bytes": (b"\x1f\x8b", ("cut off",)),
    "gzip damaged": (gzip.compress(AZURE.encode() * 40)[:60] + b"\xff" * 60, ("damaged",)),
    "gzip with a wrong sum": (gzip.compress(AZURE.encode())[:-8] + b"\0" * 8, ("damaged",)),
    "gzip of nothing": (gzip.compress(b""), ("the file is empty",)),
}


@pytest.mark.parametrize("name", CONTAINERS)
def test_faults_of_the_container(name):
    data, said = CONTAINERS[name]
    with pytest.raises(TraceError) as caught:
        read_trace(data, name="up.gz")
    assert all(part in str(caught.value) for part in ("up.gz", *said)), str(caught.value)


def test_the_offset_of_a_wrong_byte_is_that_of_the_file():
    data = AZURE.encode() + b"2023-11-16 18:17:04,3,\xe9\n"
    with pytest.raises(TraceError) as caught:
        read_trace(data)
    assert data[caught.value.offset] == 0xE9 and (caught.value.line, caught.value.column_number) == (5, 23)


def test_a_file_that_is_not_there_is_told_so(tmp_path):
    with pytest.raises(TraceError, match=r"gone.csv: the file cannot be read: No such file"):
        read_trace(tmp_path / "gone.csv")
    with pytest.raises(TraceError, match="cannot be read"):
        read_trace(tmp_path)


# --- order, limits, size --------------------------------------------------------------------------------------------------

def test_rows_out_of_order_are_sorted_and_said_or_refused():
    text = "id,arrival_s,prompt_tokens,output_tokens\na,5,1,1\nb,3,2,2\nc,5,3,3\nd,3,4,4\n"
    trace = read_trace(text)
    assert trace.ids == ("b", "d", "a", "c") and list(trace.lines) == [3, 5, 2, 4] and list(trace.prompt_tokens) == [2, 4, 1, 3]
    assert any("2 arrivals lie before the one above (first in line 3)" in note for note in trace.notes)
    with pytest.raises(TraceError, match="line 3, column arrival_s.*rows in order"):
        read_trace(text, order="refuse")


def test_options_are_checked():
    for options in ({"order": "random"}, {"buckets": "some"}):
        with pytest.raises(InputError, match="accepted"):
            read_trace(PLAIN, **options)


def test_a_limit_reads_the_first_rows_and_no_more():
    def endless():
        yield b"arrival_s,prompt_tokens,output_tokens\n"
        while True:
            yield b"1,2,3\n" * 1_000

    class Endless:
        def __init__(self):
            self.parts = endless()

        def read(self, size):
            return next(self.parts)

    assert len(read_trace(Endless(), limit=1_500)) == 1_500
    with pytest.raises(TraceError, match="more than 5,000 rows.*first ones with a limit"):
        read_trace(Endless(), most_rows=5_000)
    with pytest.raises(TraceError, match="at most 1,000,000 bytes unpacked"):
        read_trace(Endless(), most_bytes=1_000_000)


def test_a_gzip_bomb_stops_at_the_limit():
    packer = zlib.compressobj(9, wbits=31)
    bomb = packer.compress(b"arrival_s,prompt_tokens,output_tokens\n") + b"".join(packer.compress(b"\n" * (1 << 20)) for _ in range(64)) + packer.flush()
    assert len(bomb) < 100_000
    with pytest.raises(TraceError, match="too large"):
        read_trace(bomb, most_bytes=8 << 20)


def test_a_million_rows():
    text = "arrival_s,prompt_tokens,output_tokens\n" + "".join(f"{index / 64},{index % 4096 + 1},7\n" for index in range(1_000_000))
    trace = read_trace(text)
    assert len(trace) == 1_000_000 and trace.duration_ns == 999_999 * 10**9 // 64
    assert trace.prompt_tokens[4096] == 1 and trace.arrivals_ns[1] == 15_625_000


@given(st.integers(1, 4_000), st.sampled_from(["\n", "\r\n"]), st.integers(0, 200))
def test_where_the_chunks_part_does_not_matter(size, end, rows):
    """A file read in pieces of any size is the file read whole."""
    text = end.join(["arrival_s,prompt_tokens,output_tokens", *(f"{index},{index + 1},{index % 7 + 1}" for index in range(rows + 1))]) + end

    class Pieces(io.BytesIO):
        def read(self, _=-1):
            return super().read(size)

    assert read_trace(Pieces(text.encode())).pairs == [(index + 1, index % 7 + 1) for index in range(rows + 1)]


# --- times, buckets, blocks -----------------------------------------------------------------------------------------------

@given(st.decimals(0, 10**9, places=9))
def test_decimal_seconds_are_exact(value):
    assert clock(10**9, "seconds")(f"{value:f}") == int(value * 10**9)


@given(st.datetimes(min_value=datetime(1971, 1, 1), max_value=datetime(2100, 1, 1)))
def test_moments_are_those_of_the_standard_library(when):
    expected = (when.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC))
    exact = (expected.days * 86_400 + expected.seconds) * 10**9 + expected.microseconds * 1_000
    assert moment_ns(when.strftime("%Y-%m-%d %H:%M:%S.%f")) == exact == moment_ns(when.isoformat() + "Z" if when.microsecond else f"{when}")
    assert moment_ns(when.strftime("%Y-%m-%dT%H:%M:%S.%f+02:00")) == exact - 7_200 * 10**9


def bucketed(rows: int = 600, width_ms: int = 3_000, each: int = 10) -> str:
    return "".join(json.dumps({"timestamp": index // each * width_ms, "input_length": 600 + index, "output_length": 5, "hash_ids": [0, 1]}) + "\n"
                   for index in range(rows))


@pytest.mark.parametrize("mode", ["auto", "seeded", "even"])
def test_coarse_arrivals_are_spread_within_their_buckets(mode):
    raw, trace = read_trace(bucketed(), buckets="off"), read_trace(bucketed(), buckets=mode)
    assert bucket_ns(raw.arrivals_ns) == 3_000_000_000 and any("buckets of 3 s (60 distinct times for 600 rows)" in note for note in trace.notes)
    assert list(trace.prompt_tokens) == list(raw.prompt_tokens), "the file's order stays"
    assert list(trace.arrivals_ns) == sorted(trace.arrivals_ns)
    assert all(before <= after < before + 3_000_000_000 for before, after in zip(raw.arrivals_ns, trace.arrivals_ns, strict=True))
    gaps = [later - earlier for earlier, later in pairwise(trace.arrivals_ns)]
    cv = statistics.pstdev(gaps) / statistics.fmean(gaps)
    assert cv == pytest.approx(0.0 if mode == "even" else 1.0, abs=0.12), "even distances, or nearly a Poisson stream's"
    assert not any("bucket" in note for note in raw.notes)


def test_spreading_depends_on_the_seed_alone():
    first, again, other = (read_trace(bucketed(), seed=seed).arrivals_ns for seed in (4, 4, 5))
    assert first == again and first != other


def test_fine_arrivals_stay_as_they_are():
    text = bucketed(rows=600, width_ms=40, each=1)
    assert read_trace(text).arrivals_ns == read_trace(text, buckets="off").arrivals_ns
    same = "arrival_s,prompt_tokens,output_tokens\n" + "0,1,1\n" * 50
    assert set(read_trace(same, buckets="even").arrivals_ns) == {0}, "one batch is no bucket"


@given(prompt=st.integers(1, 4_000), size=st.sampled_from([1, 8, 16, 64, 512]))
def test_small_blocks_of_a_trace_share_exactly_what_its_blocks_share(prompt, size):
    """Two prompts whose first k blocks of 512 are equal share k * 512 / size of the smaller blocks, and no other."""
    count = -(-prompt // 512)
    for common in range(count + 1):
        rows = [{"timestamp": 0, "input_length": prompt, "output_length": 1, "hash_ids": list(range(count))},
                {"timestamp": 0, "input_length": prompt, "output_length": 1,
                 "hash_ids": [*range(common), *range(900 + common, 900 + count)]}]
        one, two = (request.prefix_hashes for request in read_trace(json.dumps(rows)).requests(size))
        assert len(one or ()) == prompt // size
        if one:
            equal = [a == b for a, b in zip(one, two, strict=True)]
            assert sum(equal) == min(prompt // size, common * 512 // size) and equal == sorted(equal, reverse=True)
            assert tuple(one) == tuple(one[place] for place in range(len(one))) == one[:] and one[-1] == tuple(one)[-1]


# --- samples --------------------------------------------------------------------------------------------------------------

@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.integers(0, 5), max_size=6), min_size=1, max_size=6))
def test_identifiers_of_contents_become_those_of_prefixes(rows):
    """Two rows share as many blocks as their lists have in common from the start, however identifiers repeat."""
    text = "".join(json.dumps({"timestamp": 0, "input_length": 600 * (len(ids) + 1), "output_length": 1, "hash_ids": ids}) + "\n" for ids in rows)
    trace = read_trace(text)
    made = trace.hash_ids or tuple(() for _ in rows)
    for ids, new in zip(rows, made, strict=True):
        for others, twin in zip(rows, made, strict=True):
            shared = next((at for at, pair in enumerate(zip(ids, others, strict=False)) if pair[0] != pair[1]), min(len(ids), len(others)))
            assert new[:shared] == twin[:shared] and not set(new[shared:]) & set(twin[shared:])
        assert len(set(new)) == len(ids)
    consistent = len({(identifier, at, tuple(ids[:at])) for ids in rows for at, identifier in enumerate(ids)}) == len(
        {identifier for ids in rows for identifier in ids})
    assert (made == tuple(map(tuple, rows))) or not consistent
    assert any("taken for contents" in note for note in trace.notes) == (not consistent)


def test_a_trace_of_content_hashes_is_served():
    """Block 2 follows block 1 in one prompt and block 3 in another: a cache that took it for one prefix would hold the
    child without its parent, and could not evict in order."""
    rows = [(0, 2, 10, [1, 2]), (1, 2, 3000, [3, 2])]
    rows += [(2000 + 500 * turn, 40, 5, list(range(100 + 50 * turn, 140 + 50 * turn))) for turn in range(20)]
    text = "".join(json.dumps({"timestamp": at, "input_length": 512 * size, "output_length": output, "hash_ids": ids}) + "\n"
                   for at, size, output, ids in rows)
    found = answer(Query(trace=text, against="fcfs,disaggregated", hardware="rtx 4090", kv_blocks=1500))
    assert all(run.metrics.completed.value == len(rows) and all(check.holds for check in run.checks) for run in found.runs)


def test_samples_are_what_their_sources_row_says():
    assert samples.names() == ("azure-conversation", "azure-code", "mooncake-conversation", "mooncake-synthetic", "sharegpt-vllm")
    for row in samples.sources():
        trace = samples.sample(row["trace"])
        assert len(trace) == int(row["rows"]) and row["commit"] and row["licence"] and row["title"] in trace.notes[0]
        assert int(trace.id(0).removeprefix("bench-")) in (int(row["first"]), int(row["first"]) - 1)
        assert bool(trace.hash_ids) == bool(row["hash_block_tokens"]) and len(trace.requests()) == len(trace)
    assert any("buckets of 3 s" in note for note in samples.sample("mooncake-conversation").notes)
    with pytest.raises(InputError, match="accepted: azure-conversation"):
        samples.sample("nothing")


def test_mooncakes_blocks_are_one_for_each_512_tokens_begun():
    for name in ("mooncake-conversation", "mooncake-synthetic"):
        trace = samples.sample(name)
        assert all(len(ids) == -(-prompt // 512) for ids, prompt in zip(trace.hash_ids, trace.prompt_tokens, strict=True))


FOLDER = Path(__file__).resolve().parents[3] / "data" / "llm-serving-traces"


def rows_of(name: str) -> list[dict[str, str]]:
    with open(FOLDER / name, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_the_dataset_is_as_large_as_promised_and_small_enough_to_load():
    assert len(rows_of("requests.csv")) >= 165 and len(rows_of("schedulers.csv")) >= 15
    assert (FOLDER / "requests.csv").stat().st_size < 150_000
    assert len(rows_of("validation.csv")) >= 12
    held = [row for row in rows_of("validation.csv") if row["target_percent"]]
    assert len(held) == 8 and all(abs(float(row["error_percent"])) <= float(row["target_percent"]) for row in held)
    assert {row["basis"] for row in rows_of("schedulers.csv")} == {"simulated"}
    assert all(int(row["completed"]) + int(row["dropped"]) <= int(row["requests"]) for row in rows_of("schedulers.csv"))


def test_the_datasets_card_names_its_files():
    head, _, body = (FOLDER / "README.md").read_text(encoding="utf-8").removeprefix("---\n").partition("\n---\n")
    files = [line.split(": ")[1] for line in head.splitlines() if line.strip().startswith("data_files")]
    assert sorted(files) == sorted(path.name for path in FOLDER.glob("*.csv")) and all(f"## {name}" in body for name in files)
    keys = {line.split(":")[0] for line in head.splitlines() if line[:1].isalpha()}
    assert {"license", "license_name", "license_link", "pretty_name", "language", "size_categories", "tags", "configs"} <= keys
    assert (FOLDER / "NOTICE").exists() and head.count("default: true") == 1


def test_nesting_is_counted_outside_of_strings_alone():
    """json in Pyodide dies of some thousand levels and takes the page's runtime along."""
    text = json.dumps([{"timestamp": 0, "input_length": 1, "output_length": 1, "note": "[{" * 500 + '\\"['}] * 3)
    assert len(read_trace(text)) == 3
    for deep in ("[" * 33, '{"a":' * 33, "[" * 33 + "]" * 33, '{"a": [' + "[" * 40):
        with pytest.raises(TraceError, match="nested too deep"):
            read_trace(deep)


# --- fuzz -----------------------------------------------------------------------------------------------------------------

def survives(data: bytes) -> None:
    try:
        trace = read_trace(data, most_rows=1_000, most_bytes=1 << 20)
    except TraceError as fault:
        assert fault.place and len(str(fault)) < 1_200
    else:
        assert isinstance(trace, Trace) and len(trace) == len(trace.lines)
        assert all(tokens >= 1 for column in (trace.prompt_tokens, trace.output_tokens) for tokens in column)
        assert list(trace.arrivals_ns) == sorted(trace.arrivals_ns) and (not trace.arrivals_ns or trace.arrivals_ns[0] == 0)


@given(st.binary(max_size=400) | st.text(max_size=400).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_no_bytes_bring_a_traceback(data):
    survives(data)


@settings(max_examples=400)
@given(base=st.sampled_from([text.encode() for text in (*READ, SHAREGPT)]), pack=st.booleans(), edits=st.lists(st.tuples(
    st.floats(0, 1), st.sampled_from(["cut", "put", "swap"]), st.sampled_from(
        [b"", b",", b"\n", b'"', b"{", b"}", b"[", b"nan", b"-", b"0", b"1e999", b"\0", b"\xff", b"\r", b";", b"null", b"true", b"9" * 40, b"\x1f\x8b"])), max_size=4))
def test_no_damage_to_a_good_file_brings_a_traceback(base, pack, edits):
    data = gzip.compress(base) if pack else base
    for place, kind, piece in edits:
        at = int(place * len(data))
        data = data[:at] if kind == "cut" else data[:at] + piece + (data[at:] if kind == "put" else data[at + len(piece):])
    survives(data)


CELLS = st.one_of(st.text(max_size=12), st.integers().map(str), st.floats().map(str), st.sampled_from(["0", "1", "5", "2023-11-16 18:17:03", "nan", "1e-7", "٣", "1_000", "+4"]))


@given(layout=st.sampled_from(LAYOUTS), rows=st.lists(st.lists(CELLS, min_size=1, max_size=4), min_size=1, max_size=5))
def test_no_cell_brings_a_traceback(layout, rows):
    names = [layout.arrival[0][0], layout.prompt, layout.output]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(rows)
    survives(out.getvalue().encode("utf-8", "surrogatepass"))


VALUES = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
    st.sampled_from(["timestamp", "input_length", "output_length", "hash_ids", "input_lens", "output_lens", "start_times", "errors", "conversations", "value", "x"]), inner, max_size=4), max_leaves=12)


@given(VALUES | st.fixed_dictionaries({"input_lens": VALUES, "output_lens": VALUES, "errors": VALUES, "start_times": VALUES}), st.booleans())
def test_no_json_brings_a_traceback(value, lines):
    text = json.dumps(value)
    survives((text + "\n" + text if lines else text).encode("utf-8", "surrogatepass"))
