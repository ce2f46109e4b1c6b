"""From what a client says to what the engine is asked: tokens, limits, sampling. Tokenising takes time: not on the loop."""

from pycore.errors import InputError
from runtime.mini_infer.answers import Ask
from runtime.mini_infer.sampling import Sampling
from runtime.mini_infer.server.refusals import Refusal
from runtime.mini_infer.server.schemas import ChatRequest, Common, CompletionRequest
from runtime.mini_infer.service import Service

COMPLETION_TOKENS = 16  # OpenAI's default for /v1/completions; a chat's answer may fill the context


def check_model(service: Service, name: str | None) -> None:
    """Raise Refusal where a request names another model than is served."""
    if name is not None and name != service.name:
        raise Refusal(404, f"there is no model {name[:200]!r} here; served is {service.name!r}", param="model",
                      code="model_not_found")


def check_stream(request: Common) -> None:
    """Raise Refusal for options of a stream that is none."""
    if request.stream_options is not None and not request.stream:
        raise Refusal(400, "stream_options: only with stream", param="stream_options", code="invalid_value")


def check_places(service: Service, request: Common) -> None:
    """Raise Refusal for more prompts than there are places, however many texts each of them is asked for."""
    prompts, places = len(getattr(request, "prompt", ())), service.seats + service.queue
    if prompts > places:
        raise Refusal(400, f"prompt: {prompts} prompts; accepted: at most {places}, seats with queue", param="prompt",
                      code="invalid_value")


def of_chat(service: Service, request: ChatRequest) -> tuple[Ask, ...]:
    """The one ask of a chat request. Raises Refusal, InputError, NotKnown."""
    if request.top_logprobs is not None and not request.logprobs:
        raise Refusal(400, "top_logprobs: only with logprobs", param="top_logprobs", code="invalid_value")
    most, other = request.max_completion_tokens, request.max_tokens
    if None not in (most, other) and most != other:
        raise Refusal(400, f"max_tokens: {other}, and max_completion_tokens says {most}; leave one out", param="max_tokens",
                      code="invalid_value")
    messages = [_message(index, one.role, one.content) for index, one in enumerate(request.messages)]
    goes_on = request.add_generation_prompt is not False
    prompt = service.words.chat(messages, add_generation_prompt=goes_on, **(request.chat_template_kwargs or {}))
    logprobs = (request.top_logprobs or 0) if request.logprobs else None
    return (_ask(service, request, prompt, most or other, logprobs=logprobs, field="messages", begun=False),)


def _message(index: int, role: str, content: str | None) -> dict[str, str]:
    if content is None:
        field = f"messages[{index}].content"
        raise Refusal(400, f"{field}: is missing", param=field, code="missing_field")
    return {"role": "system" if role == "developer" else role, "content": content}


def of_completion(service: Service, request: CompletionRequest) -> tuple[Ask, ...]:
    """An ask for each prompt of a completion request. Raises Refusal, InputError."""
    if request.best_of not in (None, request.n or 1):
        raise Refusal(400, f"best_of: {request.best_of}; accepted: what n says, {request.n or 1} (all texts are returned)",
                      param="best_of", code="invalid_value")
    if request.echo and request.logprobs is not None:
        raise Refusal(400, "echo: with logprobs is not computed here (those of the prompt would be wanted)", param="echo",
                      code="invalid_value")
    return tuple(_ask(service, request, _tokens(service, prompt), request.max_tokens, logprobs=request.logprobs,
                      field="prompt", begun=True, usual=COMPLETION_TOKENS) for prompt in request.prompt)


def _tokens(service: Service, prompt: str | list[int]) -> tuple[int, ...]:
    """The ids of a prompt. Raises Refusal for ids that the model does not have."""
    if isinstance(prompt, str):
        return service.words.encode(prompt, specials=True)
    _known(service, prompt, "prompt")
    return tuple(prompt)


def _known(service: Service, ids: list[int], field: str) -> None:
    wrong = next((one for one in ids if not 0 <= one < service.vocabulary), None)
    if wrong is not None:
        raise Refusal(400, f"{field}: there is no token {str(wrong)[:40]}; accepted: 0 to {service.vocabulary - 1}",
                      param=field, code="invalid_value")


def _ask(service: Service, request: Common, prompt: tuple[int, ...], most: int | None, *, logprobs: int | None, field: str,
         begun: bool, usual: int | None = None) -> Ask:
    stop_ids = request.stop_token_ids or []
    _known(service, stop_ids, "stop_token_ids")
    most = _within(service, len(prompt), most, usual, field)
    least = request.min_tokens or 0
    if least > most:
        raise InputError("min_tokens", least, f"from 0 to the most tokens that may come, {most}")
    own = () if request.ignore_eos else tuple(token for token in service.words.end if token < service.vocabulary)
    return Ask(prompt=prompt, max_tokens=most, min_tokens=least, samples=request.n or 1, end=own + tuple(stop_ids),
               sampling=_sampling(request, logprobs), stops=tuple(request.stop), begun=begun,
               include_stop=bool(request.include_stop_str_in_output), priority=request.priority or 0)


def _within(service: Service, prompt: int, most: int | None, usual: int | None, field: str) -> int:
    """How many tokens may come: what is asked, else the usual, else all that fit. Raises Refusal where that is too much."""
    room = service.reach - prompt
    why = "context" if service.reach == service.longest else "block pool"
    if prompt < 1:
        raise Refusal(400, f"{field}: is empty; at least one token is needed", param=field, code="invalid_value")
    if room < 1:
        raise Refusal(400, f"{field}: {prompt} tokens; the {why} holds {service.reach}, prompt and answer together",
                      param=field, code="context_length_exceeded")
    if most is not None and most > room:
        raise Refusal(400, f"max_tokens: {most} after a prompt of {prompt}; the {why} holds {service.reach} together",
                      param="max_tokens", code="context_length_exceeded")
    return most or min(usual or room, room)


def _sampling(request: Common, logprobs: int | None) -> Sampling:
    given = {name: getattr(request, name) for name in ("temperature", "top_p", "min_p", "repetition_penalty",
                                                       "presence_penalty", "frequency_penalty", "seed")}
    top_k = max(0, request.top_k or 0)  # -1 says "all" to vLLM
    return Sampling(**{name: value for name, value in given.items() if value is not None}, top_k=top_k, logprobs=logprobs)
