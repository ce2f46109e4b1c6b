"""What a soak asks a server: random requests of every kind, sense and nonsense, and what each may be answered with."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from runtime.mini_infer.soaking.manners import PLAIN
from runtime.mini_infer.soaking.oracle import BROKEN, Expected, Known

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
LOOKS = ("/metrics", "/v1/models", "/health")
MOST_BODY_BYTES = 1 << 16
JSON_TYPE = "application/json"
OTHER_STOPS = ("never said", "\u00df\u00df", "\n\n\n\n")
SERVED = frozenset({200, 429})
REFUSED = frozenset({400})
MOST_SAMPLES, MOST_PROMPTS = 4, 3
PROMPTS = ("prompt", "messages")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request. `way`: how the client behaves; `patience`: events or, for who hangs up, seconds until it leaves.

    `expected`: the answer of each text, in order; empty where only its shape is known. `known`: the prompts, in order.
    `most`: tokens that a text may have; `logprobs`: whether they are asked for. A bytes body goes out as it is.
    """

    way: str
    path: str
    body: dict[str, Any] | bytes
    statuses: frozenset[int] = SERVED
    kind: str = JSON_TYPE
    known: tuple[Known, ...] = ()
    samples: int = 1
    expected: tuple[Expected, ...] = ()
    echo: bool = False
    most: int = 0
    logprobs: bool = False
    patience: float = 0.0

    @property
    def content(self) -> bytes:
        """The body's bytes."""
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body, ensure_ascii=False).encode()

    def shown(self) -> str:
        """It in words, for whoever repeats it: prompts last, which may be long."""
        content = self.content
        if isinstance(self.body, dict):
            content = replace(self, body=dict(sorted(self.body.items(), key=lambda one: one[0] in PROMPTS))).content
        return f"{self.way} {self.path} {content[:400].decode('utf-8', 'replace')}"


def draw(dice: Random, known: Sequence[Known], longest: int) -> Asked:
    """A request by chance; `longest`: tokens that no text may have."""
    kind = dice.random()
    if kind < 0.12:
        return nonsense(dice, known, longest)
    if kind < 0.16:
        return Asked(way="look", path=dice.choice(LOOKS), body=b"", statuses=frozenset({200}))
    return sense(dice, known)


def sense(dice: Random, known: Sequence[Known]) -> Asked:
    """A request that can be served."""
    one = dice.choice(known)
    prompts = (one,)
    if not one.chat and dice.random() < 0.15:
        alike = [other for other in known if not other.chat and other.manner == one.manner]
        prompts += tuple(dice.choices(alike, k=dice.randint(1, MOST_PROMPTS - 1)))
    most = dice.randint(1, min(len(prompt.tokens) for prompt in prompts))
    body: dict[str, Any] = {"max_tokens": most} | (_messages(dice, one) if one.chat else _prompts(dice, prompts))
    samples = dice.choice((1, 1, 1, 2, MOST_SAMPLES))
    if samples > 1:
        body["n"] = samples
    greedy, echo = one.manner != PLAIN or dice.random() < 0.7, not one.chat and dice.random() < 0.1
    expected = _greedily(dice, body, prompts, most, samples) if greedy else _sampled(dice, body)
    logprobs = not echo and dice.random() < 0.2
    if logprobs:
        body |= {"logprobs": True, "top_logprobs": dice.randint(0, 5)} if one.chat else {"logprobs": dice.randint(0, 5)}
    if echo:
        body["echo"] = True
    way, patience = _way(dice, body)
    return Asked(way=way, path=CHAT if one.chat else COMPLETIONS, body=body, known=prompts, samples=samples,
                 expected=expected, echo=echo, most=most, logprobs=logprobs, patience=patience)


def _messages(dice: Random, one: Known) -> dict[str, Any]:
    parts = dice.random() < 0.3
    return {"messages": [{"role": role, "content": [{"type": "text", "text": content}] if parts else content}
                         for role, content in one.said]}


def _prompts(dice: Random, prompts: tuple[Known, ...]) -> dict[str, Any]:
    given = [list(one.prompt) if dice.random() < 0.3 else one.said for one in prompts]
    return {"prompt": given if len(given) > 1 else given[0]}


def _greedily(dice: Random, body: dict[str, Any], prompts: tuple[Known, ...], most: int, samples: int
              ) -> tuple[Expected, ...]:
    """Make it a request whose answers are known; those."""
    body |= dice.choice(({"temperature": 0}, {"temperature": 0}, {"temperature": 0.9, "top_k": 1}, {"top_p": 0, "seed": 3}))
    manner, stops, also, include = prompts[0].manner, [], (), False
    body |= manner.fields(most)
    ends = manner.least > 0 or dice.random() < 0.7
    if not ends:
        body["ignore_eos"] = True
    if not manner.least:
        stops, also = _stops(dice, prompts[0].text(most)), _last(dice, prompts[0].tokens[:most])
    if also:
        body["stop_token_ids"] = also
    if stops:
        include = dice.random() < 0.3
        body |= {"stop": stops if len(stops) > 1 or dice.random() < 0.5 else stops[0]}
        body |= {"include_stop_str_in_output": True} if include else {}
    return tuple(one.expected(most, stops=stops, include=include, ends=ends, also=also)
                 for one in prompts for _ in range(samples))


def _last(dice: Random, tokens: Sequence[int]) -> list[int]:
    """Now and then one that comes in the text, as a token that ends it."""
    return [dice.choice(tokens)] if dice.random() < 0.1 else []


def _stops(dice: Random, text: str) -> list[str]:
    """Some that come in the text, across tokens perhaps, and some that do not."""
    found = []
    if dice.random() < 0.35 and text:
        at = dice.randrange(len(text))
        found = [text[at:at + dice.randint(1, 6)].split(BROKEN)[0], *dice.sample(OTHER_STOPS, 2)]
    return [stop for stop in found[:dice.randint(1, 3)] if stop]


def _sampled(dice: Random, body: dict[str, Any]) -> tuple[Expected, ...]:
    """Make it a request with chance in it; nothing is known of its answers but their shape."""
    body["temperature"] = round(dice.uniform(0.1, 1.5), 3)
    for name, value in (("seed", dice.randrange(1000)), ("top_p", 0.9), ("top_k", 20), ("min_p", 0.05),
                        ("repetition_penalty", 1.2), ("presence_penalty", 0.5), ("frequency_penalty", -0.5),
                        ("min_tokens", 1), ("ignore_eos", True), ("user", "somebody"), ("stop", ["e", "a "])):
        if dice.random() < 0.25:
            body[name] = value
    return ()


def _way(dice: Random, body: dict[str, Any]) -> tuple[str, float]:
    """How the client behaves, and its patience."""
    kind = dice.random()
    if kind < 0.1:
        return "hangs up", dice.choice((0.0, 0.002, 0.02, 0.1)) * dice.random()
    if kind < 0.15:
        return "is gone", 0.0
    if kind < 0.45:
        return "whole", 0.0
    body["stream"] = True
    if dice.random() < 0.5:
        body["stream_options"] = {"include_usage": True}
    return ("leaves", dice.randint(0, 12)) if kind < 0.6 else ("stream", 0.0)


def nonsense(dice: Random, known: Sequence[Known], longest: int) -> Asked:
    """A request that cannot be served, or a good one of which some bytes have changed."""
    path = dice.choice((COMPLETIONS, CHAT))
    good = {"prompt": "a"} if path == COMPLETIONS else {"messages": [{"role": "user", "content": "a"}]}
    kind = dice.randrange(8)
    if kind == 0:
        return _bent(dice, known)
    if kind == 1:
        return _raw(path, dice.choice(NO_JSON))
    if kind == 2:
        return _raw(path, json.dumps(good).encode().replace(b'"a"', b'"' + dice.choice(NO_UTF8) + b'"'))
    if kind == 3:
        return _raw(path, b'{"prompt": "' + b"x" * (MOST_BODY_BYTES + dice.randrange(1 << 18)) + b'"}', frozenset({413}))
    if kind == 4:
        return _raw(COMPLETIONS, json.dumps({"prompt": [1] * (longest + dice.randrange(100))}).encode())
    if kind == 5:
        return _raw(path, json.dumps(good | dice.choice(WRONG)).encode())
    if kind == 6:
        return Asked(way="half a body", path=path, body=json.dumps(good).encode(), statuses=REFUSED)
    other = dice.choice((("/v1/nothing", 404), (path + "/", 404), (path, 415)))
    return Asked(way="malformed", path=other[0], body=json.dumps(good).encode(), statuses=frozenset({other[1], 307, 405}),
                 kind="text/plain" if other[1] == 415 else JSON_TYPE)


def _raw(path: str, body: bytes, statuses: frozenset[int] = REFUSED) -> Asked:
    return Asked(way="malformed", path=path, body=body, statuses=statuses)


def _bent(dice: Random, known: Sequence[Known]) -> Asked:
    """Some bytes of a good request changed: it may be refused, or mean something else."""
    asked = sense(dice, known)
    bytes_ = bytearray(json.dumps(asked.body | {"stream": False, "stream_options": None}).encode())
    for _ in range(dice.randint(1, 4)):
        bytes_[dice.randrange(len(bytes_))] = dice.randrange(256)
    return _raw(asked.path, bytes(bytes_), frozenset({200, 400, 404, 429}))


NO_JSON = (b"", b"{", b"[]", b"null", b'"text"', b"{'prompt': 'a'}", b'{"prompt": "a",}', b'{"prompt": NaN}', b"[" * 20000,
           b'{"prompt": "a"} more', b'{"prompt": "a\\ud800"}', b"\x00" * 100)
NO_UTF8 = (b"\xff", b"\xc3\x28", b"\xed\xa0\x80", b"\xe2\x82", b"\xf5\x80\x80\x80")
WRONG = (
    {"prompt": None, "messages": None}, {"max_tokens": "5"}, {"max_tokens": 0}, {"max_tokens": -1}, {"max_tokens": 1.5},
    {"max_tokens": 10**30}, {"max_tokens": True}, {"temperature": "hot"}, {"temperature": -1}, {"temperature": 1e400},
    {"top_p": 2}, {"top_k": -2}, {"min_p": -0.1}, {"n": 0}, {"n": 10**6}, {"n": 100}, {"stop": [""]}, {"stop": ["x"] * 17},
    {"stop": {"a": 1}}, {"stop": "x" * 5000}, {"seed": 1.5}, {"seed": 1 << 80}, {"stream": "yes"}, {"tempreature": 0},
    {"logit_bias": {"1": 100}}, {"stream_options": {"include_usage": True}}, {"min_tokens": 10**6}, {"presence_penalty": 3},
    {"repetition_penalty": 0}, {"priority": "high"}, {"stop_token_ids": [10**9]}, {"stop_token_ids": [-1]},
)
