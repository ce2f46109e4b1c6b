"""What a client asks an engine for, what comes back, and what the engine keeps of it meanwhile."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from pycore.errors import InputError
from pycore.serving.request import Request
from pycore.serving.sequence import Sequence as Scheduled
from runtime.mini_infer.sampling import SEEDS, Choice, Sampler, Sampling
from runtime.mini_infer.usage import Usage

Finish = Literal["stop", "length", "aborted", "refused", "error"]
StopWhen = Callable[[int], bool]
GREEDY = Sampling(temperature=0.0)
MOST_SAMPLES = 128


def refuse_counts(most: int | None, least: int) -> None:
    """Raise InputError where so many tokens cannot be asked for; None: as many as there is room for."""
    if most is not None and most < 1:
        raise InputError("max_tokens", most, "at least 1")
    if least < 0 or most is not None and least > most:
        raise InputError("min_tokens", least, "at least 0" if most is None else f"from 0 to max_tokens, {most}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """What a client asks for, in tokens. `end`: tokens that end it, unless `ignore_end` or before `min_tokens`.

    `samples` continuations of one prompt are drawn, each with a random stream of its own (a seed s gives sample i the
    seed s + i). `stop_when` is told every token that came and says whether it was the last: for stops that only text can
    see; several samples need one each, as a tuple.
    `priority`, `deadline_ns` and `predicted_output` are for policies (pycore/serving/request.py).
    Raises InputError for counts that make no sense (Request's own checks come with `Engine.add`).
    """

    id: str
    prompt: tuple[int, ...]
    max_tokens: int = 16
    min_tokens: int = 0
    end: tuple[int, ...] = ()
    ignore_end: bool = False
    sampling: Sampling = GREEDY
    samples: int = 1
    stop_when: StopWhen | tuple[StopWhen, ...] | None = None
    priority: int = 0
    deadline_ns: int | None = None
    predicted_output: int | None = None

    def __post_init__(self):
        refuse_counts(self.max_tokens, self.min_tokens)
        if not 1 <= self.samples <= MOST_SAMPLES:
            raise InputError("samples", self.samples, f"from 1 to {MOST_SAMPLES}")
        if self.stop_when is not None and len(self._stops()) != self.samples:
            raise InputError("stop_when", f"{len(self._stops())} of them", f"one for each of {self.samples} samples")

    def _stops(self) -> tuple[StopWhen, ...]:
        return self.stop_when if isinstance(self.stop_when, tuple) else (self.stop_when,)

    def request(self, arrival_ns: int) -> Request:
        """It as the control plane sees it. Raises InputError."""
        return Request(id=self.id, arrival_ns=arrival_ns, prompt_tokens=len(self.prompt), output_tokens=self.max_tokens,
                       token_ids=self.prompt, priority=self.priority, deadline_ns=self.deadline_ns,
                       predicted_output=self.predicted_output)

    def ids(self) -> tuple[str, ...]:
        """The ids of its samples: its own, then its own with /1, /2, ... after it."""
        return (self.id, *(f"{self.id}/{sample}" for sample in range(1, self.samples)))

    def sample(self, sample: int) -> "Generation":
        """One sample of it, as a request of its own."""
        if self.samples == 1:
            return self
        stop_when = None if self.stop_when is None else self._stops()[sample]
        seed = self.sampling.seed
        if seed is not None and sample:
            seed = (seed + sample + SEEDS) % (2 * SEEDS) - SEEDS
        return replace(self, id=self.ids()[sample], samples=1, stop_when=stop_when,
                       sampling=replace(self.sampling, seed=seed))


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """One thing that came out for one sample: a token, the end, or both. `reason` says more of an end.

    `id` is the sample's: the request's own for the first, followed by "/1", "/2", ... for others. `usage` comes with an end;
    of a request that ends before its first token every sample says what the request took.
    """

    id: str
    sample: int = 0
    choice: Choice | None = None
    finish: Finish | None = None
    reason: str = ""
    usage: Usage | None = None

    @property
    def request(self) -> str:
        """Id of the request that it is a sample of."""
        return self.id.removesuffix(f"/{self.sample}") if self.sample else self.id


@dataclass(slots=True, kw_only=True, eq=False)
class Live:
    """A sample under way: `tokens` are prompt and output so far.

    `sequence` is what the scheduler knows of it; None for one that waits for the first token of the request's first
    sample, whose `others` they are until then. `drafted` of its tokens were guessed, `accepted` of those were right.
    """

    generation: Generation
    sampler: Sampler
    tokens: list[int]
    request: str
    sample: int = 0
    sequence: Scheduled | None = None
    others: "tuple[Live, ...]" = ()
    drafted: int = 0
    accepted: int = 0

    @property
    def id(self) -> str:
        return self.generation.id

    def ended_by(self, token: int) -> bool:
        """Take the next token; whether it is the last. Told to `stop_when` in any case."""
        self.tokens.append(token)
        self.sampler.said_now(token)
        asked, enough = self.generation, self.sampler.count >= self.generation.min_tokens
        told = asked.stop_when is not None and asked.stop_when(token)
        return enough and (told or not asked.ignore_end and token in asked.end)

    def take(self, choices: Sequence[Choice], target: int) -> "Told":
        """Take the tokens of a step, up to the one that ends it; `target` of them are allowed in all."""
        for index, choice in enumerate(choices):
            kept = tuple(choices[:index + 1])
            try:
                ended = self.ended_by(choice.token)
            except Exception as error:  # what the client handed in must not stop the others
                return Told(live=self, choices=kept, finish="error", reason=f"its stop_when failed: {error!r}")
            if ended or self.sampler.count >= target:
                return Told(live=self, choices=kept, finish="stop" if ended else "length")
        return Told(live=self, choices=tuple(choices))

    def usage(self) -> Usage:
        """What it took so far."""
        known = self.sequence
        prompt = len(self.generation.prompt)
        return Usage(prompt_tokens=prompt, output_tokens=len(self.tokens) - prompt,
                     cached_tokens=known.cached_tokens if known else 0, preemptions=known.preemptions if known else 0,
                     drafted=self.drafted, accepted=self.accepted)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Told:
    """What a step gave one sample: the tokens kept, and the end if it came. Where its `stop_when` failed, it did so at the
    last of them."""

    live: Live
    choices: tuple[Choice, ...]
    finish: Finish | None = None
    reason: str = ""

    @property
    def id(self) -> str:
        return self.live.id

    @property
    def tokens(self) -> tuple[int, ...]:
        return tuple(choice.token for choice in self.choices)

    def outputs(self) -> tuple[Output, ...]:
        """One a token, the end with the last one; a failure comes in place of the token at which it happened."""
        live, last = self.live, len(self.choices) - 1
        failed = self.finish == "error"
        return tuple(Output(id=live.id, sample=live.sample, choice=None if failed and index == last else choice,
                            finish=self.finish if index == last else None, reason=self.reason if index == last else "",
                            usage=live.usage() if self.finish and index == last else None)
                     for index, choice in enumerate(self.choices))


def lives(generation: Generation, banned: Sequence[int]) -> Live:
    """The first sample of a request, with the others beside it. `banned`: tokens that may not come too early."""
    made = []
    for index in range(generation.samples):
        one = generation.sample(index)
        sampler = Sampler(one.sampling, one.prompt, banned=banned, least=one.min_tokens)
        made.append(Live(generation=one, sampler=sampler, tokens=list(one.prompt), request=generation.id, sample=index))
    made[0].others = tuple(made[1:])
    return made[0]
