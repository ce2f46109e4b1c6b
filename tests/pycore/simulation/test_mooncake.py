"""Prefix caching on Mooncake's traces: hit ratios against a published table, and against a plain LRU written here.

The published figures (data/validation/mooncake_lru_hits.csv) are those of an LRU over blocks of 512 tokens, a request
being looked up before it is entered, one request after the other. The pool is that LRU when it is driven so: a table is
released last block first, hence a prefix never outlives its beginning.
"""

import csv
from collections import OrderedDict
from pathlib import Path

import pytest
from metric_runs import engine

from pycore.serving.blocks import BlockPool
from pycore.serving.policies.chunked import Chunked
from pycore.serving.request import Request
from pycore.simulation.arrivals import Chain, ClosedLoop, OpenLoop
from pycore.simulation.run import Setup, run

FOLDER = Path(__file__).resolve().parents[3] / "data" / "validation"
BLOCK, UNLIMITED = 512, 300_000


def rows(name):
    with open(FOLDER / f"{name}.csv", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def trace(name):
    """(prompt tokens, hash of each block) of every request."""
    found = []
    for row in rows(f"mooncake_{name}"):
        hashes = []
        for word in row["hashes"].split():
            first, _, last = word.partition("-")
            hashes += range(int(first), int(last or first) + 1)
        found.append((int(row["prompt_tokens"]), hashes))
    return found


def ratios(requests, hits):
    """Share of blocks and of prompt tokens found; `hits` counts leading blocks."""
    blocks = sum(len(hashes) for _, hashes in requests)
    tokens = sum(prompt for prompt, _ in requests)
    found = sum(min(prompt, BLOCK * count) for (prompt, _), count in zip(requests, hits, strict=True))
    return round(sum(hits) / blocks, 4), round(found / tokens, 4)


def pool_hits(requests, blocks):
    """Leading blocks that the pool holds when each request comes, one after the other."""
    pool, hits = BlockPool(blocks, BLOCK), []
    for _, hashes in requests:
        table = pool.match(hashes)
        hits.append(len(table))
        for block in table:
            pool.hold(block)
        table += pool.take(len(hashes) - len(table))
        for index, key in enumerate(hashes):
            assert pool.register(key, table, index) == table[index]
        pool.release(table)
    pool.check([])
    return hits


def plain_hits(requests, blocks):
    """The oracle: an ordered dictionary, eldest out; the last block of a request is the first of it to go."""
    kept, hits = OrderedDict(), []
    for _, hashes in requests:
        count = 0
        while count < len(hashes) and hashes[count] in kept:
            count += 1
        hits.append(count)
        for key in reversed(hashes):
            kept[key] = None
            kept.move_to_end(key)
        while len(kept) > blocks:
            kept.popitem(last=False)
    return hits


PUBLISHED = [row for row in rows("mooncake_lru_hits") if row["trace"] == "synthetic"]


@pytest.mark.parametrize("row", PUBLISHED, ids=lambda row: row["blocks"] or "unlimited")
def test_hit_ratios_of_the_whole_trace_are_the_published_ones(row):
    requests = trace("synthetic")
    found = ratios(requests, pool_hits(requests, int(row["blocks"] or UNLIMITED)))
    assert found == (float(row["block_hit_ratio"]), float(row["token_hit_ratio"]))


@pytest.mark.parametrize("name, blocks", [("conversation", size) for size in (300, 1000, 5000, 20_000, UNLIMITED)] + [("synthetic", 450)])
def test_hits_are_those_of_a_plain_lru_request_by_request(name, blocks):
    requests = trace(name)
    longest = max(len(hashes) for _, hashes in requests)
    assert blocks >= longest
    assert pool_hits(requests, blocks) == plain_hits(requests, blocks)


def served(name, blocks, count, *, one_by_one):
    """The real scheduler on a trace whose blocks are all full (one token more than they hold, so all may hit)."""
    asked = [Request(id=str(index), arrival_ns=index * 10**6, prompt_tokens=BLOCK * len(hashes) + 1, output_tokens=1,
                     prefix_hashes=tuple(hashes)) for index, (_, hashes) in enumerate(trace(name)[:count])]
    traffic = ClosedLoop([Chain(requests=tuple(asked), think_ns=(0,) * (count - 1))]) if one_by_one else OpenLoop(asked)
    one = engine(Chunked(), blocks=blocks, block_size=BLOCK, limits={"max_batched_tokens": 8192, "max_model_length": 1 << 18})
    return run(Setup(engines=(one,)), traffic), trace(name)[:count]


def test_the_scheduler_hits_what_the_cache_holds():
    """Every policy sits on this pool; with room for all, hits are the trace's own whatever the order of service."""
    for one_by_one in (True, False):
        result, requests = served("conversation", 60_000, 800, one_by_one=one_by_one)
        hits = [request.cached_tokens // BLOCK for request in result.requests]
        if one_by_one:
            assert hits == plain_hits(requests, 60_000)
        else:  # two prompts read at one time cannot hit each other
            assert 0 < sum(hits) <= sum(plain_hits(requests, 60_000))


def test_a_small_pool_hits_less():
    found = []
    for blocks in (400, 2000, 60_000):
        result, _ = served("conversation", blocks, 800, one_by_one=True)
        found.append(sum(request.cached_tokens for request in result.requests))
    assert found[0] < found[1] < found[2]
