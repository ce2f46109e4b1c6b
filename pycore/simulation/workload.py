"""A workload in one line of text, the same on the command line and on the page; `parse(workload.text) == workload`.

    poisson rate=8 prompt=lognormal:1024,p90=2048 output=lognormal:256 requests=500 prefix=0.3:512 seed=1
    closed users=16 think=1s turns=8 prompt=lognormal:400 output=lognormal:150
    replay trace=azure-code speed=2
    chat rate=12                      a preset, with what is said after it changed

First comes the arrival process with its own keys (poisson: rate; gamma: rate, cv; deterministic: rate; onoff: rate, on,
off; batch; closed: users, think; replay: trace, speed), then what is asked:

    prompt, output   lengths in tokens (lengths.py)          requests   how many in all (replay: the first so many)
    prefix           SHARE:TOKENS[:TEXTS]: that share of the prompts begins with one of TEXTS shared texts of TOKENS
                     tokens, put in front of the prompt's own length (as vLLM's and SGLang's benchmarks count)
    turns            conversations of so many requests, each prompt holding all before it; `think` between them
    long             TOKENS@N[,TOKENS@N]: the N-th request has a prompt of TOKENS
    urgent           share of requests of priority 0, the others have 1
    predict          what a length predictor knows: exact, none, or noise:S (log-normal error of sigma S)
    ttft, tpot       the objectives: time to the first token, time per later token;  seed
"""

from dataclasses import dataclass, replace
from typing import Any

from pycore.errors import InputError
from pycore.simulation.arrivals import HIGHEST_RATE, SECOND
from pycore.simulation.lengths import Fixed, Lengths, shown
from pycore.simulation.presets import PRESETS
from pycore.simulation.words import KEYS, MOST_REQUESTS, Prefix

MOST_CHARACTERS = 2_000
PROCESSES = {"poisson": ("rate",), "gamma": ("rate", "cv"), "deterministic": ("rate",), "onoff": ("rate", "on", "off"),
             "batch": (), "closed": ("users", "think"), "replay": ("trace", "speed")}
MADE = ("prompt", "output", "prefix", "turns", "long")  # what a replay takes from its file

@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What arrives. Times in seconds; None: not asked for. Made by `parse`, which checks ranges and combinations."""

    arrivals: str = "poisson"
    rate: float = 4.0
    cv: float = 2.0
    on: float = 5.0
    off: float = 15.0
    users: int = 16
    think: float = 0.0
    trace: str = ""
    speed: float = 1.0
    prompt: Lengths = Fixed(tokens=512)
    output: Lengths = Fixed(tokens=128)
    requests: int = 200  # 0: all of a replayed trace
    prefix: Prefix | None = None
    turns: int = 1
    long: tuple[tuple[int, int], ...] = ()  # (tokens, number of the request from 1)
    urgent: float = 0.0
    predict: str = "exact"
    ttft: float | None = None
    tpot: float | None = None
    seed: int = 0

    @property
    def text(self) -> str:
        """The canonical line: the process with all its keys, what differs from the defaults, and the seed: a question
        has a seed of its own for lines that name none, and it may be another one where the line is read again."""
        own = PROCESSES[self.arrivals]
        always = (*own, "seed") + (() if self.arrivals == "replay" else ("prompt", "output", "requests"))
        words = [self.arrivals]
        for key, entry in KEYS.items():
            value = self.long_sent if key == "long" else getattr(self, key)
            default = default_of(self.arrivals, key)
            if key in always or (value != default and self.uses(key)):
                words.append(f"{key}={entry.write(value)}")
        return " ".join(words)

    def uses(self, key: str) -> bool:
        """Whether a key means anything here."""
        own = PROCESSES[self.arrivals]
        foreign = {name for names in PROCESSES.values() for name in names} - set(own)
        if key == "think" and self.turns > 1:
            return True
        return key not in foreign and not (self.arrivals == "replay" and key in MADE)

    @property
    def long_sent(self) -> tuple[tuple[int, int], ...]:
        """Of `long`, what is among the requests: who takes the first so many leaves the others out."""
        return tuple(pair for pair in self.long if pair[1] <= self.requests)

    @property
    def ttft_ns(self) -> int | None:
        return None if self.ttft is None else round(self.ttft * SECOND)

    @property
    def tpot_ns(self) -> int | None:
        return None if self.tpot is None else round(self.tpot * SECOND)

    def at_rate(self, rate: float) -> "Workload":
        """The same at another rate (a replay: at another speed), for sweeps. Raises InputError where it has neither, or
        not such a one."""
        if self.arrivals == "replay":
            return checked(parse_key(self, "speed", shown(rate)))
        if "rate" not in PROCESSES[self.arrivals]:
            raise InputError("workload", self.arrivals, "a sweep of rates needs a process with a rate: "
                             + ", ".join(name for name, keys in PROCESSES.items() if "rate" in keys) + " or replay")
        return checked(parse_key(self, "rate", shown(rate)))


NO_OBJECTIVE = ("ttft", "tpot")  # 'none' takes a preset's objective away


def default_of(arrivals: str, key: str) -> Any:
    """A field's default; a replay takes its whole trace."""
    return 0 if arrivals == "replay" and key == "requests" else getattr(Workload(), key)


def parse(text: str, *, seed: int | None = None) -> Workload:
    """A workload from its line; `seed` counts where the line names none.

    Raises InputError naming the word, what is accepted and near names.
    """
    if len(text) > MOST_CHARACTERS:
        raise InputError("workload", f"{len(text):,} characters", f"accepted: at most {MOST_CHARACTERS:,} characters")
    words = text.split()
    head = words[0].lower() if words else ""
    if len({word.partition("=")[0].lower() for word in words}) < len(words):
        raise InputError("workload", text, "accepted: each key once")
    given = words[1:]
    if seed is not None and not any(word.lower().startswith("seed=") for word in given):
        given = [*given, f"seed={seed}"]
    if head in PRESETS:
        preset = PRESETS[head].split()
        return checked(build(preset[0], preset[1:] + given))
    if head not in PROCESSES:
        raise InputError("workload", words[0] if words else "", "it begins with an arrival process or a preset; accepted: "
                         + ", ".join((*PROCESSES, *PRESETS)), near(head, (*PROCESSES, *PRESETS)))
    return checked(build(head, given))


def build(arrivals: str, words: list[str]) -> Workload:
    """The process and its keys, later ones over earlier ones."""
    workload = Workload(arrivals=arrivals, requests=default_of(arrivals, "requests"))
    for word in words:
        key, equals, value = word.partition("=")
        key = key.lower()
        if not equals or key not in KEYS:
            raise InputError("workload", word, "accepted: KEY=VALUE with " + ", ".join(KEYS), near(key, tuple(KEYS)))
        workload = parse_key(workload, key, value)
    given = {word.partition("=")[0].lower() for word in words}
    for key in KEYS:
        if key in given and not workload.uses(key):
            owners = [name for name, keys in PROCESSES.items() if key in keys]
            belongs = f" ({key} belongs to {', '.join(owners)})" if owners else ""
            raise InputError("workload", f"{key} with {arrivals}", f"accepted keys of {arrivals}: "
                             + ", ".join(name for name in KEYS if workload.uses(name)) + belongs)
    return workload


def parse_key(workload: Workload, key: str, value: str) -> Workload:
    """The workload with one key set from text. Raises InputError."""
    if value == "none" and key in NO_OBJECTIVE:
        return replace(workload, **{key: None})
    try:
        return replace(workload, **{key: KEYS[key].read(value)})
    except InputError as fault:  # of lengths
        raise InputError("workload", f"{key}={value}", fault.accepted) from None
    except (ValueError, OverflowError):
        raise InputError("workload", f"{key}={value}", f"accepted: {key} as {KEYS[key].accepted}") from None


def checked(workload: Workload) -> Workload:
    """Combinations that no single key can refuse. Raises InputError."""
    if workload.arrivals == "replay" and not workload.trace:
        raise InputError("workload", "replay", "accepted: replay trace=NAME")
    if workload.arrivals != "replay" and not workload.requests:
        raise InputError("workload", "requests=0", f"accepted: requests from 1 to {MOST_REQUESTS:,}")
    if workload.arrivals == "onoff" and workload.rate * (workload.on + workload.off) / workload.on > HIGHEST_RATE:
        raise InputError("workload", f"rate={shown(workload.rate)}", "accepted: a mean rate whose rate while ON, "
                         f"rate x (on + off) / on, is at most {HIGHEST_RATE:,.0f} requests/s")
    beyond = [place for _, place in workload.long if place > workload.requests]
    if beyond:
        raise InputError("workload", f"long=...@{beyond[0]}", f"accepted: the number of one of the {workload.requests:,} "
                         "requests")
    return workload


def near(word: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """Names that a mistyped word may have meant."""
    from difflib import get_close_matches  # only on the way to an error

    return tuple(get_close_matches(word[:80], names, 3))
