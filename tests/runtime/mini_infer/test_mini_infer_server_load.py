"""The server among many clients: it answers while it computes, forgets who goes away, tells who is too many, ends in order.

Where a test needs a slow engine, each step sleeps first: time is then the engine's, not this machine's.
"""

import asyncio
import json
import random
import re
import socket
import threading
import time

import httpx
import openai
import pytest
from mini_infer_serving import LOOP, running, until, write_model, write_parrot

from runtime.mini_infer import projections
from runtime.mini_infer.server.application import Settings

COMPLETIONS = "/v1/completions"


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    made = tmp_path_factory.mktemp("parrot"), tmp_path_factory.mktemp("random")
    write_parrot(made[0], context=8192)
    write_model(made[1])
    return made


def slow(server, seconds: float):
    """Let every step of the engine take so much longer; returns what sets that."""
    real, setting = server.engine.step, [seconds]

    def step():
        time.sleep(setting[0])
        return real()

    server.engine.step = step
    return lambda new: setting.__setitem__(0, new)


def long(server, tokens: int = 2000, **more):
    """A stream that has begun."""
    stream = server.client.completions.create(**({"model": "tiny", "prompt": "a", "max_tokens": tokens, "temperature": 0, "stream": True} | more))
    next(iter(stream))
    return stream


def test_peer_8_health_answers_while_a_step_runs(folders):
    """Eight texts under way, steps of 200 ms: the other engine's health took as long as its steps, or longer."""
    with running(folders[0], kv_blocks=1024) as server:
        faster = slow(server, 0.2)
        streams = [long(server) for _ in range(3)]
        times = []
        for _ in range(30):
            begun = time.monotonic()
            assert server.http.get("/health").json() == {"status": "ok"}
            times.append(time.monotonic() - begun)
        assert sorted(times)[15] < 0.1, times
        begun = time.monotonic()
        assert server.http.get("/metrics").status_code == 200 and time.monotonic() - begun < 0.15
        faster(0)
        for stream in streams:
            stream.close()
        server.settled()


def test_peer_8_health_answers_while_a_large_text_becomes_tokens(folders):
    """Python's lock is not held meanwhile, and a short request is not behind it."""
    with running(folders[0], settings=Settings(most_body_bytes=1 << 24)) as server:
        ended = []

        def large():
            ended.append(server.http.post(COMPLETIONS, json={"prompt": "some words, " * 60_000}).json()["error"]["code"])

        thread, begun, times = threading.Thread(target=large), time.monotonic(), []
        thread.start()
        with httpx.Client(base_url=server.url, timeout=30, trust_env=False) as client:
            while thread.is_alive():
                at = time.monotonic()
                assert client.get("/health").status_code == 200
                times.append(time.monotonic() - at)
                time.sleep(0.02)
        whole = time.monotonic() - begun
        assert ended == ["context_length_exceeded"] and max(times) < whole / 2, (whole, sorted(times)[-5:])


def test_peer_8_each_token_comes_when_it_is_there(folders):
    """Steps of 100 ms: so far apart are the tokens, none held back to come with the next."""
    with running(folders[0]) as server:
        slow(server, 0.1)
        times, texts = [], []
        with server.http.stream("POST", COMPLETIONS, json={"prompt": "a", "max_tokens": 12, "temperature": 0, "stream": True}) as answer:
            for line in answer.iter_lines():
                if line.startswith("data: {"):
                    times.append(time.monotonic())
                    texts.append(json.loads(line[6:])["choices"][0]["text"])
        assert texts == [*LOOP[1:13], ""]
        gaps = sorted(after - before for before, after in zip(times[:12], times[1:12], strict=False))
        assert gaps[1] > 0.03 and sum(gaps) > 11 * 0.1 * 0.9, gaps


def test_peer_9_dropped_streams_free_everything_at_once(folders):
    with running(folders[0], kv_blocks=1024, max_sequences=8) as server:
        slow(server, 0.01)
        streams = [long(server) for _ in range(8)]
        assert server.service.under_way == 8 and server.engine.scheduler.pool.used >= 8
        for stream in streams:
            stream.close()
        until(lambda: server.service.under_way == 0, 2)
        server.settled(2)
        done = server.service.statistics.steps
        found = server.client.completions.create(model="tiny", prompt="a", max_tokens=5, temperature=0)
        assert found.choices[0].text == "bcdef"
        assert server.service.statistics.steps - done <= 7  # nothing was left to compute for those who had gone
        assert 'vllm:request_success_total{finished_reason="abort",model_name="tiny"} 8.0' in server.http.get("/metrics").text


@pytest.mark.parametrize("stream", [False, True])
def test_peer_9_who_hangs_up_before_the_answer_is_dropped_too(stream, folders):
    """One runs, one waits in the queue; both clients go away without having read anything."""
    with running(folders[0], max_sequences=1) as server:
        slow(server, 0.01)
        first = long(server)
        body = {"prompt": "b", "max_tokens": 2000, "stream": stream}
        with pytest.raises(httpx.ReadTimeout), httpx.Client(base_url=server.url, timeout=0.3, trust_env=False) as client:
            if stream:
                with client.stream("POST", COMPLETIONS, json=body) as answer:
                    answer.read()
            else:
                client.post(COMPLETIONS, json=body)
        until(lambda: server.service.under_way == 1, 2)
        assert len(server.engine.scheduler.queue) == 0 or server.service.statistics.waiting == 0
        first.close()
        server.settled(2)


def test_who_asks_and_never_reads_holds_up_nobody(folders):
    """The engine goes on to the end of its text, other clients are served, and its going away is noticed."""
    body = json.dumps({"prompt": "a", "max_tokens": 120, "n": 4, "logprobs": 20, "stream": True}).encode()
    head = f"POST {COMPLETIONS} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    with running(folders[0], kv_blocks=1024) as server:
        server.server.servers[0].sockets[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)  # little lies on the way
        with socket.create_connection(server.url.removeprefix("http://").split(":"), timeout=30) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.sendall(head + body)
            until(lambda: server.service.under_way == 4)
            assert server.client.completions.create(model="tiny", prompt="a", max_tokens=3, temperature=0).choices[0].text == "bcd"
            until(lambda: server.service.under_way == 0, 60)
            assert server.service.statistics.finished["length"] == 5
        server.settled()


def test_a_full_queue_says_when_to_come_back(folders):
    with running(folders[0], max_sequences=2, queue=1, kv_blocks=1024) as server:
        slow(server, 0.02)
        streams = [long(server), long(server)]
        third = threading.Thread(target=lambda: server.client.completions.create(model="tiny", prompt="a", max_tokens=2))
        third.start()
        until(lambda: server.service.under_way == 3)
        for more in ({}, {"stream": True}, {"n": 2}):
            with pytest.raises(openai.RateLimitError) as caught:
                server.client.completions.create(model="tiny", prompt="a", max_tokens=2, **more)
            assert caught.value.code == "queue_full" and 1 <= int(caught.value.response.headers["retry-after"]) <= 60
        assert server.http.post(COMPLETIONS, json={"prompt": "a", "n": 4}).status_code == 400  # there is never room for four
        streams[0].close()
        third.join(10)
        assert not third.is_alive()
        assert server.client.completions.create(model="tiny", prompt="a", max_tokens=2, temperature=0).choices[0].text == "bc"
        streams[1].close()
        server.settled()


def test_the_real_client_comes_back_by_itself(folders):
    """Its own retries read Retry-After."""
    with running(folders[0], max_sequences=1, queue=0) as server:
        slow(server, 0.01)
        stream = long(server, 60)
        found = server.client.with_options(max_retries=4).completions.create(model="tiny", prompt="a", max_tokens=2, temperature=0)
        assert found.choices[0].text == "bc"
        stream.close()


def test_thirty_clients_half_of_whom_go_away_with_nonsense_between(folders):
    """Survivors' texts are what each gets alone; in the end every block is free, and nothing is remembered."""
    with running(folders[1], kv_blocks=26, max_sequences=6, queue=200, block_size=8, max_batched_tokens=64) as server:
        dice = random.Random(5)
        prompts = [("the same beginning of many " * dice.randint(0, 3)) + f"prompt {index}" for index in range(30)]
        asks = [{"prompt": prompt, "max_tokens": dice.randint(5, 60), "temperature": dice.choice([0, 1.0]), "seed": index,
                 "n": dice.choice([1, 1, 2]), "ignore_eos": True} for index, prompt in enumerate(prompts)]
        alone = [[choice["text"] for choice in server.http.post(COMPLETIONS, json=ask).json()["choices"]] for ask in asks]
        server.settled()
        found = asyncio.run(crowd(server.url, asks, dice))
        server.settled()
        statistics = server.service.statistics
        assert statistics.preemptions > 0  # the pool was too small, as it should be
        survivors = {index: texts for index, texts in found.items() if texts is not None}
        assert set(survivors) == set(range(1, 30, 2))
        assert survivors == {index: alone[index] for index in survivors}
        assert server.http.get("/health").status_code == 200


async def crowd(url: str, asks: list[dict], dice: random.Random) -> dict:
    """Even ones hang up after a while; between them come bodies that are none."""
    async with httpx.AsyncClient(base_url=url, timeout=60, trust_env=False, limits=httpx.Limits(max_connections=80)) as client:
        async def stays(index: int, ask: dict) -> tuple:
            await asyncio.sleep(dice.random() * 0.3)
            if index % 4 == 1:
                return index, [choice["text"] for choice in (await client.post(COMPLETIONS, json=ask)).json()["choices"]]
            texts = [""] * ask["n"]
            async with client.stream("POST", COMPLETIONS, json=ask | {"stream": True}) as answer:
                async for line in answer.aiter_lines():
                    if line.startswith("data: {"):
                        choice = json.loads(line[6:])["choices"][0]
                        texts[choice["index"]] += choice["text"]
            return index, texts

        async def goes(index: int, ask: dict) -> tuple:
            await asyncio.sleep(dice.random() * 0.3)
            try:
                async with asyncio.timeout(0.02 + dice.random() * 0.3):
                    if index % 4:
                        await client.post(COMPLETIONS, json=ask | {"max_tokens": 100})
                    else:
                        async with client.stream("POST", COMPLETIONS, json=ask | {"stream": True, "max_tokens": 100}) as answer:
                            await answer.aread()
            except TimeoutError:
                pass
            return index, None

        async def nonsense() -> tuple:
            await asyncio.sleep(dice.random() * 0.5)
            body = dice.choice([b"{", b"\xff", b'{"prompt": ""}', b'{"prompt": "a", "foo": 1}', b'{"prompt": [999]}',
                                b'{"prompt": "a", "temperature": -1}', json.dumps({"prompt": "a" * 5000}).encode()])
            answer = await client.post(COMPLETIONS, content=body, headers={"Content-Type": "application/json"})
            assert answer.status_code == 400, answer.text
            return -1, None

        jobs = [(stays if index % 2 else goes)(index, ask) for index, ask in enumerate(asks)] + [nonsense() for _ in range(30)]
        return {index: texts for index, texts in await asyncio.gather(*jobs) if index >= 0}


def test_an_end_in_order_finishes_what_is_under_way_and_takes_no_more(folders):
    with running(folders[0], drain_seconds=20) as server:
        faster = slow(server, 0.02)
        stream = long(server, 60)
        server.server.handle_exit(15, None)  # what the signal's handler calls
        for path in (COMPLETIONS, "/v1/chat/completions"):
            body = {"prompt": "a"} if path == COMPLETIONS else {"messages": [{"role": "user", "content": "x"}]}
            answer = server.http.post(path, json=body)
            assert answer.status_code == 503 and answer.json()["error"]["code"] == "unavailable" and answer.headers["retry-after"]
        assert server.http.get("/health").status_code == 503
        faster(0)
        text = "b" + "".join(chunk.choices[0].text for chunk in stream)
        assert len(text) == 60
        until(lambda: server.server.should_exit)


def test_an_end_in_order_has_a_limit_and_says_so(folders):
    with running(folders[0], drain_seconds=0.3, kv_blocks=1024) as server:
        slow(server, 0.02)
        stream = long(server, 8000)
        server.server.handle_exit(15, None)
        with pytest.raises(openai.APIError) as caught:
            list(stream)
        assert "shutting down" in str(caught.value)
        until(lambda: not server.service.worker._thread.is_alive())
        assert server.engine.scheduler.check().used == 0


def test_a_second_signal_does_not_wait(folders):
    with running(folders[0], drain_seconds=600, kv_blocks=1024) as server:
        slow(server, 0.02)
        stream = long(server, 8000)
        server.server.handle_exit(2, None)
        server.server.handle_exit(2, None)
        with pytest.raises(openai.APIError):
            list(stream)


def test_a_servers_seed_repeats_a_run_of_requests_without_one(folders):
    def texts(seed: int | None) -> list[str]:
        with running(folders[1], seed=seed) as server:
            ask = {"model": "tiny", "prompt": "hello", "max_tokens": 8}
            return [choice.text for _ in range(3) for choice in server.client.completions.create(**ask, n=2).choices]

    one = texts(3)
    assert one == texts(3) and len(set(one)) == 6 and not set(one) & set(texts(4))
    assert texts(None) != texts(None)


def test_policies_preemption_and_speculation_change_no_text(folders):
    """The service drives every engine alike. Guesses take draws of their own: greedy texts are the same with them."""
    asks = [{"prompt": f"text {index} " * (index + 1), "max_tokens": 20, "temperature": index % 2, "seed": index, "n": 1 + index % 3} for index in range(6)]
    texts = []
    for choices in ({}, {"policy": "fcfs", "prefix_caching": False}, {"policy": "sjf", "kv_blocks": 14, "max_batched_tokens": 16},
                    {"policy": "priority", "preemption": "swap", "host_blocks": 32, "kv_blocks": 14},
                    {"draft": "n-gram"}, {"draft": str(folders[1]), "draft_tokens": 3}):
        with running(folders[1], **choices) as server:
            texts.append(asyncio.run(together(server.url, asks)))
            server.settled()
            counted = server.http.get("/metrics").text
    assert all(one == texts[0] for one in texts[:4])
    assert all(one[::2] == texts[0][::2] for one in texts[4:])
    assert re.search(r"vllm:spec_decode_num_accepted_tokens_total\{.*\} [1-9]", counted)


async def together(url: str, asks: list[dict]) -> list:
    async with httpx.AsyncClient(base_url=url, timeout=60, trust_env=False) as client:
        answers = await asyncio.gather(*(client.post(COMPLETIONS, json=ask) for ask in asks))
    return [[choice["text"] for choice in answer.json()["choices"]] for answer in answers]


@pytest.mark.parametrize("way", ["by_rows", "by_columns", "by_vector"])
def test_long_prompts_alone_make_steps_in_which_nobody_speaks(way, folders):
    """The head then multiplies no row, whichever way was found fastest for so few."""
    with running(folders[0], max_batched_tokens=16) as server:
        chosen = (getattr(projections, way), *[projections.by_rows] * 4)
        server.engine.model.head = projections.Tuned(server.engine.model.head.weight.contiguous(), None, chosen)
        found = server.client.completions.create(model="tiny", prompt="a" * 70, max_tokens=3, temperature=0)
        assert found.choices[0].text == "bcd"
