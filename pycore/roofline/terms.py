"""The formulas of speed, as terms that explain themselves. Sources: Williams et al. 2009 (roofline), the fits of
data/catalog/efficiency.csv; ranges are quantiles of measured / predicted."""

from pycore.ledger import Range, term


@term("Weights read", "s", basis="fitted", source="data/catalog/efficiency.csv, operation product and experts")
def weights_read(weight_bytes: float, bandwidth: float, share: float, low: float, high: float) -> Range:
    """weight_bytes / (bandwidth × share)

    Bytes of weights (and activations beside them) that one device reads in a step; `share` of the datasheet's bandwidth
    is what measured products of these sizes reach. low, high: 10 % and 90 % quantile of measured / predicted kernels.
    """
    seconds = weight_bytes / (bandwidth * share)
    return Range(seconds, seconds * low, seconds * high)


@term("KV cache read", "s", basis="fitted", source="data/catalog/efficiency.csv, operation decode")
def cache_read(cache_bytes: float, bandwidth: float, share: float, low: float, high: float) -> Range:
    """cache_bytes / (bandwidth × share)

    Cached keys and values (and recurrent states) read by one device; `share` includes the cost of scheduling each
    sequence. low, high as for weights.
    """
    seconds = cache_bytes / (bandwidth * share) if cache_bytes else 0.0
    return Range(seconds, seconds * low, seconds * high)


@term("Compute beyond reading", "s", basis="fitted",
      source="data/catalog/efficiency.csv, operations product, experts, prefill")
def compute_beyond(flop: float, rate: float, share: float, hidden: float, low: float, high: float) -> Range:
    """flop / (rate × share) − hidden

    What the matrix units take, less what happens while weights are read anyway (`hidden`, s); `share` of the dense
    rate.
    """
    seconds = max(0.0, flop / (rate * share) - hidden) if flop else 0.0
    return Range(seconds, seconds * low, seconds * high)


@term("Communication", "s", basis="fitted", source="data/catalog/efficiency.csv, operation allreduce")
def communicated(messages: int, message_seconds: float, low: float, high: float) -> Range:
    """messages × message_seconds

    All-reduces (two a layer under tensor parallelism), expert exchange and pipeline sends of one step.
    """
    seconds = messages * message_seconds
    return Range(seconds, seconds * low, seconds * high)


@term("Launches and small kernels", "s", basis="fitted",
      source="data/catalog/efficiency.csv, launch_us of every operation")
def launched(kernels: int, seconds_each: float) -> float:
    """kernels × seconds_each

    Start-up and tail of each kernel inside a CUDA graph, the sampler, and where measured the host's part.
    """
    return kernels * seconds_each


@term("Time per output token", "s", basis="fitted", source="Agrawal et al. 2024, arXiv 2403.02310 (chunked prefill)")
def tpot(decode_step: float, mixed_step: float, carrying: float, low: float, high: float) -> Range:
    """decode_step + carrying × (mixed_step − decode_step)

    A step that only decodes, and one that also carries prompt tokens of requests that others started; `carrying` is the
    share of steps that do. low, high: 10 % and 90 % quantile of measured / predicted TPOT of whole engines.
    """
    seconds = decode_step + carrying * (mixed_step - decode_step)
    return Range(seconds, seconds * low, seconds * high)


@term("Time per output token", "s", basis="fitted", source="data/catalog/efficiency.csv")
def tpot_apart(decode_step: float, prompt: float, started: float, low: float, high: float) -> Range:
    """decode_step + started × prompt

    SGLang reads prompts in steps of their own: each of the `started` prompts per output token holds decoding up.
    """
    seconds = decode_step + started * prompt
    return Range(seconds, seconds * low, seconds * high)


@term("Prefill of one prompt", "s", basis="fitted", source="data/catalog/efficiency.csv")
def prefill(chunk_step: float, chunks: int, low: float, high: float) -> Range:
    """chunks × chunk_step

    One prompt alone on an idle replica, in chunks of at most the engine's tokens a step.
    """
    seconds = chunks * chunk_step
    return Range(seconds, seconds * low, seconds * high)


@term("Time to first token", "s", basis="fitted", source="M/D/1 queue, Pollaczek-Khinchine")
def ttft(waited: float, own: float, low: float, high: float) -> Range:
    """waited + own

    `own`: the prompt's own chunks in steps that also decode; `waited`: the rest of the running step and prompts ahead,
    requests replacing each other at even distances. low: an idle server; high: all requests arrive at once, the middle
    one. Network, tokeniser and HTTP are not in it.
    """
    seconds = waited + own
    return Range(seconds, min(low, seconds), max(high, seconds))


@term("Tokens per second per user", "tokens/s")
def per_user(tpot: float) -> float:
    """1 / tpot"""
    return 1.0 / tpot


@term("Requests per second", "requests/s")
def requests(decoding: int, output: int, tpot: float) -> float:
    """decoding / (output × tpot)"""
    return decoding / (output * tpot)


@term("Output tokens per second", "tokens/s")
def output_rate(requests_per_s: float, output: int) -> float:
    """requests_per_s × output"""
    return requests_per_s * output


@term("Output tokens per second per device", "tokens/s")
def per_device(tokens_per_s: float, devices: int) -> float:
    """tokens_per_s / devices"""
    return tokens_per_s / devices


@term("Model FLOP utilisation of prefill", "%")
def utilised_flop(prompt_flop: float, rate: float, prefill_s: float) -> float:
    """100 × prompt_flop / (rate × prefill_s)"""
    return 100.0 * prompt_flop / (rate * prefill_s)


@term("Memory bandwidth utilisation of decoding", "%")
def utilised_bandwidth(step_bytes: float, bandwidth: float, decode_step: float) -> float:
    """100 × step_bytes / (bandwidth × decode_step)"""
    return 100.0 * step_bytes / (bandwidth * decode_step)
