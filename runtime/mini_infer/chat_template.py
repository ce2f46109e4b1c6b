"""A model's chat template: a Jinja program out of the model's own files, so it runs in a sandbox and is given plain data.

What templates may use is what `transformers` gives them: trim_blocks and lstrip_blocks, `break` and `continue`, the
`generation` tag (it marks text and changes none), `tojson` without HTML escapes, `raise_exception`, `strftime_now`, `dict`.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING

from pycore.errors import InputError, SourceError

if TYPE_CHECKING:
    from jinja2 import Template
    from jinja2.sandbox import ImmutableSandboxedEnvironment

MOST_CHARACTERS = 16 << 20
ROLES_AT_MOST = 64
JSON = (str, int, float, bool, type(None))


class ChatTemplate:
    """One template, with the model's special tokens by name (`bos_token`, ...). Raises SourceError where it is no template.
    """

    def __init__(self, text: str, special: Mapping[str, object], source: str):
        from jinja2 import TemplateError

        self.text, self.special, self.source = text, dict(special), source
        try:
            self.compiled: Template = environment().from_string(text)
        except (TemplateError, RecursionError) as error:
            raise SourceError(source, f"has a chat template that is no Jinja: {said(error)}") from None

    def render(self, messages: Sequence[Mapping[str, object]], /, *, add_generation_prompt: bool = True,
               **more: object) -> str:
        """The conversation as text; `more` are variables of its own (`enable_thinking`). Raises InputError."""
        checked = [message(one) for one in messages]
        if not checked:
            raise InputError("messages", "none", "accepted: at least one message")
        given = {"tools": None, "documents": None} | self.special | plain(more)
        try:
            return self._written(messages=checked, add_generation_prompt=add_generation_prompt, **given)
        except InputError:
            raise
        except Exception as error:  # a template is a program: it may raise anything
            raise InputError("messages", said(error), "accepted: what the model's chat template takes") from None

    def _written(self, /, **given: object) -> str:
        parts, size = [], 0
        for part in self.compiled.generate(**given):
            parts.append(part)
            size += len(part)
            if size > MOST_CHARACTERS:
                raise InputError("messages", f"more than {size:,} characters", f"accepted: at most {MOST_CHARACTERS:,}")
        return "".join(parts)


def said(error: BaseException) -> str:
    """An error in one line."""
    return " ".join(str(error).split()) or type(error).__name__


def message(given: Mapping[str, object]) -> dict[str, object]:
    """A message as templates read it: a role, content as text, whatever else it has. Raises InputError.

    Content may be parts as OpenAI writes them; text parts are joined by line breaks, others are refused.
    """
    if not isinstance(given, Mapping) or not isinstance(given.get("role"), str):
        raise InputError("messages", given, "accepted: objects with a role and content")
    if not given["role"] or len(given["role"]) > ROLES_AT_MOST:
        raise InputError("role", given["role"], f"accepted: 1 to {ROLES_AT_MOST} characters")
    content = given.get("content")
    if isinstance(content, Sequence) and not isinstance(content, str):
        content = "\n".join(text_of(part) for part in content)
    if content is not None and not isinstance(content, str):
        raise InputError("content", content, "accepted: text, or parts of type text")
    others = {name: value for name, value in given.items() if value is not None} | {"content": content}
    return plain({name: value for name, value in others.items() if value is not None})


def text_of(part: object) -> str:
    """The text of one part of a message's content. Raises InputError."""
    if isinstance(part, str):
        return part
    if isinstance(part, Mapping) and part.get("type") == "text" and isinstance(part.get("text"), str):
        return part["text"]
    kind = part.get("type") if isinstance(part, Mapping) else type(part).__name__
    raise InputError("content", f"a part of type {kind}", "accepted: parts of type text; this model reads text only")


def plain(value: object) -> object:
    """Data of JSON's own types only: an object with methods is nothing to hand to somebody else's program."""
    if type(value) in JSON:
        return value
    if isinstance(value, Mapping):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    raise InputError("messages", type(value).__name__, "accepted: JSON's own types")


@lru_cache(maxsize=1)
def environment() -> "ImmutableSandboxedEnvironment":
    """Where templates are compiled."""
    from jinja2 import TemplateError, nodes
    from jinja2.ext import Extension, loopcontrols
    from jinja2.parser import Parser
    from jinja2.sandbox import ImmutableSandboxedEnvironment, SecurityError
    from jinja2.utils import Namespace

    class Generation(Extension):
        """{% generation %} ... {% endgeneration %}: the text between, as it is."""

        tags = {"generation"}

        def parse(self, parser: Parser) -> nodes.Node:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return nodes.Scope(body, lineno=line)

    def raise_exception(text: str) -> None:
        raise TemplateError(text)

    class Names(Namespace):
        """A namespace whose names begin with no underscore: those are Python's own."""

        def __init__(self, *pairs: object, **names: object):
            super().__init__({str(name): value for name, value in dict(*pairs, **names).items() if free(name)})

        def __setitem__(self, name: str, value: object) -> None:
            super().__setitem__(name, value) if free(name) else None

    def free(name: object) -> bool:
        if str(name).startswith("_"):
            raise SecurityError(f"a namespace has no {str(name)[:40]!r}")
        return True

    class Sandbox(ImmutableSandboxedEnvironment):
        """Products are looked at before they are taken: '7' * 999999999 would be, even while a template is compiled."""

        intercepted_binops = frozenset(("*", "**"))

        def call_binop(self, context: object, operator: str, left: object, right: object) -> object:
            if product_size(operator, left, right) > MOST_CHARACTERS:
                raise SecurityError(f"a product of more than {MOST_CHARACTERS:,} characters or digits is not taken")
            return super().call_binop(context, operator, left, right)

    made = Sandbox(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    made.filters["tojson"] = tojson
    made.globals |= {"raise_exception": raise_exception, "strftime_now": lambda form: datetime.now().strftime(form),
                     "dict": lambda *pairs, **names: dict(*pairs, **names), "namespace": Names}
    return made


def product_size(operator: str, left: object, right: object) -> int:
    """How many items a product (or binary digits a power) would have, about; 0 for what is no larger than its parts."""
    if operator == "**":
        return left.bit_length() * max(0, right) if isinstance(left, int) and isinstance(right, int) else 0
    for many, times in ((left, right), (right, left)):
        if isinstance(many, str | list | tuple) and isinstance(times, int):
            return len(many) * max(0, times)
    return 0


def tojson(value: object, ensure_ascii: bool = False, indent: int | None = None,
           separators: tuple[str, str] | None = None, sort_keys: bool = False) -> str:
    """JSON as templates write it."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
