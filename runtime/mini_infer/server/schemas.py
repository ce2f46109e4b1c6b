"""What a request may say: OpenAI's fields, vLLM's additions, nothing else.

A field that would change the answer and is not computed here is refused, unless it says what happens anyhow; those that
only concern OpenAI's own bookkeeping (`user`, `metadata`, ...) are taken and change nothing. Types are strict: "5" is no
number. https://platform.openai.com/docs/api-reference, https://docs.vllm.ai (extra parameters of its server).
"""

import difflib
from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, FailFast, Field, ValidationError

from runtime.mini_infer.server.refusals import Refusal

MOST_STOPS, LONGEST_STOP, MOST_SAMPLES, MOST_LOGPROBS = 16, 4096, 128, 20
MOST_MESSAGES, MOST_PROMPTS = 4096, 128


def _only(*accepted: object) -> BeforeValidator:
    """A field that may say what happens anyhow, and nothing else."""
    def check(value: object) -> object:
        if not any(type(value) is type(one) and value == one for one in (None, *accepted)):
            raise ValueError("is not computed here; leave it out")
        return value

    return BeforeValidator(check)


def _stops(value: object) -> object:
    given = [value] if isinstance(value, str) else [] if value is None else value
    if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
        raise ValueError("accepted: a string or a list of strings")
    if len(given) > MOST_STOPS:
        raise ValueError(f"{len(given)} stops; accepted: at most {MOST_STOPS}")
    if any(not 0 < len(one) <= LONGEST_STOP for one in given):
        raise ValueError(f"accepted: strings of 1 to {LONGEST_STOP} characters")
    return given


def _prompts(value: object) -> object:
    """A text, ids, or a list of either, as a list of texts and lists of ids."""
    given = value if isinstance(value, list) and value and not _ids(value) else [value]
    if len(given) > MOST_PROMPTS:
        raise ValueError(f"{len(given)} prompts; accepted: at most {MOST_PROMPTS} in one request")
    if not all(isinstance(one, str) or isinstance(one, list) and _ids(one) for one in given):
        raise ValueError("accepted: a string, a list of token ids, or a list of either")
    return given


def _ids(value: list) -> bool:
    return all(type(one) is int for one in value)


def _content(value: object) -> object:
    """A message's text: a string, or parts of kind text, one line each."""
    if value is None or isinstance(value, str):
        return value
    parts = value if isinstance(value, list) else [value]
    for part in parts:
        kind = part.get("type") if isinstance(part, dict) else None
        if kind != "text":
            raise ValueError(f"a part of type {str(kind)[:40]!r}; accepted: a string, or parts of type 'text'")
        if set(part) != {"type", "text"} or not isinstance(part["text"], str):
            raise ValueError("a part of type 'text' has a string 'text' and nothing else")
    return "\n".join(part["text"] for part in parts)


def _variables(value: object) -> object:
    """Variables of a chat template (`enable_thinking`); what the template is given otherwise, by the request
    or by its model, is not among them, nor is what is refused as a field."""
    taken = {"add_generation_prompt", "messages", "self", "tools", "documents", "bos_token", "eos_token", "pad_token",
             "unk_token", "raise_exception", "strftime_now", "loop", "range", "dict", "namespace"}
    if value is not None and (not isinstance(value, dict) or taken & value.keys()):
        raise ValueError(f"accepted: an object without {', '.join(sorted(taken))}")
    return value


Count = Annotated[int, Field(ge=1, le=1 << 31)]
Ignored = Any
STRICT = ConfigDict(extra="forbid", strict=True)


class StreamOptions(BaseModel):
    """`stream_options`."""

    model_config = STRICT
    include_usage: bool | None = None
    include_obfuscation: Ignored = None


class Message(BaseModel):
    """One message of a conversation."""

    model_config = STRICT
    role: Literal["system", "developer", "user", "assistant"]
    content: Annotated[str | None, BeforeValidator(_content)] = None
    name: Annotated[str, Field(max_length=256)] | None = None
    refusal: Annotated[Any, _only()] = None
    annotations: Annotated[Any, _only([])] = None
    audio: Annotated[Any, _only()] = None
    function_call: Annotated[Any, _only()] = None
    tool_calls: Annotated[Any, _only([])] = None


class Common(BaseModel):
    """What both kinds of request may say. None is as good as absent, as OpenAI has it."""

    model_config = STRICT
    model: Annotated[str, Field(max_length=1024)] | None = None
    max_tokens: Count | None = None
    temperature: float | None = None
    top_p: float | None = None
    n: Annotated[int, Field(ge=1, le=MOST_SAMPLES)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    stop: Annotated[list[str], BeforeValidator(_stops)] = []
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    user: Ignored = None
    logit_bias: Annotated[Any, _only({})] = None
    top_k: Annotated[int, Field(ge=-1)] | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    min_tokens: Annotated[int, Field(ge=0)] | None = None
    ignore_eos: bool | None = None
    stop_token_ids: Annotated[list[int], Field(max_length=MOST_STOPS)] | None = None
    include_stop_str_in_output: bool | None = None
    priority: Annotated[int, Field(ge=-(1 << 31), le=1 << 31)] | None = None


class CompletionRequest(Common):
    """`POST /v1/completions`."""

    prompt: Annotated[list[str | list[int]], BeforeValidator(_prompts)]
    logprobs: Annotated[int, Field(ge=0, le=MOST_LOGPROBS)] | None = None
    echo: bool | None = None
    best_of: int | None = None
    suffix: Annotated[Any, _only("")] = None


class ChatRequest(Common):
    """`POST /v1/chat/completions`."""

    messages: Annotated[list[Message], FailFast(), Field(min_length=1, max_length=MOST_MESSAGES)]
    max_completion_tokens: Count | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=MOST_LOGPROBS)] | None = None
    add_generation_prompt: bool | None = None
    chat_template_kwargs: Annotated[dict[str, Any] | None, BeforeValidator(_variables)] = None
    store: Ignored = None
    metadata: Ignored = None
    service_tier: Ignored = None
    parallel_tool_calls: Ignored = None
    prompt_cache_key: Ignored = None
    prompt_cache_retention: Ignored = None
    safety_identifier: Ignored = None
    tools: Annotated[Any, _only([])] = None
    tool_choice: Annotated[Any, _only("none", "auto")] = None
    functions: Annotated[Any, _only([])] = None
    function_call: Annotated[Any, _only("none", "auto")] = None
    response_format: Annotated[Any, _only({"type": "text"})] = None
    modalities: Annotated[Any, _only(["text"])] = None
    audio: Annotated[Any, _only()] = None
    prediction: Annotated[Any, _only()] = None
    web_search_options: Annotated[Any, _only()] = None
    reasoning_effort: Annotated[Any, _only("none")] = None
    verbosity: Annotated[Any, _only()] = None


Kind = TypeVar("Kind", bound=Common)


def read(kind: Callable[..., Kind], data: dict[str, object]) -> Kind:
    """A body as a request of a kind. Raises Refusal naming the first field at fault."""
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        raise _fault(kind, error.errors(include_url=False, include_context=False)[0]) from None


def _fault(kind: type[Common], error: dict[str, Any]) -> Refusal:
    path = ""
    for step in error["loc"]:
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else str(step)
    if error["type"] == "extra_forbidden":
        shown, known = path[:80], list(kind.model_fields)
        near = difflib.get_close_matches(shown, known, 1, 0.75)
        hint = f"; did you mean {near[0]}?" if near else ""
        return Refusal(400, f"unknown field: {shown}{hint}", param=shown, code="unknown_field")
    if error["type"] == "missing":
        return Refusal(400, f"{path}: is missing", param=path, code="missing_field")
    words = error["msg"].removeprefix("Value error, ")
    value = repr(error["input"])
    shown = value if len(value) <= 80 else value[:77] + "..."
    return Refusal(400, f"{path}: {words[:1].lower()}{words[1:]}; given: {shown}", param=path, code="invalid_value")
