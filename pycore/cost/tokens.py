"""From dollars an hour to dollars a million tokens.

A rented machine costs the same whatever it does, so money follows machine time. Under the asked load a busy machine
serves so many requests a second; one request therefore takes the inverse of that in machine time. The part that its
answer would take if no prompts had to be read (decode-only steps at that batch) is charged to output tokens, the rest,
which prompts cause, to input tokens. At utilisation u only u of each paid hour does work, so every busy second carries
1 / u of its price. By construction, what all tokens of a paid hour fetch at these prices equals what the machine costs.
"""

from pycore.ledger import term

MILLION = 1_000_000


@term("The machine", "USD/h")
def machine_hour(usd_per_gpu_hour, devices):
    """usd_per_gpu_hour × devices"""
    return usd_per_gpu_hour * devices


@term("One busy second", "USD/s")
def busy_second(usd_per_hour, utilisation):
    """usd_per_hour ÷ 3600 ÷ utilisation"""
    return usd_per_hour / 3600 / utilisation


@term("Decode time of an answer", "s")
def decode_seconds(output, decode_step_s, sequences):
    """output × decode_step_s ÷ sequences

    Its share of steps that only decode, `sequences` of them advancing together.
    """
    return output * decode_step_s / sequences


@term("Share of machine time for prompts", "%")
def prompt_share(decode_s, requests_per_s):
    """100 × (1 − decode_s × requests_per_s)

    Not below 0: where steps that only decode already take all the time, prompts ride along for nothing.
    """
    return max(0.0, 100 * (1 - decode_s * requests_per_s))


@term("Machine time of a prompt", "s")
def prompt_seconds(prompt_share, requests_per_s):
    """prompt_share ÷ 100 ÷ requests_per_s"""
    return prompt_share / 100 / requests_per_s


@term("Machine time of an answer", "s")
def answer_seconds(prompt_share, requests_per_s):
    """(1 − prompt_share ÷ 100) ÷ requests_per_s"""
    return (1 - prompt_share / 100) / requests_per_s


@term("Machine time of a request", "s")
def request_seconds(prompt_s, answer_s):
    """prompt_s + answer_s"""
    return prompt_s + answer_s


@term("Requests a machine serves when busy", "requests/s")
def request_rate(request_s):
    """1 ÷ request_s"""
    return 1 / request_s


@term("Input", "USD/1M tokens")
def input_price(usd_per_s, prompt_s, computed):
    """usd_per_s × prompt_s ÷ computed × 1000000

    Of a prompt token that is computed, not answered by the prefix cache.
    """
    return usd_per_s * prompt_s / computed * MILLION


@term("Cached input", "USD/1M tokens", basis="definition")
def cached_input_price(usd_per_s):
    """usd_per_s × 0

    A cached prompt token takes no prefill time; the memory it holds and the reads it causes are in the decode time,
    which output tokens pay.
    """
    return usd_per_s * 0


@term("Output", "USD/1M tokens")
def output_price(usd_per_s, answer_s, output):
    """usd_per_s × answer_s ÷ output × 1000000"""
    return usd_per_s * answer_s / output * MILLION


@term("Blended", "USD/1M tokens")
def blended_price(usd_per_s, request_s, prompt, output):
    """usd_per_s × request_s ÷ (prompt + output) × 1000000

    The mix is the question's own: its prompt and output length, its cached share. Equal to input and output price
    weighted by their tokens.
    """
    return usd_per_s * request_s / (prompt + output) * MILLION


@term("Blended 3:1", "USD/1M tokens", source="the 3 input : 1 output mix that API price tables quote")
def three_to_one_price(input_usd, output_usd):
    """(3 × input_usd + output_usd) ÷ 4"""
    return (3 * input_usd + output_usd) / 4


@term("Energy, at most", "kWh/1M tokens")
def energy_bound(tdp_w, devices, request_s, prompt, output, utilisation):
    """tdp_w × devices × request_s ÷ utilisation ÷ (prompt + output) × 1000000 ÷ 3600000

    Every device at its rated power for the whole hour, idle time included: an upper bound for the devices. Host, fans,
    power supplies and cooling are not in it. The maker's rated power is a thermal limit, not a measurement.
    """
    return tdp_w * devices * request_s / utilisation / (prompt + output) * MILLION / 3_600_000
