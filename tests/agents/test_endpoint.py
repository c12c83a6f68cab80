"""Keys, retries, and one sentence for everything that fails, against a real HTTP endpoint."""

import asyncio
import json
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

from core.agents.model import ModelBackend
from core.agents.port import AgentFailure, Reply, TextDelta
from core.config.settings import Secret
from tests.agents.turns import MakeModel, failure, run, turn
from tests.support.clock import FakeClock
from tests.support.model_formats import Data, Drop, Hang
from tests.support.model_server import KEY, ModelServer, Plain, RawAnswer, Silence, closed_url, refuse, stream


class TestKey:
    async def test_openai_gets_a_bearer_token(self, server: ModelServer, backend: ModelBackend):
        server.script(stream("x"))
        await run(backend, turn(server.openai_model()))
        request = server.requests[0]
        assert (request.method, request.path) == ("POST", "/v1/chat/completions")
        assert request.headers["authorization"] == f"Bearer {KEY}"

    async def test_anthropic_gets_its_headers(self, server: ModelServer, backend: ModelBackend):
        server.script(stream("x"))
        await run(backend, turn(server.anthropic_model()))
        request = server.requests[0]
        assert (request.method, request.path) == ("POST", "/v1/messages")
        assert request.headers["x-api-key"] == KEY
        assert request.headers["anthropic-version"] == "2023-06-01"
        assert "authorization" not in request.headers

    async def test_no_key_no_header(self, server: ModelServer, backend: ModelBackend, model: MakeModel):
        server.script(stream("x"))
        await run(backend, turn(model(api_key=None)))
        assert not {"authorization", "x-api-key"} & server.requests[0].headers.keys()

    async def test_it_is_read_at_the_time_of_use(
        self, server: ModelServer, backend: ModelBackend, monkeypatch: pytest.MonkeyPatch
    ):
        wanted = turn(server.openai_model(api_key=Secret("env", "TEST_MODEL_KEY")))
        monkeypatch.delenv("TEST_MODEL_KEY", raising=False)
        assert await failure(backend, wanted) == (
            "model openai/test-model cannot be asked: the environment variable TEST_MODEL_KEY, which holds the model's"
            " key, is not set"
        )
        assert server.requests == []
        monkeypatch.setenv("TEST_MODEL_KEY", "second")
        server.script(stream("x"))
        await run(backend, wanted)
        assert server.requests[0].headers["authorization"] == "Bearer second"

    @pytest.mark.parametrize("key", [f"{KEY}\r\nX-Other: 1", f"{KEY}\x00", f"{KEY}ä"])
    async def test_one_that_cannot_be_sent_is_not_shown(self, server: ModelServer, backend: ModelBackend, key: str):
        sentence = await failure(backend, turn(server.openai_model(api_key=Secret("literal", key))))
        assert sentence.startswith("model openai/test-model cannot be asked: its key holds characters that no key has")
        assert server.requests == []

    async def test_it_never_follows_a_redirect(self, server: ModelServer, backend: ModelBackend, model: MakeModel):
        async with ModelServer() as other:
            server.script(Plain(307, "", {"Location": f"{other.url}/v1/chat/completions"}))
            sentence = await failure(backend, turn(model()))
            assert f"answered with a redirect to {other.url}/v1/chat/completions (redirects are not" in sentence
            assert other.connections == 0

    @pytest.mark.parametrize(
        "answer",
        [
            refuse(401, f"Incorrect API key provided: {KEY}\x1b[31m."),
            refuse(400, f"{'x' * 200} {KEY} {'y' * 200}"),
            refuse(400, "x" * (290 - len(KEY)) + KEY),
            Plain(400, f"bad\n{KEY}", content_type="text/plain"),
            Plain(302, "", {"Location": f"http://evil/{KEY}"}),
            Plain(200, f"<html>{KEY}</html>", {}, f"text/{KEY}"),
            stream(Data(f"nonsense {KEY}")),
            stream(Data(json.dumps({"error": {"message": f"bad key {KEY}"}}))),
        ],
    )
    async def test_it_is_cut_out_of_what_the_endpoint_says(
        self, server: ModelServer, backend: ModelBackend, model: MakeModel, answer: Any
    ):
        server.script(answer)
        with pytest.raises(AgentFailure) as caught:
            await run(backend, turn(model()))
        sentence = str(caught.value)
        assert KEY[:8] not in sentence.replace("[key]", "")
        assert sentence.isprintable()
        assert len(sentence) < 500
        assert KEY not in repr(caught.value.__cause__)

    @pytest.mark.parametrize(
        ("key", "hint"),
        [
            (Secret("env", "TEST_MODEL_KEY"), "(check TEST_MODEL_KEY)"),
            (Secret("literal", "abcd"), "(check apiKey of its provider in the configuration)"),
            (None, "(it has no key: set apiKey of its provider, or SWITCHBOARD_MODEL_KEY)"),
        ],
    )
    @pytest.mark.parametrize("status", [401, 403])
    async def test_a_refused_one_says_where_to_look(
        self,
        server: ModelServer,
        backend: ModelBackend,
        monkeypatch: pytest.MonkeyPatch,
        key: Secret | None,
        hint: str,
        status: int,
    ):
        monkeypatch.setenv("TEST_MODEL_KEY", KEY)
        server.script(refuse(status, "Incorrect API key"))
        sentence = await failure(backend, turn(server.openai_model(api_key=key)))
        assert sentence == f"model openai/test-model refused: {status} Incorrect API key {hint}"

    async def test_a_key_file_is_named(self, server: ModelServer, backend: ModelBackend, tmp_path: Path):
        file = tmp_path / "key"
        file.write_text(f"{KEY}\n")
        server.script(refuse(401, "no"))
        sentence = await failure(backend, turn(server.openai_model(api_key=Secret("file", str(file)))))
        assert sentence.endswith(f"(check the key file {file})")
        assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"

    async def test_a_key_file_that_is_no_text(self, server: ModelServer, backend: ModelBackend, tmp_path: Path):
        file = tmp_path / "key"
        file.write_bytes(KEY.encode() + b"\xff")
        sentence = await failure(backend, turn(server.openai_model(api_key=Secret("file", str(file)))))
        assert sentence.startswith(f"model openai/test-model cannot be asked: the key file {file} cannot be read")


class TestRetries:
    @pytest.mark.parametrize("status", [429, 500, 503, 529])
    async def test_an_overloaded_endpoint_is_asked_again(
        self, server: ModelServer, backend: ModelBackend, model: MakeModel, status: int
    ):
        busy = (
            Plain(status, json.dumps({"error": {"message": "busy"}}))
            if status != 529
            else RawAnswer(b"HTTP/1.1 529 Overloaded\r\nContent-Length: 0\r\n\r\n")
        )
        server.script(busy, busy, busy, stream("x"))
        clock = FakeClock(instant=True)
        events = await run(backend, turn(model(), clock=clock))
        assert isinstance(events[-1], Reply)
        assert len(clock.slept) == 3
        for slept, least in zip(clock.slept, (0.5, 1.0, 2.0), strict=True):
            assert least <= slept <= least * 1.5

    async def test_it_gives_up(self, server: ModelServer, backend: ModelBackend, model: MakeModel):
        server.handler = lambda _: refuse(429, "slow down")
        clock = FakeClock(instant=True)
        assert await failure(backend, turn(model(), clock=clock)) == (
            f"model {model().ref} refused: 429 slow down (tried 4 times: try again later)"
        )
        assert len(server.requests) == 4
        assert len(clock.slept) == 3

    @pytest.mark.parametrize(
        ("header", "least", "most"),
        [
            ("7", 7, 7),
            ("1.5", 1.5, 1.5),
            ("0", 0, 0),
            ("-3", 0, 0),
            ("3600", 60, 60),
            ("inf", 0.5, 0.75),
            ("nan", 0.5, 0.75),
            ("soon", 0.5, 0.75),
            ("", 0.5, 0.75),
            ("Mon, 99 Foo 2025", 0.5, 0.75),
        ],
    )
    async def test_the_endpoint_says_when(
        self, server: ModelServer, backend: ModelBackend, header: str, least: float, most: float
    ):
        server.script(refuse(429, "slow down", {"Retry-After": header}), stream("x"))
        clock = FakeClock(instant=True)
        await run(backend, turn(server.openai_model(), clock=clock))
        assert len(clock.slept) == 1
        assert least <= clock.slept[0] <= most

    async def test_the_endpoint_says_when_as_a_date(self, server: ModelServer, backend: ModelBackend):
        clock = FakeClock(now_ms=1_700_000_000_000, instant=True)
        when = format_datetime(datetime.fromtimestamp(1_700_000_020, UTC), usegmt=True)
        server.script(refuse(503, "down", {"Retry-After": when}), stream("x"))
        await run(backend, turn(server.openai_model(), clock=clock))
        assert clock.slept == [20.0]

    async def test_nothing_is_sent_before_the_time_has_come(self, server: ModelServer, backend: ModelBackend):
        clock = FakeClock()
        server.script(refuse(429, "slow down", {"Retry-After": "5"}), stream("x"))
        task = asyncio.create_task(run(backend, turn(server.openai_model(), clock=clock)))
        await clock.until_sleeping()
        await clock.advance(4.9)
        assert (len(server.requests), clock.sleeping) == (1, 1)
        await clock.advance(0.2)
        assert isinstance((await task)[-1], Reply)

    @pytest.mark.parametrize("status", [400, 404, 413, 422])
    async def test_what_will_not_get_better_is_not_asked_again(
        self, server: ModelServer, backend: ModelBackend, status: int
    ):
        server.script(refuse(status, "no"), stream("x"))
        assert f"refused: {status} no" in await failure(backend, turn(server.openai_model()))
        assert len(server.requests) == 1

    async def test_a_lost_connection_is_tried_again_before_the_first_word(
        self, server: ModelServer, backend: ModelBackend, model: MakeModel
    ):
        server.script(RawAnswer(b""), stream(Drop()), RawAnswer(b"HTTP/1.1 200 OK\r\nContent-"), stream("x"))
        events = await run(backend, turn(model()))
        assert [event for event in events if isinstance(event, TextDelta)] == [TextDelta("x")]
        assert len(server.requests) == 4

    async def test_but_not_after_it(self, server: ModelServer, backend: ModelBackend, model: MakeModel):
        server.script(stream("Hel", Drop()), stream("x"))
        sentence = await failure(backend, turn(model()))
        assert sentence.startswith(f"model {model().ref} broke off: ")
        assert len(server.requests) == 1

    async def test_an_overload_in_the_stream_is_tried_again_before_the_first_word(
        self, server: ModelServer, backend: ModelBackend
    ):
        overloaded = Data('{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}')
        server.script(stream(overloaded), stream("x"), stream("y", overloaded))
        await run(backend, turn(server.anthropic_model()))
        assert len(server.requests) == 2
        assert await failure(backend, turn(server.anthropic_model())) == "model anthropic/test-model failed: Overloaded"


class TestFailures:
    async def test_nobody_listens(self, backend: ModelBackend, server: ModelServer):
        url = closed_url()
        clock = FakeClock(instant=True)
        sentence = await failure(backend, turn(server.openai_model(base_url=f"{url}/v1"), clock=clock))
        assert sentence.startswith(f"model openai/test-model cannot be reached at {url}: ")
        assert sentence.endswith("(tried 4 times: is it running?)")
        assert len(clock.slept) == 3

    async def test_credentials_in_an_address_are_not_shown(self, backend: ModelBackend, server: ModelServer):
        url = closed_url().replace("http://", "http://name:secret@")
        assert "secret" not in await failure(backend, turn(server.openai_model(base_url=f"{url}/v1")))

    @pytest.mark.parametrize("url", ["http://", "ftp://127.0.0.1", "nonsense", "http://[::1", "http://a b/"])
    async def test_an_address_that_is_none(self, backend: ModelBackend, server: ModelServer, url: str):
        sentence = await failure(backend, turn(server.openai_model(base_url=url)))
        assert sentence.startswith("model openai/test-model cannot be ")

    @pytest.mark.parametrize("answer", [Silence(), stream(Hang()), stream("Hel", Hang())])
    async def test_silence(self, server: ModelServer, model: MakeModel, answer: Any):
        backend = ModelBackend(silence_timeout=0.2)
        server.script(answer)
        sentence = await failure(backend, turn(model()))
        assert sentence == f"model {model().ref} sent nothing for 0.2 s (try again)"
        assert len(server.requests) == 1
        await asyncio.wait_for(server.requests[0].gone.wait(), 5)
        await backend.close()

    @pytest.mark.parametrize(
        ("answer", "words"),
        [
            (Plain(200, "<html>welcome</html>", {}, "text/html"), "answered with text/html, which is no model's reply"),
            (Plain(200, "Ollama is running", {}, "text/plain"), "answered with text/plain, which is no model's reply"),
            (Plain(200, ""), "answered without any reply"),
            (Plain(204, ""), "answered without any reply"),
            (Plain(200, "{}"), "answered without any reply"),
            (Plain(200, '{"hello": "world"}'), "answered without any reply"),
            (Plain(200, "[1, 2]"), "sent JSON that is not an object: [1, 2]"),
            (Plain(200, '{"choices": [{"me'), 'sent something that is not JSON: {"choices": [{"me'),
            (Plain(200, '{"error": {"message": "no such model"}}'), "failed: no such model"),
            (stream(ended=False), "answered without any reply"),
            (stream("Hel", ended=False), "broke off in the middle of its reply"),
            (stream(Data("what?")), "sent something that is not JSON: what?"),
            (stream(Data('{"error": {"message": "out of\\u001b[2J memory"}}')), "failed: out of [2J memory"),
            (Plain(400, "<html>no</html>", {}, "text/html"), "refused: 400 Bad Request"),
            (Plain(400, "plainly no", {}, "text/plain"), "refused: 400 plainly no"),
            (Plain(400, '{"detail": [{"msg": "field required"}]}'), "refused: 400 field required"),
            (refuse(404, "no such model"), "refused: 404 no such model (check the model's name and the base URL at"),
            (refuse(400, "x" * 1000), f"refused: 400 {'x' * 286}…"),
            (RawAnswer(b"HTTP/1.1 418 \r\nContent-Length: 0\r\n\r\n"), "refused: 418 I'm a Teapot"),
            (RawAnswer(b"HTTP/1.1 499 \r\nContent-Length: 0\r\n\r\n"), "refused: 499 without a word"),
        ],
    )
    async def test_answers_that_are_none(
        self, server: ModelServer, backend: ModelBackend, model: MakeModel, answer: Any, words: str
    ):
        server.script(answer)
        assert (await failure(backend, turn(model()))).startswith(f"model {model().ref} {words}")
        assert len(server.requests) == 1

    async def test_an_answer_that_is_no_http(self, server: ModelServer, backend: ModelBackend):
        server.handler = lambda _: RawAnswer(b"SSH-2.0-OpenSSH_9.0\r\n")
        assert (await failure(backend, turn(server.openai_model()))).startswith("model openai/test-model broke off: ")

    async def test_an_endless_error_is_not_read_to_its_end(self, server: ModelServer, backend: ModelBackend):
        head = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 100000000\r\n\r\n"
        server.script(RawAnswer(head + b"no " * 100_000))
        assert "refused: 400 no no no" in await failure(backend, turn(server.openai_model()))

    async def test_a_turn_without_a_model(self, backend: ModelBackend):
        assert "has no model" in await failure(backend, turn(None))

    async def test_a_broken_proxy_setting(self, server: ModelServer, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("ALL_PROXY", "nonsense://proxy")
        backend = ModelBackend()
        assert (await failure(backend, turn(server.openai_model()))).startswith("no model can be asked: ")
