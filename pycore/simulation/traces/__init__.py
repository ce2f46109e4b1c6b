"""Request logs as traces. `read_trace` detects the layout by its content:

    azure          TIMESTAMP, ContextTokens, GeneratedTokens                        CSV
    mooncake       timestamp (ms), input_length, output_length, hash_ids (of 512)   JSON lines
    burstgpt       Timestamp (s), Request tokens, Response tokens (0 = failed)      CSV
    vllm-requests  arrival_s, input_tokens, output_tokens [, request_id]            CSV
    vllm-bench     input_lens, output_lens, start_times                             JSON, vllm bench serve
    llmservingsim  arrival_time_ns, input_toks, output_toks [, input_tok_ids]       JSON lines
    vidur          arrived_at, num_prefill_tokens, num_decode_tokens                CSV
    sharegpt       conversations with text (needs a tokenizer)                      JSON
    plain          arrival_s | arrival_ms | arrival_ns, prompt_tokens, output_tokens, and if wanted: id, priority (lower
                   first), deadline_ms (for the first token, from the arrival), predicted_output, token_ids,
                   prefix_hashes (one chained identifier a block of the engine's pool)    CSV, JSON lines, JSON list

Any of the tables may be CSV (comma, semicolon or tab), JSON lines or a JSON list; any of them gzipped. In CSV a list is
numbers with spaces between. Rows are sorted by arrival and counted from the first.
"""

from pycore.simulation.traces.faults import TraceError
from pycore.simulation.traces.reader import read_trace
from pycore.simulation.traces.trace import Trace

__all__ = ["Trace", "TraceError", "read_trace"]
