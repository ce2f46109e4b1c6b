"""What a Prometheus server reads, under vLLM's names (https://docs.vllm.ai, "Metrics"), so that its dashboards work here.

Not there: spec_decode_num_drafts, spec_decode_num_accepted_tokens_per_pos, request_max_num_generation_tokens,
cache_config_info. Labels are model_name alone: there is one engine.
"""

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from runtime.mini_infer.answers import Record, Watcher
from runtime.mini_infer.usage import Statistics

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500)
COUNTS = tuple(float(1 << power) for power in range(18))
FINISHED = {"stop": "stop", "length": "length", "aborted": "abort", "error": "error", "refused": "error"}
TIMES = {
    "time_to_first_token_seconds": "From arrival to the first token",
    "inter_token_latency_seconds": "Between two tokens of one text",
    "request_time_per_output_token_seconds": "Mean time between the tokens of one text",
    "e2e_request_latency_seconds": "From arrival to the last token",
    "request_queue_time_seconds": "From arrival to the first step that computes of it",
    "request_prefill_time_seconds": "From that step to the first token",
    "request_decode_time_seconds": "From the first token to the last",
    "request_inference_time_seconds": "From the first step that computes of it to the last token",
}
SIZES = {
    "request_prompt_tokens": "Tokens of a prompt", "request_generation_tokens": "Tokens of a text",
    "request_params_max_tokens": "Tokens that a request allows", "request_params_n": "Texts of one prompt",
    "iteration_tokens_total": "Tokens that one step computes",
}
GAUGES = {
    "num_requests_running": ("Texts with a seat", lambda now: now.running),
    "num_requests_waiting": ("Texts in the queue", lambda now: now.waiting),
    "kv_cache_usage_perc": ("Share of the block pool in use, 0 to 1", lambda now: now.pool_usage),
}
COUNTERS = {
    "prefix_cache_queries": ("Prompt tokens looked up in the prefix cache", lambda now: now.prompt_tokens),
    "prefix_cache_hits": ("Prompt tokens found there", lambda now: now.cached_tokens),
    "prompt_tokens": ("Prompt tokens of requests let in", lambda now: now.prompt_tokens),
    "generation_tokens": ("Tokens that came out", lambda now: now.output_tokens),
    "num_preemptions": ("Preemptions", lambda now: now.preemptions),
    "spec_decode_num_draft_tokens": ("Tokens guessed by speculation", lambda now: now.drafted),
    "spec_decode_num_accepted_tokens": ("Guesses that were accepted", lambda now: now.accepted),
}


class Metrics(Watcher):
    """A registry of its own. Histograms are filled on the engine's thread; gauges and counters are read off `statistics`."""

    def __init__(self, model: str, statistics: Callable[[], Statistics | None]):
        self.model, self.statistics = model, statistics
        self.registry = CollectorRegistry()
        self.registry.register(self)
        one = {"labelnames": ("model_name",), "registry": self.registry}
        made = {name: Histogram(f"vllm:{name}", text, buckets=SECONDS if name in TIMES else COUNTS, **one)
                for name, text in (TIMES | SIZES).items()}
        self.histograms = {name: histogram.labels(model) for name, histogram in made.items()}
        self.finished = Counter("vllm:request_success", "Texts that are over, by how", ("model_name", "finished_reason"),
                                registry=self.registry)
        for reason in FINISHED.values():
            self.finished.labels(model, reason)

    def text(self) -> bytes:
        """All of it in Prometheus' text format."""
        return generate_latest(self.registry)

    def collect(self) -> Iterator[Metric]:
        """Gauges and counters as they stand."""
        now = self.statistics()
        if now is None:
            return
        for kind, table in ((GaugeMetricFamily, GAUGES), (CounterMetricFamily, COUNTERS)):
            for name, (text, value) in table.items():
                family = kind(f"vllm:{name}", text, labels=("model_name",))
                family.add_metric((self.model,), value(now))
                yield family

    def step(self, tokens: int) -> None:
        self.histograms["iteration_tokens_total"].observe(tokens)

    def token(self, seconds: float, *, first: bool) -> None:
        self.histograms["time_to_first_token_seconds" if first else "inter_token_latency_seconds"].observe(seconds)

    def over(self, record: Record) -> None:
        self.finished.labels(self.model, FINISHED[record.finish]).inc()
        seen = {"request_prompt_tokens": record.prompt_tokens, "request_generation_tokens": record.tokens,
                "request_params_max_tokens": record.max_tokens}
        if record.samples is not None:
            seen["request_params_n"] = record.samples
        if record.finish in ("stop", "length"):
            decode = record.seconds - record.first_token
            seen |= {"e2e_request_latency_seconds": record.seconds, "request_queue_time_seconds": record.scheduled,
                     "request_prefill_time_seconds": record.first_token - record.scheduled,
                     "request_decode_time_seconds": decode,
                     "request_inference_time_seconds": record.seconds - record.scheduled}
            if record.tokens > 1:
                seen["request_time_per_output_token_seconds"] = decode / (record.tokens - 1)
        for name, value in seen.items():
            self.histograms[name].observe(value)
