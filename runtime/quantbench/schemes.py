"""How a layer is to be quantised, as text: format, options, method, activations.

    int4:group=128,symmetric=no+gptq-ordered        q4_1+hqq        int8+smoothquant+a8        nf4

A plan is one of them for all layers, or several by projection, the last that fits winning:

    int4; down=q6_k; 3.v=q8_0; 0.*=none
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pycore.errors import InputError
from pycore.pack.formats import FORMATS, checked, format_of

METHODS = ("nearest", "gptq", "gptq-ordered", "awq", "smoothquant", "hqq")
CALIBRATED = ("gptq", "gptq-ordered", "awq", "smoothquant")
ONLY_FOR = {"gptq": ("int4",), "gptq-ordered": ("int4",), "hqq": ("q4_1",)}
TOKENS = "a8"
PLACE = re.compile(r"(?:(\d+)\.)?(\*|[a-z]+)\s*=\s*([^=;]+(?:=[^;]*)?)")
NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme:
    """A way to quantise one layer.

    method       nearest, gptq, gptq-ordered (act-order), awq, smoothquant, hqq
    activations  whether what goes in is rounded to INT8 token by token too
    """

    format: str
    options: tuple[tuple[str, object], ...] = ()
    method: str = "nearest"
    activations: bool = False

    def __post_init__(self):
        one = format_of(self.format)
        checked(one, dict(self.options))
        for name, value in self.options:
            choices = dict(one.options)[name]
            if value not in choices:
                raise InputError(name, value, f"{one.id} takes " + ", ".join(spelt(choice) for choice in choices))
        if self.method not in METHODS:
            raise InputError("method", self.method, "use one of " + ", ".join(METHODS))
        allowed = ONLY_FOR.get(self.method)
        if allowed and self.format not in allowed:
            raise InputError("method", self.method, f"it is for {', '.join(allowed)}, not {self.format}")

    @property
    def calibrated(self) -> bool:
        """Whether it needs text to look at."""
        return self.method in CALIBRATED

    @property
    def text(self) -> str:
        """As `parse` reads it."""
        options = ",".join(f"{name}={spelt(value)}" for name, value in self.options)
        parts = [self.format + (f":{options}" if options else "")]
        parts += [self.method] if self.method != "nearest" else []
        return "+".join(parts + [TOKENS] * self.activations)


def spelt(value: object) -> str:
    """An option's value as text: yes and no for truths."""
    return {True: "yes", False: "no"}.get(value, str(value)) if isinstance(value, bool) else str(value)


def parse(text: str) -> Scheme:
    """A scheme from its text. Raises InputError."""
    head, *rest = (part.strip() for part in text.strip().lower().split("+"))
    # An id may hold a colon itself (sparse-2:4).
    name = next((one.id for one in FORMATS if head == one.id or head.startswith(f"{one.id}:")), head.partition(":")[0])
    one, given, options = format_of(name), head[len(name) + 1:], []
    for part in filter(None, given.split(",")):
        key, _, value = (piece.strip() for piece in part.partition("="))
        choices = dict(one.options).get(key)
        if choices is None:
            raise InputError("options", part, f"{name} takes " + (", ".join(dict(one.options)) or "none"))
        found = [choice for choice in choices if spelt(choice) == value]
        if not found:
            raise InputError(key, value, f"{name} takes " + ", ".join(spelt(choice) for choice in choices))
        options.append((key, found[0]))
    methods = [part for part in rest if part != TOKENS]
    if len(methods) > 1:
        raise InputError("scheme", text, "name one method")
    return Scheme(format=name, options=tuple(options), method=methods[0] if methods else "nearest",
                  activations=TOKENS in rest)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Which layers take a scheme: None is every one; a scheme of None leaves them as they are."""

    layer: int | None
    projection: str | None
    scheme: Scheme | None

    def fits(self, layer: int, projection: str) -> bool:
        """Whether it is for that projection of that layer."""
        return self.layer in (None, layer) and self.projection in (None, projection)


def parse_plan(text: str) -> tuple[Rule, ...]:
    """Rules from text, in order. Raises InputError."""
    rules = []
    for part in filter(None, (piece.strip() for piece in text.split(";"))):
        match = PLACE.fullmatch(part)
        if match and not is_format(part):
            layer, projection, scheme = match[1], match[2], match[3].strip()
        else:
            layer, projection, scheme = None, "*", part
        rules.append(Rule(layer=None if layer is None else int(layer), projection=None if projection == "*" else projection,
                          scheme=None if scheme == NONE else parse(scheme)))
    if not rules:
        raise InputError("format", text, "name at least one, such as int4 or q4_k")
    return tuple(rules)


def is_format(text: str) -> bool:
    """Whether a rule is a scheme with options ('int4:group=32') and not a place with a scheme."""
    return ":" in text.partition("=")[0]


def scheme_of(rules: Sequence[Rule], layer: int, projection: str) -> Scheme | None:
    """What the last rule that fits says; None where none does."""
    found = None
    for rule in rules:
        if rule.fits(layer, projection):
            found = rule.scheme
    return found
