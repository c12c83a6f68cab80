"""The kept connection: introductions that fail, frames that should not be, and connections that are lost."""

import asyncio
import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.http11 import Request as HttpRequest
from websockets.http11 import Response as HttpResponse

from core.model.errors import Forbidden, Invalid, Unauthorized, Unavailable
from core.remote.link import FIRST_WAIT, LAST_WAIT
from core.remote.profile import Profile, Tls, check_open, parse_url
from tests.remote.scripted import NOW, Cable, Conversation, certificate, comes, linked, scripted
from tests.support.clock import FakeClock
from tests.support.runtimes import until

DAY_MS = 86_400_000


async def friendly(conversation: Conversation) -> None:
    """Let everybody in, and answer every request with its own parameters."""
    await conversation.greet()
    while True:
        request = await conversation.next()
        await conversation.answer(request, request["params"])


async def test_a_request_is_answered_and_its_refusal_is_one_of_our_errors(tmp_path: Path) -> None:
    async def script(conversation: Conversation) -> None:
        await conversation.greet()
        first, second = await conversation.next(), await conversation.next()
        await conversation.refuse(second, "FORBIDDEN", "missing scope: operator.admin")
        await conversation.answer(first, {"n": 1})
        await conversation.stay()

    async with scripted(script) as gateway, linked(gateway.port, tmp_path, FakeClock()) as link:
        hello = await link.open()
        assert (hello.protocol, hello.title, hello.native) == (4, "openclaw 2026.1.1", False)
        assert link.connection.state == "live"
        first = asyncio.ensure_future(link.request("one", {}))
        await until(lambda: len(gateway.conversations[0].asked) == 2)
        with pytest.raises(Forbidden, match="missing scope"):
            await link.request("two", {})
        assert await first == {"n": 1}


async def test_a_refusal_in_a_gateways_own_words_is_told_in_full(tmp_path: Path) -> None:
    words = "origin not allowed (open it from the gateway host or allow it in gateway.controlUi.allowedOrigins)"
    words += ": this request came from another machine, through a proxy that is not trusted"

    async def script(conversation: Conversation) -> None:
        await conversation.challenge()
        await conversation.refuse(await conversation.next(), "INVALID_REQUEST", words + "\x1b[2J" + "x" * 5000)

    async with scripted(script) as gateway, linked(gateway.port, tmp_path, FakeClock()) as link:
        with pytest.raises(Unauthorized) as error:
            await link.open()
        assert words in error.value.message
        assert link.connection.detail == error.value.message
        assert "\x1b" not in error.value.message
        assert len(error.value.message) < 400, "a screen shows no more"


async def test_a_device_that_is_not_paired_is_told_so_and_tried_again_seldom(tmp_path: Path) -> None:
    paired = asyncio.Event()

    async def script(conversation: Conversation) -> None:
        if paired.is_set():
            await friendly(conversation)
        await conversation.challenge()
        request = await conversation.next()
        details = {"code": "PAIRING_REQUIRED", "requestId": "req-7", "reason": "not-paired"}
        await conversation.refuse(request, "NOT_PAIRED", "pairing required", details=details)

    clock = FakeClock()
    async with scripted(script) as gateway, linked(gateway.port, tmp_path, clock) as link:
        with pytest.raises(Unauthorized, match="openclaw devices approve req-7"):
            await link.open()
        connection = link.connection
        assert connection.state == "refused"
        assert connection.retry_at is not None
        assert 29_000 < connection.retry_at - clock.now_ms() < 40_000
        with pytest.raises(Unauthorized):
            await link.request("sessions.list", {}, again=True)
        paired.set()
        await comes(clock, link, lambda: link.connection.state == "live")


@pytest.mark.parametrize(
    ("error", "kind", "words", "state"),
    [
        ({"code": "AUTH_TOKEN_MISMATCH"}, Unauthorized, "does not accept this token", "refused"),
        ({"code": "AUTH_TOKEN_MISSING"}, Unauthorized, "wants a token", "refused"),
        ({"code": "AUTH_RATE_LIMITED"}, Unauthorized, "too many wrong tokens", "refused"),
        ({"code": "PROTOCOL_MISMATCH", "expectedProtocol": 9}, Unavailable, "speaks protocol 9", "refused"),
        ({"expectedProtocol": 2}, Unavailable, "speaks protocol 2", "refused"),
        ({}, Unauthorized, "refuses the connection", "refused"),
    ],
)
async def test_a_refused_introduction_is_explained(
    tmp_path: Path, error: dict[str, Any], kind: type[Exception], words: str, state: str
) -> None:
    async def script(conversation: Conversation) -> None:
        await conversation.challenge()
        await conversation.refuse(await conversation.next(), "INVALID_REQUEST", "no", details=error)

    async with scripted(script) as gateway, linked(gateway.port, tmp_path, FakeClock()) as link:
        with pytest.raises(kind, match=words):
            await link.open()
        assert link.connection.state == state
        assert words in link.connection.detail
        assert "secret-token" not in link.connection.detail


async def test_a_gateway_that_starts_is_waited_for_as_long_as_it_says(tmp_path: Path) -> None:
    times: list[int] = []
    clock = FakeClock(NOW)

    async def script(conversation: Conversation) -> None:
        times.append(clock.now_ms())
        if len(times) == 3:
            await friendly(conversation)
        await conversation.challenge()
        request = await conversation.next()
        await conversation.refuse(
            request, "UNAVAILABLE", "gateway starting; retry shortly", retryable=True, retryAfterMs=500
        )

    async with scripted(script) as gateway, linked(gateway.port, tmp_path, clock) as link:
        opening = asyncio.ensure_future(link.open())
        for count in (1, 2):
            await until(lambda count=count: len(times) == count and link.connection.retry_at is not None)
            await clock.until_sleeping()
            assert link.connection.state == "connecting"
            await clock.advance(0.45)
            assert len(times) == count, "it was asked again too soon"
            await clock.advance(0.2)
        await opening
        assert all(500 <= later - earlier <= 800 for earlier, later in itertools.pairwise(times))


async def test_frames_that_should_not_be_are_survived_and_events_keep_their_order(tmp_path: Path) -> None:
    big = "x" * 20_000_000

    async def script(conversation: Conversation) -> None:
        await conversation.challenge(newThing=[1])
        request = await conversation.next()
        await conversation.send("{")
        hello = {
            "type": "hello-ok",
            "protocol": "four",
            "server": 7,
            "features": None,
            "policy": {"tickIntervalMs": "x"},
        }
        await conversation.answer(request, hello | {"later": {"deep": list[str]()}})
        for frame in ("not json", "[]", '{"type":"event"}', '{"type":"what","id":"1"}', '{"type":"res","ok":true}'):
            await conversation.send(frame)
        await conversation.send(json.dumps({"type": "res", "id": "nobody asked", "ok": True}))
        for number, seq in enumerate((5, 6, 6, 3, "seven", None, 9)):
            await conversation.tell("never.heard.of", {"n": number}, seq=seq, unknown=1)
        await conversation.tell("big", {"words": big})
        await conversation.tell("chat", None)
        request = await conversation.next()
        await conversation.answer(request, "still here")
        await conversation.stay()

    heard: list[tuple[str, Any]] = []
    gaps: list[int] = []
    async with scripted(script) as gateway, linked(gateway.port, tmp_path, FakeClock()) as link:
        link.on_event = lambda name, payload: heard.append((name, payload))
        link.on_gap = lambda: gaps.append(len(heard))
        hello = await link.open()
        assert (hello.tick, hello.version, hello.scopes) == (30.0, "", None)
        assert await link.request("ping", {}) == "still here"
        assert [payload["n"] for name, payload in heard if name == "never.heard.of"] == list(range(7))
        assert gaps == [6], "between 6 and 9 something is missing, and nowhere else"
        assert len(heard[7][1]["words"]) == len(big)


async def test_an_event_that_breaks_whoever_reads_it_does_not_break_the_connection(tmp_path: Path) -> None:
    async def script(conversation: Conversation) -> None:
        await conversation.greet()
        await conversation.tell("odd", 5)
        await conversation.answer(await conversation.next(), "fine")
        await conversation.stay()

    async with scripted(script) as gateway, linked(gateway.port, tmp_path, FakeClock()) as link:
        link.on_event = lambda name, payload: payload["sessionKey"]
        await link.open()
        assert await link.request("ping", {}) == "fine"


async def test_a_cable_cut_in_silence_is_noticed_after_two_ticks(tmp_path: Path) -> None:
    clock = FakeClock()
    async with (
        scripted(friendly) as gateway,
        Cable(gateway.port) as cable,
        linked(cable.port, tmp_path, clock) as link,
    ):
        await link.open()
        cable.silent = True
        waiting = asyncio.ensure_future(link.request("sessions.list", {}, timeout=600))
        repeated = asyncio.ensure_future(link.request("agent.wait", {"n": 2}, timeout=600, again=True))
        await asyncio.sleep(0)
        await clock.advance(59)
        assert link.connection.state == "live"
        await clock.advance(1.1)
        await until(lambda: link.connection.state == "lost")
        assert "nothing was heard from it for 60 s" in link.connection.detail
        cable.silent = False  # before the next attempt, whose first bytes would be lost for 10 s
        with pytest.raises(Unavailable, match=r"lost before sessions\.list was answered"):
            await waiting
        with pytest.raises(Unavailable):
            await link.request("sessions.list", {})
        await comes(clock, link, repeated.done)
        assert await repeated == {"n": 2}
        assert link.connection.state == "live"


async def test_half_a_frame_is_an_end_like_another(tmp_path: Path) -> None:
    clock = FakeClock()
    async with (
        scripted(friendly) as gateway,
        Cable(gateway.port) as cable,
        linked(cable.port, tmp_path, clock) as link,
    ):
        await link.open()
        await clock.advance(18)
        cable.only = 40
        with pytest.raises(Unavailable):
            await link.request("echo", {"words": "x" * 500})
        await until(lambda: link.connection.state == "lost")
        lost_at = clock.now_ms()
        assert link.connection.heard_at == lost_at, "what was silent until its end was not lost before"
        cable.only = 40  # so that the introduction fails: what a gateway says in it tells nothing of its sessions
        await clock.advance(1)
        await until(lambda: link.connection.retry_at is not None)
        assert link.connection.heard_at == lost_at
        cable.only = None
        await comes(clock, link, lambda: link.connection.state == "live")
        assert link.connection.heard_at == clock.now_ms()
        assert await link.request("echo", {"n": 3}) == {"n": 3}


async def test_a_token_that_is_revoked_meanwhile_is_refused_and_not_tried_again(tmp_path: Path) -> None:
    revoked = asyncio.Event()

    async def script(conversation: Conversation) -> None:
        if revoked.is_set():
            await conversation.challenge()
            details = {"code": "AUTH_TOKEN_MISMATCH", "canRetryWithDeviceToken": True}
            await conversation.refuse(await conversation.next(), "INVALID_REQUEST", "unauthorized", details=details)
            return
        await conversation.greet()
        await revoked.wait()
        await conversation.socket.close(1008, "token revoked")

    clock = FakeClock()
    async with scripted(script) as gateway, linked(gateway.port, tmp_path, clock) as link:
        await link.open()
        revoked.set()
        await until(lambda: link.connection.state == "lost")
        await comes(clock, link, lambda: link.connection.state == "refused")
        assert link.connection.retry_at is None
        tried = len(gateway.conversations)
        await clock.advance(3600)
        assert len(gateway.conversations) == tried
        with pytest.raises(Unauthorized):
            await link.request("sessions.list", {})
        revoked.clear()
        link.retry()
        await until(lambda: link.connection.state == "live")
        revoked.set()


async def test_a_certificate_is_checked_and_a_changed_one_is_told(tmp_path: Path) -> None:
    context, fingerprint = certificate(tmp_path, "first")
    clock = FakeClock()
    async with scripted(friendly, tls=context) as gateway:
        port = gateway.port
        async with linked(port, tmp_path / "a", clock, tls=Tls()) as link:
            with pytest.raises(Unavailable, match=r"certificate of prod does not verify.*self.signed"):
                await link.open()
            assert link.connection.state == "refused"
        async with linked(port, tmp_path / "b", clock, tls=Tls(tmp_path / "first.pem")) as link:
            await link.open()
        async with linked(port, tmp_path / "c", clock, tls=Tls(fingerprint="SHA256:" + fingerprint.upper())) as link:
            await link.open()
    other, _ = certificate(tmp_path, "second")
    pinned = Tls(fingerprint=fingerprint)
    async with scripted(friendly, tls=other) as gateway, linked(gateway.port, tmp_path, clock, tls=pinned) as link:
        with pytest.raises(Unavailable, match="shows another certificate than the pinned one"):
            await link.open()
        assert link.connection.state == "refused"
        assert all(not conversation.asked for conversation in gateway.conversations), "a stranger was told nothing"


async def test_our_clock_may_be_wrong_by_a_day(tmp_path: Path) -> None:
    signed: list[int] = []

    async def script(conversation: Conversation) -> None:
        params = await conversation.greet()
        signed.append(params["device"]["signedAt"])
        await conversation.stay()

    clock = FakeClock(NOW - DAY_MS)
    async with scripted(script) as gateway, linked(gateway.port, tmp_path, clock) as link:
        await link.open()
        assert signed == [NOW]
        assert link.now_ms() == NOW
        await clock.advance(5)
        assert link.now_ms() == NOW + 5000


async def test_attempts_come_further_apart_and_never_at_the_same_moment(tmp_path: Path) -> None:
    clock = FakeClock()
    async with scripted(friendly) as gateway:
        port = gateway.port
    async with linked(port, tmp_path, clock) as link:
        with pytest.raises(Unavailable, match="cannot be reached"):
            await link.open()
        assert link.connection.state == "connecting"
        waits: list[float] = []
        for _ in range(12):
            await clock.until_sleeping()
            retry_at = link.connection.retry_at
            assert retry_at is not None
            waits.append((retry_at - clock.now_ms()) / 1000)
            before = link.connection
            await clock.advance(waits[-1])
            while link.connection.retry_at == before.retry_at:  # it fell asleep a little after it had said until when
                await clock.advance(0.005)
        for number, wait in enumerate(waits):
            longest = min(LAST_WAIT, FIRST_WAIT * 2**number)
            assert longest / 2 - 0.01 <= wait <= longest + 0.01
        assert len(set(waits)) > 8, "now and then two are the same by chance"


async def test_what_answers_and_is_no_gateway_is_said_and_a_redirect_is_not_followed(tmp_path: Path) -> None:
    tried: list[str] = []

    def elsewhere(connection: ServerConnection, request: HttpRequest) -> HttpResponse:
        tried.append(request.path)
        if len(tried) == 1:
            headers = {"Location": f"ws://127.0.0.1:{target.port}/"}
            response = connection.respond(302, "elsewhere\n")
            response.headers.update(headers)
            return response
        return connection.respond(404, "nothing here\n")

    clock = FakeClock()
    async with scripted(friendly) as target, serve(_nobody, "127.0.0.1", 0, process_request=elsewhere) as server:
        port = server.sockets[0].getsockname()[1]
        async with linked(port, tmp_path, clock) as link:
            with pytest.raises(Unavailable, match="points elsewhere"):
                await link.open()
            link.retry()
            await until(lambda: len(tried) == 2 and "HTTP 404" in link.connection.detail)
        assert target.conversations == []


async def _nobody(connection: object) -> None:
    del connection


@pytest.mark.parametrize(
    ("url", "open_to_all"),
    [
        ("ws://127.0.0.1:1", False),
        ("http://localhost:1", False),
        ("ws://[::1]:1", False),
        ("wss://example.org", False),
        ("ws://10.0.0.7:1", True),
        ("http://example.org", True),
        ("ws://localhost.example.org:1", True),
    ],
)
def test_what_is_secret_goes_nowhere_in_the_open_unless_asked_for(url: str, open_to_all: bool) -> None:
    check_open(Profile("prod", url, insecure=True))
    if open_to_all:
        with pytest.raises(Invalid, match="not encrypted"):
            check_open(Profile("prod", url))
    else:
        check_open(Profile("prod", url))


@pytest.mark.parametrize(
    "url", ["", "ftp://host", "ws://", "ws://host:99999", "ws://user:secret@host", "wss://h?token=secret"]
)
def test_an_address_that_cannot_be_meant_is_refused_without_repeating_secrets(url: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_url(url)
    assert "secret" not in refused.value.message
