"""What the server answers, asked by OpenAI's own client; texts are held against `transformers` and against a model whose
text is known. Numbers of peer defects are those of the list in which they were found (see test_mini_infer_peer.py)."""

import asyncio
import json

import openai
import pytest
import torch
from mini_infer_serving import END, LOOP, SIGNS, running, write_model, write_parrot
from prometheus_client.parser import text_string_to_metric_families
from transformers import AutoModelForCausalLM, AutoTokenizer

HELLO = [{"role": "user", "content": "hello"}]


@pytest.fixture(scope="module")
def random_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("random")
    write_model(folder)
    return folder


@pytest.fixture(scope="module")
def random(random_folder):
    with running(random_folder, block_size=8) as server:
        yield server


@pytest.fixture(scope="module")
def parrot(tmp_path_factory):
    folder = tmp_path_factory.mktemp("parrot")
    write_parrot(folder)
    with running(folder) as server:
        yield server


@pytest.fixture(scope="module")
def theirs(random_folder):
    return AutoModelForCausalLM.from_pretrained(random_folder).eval(), AutoTokenizer.from_pretrained(random_folder)


@pytest.fixture(autouse=True)
def nothing_stays(request):
    yield
    for name in ("random", "parrot"):
        if name in request.fixturenames:
            request.getfixturevalue(name).settled()


def letters(after: str, count: int) -> str:
    """What the parrot says after a letter."""
    start = LOOP.index(after) + 1
    return "".join(LOOP[(start + index) % 26] for index in range(count))


def complete(server, prompt="a", **more):
    return server.client.completions.create(**({"model": "tiny", "prompt": prompt, "max_tokens": 8, "temperature": 0} | more))


def chat(server, messages=HELLO, **more):
    return server.client.chat.completions.create(**({"model": "tiny", "messages": messages, "max_tokens": 8, "temperature": 0} | more))


# Texts --------------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("prompt", ["hello", "The river, ", "日本"])
def test_text_is_that_of_transformers(prompt, random, theirs):
    model, words = theirs
    ids = words(prompt, return_tensors="pt", add_special_tokens=False).input_ids
    with torch.no_grad():
        out = model.generate(ids, max_new_tokens=24, do_sample=False)[0, ids.shape[1]:]
    found = complete(random, prompt, max_tokens=24)
    assert found.choices[0].text == words.decode(out, skip_special_tokens=True)
    assert found.choices[0].finish_reason == ("stop" if out[-1] == END else "length")
    assert (found.usage.prompt_tokens, found.usage.completion_tokens) == (ids.shape[1], len(out))


@pytest.mark.parametrize("messages", [
    HELLO, [{"role": "system", "content": "Be brief."}, *HELLO, {"role": "assistant", "content": "Yes?"}, {"role": "user", "content": "Go on"}]])
def test_peer_11_a_chat_is_written_by_the_models_own_template(messages, random, theirs):
    model, words = theirs
    ids = words.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt", return_dict=True).input_ids
    with torch.no_grad():
        out = model.generate(ids, max_new_tokens=10, do_sample=False)[0, ids.shape[1]:]
    found = chat(random, messages, max_tokens=10)
    assert found.choices[0].message.content == words.decode(out, skip_special_tokens=True)
    assert found.usage.prompt_tokens == ids.shape[1] and found.object == "chat.completion"


def test_developer_is_system_and_parts_are_text(random):
    plain = chat(random, [{"role": "system", "content": "S"}, {"role": "user", "content": "one\ntwo"}])
    parts = chat(random, [{"role": "developer", "content": "S"},
                          {"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]}])
    assert parts.choices[0].message.content == plain.choices[0].message.content
    assert parts.usage.prompt_tokens == plain.usage.prompt_tokens


def test_the_template_has_variables_and_may_leave_the_answer_unbegun(random):
    plain = chat(random).usage.prompt_tokens
    assert chat(random, extra_body={"chat_template_kwargs": {"loud": True}}).usage.prompt_tokens == plain + len("LOUD")
    assert chat(random, extra_body={"chat_template_kwargs": {"loud": False, "other": [1]}}).usage.prompt_tokens == plain
    assert chat(random, extra_body={"add_generation_prompt": False}).usage.prompt_tokens == plain - len("_assistant\n")


def test_prompts_are_text_ids_or_several(parrot):
    ids = list(parrot.source.words.encode("c"))
    for prompt in ("c", ids, ["c"], [ids]):
        assert complete(parrot, prompt).choices[0].text == letters("c", 8)
    several = complete(parrot, ["a", "k", "x"], n=2)
    assert [choice.text for choice in several.choices] == [letters(one, 8) for one in "aakkxx"]
    assert [choice.index for choice in several.choices] == list(range(6))
    assert several.usage.prompt_tokens == 3 and several.usage.completion_tokens == 48


def test_echo_gives_the_prompt_back(parrot):
    assert complete(parrot, "ab", echo=True).choices[0].text == "ab" + letters("b", 8)
    chunks = list(complete(parrot, "ab", echo=True, stream=True))
    assert chunks[0].choices[0].text == "ab" and "".join(chunk.choices[0].text for chunk in chunks) == "ab" + letters("b", 8)


# Streams ------------------------------------------------------------------------------------------------------------------

def test_a_stream_says_who_speaks_then_each_token_then_the_end(parrot):
    chunks = list(chat(parrot, stream=True))
    assert chunks[0].choices[0].delta.role == "assistant" and not chunks[0].choices[0].delta.content
    assert [chunk.choices[0].delta.content for chunk in chunks[1:-1]] == list(LOOP[:8])
    assert chunks[-1].choices[0].finish_reason == "length" and chunks[-1].choices[0].delta.content is None
    assert all(chunk.choices[0].finish_reason is None for chunk in chunks[:-1])
    assert len({chunk.id for chunk in chunks}) == 1 and all(chunk.usage is None for chunk in chunks)


def test_a_stream_ends_with_usage_where_it_is_asked_for(parrot):
    chunks = list(chat(parrot, stream=True, stream_options={"include_usage": True}))
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens == 8
    assert chunks[-1].usage.total_tokens == chunks[-1].usage.prompt_tokens + 8
    raw = parrot.http.post("/v1/completions", json={"prompt": "a", "max_tokens": 2, "stream": True})
    assert raw.headers["content-type"].startswith("text/event-stream") and raw.text.endswith("data: [DONE]\n\n")
    assert [json.loads(line[6:])["choices"][0]["text"] for line in raw.text.split("\n\n")[:2]] == ["b", "c"]


@pytest.mark.parametrize("stream", [False, True])
def test_peer_10_no_half_character_reaches_a_client(stream, parrot):
    """Twelve tokens of one byte each."""
    asked = {"prompt": "x0", "max_tokens": 40, "stream": stream}
    found = complete(parrot, **asked)
    pieces = [chunk.choices[0].text for chunk in found if chunk.choices[0].text] if stream else [found.choices[0].text]
    assert "".join(pieces) == SIGNS + "1"
    if stream:
        assert pieces == [*SIGNS, "1"]


def test_peer_10_a_text_that_ends_within_a_character_says_so(parrot):
    assert complete(parrot, "0", max_tokens=4).choices[0].text == "é\ufffd"


def test_the_clients_own_helpers_read_it(parrot):
    asked = {"model": "tiny", "messages": HELLO, "max_tokens": 9, "logprobs": True, "stop": "f"}
    with parrot.client.chat.completions.stream(**asked) as stream:
        kinds = {event.type for event in stream}
        assert stream.get_final_completion().choices[0].message.content == "abcde"
    assert {"content.delta", "content.done", "logprobs.content.done"} <= kinds

    async def ask():
        async with openai.AsyncOpenAI(base_url=f"{parrot.url}/v1", api_key="none") as client:
            return await client.chat.completions.create(**asked)

    assert asyncio.run(ask()).choices[0].message.content == "abcde"


# Ends ---------------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize(("more", "text", "finish", "reason"), [
    ({}, SIGNS + "1", "stop", END),
    ({"max_tokens": 2}, "é", "length", None),
    ({"max_tokens": 12}, SIGNS + "1", "length", None),
    ({"max_tokens": 13}, SIGNS + "1", "stop", END),
    ({"stop": "日"}, "é🦜", "stop", "日"),
    ({"stop": ["zz", "🦜日Ž"]}, "é", "stop", "🦜日Ž"),
    ({"stop": ["é"]}, "", "stop", "é"),
    ({"stop": ["nothing of it"]}, SIGNS + "1", "stop", END),
    ({"stop": "日", "extra_body": {"include_stop_str_in_output": True}}, "é🦜日", "stop", "日"),
    ({"stop": "é", "extra_body": {"min_tokens": 3}}, SIGNS + "1", "stop", END),
    ({"extra_body": {"ignore_eos": True}, "max_tokens": 20}, SIGNS + "1!!!!!!!", "length", None),
    ({"extra_body": {"stop_token_ids": [0], "ignore_eos": True}}, SIGNS + "1", "stop", 0),
], ids=str)
def test_peer_11_every_end_is_the_one_that_happened(more, text, finish, reason, parrot):
    for stream in (False, True):
        found = complete(parrot, "0", **({"max_tokens": 40} | more), stream=stream)
        choices = [chunk.choices[0] for chunk in found] if stream else [found.choices[0]]
        assert "".join(choice.text for choice in choices) == text
        assert choices[-1].finish_reason == finish and choices[-1].stop_reason == reason


def test_peer_11_stops_lie_across_tokens_and_no_part_of_one_slips_out(parrot):
    chunks = list(complete(parrot, "a", stop=["efg", "xyz"], max_tokens=30, stream=True))
    assert [chunk.choices[0].text for chunk in chunks if chunk.choices[0].text] == ["b", "c", "d"]
    almost = complete(parrot, "a", stop=["efh", "fgi"], max_tokens=6)
    assert almost.choices[0].text == "bcdefg" and almost.choices[0].finish_reason == "length"  # "fg" was held back, and comes


def test_peer_11_min_tokens_keeps_the_end_away(parrot):
    found = complete(parrot, "1", max_tokens=30, extra_body={"min_tokens": 9})
    assert found.usage.completion_tokens >= 9
    assert complete(parrot, "1", max_tokens=30).usage.completion_tokens == 1


def test_peer_14_counts_that_allow_nothing_are_refused_and_top_p_0_is_greedy(random):
    for more in ({"max_tokens": 0}, {"max_tokens": -1}, {"n": 0}):
        with pytest.raises(openai.BadRequestError) as caught:
            complete(random, **more)
        assert caught.value.param == next(iter(more))
    greedy = complete(random, "hello")
    assert complete(random, "hello", temperature=1.3, top_p=0).choices[0].text == greedy.choices[0].text


def test_peer_14_the_context_is_a_limit(parrot):
    full = complete(parrot, "a" * 500, max_tokens=12)
    assert full.usage.total_tokens == 512 and full.choices[0].finish_reason == "length"
    for prompt, tokens, field in (("a" * 500, 13, "max_tokens"), ("a" * 512, 1, "prompt"), ("a" * 5000, 1, "prompt")):
        with pytest.raises(openai.BadRequestError) as caught:
            complete(parrot, prompt, max_tokens=tokens)
        assert (caught.value.code, caught.value.param) == ("context_length_exceeded", field)
    for name in ("max_tokens", "max_completion_tokens"):
        with pytest.raises(openai.BadRequestError) as caught:
            chat(parrot, **({"max_tokens": None} | {name: 10_000}))
        assert caught.value.code == "context_length_exceeded"


def test_peer_11_max_completion_tokens_counts_and_none_means_the_context(parrot):
    assert chat(parrot, max_tokens=None, max_completion_tokens=3).usage.completion_tokens == 3
    assert chat(parrot, max_tokens=None).usage.total_tokens == 512
    assert complete(parrot, "a", max_tokens=None).usage.completion_tokens == 16  # OpenAI's default
    with pytest.raises(openai.BadRequestError) as caught:
        chat(parrot, max_tokens=3, max_completion_tokens=4)
    assert caught.value.param == "max_tokens"


# Sampling -----------------------------------------------------------------------------------------------------------------

def test_peer_11_a_seed_repeats_and_n_gives_several(random):
    asked = {"temperature": 1.0, "seed": 5, "n": 3, "max_tokens": 12}
    one, two = complete(random, "hello", **asked), complete(random, "hello", **asked)
    texts = [choice.text for choice in one.choices]
    assert texts == [choice.text for choice in two.choices] and len(set(texts)) == 3
    alone = [complete(random, "hello", **(asked | {"n": 1, "seed": 5 + index})).choices[0].text for index in range(3)]
    assert alone == texts
    assert len({complete(random, "hello", temperature=1.0, max_tokens=12).choices[0].text for _ in range(6)}) > 1


def test_n_shares_one_prompt_and_streams_apart(random):
    whole = chat(random, n=3, seed=9, temperature=1.0)
    parts = {0: "", 1: "", 2: ""}
    for chunk in chat(random, n=3, seed=9, temperature=1.0, stream=True):
        parts[chunk.choices[0].index] += chunk.choices[0].delta.content or ""
    assert parts == {choice.index: choice.message.content for choice in whole.choices}
    assert whole.usage.completion_tokens <= 24 and whole.usage.prompt_tokens == chat(random).usage.prompt_tokens


def test_peer_11_logprobs_are_the_models(random, theirs):
    model, words = theirs
    ids = words("hello", return_tensors="pt", add_special_tokens=False).input_ids
    found = complete(random, "hello", logprobs=3, max_tokens=6)
    spoken = complete(random, list(ids[0].tolist()), logprobs=3, max_tokens=6)
    assert spoken.choices[0].logprobs == found.choices[0].logprobs
    chosen = [random.source.words.encode("hello")]
    for logprob, top in zip(found.choices[0].logprobs.token_logprobs, found.choices[0].logprobs.top_logprobs, strict=True):
        with torch.no_grad():
            expected = model(torch.tensor(chosen)).logits[0, -1].log_softmax(-1)
        values, tokens = expected.topk(3)
        assert logprob == pytest.approx(float(values[0]), abs=1e-4)  # greedy: the likeliest
        assert sorted(top.values(), reverse=True) == pytest.approx(values.tolist(), abs=1e-4)
        chosen = [chosen[0] + (int(tokens[0]),)]


def test_peer_11_chat_logprobs_have_bytes(parrot):
    found = chat(parrot, [{"role": "user", "content": "x"}], logprobs=True, top_logprobs=2, max_tokens=3)
    content = found.choices[0].logprobs.content
    assert [one.token for one in content] == list("abc") and [one.bytes for one in content] == [[97], [98], [99]]
    assert all(one.top_logprobs[0].logprob == one.logprob <= 0 and len(one.top_logprobs) == 2 for one in content)
    assert chat(parrot, logprobs=True, max_tokens=2).choices[0].logprobs.content[0].top_logprobs == []
    chunks = list(chat(parrot, logprobs=True, max_tokens=3, stream=True))
    assert [one.token for chunk in chunks if chunk.choices[0].logprobs for one in chunk.choices[0].logprobs.content] == list("abc")


def test_peer_11_logprobs_of_half_characters_name_their_bytes(parrot):
    found = complete(parrot, "0", logprobs=0, max_tokens=20).choices[0].logprobs
    assert found.tokens[:3] == ["bytes:\\xc3", "bytes:\\xa9", "bytes:\\xf0"] and found.tokens[-2:] == ["1", "<|end|>"]
    starts = [offset for token, offset, before in zip(found.tokens, found.text_offset, [-1, *found.text_offset], strict=False)
              if offset != before]
    assert starts[0] == 0 and found.text_offset[-2] == len(SIGNS) and found.text_offset[-1] == len(SIGNS) + 1
    chunks = list(complete(parrot, "0", logprobs=0, max_tokens=20, stream=True))
    assert [one for chunk in chunks if chunk.choices[0].logprobs for one in chunk.choices[0].logprobs.text_offset] == found.text_offset


def test_sampling_fields_of_vllm_change_what_they_name(random):
    wild = {"temperature": 8.0, "max_tokens": 12, "seed": 1}
    greedy = complete(random, "hello", max_tokens=12).choices[0].text
    assert complete(random, "hello", **wild).choices[0].text != greedy
    for more in ({"top_k": 1}, {"min_p": 1.0}):
        assert complete(random, "hello", **wild, extra_body=more).choices[0].text == greedy
    assert complete(random, "hello", **wild, extra_body={"top_k": -1}).choices[0].text == complete(random, "hello", **wild).choices[0].text
    for more in ({"extra_body": {"repetition_penalty": 50.0}}, {"presence_penalty": 2.0, "frequency_penalty": 2.0}):
        text = complete(random, "aaaaaaaa", max_tokens=30, logprobs=0, **more).choices[0].logprobs.tokens
        assert text != complete(random, "aaaaaaaa", max_tokens=30, logprobs=0).choices[0].logprobs.tokens


# About the server ---------------------------------------------------------------------------------------------------------

def test_cached_tokens_are_told(random):
    prompt = "a prompt that nobody else asks in this file"
    first, second = complete(random, prompt), complete(random, prompt)
    assert first.usage.prompt_tokens_details.cached_tokens == 0
    assert second.usage.prompt_tokens_details.cached_tokens == (len(prompt) - 1) // 8 * 8
    assert first.choices[0].text == second.choices[0].text


def test_models(random):
    listed = list(random.client.models.list())
    assert [model.id for model in listed] == ["tiny"] and listed[0].max_model_len == 512
    assert random.client.models.retrieve("tiny").id == "tiny"
    for ask in (lambda: random.client.models.retrieve("other/one"), lambda: chat(random, model="other")):
        with pytest.raises(openai.NotFoundError) as caught:
            ask()
        assert caught.value.code == "model_not_found"


def test_health_and_request_ids(random):
    http = random.http
    assert http.get("/health").json() == {"status": "ok"}
    named = http.get("/health", headers={"X-Request-Id": "mine-1"})
    assert named.headers["x-request-id"] == "mine-1"
    for wrong in ("a b", "x" * 200, "é"):
        other = http.get("/health", headers={"X-Request-Id": wrong.encode()}).headers["x-request-id"]
        assert other != wrong and len(other) == 32
    assert chat(random, extra_headers={"X-Request-Id": "mine-2"}).id == "chatcmpl-mine-2"
    assert "server" not in http.get("/health").headers


def test_peer_11_metrics_count_under_vllms_names(random):
    def read() -> dict:
        families = text_string_to_metric_families(random.http.get("/metrics").text)
        return {(sample.name, sample.labels.get("finished_reason", "")): sample.value for family in families
                for sample in family.samples if "le" not in sample.labels}

    before = read()
    chat(random, max_tokens=5, extra_body={"ignore_eos": True}, n=2)
    complete(random, "hello", max_tokens=3, extra_body={"ignore_eos": True})
    random.settled()
    after = read()
    grown = {name: after[name] - before[name] for name in after}
    prompt = len(random.source.words.chat(HELLO)) + 5
    assert grown["vllm:generation_tokens_total", ""] == 13 and grown["vllm:prompt_tokens_total", ""] == prompt
    assert grown["vllm:request_success_total", "length"] == 3 and grown["vllm:request_success_total", "abort"] == 0
    assert grown["vllm:time_to_first_token_seconds_count", ""] == 3
    assert grown["vllm:inter_token_latency_seconds_count", ""] == 4 + 4 + 2
    for name in ("e2e_request_latency_seconds", "request_time_per_output_token_seconds", "request_queue_time_seconds"):
        assert grown[f"vllm:{name}_count", ""] == 3 and grown[f"vllm:{name}_sum", ""] > 0
    assert grown["vllm:prefix_cache_queries_total", ""] == prompt and "vllm:prefix_cache_hits_total", "" in after
    assert grown["vllm:request_params_n_count", ""] == 2 and grown["vllm:request_params_n_sum", ""] == 2 + 1
    inference = grown["vllm:request_prefill_time_seconds_sum", ""] + grown["vllm:request_decode_time_seconds_sum", ""]
    assert grown["vllm:request_inference_time_seconds_sum", ""] == pytest.approx(inference)
    for name in ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc"):
        assert after[f"vllm:{name}", ""] == 0
    assert ("vllm:num_preemptions_total", "") in after


def test_a_token_without_a_word_has_no_bytes():
    """Rows of a model beyond its tokenizer's words: OpenAI's schema has null where there are none."""
    from runtime.mini_infer.server.shapes import ChatShape

    class Words:
        def token_bytes(self, token: int) -> bytes:
            return b"" if token == 9 else b"a"

    shape = ChatShape.__new__(ChatShape)
    shape.words = Words()
    assert shape._one(9, -1.0) == {"token": "", "logprob": -1.0, "bytes": None} and shape._one(8, -1.0)["bytes"] == [97]


def test_harmless_fields_are_taken(parrot):
    found = chat(parrot, user="me", store=True, metadata={"a": "b"}, service_tier="auto", parallel_tool_calls=False, tools=[],
                 tool_choice="none", response_format={"type": "text"}, logit_bias={}, modalities=["text"], stop=None, seed=None,
                 stream_options=None, safety_identifier="x", prompt_cache_key="y", functions=[])
    assert found.choices[0].message.content == LOOP[:8]
