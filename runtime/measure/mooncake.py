"""Write what prefix caching is tested on: Mooncake's traces with prefix hashes, and hit ratios computed on them.

    python -m runtime.measure.mooncake --facts FOLDER [--check]

`data/validation/mooncake_synthetic.csv` is the whole trace, `mooncake_conversation.csv` its first 4,000 requests (the
page's own trace reader takes the original files); runs of consecutive block hashes are written `14-27`.
`mooncake_lru_hits.csv` holds the ratios of a plain LRU over whole traces, as the folder of facts gives them; with
--check the scheduler's own pool is run over both whole traces at every size and must give them to the last digit.
"""

import argparse
import gzip
import json
import sys
from collections.abc import Mapping
from pathlib import Path

from pycore.serving.blocks import BlockPool
from runtime.measure.golden import plain_rows
from runtime.measure.tables import csv_text, settle

COLUMNS = ("timestamp_ms", "prompt_tokens", "output_tokens", "hashes")
HIT_COLUMNS = ("trace", "blocks", "block_hit_ratio", "token_hit_ratio", "source")
SOURCE = "kvcache-ai/Mooncake @3b5a594133958449a1feaf1c9e0fc1b553e34a28 FAST25-release/traces (Apache-2.0)"
CUT = {"synthetic": None, "conversation": 4000}
UNLIMITED, ROOM_FOR_ALL = "1000000000", 300_000
BLOCK = 512


def runs(hashes: list[int]) -> str:
    """Hashes in order, consecutive ones as a run: [0, 14, 15, 16] is '0 14-16'."""
    spelled: list[list[int]] = []
    for value in hashes:
        if spelled and value == spelled[-1][1] + 1:
            spelled[-1][1] = value
        else:
            spelled.append([value, value])
    return " ".join(str(first) if first == last else f"{first}-{last}" for first, last in spelled)


def whole_trace(facts: Path, name: str) -> list[dict]:
    """Every request of a trace."""
    with gzip.open(facts / "traces" / f"mooncake-{name}_trace.jsonl.gz", "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def trace_rows(facts: Path, name: str) -> list[dict[str, object]]:
    """The first requests of a trace."""
    found = whole_trace(facts, name)[:CUT[name]]
    return [{"timestamp_ms": row["timestamp"], "prompt_tokens": row["input_length"],
             "output_tokens": row["output_length"], "hashes": runs(row["hash_ids"])} for row in found]


def hit_rows(facts: Path) -> list[dict[str, object]]:
    """Published ratios; an empty number of blocks means no limit."""
    return [{"trace": row["trace"].removesuffix("_trace"), "source": SOURCE,
             "blocks": row["lru_capacity_blocks_of_512"].replace(UNLIMITED, ""),
             "block_hit_ratio": row["block_hit_ratio"], "token_hit_ratio": row["token_hit_ratio"]}
            for row in plain_rows(facts / "mooncake_lru_hits.csv")]


def pool_ratios(requests: list[dict], blocks: int) -> tuple[float, float]:
    """(share of blocks, share of prompt tokens) that the pool holds as requests come, one after the other."""
    pool, hits, tokens = BlockPool(blocks, BLOCK), 0, 0
    for request in requests:
        hashes = request["hash_ids"]
        table = pool.match(hashes)
        hits, tokens = hits + len(table), tokens + min(request["input_length"], BLOCK * len(table))
        for block in table:
            pool.hold(block)
        table += pool.take(len(hashes) - len(table))
        for index, key in enumerate(hashes):
            pool.register(key, table, index)
        pool.release(table)
    return (round(hits / sum(len(request["hash_ids"]) for request in requests), 4),
            round(tokens / sum(request["input_length"] for request in requests), 4))


def differing(facts: Path) -> list[str]:
    """Sizes at which the pool does not hit as often as published."""
    faults = []
    for row in hit_rows(facts):
        found = pool_ratios(whole_trace(facts, row["trace"]), int(row["blocks"] or ROOM_FOR_ALL))
        if found != (float(row["block_hit_ratio"]), float(row["token_hit_ratio"])):
            faults.append(f"{row['trace']}, {row['blocks'] or 'unlimited'} blocks: {found}")
    return faults


def tables(facts: Path) -> Mapping[str, str]:
    """Every generated file: path from the repository root -> text."""
    found = {f"data/validation/mooncake_{name}.csv": csv_text(COLUMNS, trace_rows(facts, name)) for name in CUT}
    return found | {"data/validation/mooncake_lru_hits.csv": csv_text(HIT_COLUMNS, hit_rows(facts))}


def main() -> int:
    """Write the tables, or with --check compare them; the exit status is 1 when one differs."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--facts", type=Path, required=True, help="the facts folder, e.g. ../shared/facts")
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    options = parser.parse_args()
    faults = differing(options.facts) if options.check else []
    for fault in faults:
        print(f"the pool's hits differ from the published ones: {fault}", file=sys.stderr)
    return settle(tables(options.facts), check=options.check) or bool(faults)


if __name__ == "__main__":
    raise SystemExit(main())
