"""JSON documents of benchmarks: the detailed result of `vllm bench serve`, and conversations as ShareGPT has them.

vLLM (--save-result --save-detailed) writes lists with one entry a request: input_lens, output_lens, errors, and in
newer versions start_times in seconds of a clock of its own. ShareGPT holds text: its lengths are what the caller's
`count_tokens` says, and there are no arrival times in it.
"""

from collections.abc import Callable, Iterator
from typing import Any

from pycore.simulation.traces.faults import TraceError
from pycore.simulation.traces.layouts import SECONDS, Layout, missing
from pycore.simulation.traces.tables import ACCEPTED, Row, Table

VLLM_RESULT = Layout(
    id="vllm-bench", name="vllm bench serve result", arrival=(("start_times", SECONDS),), prompt="input_lens",
    output="output_lens", zero_output_failed=True, source="vllm bench serve --save-result --save-detailed")
SHAREGPT = Layout(
    id="sharegpt", name="ShareGPT conversations", arrival=(), prompt="prompt", output="completion",
    source="a list of conversations, the first question and the first answer of each")


def benchmark(found: Any, file: str, count_tokens: Callable[[str], int] | None) -> tuple[Layout, Table]:
    """The layout and the rows of a JSON document. Raises TraceError naming what was found instead."""
    if isinstance(found, dict) and "input_lens" in found:
        return VLLM_RESULT, vllm_result(found, file)
    if isinstance(found, list) and found and all(isinstance(item, dict) for item in found):
        if "conversations" not in found[0]:
            raise TraceError(file, None, missing(tuple(found[0])))
        if count_tokens is None:
            raise TraceError(file, None, "these are ShareGPT conversations, text without token counts; accepted: a file "
                                         "of lengths (prompt_tokens, output_tokens), or a tokenizer to count with")
        return SHAREGPT, conversations(found, file, count_tokens)
    if isinstance(found, dict):
        raise TraceError(file, None, f"a JSON object with {', '.join(list(found)[:8])[:120] or 'nothing in it'}; accepted: "
                                     "the detailed result of vllm bench serve (input_lens, output_lens, start_times), "
                                     "or a list of requests")
    kind = {list: "an empty list" if not found else "a list that holds no objects"}.get(type(found), "a bare value")
    raise TraceError(file, None, f"a JSON document with {kind}; {ACCEPTED}")


def vllm_result(found: dict[str, Any], file: str) -> Table:
    """Rows of the per-request lists; requests with an error text count as failed (output 0)."""
    columns = {name: found.get(name) for name in ("input_lens", "output_lens", "start_times", "errors")}
    for name in ("input_lens", "output_lens"):
        if not isinstance(columns[name], list):
            raise TraceError(file, None, "accepted: a list of token counts, one a request", column=name)
    names = [name for name, column in columns.items() if isinstance(column, list)]
    sizes = {name: len(columns[name]) for name in names}
    if len(set(sizes.values())) > 1:
        raise TraceError(file, str(sizes), "these lists must have one entry a request each")

    def rows() -> Iterator[Row]:
        for index in range(sizes["input_lens"]):
            failed = "errors" in names and bool(columns["errors"][index])
            yield index + 1, [0 if failed and name == "output_lens" else columns[name][index] for name in names[:3]]

    kept = tuple(name for name in names if name != "errors")
    return Table(names=kept, rows=rows(), header=False, unit="item")


def conversations(found: list[dict[str, Any]], file: str, count_tokens: Callable[[str], int]) -> Table:
    """The first two turns of each conversation, as vLLM's benchmark takes them; shorter ones are left out."""

    def rows() -> Iterator[Row]:
        for number, item in enumerate(found, 1):
            turns = item.get("conversations")
            texts = [turn.get("value") for turn in turns if isinstance(turn, dict)] if isinstance(turns, list) else []
            if not all(isinstance(text, str) for text in texts):
                raise TraceError(file, None, f"item {number}: accepted: turns with a text under \"value\"")
            if len(texts) >= 2 and texts[0] and texts[1]:
                yield number, [count_tokens(texts[0]), count_tokens(texts[1])]

    return Table(names=("prompt", "completion"), rows=rows(), header=False, unit="item")
